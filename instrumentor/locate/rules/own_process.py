"""A loop in a process or thread of its own: stopping it there does not end the run.

It is the `target` of a Process or Thread wherever that is made, the run() of a subclass of one,
or what a launcher spawns; also when only its callers are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.catalogue import Role
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.program import Class, Function
from instrumentor.locate.rules.common import conditional
from instrumentor.locate.syntax import FUNCTIONS, ScopeNode, Source, callee, last
from instrumentor.locate.values import Method

_REMEDY = "Give a script that trains in its main process and thread."
_WORKERS = {"Thread": "thread", "QThread": "thread", "Timer": "thread", "Process": "process"}


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    program = knowledge.program
    scope: ScopeNode = candidate.scope
    for _ in range(6):
        if not isinstance(scope, FUNCTIONS):
            return
        function = Function(program.source_of_scope[scope], scope)
        callers = program.callers.get(scope, ())
        if not callers:
            yield from _started(knowledge, function, candidate)
            return
        scope = callers[0][0]


def _started(knowledge: Knowledge, function: Function, candidate: Candidate) -> Iterator[Reason]:
    """What makes a worker of a function that nothing calls."""
    loop = candidate.source.at(candidate.loop.lineno)
    kind = _worker_class(knowledge, function)
    if kind:
        yield _reason(function.source, function.node.lineno, kind)
        return
    for source in knowledge.program.sources.values():
        for call in source.calls:
            handed = [k.value for k in call.keywords if k.arg == "target"]
            scope = knowledge.program.scope_of(source, call)
            spawns = knowledge.role(source, scope, call) is Role.SPAWN
            handed += call.args[:1] if spawns else []
            if not any(_means(knowledge, source, scope, h, function) for h in handed):
                continue
            if not spawns:
                yield _reason(source, call.lineno, _WORKERS.get(callee(call), "process"))
            elif not _in_this_process(call) and not conditional(knowledge.program, source, call):
                yield Reason(
                    source.path,
                    call.lineno,
                    "distributed",
                    f"{ast.unparse(call.func)} starts processes that train together",
                    f"Several processes are out of scope: call {function.name}() directly, as the "
                    f"one process, in a script of your own (its loop: {loop}).",
                )
            return


def _means(
    knowledge: Knowledge, source: Source, scope: ScopeNode, node: ast.expr, function: Function
) -> bool:
    values = knowledge.values(source, scope, node)
    return any(v == function or (isinstance(v, Method) and v.function == function) for v in values)


def _in_this_process(call: ast.Call) -> bool:
    """`xmp.spawn(fn, nprocs=1)` runs in the process itself."""
    return any(
        k.arg == "nprocs" and isinstance(k.value, ast.Constant) and k.value.value == 1
        for k in call.keywords
    )


def _worker_class(knowledge: Knowledge, function: Function) -> str:
    """`thread` or `process` when the function is run() of a subclass of one, else ''."""
    owner = function.source.class_of.get(function.node)
    if owner is None or function.name != "run":
        return ""
    bases = knowledge.program.external_bases(Class(function.source, owner))
    return next((_WORKERS[last(b)] for b in bases if last(b) in _WORKERS), "")


def _reason(source: Source, line: int, kind: str) -> Reason:
    return Reason(
        source.path,
        line,
        "own-process",
        f"the loop runs in a {kind} of its own: stopping it does not end the run",
        _REMEDY,
    )
