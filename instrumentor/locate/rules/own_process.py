"""A loop in a process or thread of its own: stopping it there does not end the run.

It is the `target` of a Process or Thread wherever that is made, the run() of a subclass of one,
or what a launcher spawns; also when only its callers are. What the options rule out calls nothing.
The one thread that a script starts and then only waits for ends the run as the main thread does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate, outwards
from instrumentor.locate.meaning import libraries
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Role
from instrumentor.locate.rules.decline import Decline
from instrumentor.read.control_flow import flow_of
from instrumentor.read.program import Class, Function, Program
from instrumentor.read.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    argument,
    arguments,
    callee,
    dotted,
    is_main_guard,
)


class OwnProcess(Decline):
    """The loop runs in a thread or process that the script starts.

    ```python
    import threading

    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train():
        for x in loader:
            model(x).sum().backward()
            optimizer.step()

    threading.Thread(target=train).start()
    ```
    """

    kind = "own-process"
    message = "the loop runs in a {what} of its own: stopping it does not end the run"
    remedy = "Give a script that trains in its main process and thread."
    observable = False


class Distributed(Decline):
    """Several processes train together, each with the loop.

    ```python
    import torch
    import torch.multiprocessing as mp

    def worker(rank, world):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            model(x).sum().backward()
            optimizer.step()

    if __name__ == "__main__":
        mp.spawn(worker, args=(2,), nprocs=2)
    ```
    """

    kind = "distributed"
    message = "{launcher} starts processes that train together"
    remedy = (
        "Several processes are out of scope: call {name}() directly, as the one process, in a "
        "script of your own (its loop: {loop})."
    )


def own_process(candidate: Candidate) -> Iterator[Reason]:
    """What starts the outermost function around the loop, which nothing that runs calls."""
    program, may_run = candidate.program, candidate.knowledge.may_run
    for source, scope, _ in outwards(program, candidate.source, candidate.scope, candidate.loop):
        if not isinstance(scope, FUNCTIONS):
            return  # the main thread comes to it
        callers = program.callers.get(scope, ())
        if not any(may_run(program.source_of_scope[s], at) for s, _, at in callers):
            function = Function(source, scope)
            yield from _as_a_worker(program, function)
            yield from _started(function, candidate)
            return


def _as_a_worker(program: Program, function: Function) -> Iterator[Reason]:
    """The function is run() of a subclass of a thread or process."""
    owner = function.source.class_of.get(function.node)
    if owner is not None and function.name == "run":
        for base in program.external_bases(Class(function.source, owner)):
            if libraries.role_of(base) in (Role.THREAD, Role.PROCESS):
                yield OwnProcess.at(
                    function.source, function.node, what=_what(libraries.role_of(base))
                )


def _started(function: Function, candidate: Candidate) -> Iterator[Reason]:
    """The first call that is handed the function to run it elsewhere."""
    knowledge, program = candidate.knowledge, candidate.program
    loop = candidate.source.at(candidate.loop.lineno)
    for source in program.sources.values():
        for call in source.calls:
            role = knowledge.role(source, program.scope_of(source, call), call)
            handed = argument(call, "target", at=0 if role is Role.SPAWN else None)
            if handed is None or not _means(knowledge, source, handed, function):
                continue
            if role is Role.THREAD and _is_waited_for(program, function, source, call):
                return
            if role is not Role.SPAWN:
                yield OwnProcess.at(source, call, what=_what(role))
            elif not _in_this_process(call) and not _conditional(knowledge, source, call):
                launcher = ast.unparse(call.func)
                yield Distributed.at(source, call, launcher=launcher, name=function.name, loop=loop)
            return


def _is_waited_for(program: Program, function: Function, source: Source, made: ast.Call) -> bool:
    """Whether a thread is the only one of its function, and the script does nothing but join it.

    `SystemExit` ends a thread; what the main thread would do behind it must then come to nothing.
    """
    assigned = source.statement_of(made)
    if len(program.handed.get(function.node, ())) != 1 or not isinstance(assigned, ast.Assign):
        return False
    place, name = source.places[assigned], dotted(assigned.targets[0])
    following = place.suite[place.index + 1 :]
    calls = [call for s in following if (call := _method_of(s, name)) is not None]
    words = [callee(call) for call in calls]
    if assigned.value is not made or words != ["start", "join"] or arguments(calls[1]):
        return False
    start, join = (source.statement_of(call) for call in calls)
    if start is None or join is None:
        return False
    scope = program.scope_of(source, made)
    meanwhile = following[following.index(start) + 1 : following.index(join)]
    return all(map(_is_idle, meanwhile)) and not any(
        where.loops_around(at) or not all(map(_is_idle, flow_of(around).later(at)))
        for where, around, at in outwards(program, source, scope, join)
    )


def _method_of(statement: ast.stmt, name: str) -> ast.Call | None:
    """`thread.start()` or `thread.join()` as a statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    named = isinstance(call, ast.Call) and dotted(call.func) in (f"{name}.start", f"{name}.join")
    return call if isinstance(call, ast.Call) and named else None


def _is_idle(statement: ast.stmt) -> bool:
    """Whether it does nothing that takes time, or reads what the thread has left."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        return callee(call) == "print" and all(isinstance(a, ast.Constant) for a in arguments(call))
    return isinstance(statement, (ast.Pass, *FUNCTIONS)) or (
        isinstance(statement, ast.Return) and statement.value is None
    )


def _means(knowledge: Knowledge, source: Source, node: ast.expr, function: Function) -> bool:
    return function in knowledge.values(source, knowledge.program.scope_of(source, node), node)


def _in_this_process(call: ast.Call) -> bool:
    """`xmp.spawn(fn, nprocs=1)` runs in the process itself."""
    return getattr(argument(call, "nprocs"), "value", None) == 1


def _conditional(knowledge: Knowledge, source: Source, node: ast.AST, depth: int = 0) -> bool:
    """Whether a call is made only under an `if` that the options do not decide for it.

    The `__main__` guard does not count.
    """
    program, options = knowledge.program, knowledge.options
    statement = source.statement_of(node)
    if statement is not None and not knowledge.may_run(source, statement):
        return True
    tests = (
        [p.test for p in source.parents(statement) if isinstance(p, ast.If)] if statement else []
    )
    for test in tests:
        told = options is not None and options.answer(source, test) is not None
        if not (told or is_main_guard(test)):
            return True
    scope = program.scope_of(source, node)
    if not isinstance(scope, FUNCTIONS) or depth > 5:
        return False
    uses: list[tuple[ScopeNode, ast.AST]] = [
        (caller, call) for caller, call, _ in program.callers.get(scope, ()) if caller is not scope
    ]
    uses = uses or [*program.handed.get(scope, ())]
    return bool(uses) and all(
        _conditional(knowledge, program.source_of_scope[caller], use, depth + 1)
        for caller, use in uses
    )


def _what(role: Role | None) -> str:
    return "thread" if role is Role.THREAD else "process"
