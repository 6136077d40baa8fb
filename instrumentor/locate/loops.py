"""Candidates: loops whose iterations run a backward and lead to an update of parameters.

From each backward the search goes outwards: to the innermost loop of its own scope, else to the
callers of its function. A loop that only walks over finished losses (`for loss in losses`) is
part of a step, not the loop of steps.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.control import Flow, flow_of
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.program import Function, Program
from instrumentor.locate.syntax import (
    FUNCTIONS,
    FunctionNode,
    LoopNode,
    ScopeNode,
    Source,
    arguments,
    below,
    callee,
    dotted,
    own_nodes,
    root_name,
)


class Site(Struct, frozen=True):
    """One backward of an iteration, seen from the loop's scope.

    Attributes:
        statement: the statement of the loop's scope that runs it.
        call: the call in that statement: the backward itself or the call of a helper.
        backward: the backward call, wherever it stands.
        backward_statement: the statement holding it.
        loss: what it differentiates.
        chain: helpers from the loop down to the one with the backward, empty when direct.
    """

    statement: ast.stmt
    call: ast.Call
    backward: ast.Call
    backward_statement: ast.stmt
    backward_source: Source
    loss: ast.expr
    chain: tuple[Function, ...] = ()


class Update(Struct, frozen=True):
    """One optimizer step of an iteration (or, with accumulation, of several).

    Attributes:
        statement: the statement of `scope` that makes or calls it.
        optimizer: the name that is stepped.
        helper: the function that holds the step, None when it is direct.
    """

    source: Source
    scope: ScopeNode
    statement: ast.stmt
    call: ast.Call
    optimizer: str
    helper: Function | None = None
    manual: bool = False


class Candidate(Struct, frozen=True, eq=False):
    """A loop with the backwards of its iterations and the updates they lead to.

    Or the function that makes the step for a loop, whose calls are the iterations.
    """

    source: Source
    scope: ScopeNode
    loop: LoopNode | FunctionNode
    sites: tuple[Site, ...] = ()
    updates: tuple[Update, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        return (str(self.source.path), self.loop.lineno)

    @property
    def flow(self) -> Flow:
        """The paths through an iteration."""
        return flow_of(self.loop)

    @property
    def own_updates(self) -> list[Update]:
        """Updates that stand in the scope of the loop."""
        return [u for u in self.updates if u.source is self.source and u.scope is self.scope]


def find_candidates(program: Program, knowledge: Knowledge) -> list[Candidate]:
    """All loops with a backward, in order of file and line, updates attached (maybe none)."""
    found: dict[ast.AST, Candidate] = {}
    sites: dict[ast.AST, dict[tuple[ast.stmt, ast.Call], Site]] = defaultdict(dict)
    for source in program.sources.values():
        for scope, call, statement in _backwards(knowledge, source):
            for candidate, site in _climb(knowledge, source, scope, call, statement):
                found[candidate.loop] = candidate
                sites[candidate.loop].setdefault((site.statement, site.backward), site)
    complete = [
        replace(
            candidate,
            sites=in_order(sites[loop].values()),
            updates=tuple(find_updates(program, knowledge, candidate)),
        )
        for loop, candidate in found.items()
    ]
    return sorted(complete, key=lambda c: c.key)


def in_order(sites: Iterable[Site]) -> tuple[Site, ...]:
    """Backwards in the order of their statements."""
    key = attrgetter("statement.lineno", "call.lineno", "backward.lineno")
    return tuple(sorted(sites, key=key))


def _backwards(
    knowledge: Knowledge, source: Source
) -> Iterator[tuple[ScopeNode, ast.Call, ast.stmt]]:
    for scope in (source.tree, *source.functions):
        for call, statement in knowledge.program.calls.get(scope, ()):
            if knowledge.is_backward(source, scope, call):
                yield scope, call, statement


def _climb(
    knowledge: Knowledge, source: Source, scope: ScopeNode, backward: ast.Call, statement: ast.stmt
) -> Iterator[tuple[Candidate, Site]]:
    program = knowledge.program
    loss = knowledge.loss_of(source, scope, backward)
    queue: list[tuple[Source, ScopeNode, ast.stmt, ast.Call, tuple[Function, ...]]] = [
        (source, scope, statement, backward, ())
    ]
    seen: set[ScopeNode] = set()
    while queue:
        here, where, at, call, chain = queue.pop(0)
        around = here.loops_around(at)
        if around:
            site = Site(at, call, backward, statement, source, loss, chain)
            yield Candidate(here, where, around[0]), site
            continue
        if where in seen or not isinstance(where, FUNCTIONS) or len(chain) > 6:
            continue
        seen.add(where)
        function = Function(here, where)
        for caller, made, holder in program.callers.get(where, ()):
            queue.append(
                (program.source_of_scope[caller], caller, holder, made, (function, *chain))
            )


def find_updates(program: Program, knowledge: Knowledge, candidate: Candidate) -> list[Update]:
    """Updates inside the loop; else around or behind it, and likewise in its callers."""
    source, scope, loop = candidate.source, candidate.scope, candidate.loop
    bodies = chain([(source, scope, loop.body)], _outside(program, source, scope, loop, ()))
    found = (list(_updates_below(program, knowledge, *body)) for body in bodies)
    return next(filter(None, found), [])


def _outside(
    program: Program,
    source: Source,
    scope: ScopeNode,
    statement: ast.stmt,
    seen: tuple[ScopeNode, ...],
) -> Iterator[tuple[Source, ScopeNode, list[ast.stmt]]]:
    """The loops around a statement and what may run behind it, and those of the calls to it."""
    for outer in source.loops_around(statement):
        yield source, scope, outer.body
    yield source, scope, flow_of(scope).later(statement)
    if isinstance(scope, FUNCTIONS) and scope not in seen:
        for caller, _, holder in program.callers.get(scope, ()):
            where = program.source_of_scope[caller]
            yield from _outside(program, where, caller, holder, (*seen, scope))


def _updates_below(
    program: Program, knowledge: Knowledge, source: Source, scope: ScopeNode, body: list[ast.stmt]
) -> Iterator[Update]:
    inside = set()
    for top in body:
        inside.add(top)
        inside.update(n for n in own_nodes(top) if isinstance(n, ast.stmt))
    steps = set(knowledge.steps_in(source, scope, ast.Module(body=body, type_ignores=[])))
    for call, statement in program.calls.get(scope, ()):
        if statement not in inside:
            continue
        if call in steps:
            helper = next(iter(program.resolve(source, scope, call)), None)
            if helper is not None and not knowledge.stepped(helper):
                helper = None
            name = knowledge.stepped_by(source, scope, call)[0]
            yield Update(source, scope, statement, call, name, helper)
            continue
        for function in program.resolve(source, scope, call):
            for name in knowledge.stepped(function):
                yield Update(source, scope, statement, call, name, function)
    for top in body:
        manual = _manual_update(top)
        if manual is not None:
            yield manual_update(source, scope, top, manual)


def stepping(
    knowledge: Knowledge, source: Source, scope: ScopeNode, top: LoopNode | FunctionNode
) -> list[ast.stmt]:
    """Statements of a body that step an optimizer, themselves or in a function that they call."""
    program, flow = knowledge.program, flow_of(top)
    steps = set(knowledge.steps_in(source, scope, top))
    return [
        statement
        for call, statement in program.calls.get(scope, ())
        if statement in flow.begins
        and (call in steps or any(map(knowledge.stepped, program.resolve(source, scope, call))))
    ]


def manual_update(source: Source, scope: ScopeNode, statement: ast.stmt, call: ast.Call) -> Update:
    return Update(source, scope, statement, call, "parameters", None, manual=True)


#: Stands for the optimizer of a loop that was asked for although no step of one is seen in it.
UNKNOWN = "unknown"


def end_of_iteration(candidate: Candidate) -> Update:
    """An update behind the last statement of a loop's body."""
    call = ast.Call(ast.Name(UNKNOWN, ast.Load()), [], [])
    last = candidate.loop.body[-1]
    return Update(candidate.source, candidate.scope, last, call, UNKNOWN, None, manual=True)


def _manual_update(statement: ast.stmt) -> ast.Call | None:
    """`for p in params: p.data -= lr * p.grad` and kin: an update without an optimizer object.

    What is changed must be the object whose gradient is read, or something must be subtracted:
    `importance += p.grad ** 2` only keeps a sum.
    """
    nodes = (statement, *own_nodes(statement))
    if any(isinstance(n, ast.Call) and callee(n) == "backward" for n in nodes):
        return None
    with_gradient = (n for n in nodes if isinstance(n, ast.Attribute) and n.attr == "grad")
    parameters = {dotted(n.value) for n in with_gradient} - {""}
    if not parameters:
        return None
    gradients = _gradients(nodes)
    for node in nodes:
        change = _change(node, parameters)
        if change is None or not any(_reads_gradient(v, gradients) for v in change.by):
            continue
        if not _is_grad(change.of) and _lowers(change, parameters):
            return change.call
    return None


class _Change(NamedTuple):
    """An assignment or a method that changes a tensor."""

    of: ast.expr
    by: list[ast.expr]
    subtracted: bool
    call: ast.Call


def _lowers(change: _Change, parameters: set[str]) -> bool:
    """Whether it goes down the gradient, or changes the very tensor whose gradient it reads."""
    negative = change.subtracted or any(map(_is_negative, change.by))
    return negative or _is_one_of(change.of, parameters)


def _change(node: ast.AST, parameters: set[str]) -> _Change | None:
    """What a node changes; `w = w - lr * w.grad` changes w, `gap = old - w.grad` nothing."""
    by_hand = ast.Call(func=ast.Name("manual", ast.Load()), args=[], keywords=[])
    match node:
        case ast.AugAssign(target=target, op=op, value=value):
            return _Change(target, [value], isinstance(op, ast.Sub), by_hand)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _IN_PLACE:
            return _Change(owner, arguments(node), name == "sub_", node)
        case ast.Assign(targets=targets, value=ast.BinOp(left=left, op=ast.Sub(), right=right)):
            kept = dotted(left)
            if _is_one_of(left, parameters) or any(
                dotted(t) and (dotted(t) == kept or _is_one_of(t, parameters)) for t in targets
            ):
                return _Change(left, [right], True, by_hand)
    return None


_IN_PLACE = ("add_", "sub_", "addcmul_", "addcdiv_", "copy_")
_SAME_TENSOR = re.compile(r"(\.data|\.detach\(\)|\.\[\]|\.[a-z]+_\(\))*")


def _is_one_of(changed: ast.expr, parameters: set[str]) -> bool:
    """`p`, `p.data`, `p.data.mul_(decay)`: the tensor of one of these names."""
    name = dotted(changed)
    return any(
        name.startswith(p) and _SAME_TENSOR.fullmatch(name.removeprefix(p)) for p in parameters
    )


def _is_negative(value: ast.expr) -> bool:
    """`-lr * p.grad`, `alpha=-lr`."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Mult, ast.Div)):
        value = value.left
    return isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)


def _gradients(nodes: tuple[ast.AST, ...]) -> set[str]:
    """Names that hold gradients or what is made of them: momentum, clipped copies."""
    found: set[str] = set()
    for _ in range(3):  # a momentum may be read above the line that fills it
        for node in nodes:
            if isinstance(node, ast.Assign) and _reads_gradient(node.value, found):
                found.update(root_name(t) for t in node.targets)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in _IN_PLACE and not _is_grad(node.func.value):
                    if any(_reads_gradient(a, found) for a in node.args):
                        found.add(root_name(node.func.value))
    return found - {"", "self"}


def _reads_gradient(node: ast.AST, gradients: set[str]) -> bool:
    return any(
        (isinstance(n, ast.Attribute) and n.attr == "grad")
        or (isinstance(n, ast.Name) and n.id in gradients)
        for n in below(node)
    )


def _is_grad(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and (node.attr == "grad" or _is_grad(node.value))
