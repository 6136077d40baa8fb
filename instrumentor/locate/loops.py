"""Candidates: loops whose iterations run a backward and lead to an update of parameters.

From each backward the search goes outwards: to the innermost loop of its own scope, else to the
callers of its function. A loop that only walks over finished losses (`for loss in losses`) is
part of a step, not the loop of steps.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from instrumentor.locate.dataflow import binds, reads
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.program import Function, Program
from instrumentor.locate.syntax import FUNCTIONS, LoopNode, ScopeNode, Source, below, own_nodes
from instrumentor.locate.vocabulary import (
    is_backward,
    loss_expression,
    optimizer_of,
)


@dataclass(frozen=True)
class Site:
    """One backward of an iteration, seen from the loop's scope.

    Attributes:
        statement: the statement of the loop's scope that runs it.
        call: the call in that statement: the backward itself or the call of a helper.
        backward: the backward call, wherever it stands.
        backward_statement: the statement holding it.
        chain: helpers from the loop down to the one with the backward, empty when direct.
    """

    statement: ast.stmt
    call: ast.Call
    backward: ast.Call
    backward_statement: ast.stmt
    backward_source: Source
    chain: tuple[Function, ...] = ()


@dataclass(frozen=True)
class Update:
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


@dataclass(eq=False)
class Candidate:
    """A loop with the backwards of its iterations and the updates they lead to."""

    source: Source
    scope: ScopeNode
    loop: LoopNode
    sites: list[Site] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        return (str(self.source.path), self.loop.lineno)


def find_candidates(program: Program, knowledge: Knowledge) -> list[Candidate]:
    """All loops with a backward, in order of file and line, updates attached (maybe none)."""
    found: dict[LoopNode, Candidate] = {}
    for source in program.sources.values():
        for scope, call, statement in _backwards(program, source):
            for candidate, site in _climb(program, source, scope, call, statement):
                kept = found.setdefault(candidate.loop, candidate)
                if all(
                    s.backward is not site.backward or s.statement is not site.statement
                    for s in kept.sites
                ):
                    kept.sites.append(site)
    for candidate in found.values():
        candidate.sites.sort(key=lambda s: (s.statement.lineno, s.call.lineno, s.backward.lineno))
        candidate.updates = find_updates(program, knowledge, candidate)
    return sorted(found.values(), key=lambda c: c.key)


def _backwards(program: Program, source: Source) -> Iterator[tuple[ScopeNode, ast.Call, ast.stmt]]:
    for scope in (source.tree, *source.functions):
        for call, statement in program.calls.get(scope, ()):
            if is_backward(call):
                yield scope, call, statement


def _climb(
    program: Program, source: Source, scope: ScopeNode, backward: ast.Call, statement: ast.stmt
) -> Iterator[tuple[Candidate, Site]]:
    queue: list[tuple[Source, ScopeNode, ast.stmt, ast.Call, tuple[Function, ...]]] = [
        (source, scope, statement, backward, ())
    ]
    seen: set[ScopeNode] = set()
    while queue:
        here, where, at, call, chain = queue.pop(0)
        loop = _loop_of_steps(here, at, call, direct=not chain)
        if loop is not None:
            site = Site(at, call, backward, statement, source, chain)
            yield Candidate(here, where, loop), site
            continue
        if where in seen or not isinstance(where, FUNCTIONS) or len(chain) > 6:
            continue
        seen.add(where)
        function = Function(here, where)
        for caller, made, holder in program.callers.get(where, ()):
            queue.append(
                (program.source_of_scope[caller], caller, holder, made, (function, *chain))
            )


def _loop_of_steps(
    source: Source, statement: ast.stmt, call: ast.Call, *, direct: bool
) -> LoopNode | None:
    for loop in source.loops_around(statement):
        if direct and isinstance(loop, ast.For) and _walks_losses(loop, call):
            continue
        return loop
    return None


def _walks_losses(loop: ast.For, backward: ast.Call) -> bool:
    """`for loss in losses: loss.backward()`: the differentiated value is the loop's own target."""
    wanted = reads(loss_expression(backward))
    targets = binds(loop.target)
    if not wanted & targets:
        return False
    bound_inside: set[str] = set()
    for statement in loop.body:
        bound_inside |= binds(statement)
    return not (wanted & bound_inside) and not any(
        isinstance(n, ast.Call)
        for n in (loss_expression(backward), *own_nodes(loss_expression(backward)))
    )


def find_updates(program: Program, knowledge: Knowledge, candidate: Candidate) -> list[Update]:
    """Updates inside the loop; else around it in the same scope; else in its callers' loops."""
    source, scope = candidate.source, candidate.scope
    inside = list(_updates_below(program, knowledge, source, scope, candidate.loop.body))
    if inside:
        return inside
    for outer in source.loops_around(candidate.loop):
        around = list(_updates_below(program, knowledge, source, scope, outer.body))
        if around:
            return around
    following = _following(source, candidate.loop)
    after = list(_updates_below(program, knowledge, source, scope, following))
    if after:
        return after
    if isinstance(scope, FUNCTIONS):
        for caller, _, holder in program.callers.get(scope, ()):
            where = program.source_of_scope[caller]
            for outer in where.loops_around(holder):
                around = list(_updates_below(program, knowledge, where, caller, outer.body))
                if around:
                    return around
    return []


def _following(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """Statements that run after one in the same scope, nearest suite first."""
    found: list[ast.stmt] = []
    current: ast.stmt | None = statement
    while current is not None:
        place = source.places[current]
        found.extend(place.suite[place.index + 1 :])
        current = next(iter(source.parents(current)), None)
    return found


def _updates_below(
    program: Program, knowledge: Knowledge, source: Source, scope: ScopeNode, body: list[ast.stmt]
) -> Iterator[Update]:
    inside = set()
    for top in body:
        inside.add(top)
        inside.update(n for n in own_nodes(top) if isinstance(n, ast.stmt))
    steps = set(knowledge.steps_in(source, ast.Module(body=body, type_ignores=[])))
    for call, statement in program.calls.get(scope, ()):
        if statement not in inside:
            continue
        if call in steps:
            helper = next(iter(program.resolve(source, scope, call)), None)
            if helper is not None and not knowledge.stepped(helper):
                helper = None
            name = optimizer_of(call)
            inner = knowledge.stepped(helper) if helper is not None and not call.args else ()
            yield Update(source, scope, statement, call, inner[0] if inner else name, helper)
            continue
        for function in program.resolve(source, scope, call):
            for name in knowledge.stepped(function):
                yield Update(source, scope, statement, call, name, function)
    for top in body:
        manual = _manual_update(top)
        if manual is not None:
            yield manual_update(source, scope, top, manual)


def manual_update(source: Source, scope: ScopeNode, statement: ast.stmt, call: ast.Call) -> Update:
    return Update(source, scope, statement, call, "parameters", None, manual=True)


def _manual_update(statement: ast.stmt) -> ast.Call | None:
    """`for p in params: p.data -= lr * p.grad` and kin: an update without an optimizer object."""
    nodes = (statement, *own_nodes(statement))
    if any(isinstance(n, ast.Call) and is_backward(n) for n in nodes):
        return None
    for node in nodes:
        if (
            isinstance(node, ast.AugAssign)
            and _uses_grad(node.value)
            and (isinstance(node.op, ast.Sub) or isinstance(node.target, ast.Attribute))
            and not _is_grad(node.target)
        ):
            return ast.Call(func=ast.Name("manual", ast.Load()), args=[], keywords=[])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("add_", "sub_", "addcmul_", "copy_") and any(
                _uses_grad(a) for a in node.args
            ):
                if not _is_grad(node.func.value):
                    return node
        if (
            isinstance(node, ast.Assign)
            and _uses_grad(node.value)
            and isinstance(node.value, ast.BinOp)
            and isinstance(node.value.op, ast.Sub)
        ):
            return ast.Call(func=ast.Name("manual", ast.Load()), args=[], keywords=[])
    return None


def _is_grad(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and (node.attr == "grad" or _is_grad(node.value))


def _uses_grad(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in below(node))
