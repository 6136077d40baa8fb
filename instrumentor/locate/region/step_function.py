"""The function that makes the step for the loop: the clock stands inside of it, at the step itself.

A call of it may fetch, copy, log, update and evaluate around its forward and backward, or return
ahead of them (a replay memory that is not full yet, a validation batch). With the region in the
body of the function none of that is timed, and a call that does not come there is no sample.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from instrumentor.locate.gradients.forward import Forward, call_of, find_forwards
from instrumentor.locate.gradients.walk import gradients_of
from instrumentor.locate.loop.loops import Body, Candidate, Site, find_updates
from instrumentor.locate.meaning import libraries
from instrumentor.locate.meaning.calls import Knowledge, is_stub
from instrumentor.locate.region.syncs import find_sync, fused, syncs_every_n
from instrumentor.read.constants import Constants, fixed, flow_with, shared
from instrumentor.read.control_flow import END, START, Flow
from instrumentor.read.names import external_name
from instrumentor.read.program import Class, Function, Program
from instrumentor.read.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    arguments,
    callee,
    contains,
    own_calls,
    own_nodes,
    receiver,
)


class Departure(NamedTuple):
    """A helper whose call may be other than the step.

    site: the backward on the way to which it stands; depth: how many calls from the loop; told: the
    statement that tells: a `return` past the backward, a test, an evaluation, or a method that runs
    in its place.
    """

    site: Site
    depth: int
    function: Function
    source: Source
    told: ast.stmt


def step_function(candidate: Candidate, scope: str = "auto") -> Candidate | None:
    """The body of the innermost function that holds the whole forward and every backward.

    None where the loop holds them itself, or where the clock can only stand around the call.

    Args:
        scope: what a sample is to cover; one of the whole step needs the optimizer in the body.
    """
    forced = max((d.depth for d in departures(candidate)), default=0)
    body, depth = candidate, 0
    while (inner := _inside(body)) is not None:
        if _is_compiled(body.knowledge, _function(inner)):
            break
        if depth >= forced and not _may_enter(body, inner, scope):
            break
        body, depth = inner, depth + 1
    return None if body is candidate or depth < forced else body


def _inside(body: Candidate) -> Candidate | None:
    """The function that one call of a body runs, with all of its forwards and backwards."""
    knowledge, first = body.knowledge, body.sites[0]
    if not first.chain or any(
        s.statement is not first.statement or s.chain[0] != first.chain[0] for s in body.sites
    ):
        return None
    function = first.chain[0]
    sites = [seen_from(knowledge, site, 1) for site in body.sites]
    at = function.source, function.node, function.node
    inner = Candidate(knowledge, *at, tuple(filter(None, sites)))
    forwards = find_forwards(knowledge, inner)
    if None in sites or forwards.keys() < set(inner.sites):
        return None
    # an unread call is no forward where the loop has run a model itself, ahead of this call
    if not _any_certain(forwards) and _any_certain(find_forwards(knowledge, body)):
        return None
    return replace(inner, updates=tuple(find_updates(inner)))


def _any_certain(forwards: Mapping[Site, Forward]) -> bool:
    return any(forward.certain for forward in forwards.values())


def _may_enter(body: Candidate, inner: Candidate, scope: str) -> bool:
    """Whether a region in a function covers what it would around the call in a body."""
    forwards = find_forwards(body.knowledge, body)
    if any(_ahead(body, site, forward) for site, forward in forwards.items()):
        return False
    if scope == "step" and not inner.own_updates:
        return False
    return not (_syncs_behind(body) or _called_elsewhere(body, inner))


def _syncs_behind(body: Candidate) -> bool:
    """Whether the script's own sync, which ends the sample, stands behind the call."""
    final = body.sites[-1]
    sync = find_sync(body, final).statement
    here = sync is not None and body.source.scope_of(sync) is body.scope
    return here or bool(fused(body, final) or syncs_every_n(body, final))


def _ahead(body: Candidate, site: Site, forward: Forward) -> bool:
    """Whether the forward, or a part of it, comes ahead of the call, in its arguments say."""
    if forward.unit is not site.statement:
        return True
    calls = (n for a in arguments(site.call) for n in (a, *own_nodes(a)) if isinstance(n, ast.Call))
    alone = forward.statement is site.statement and next(calls, None) is None
    return forward.source.scope_of(forward.statement) is body.scope and not alone


def _called_elsewhere(body: Candidate, inner: Candidate) -> bool:
    """Whether calls from elsewhere, which come to a backward as well, would be samples too."""
    program = body.program
    return any(
        scope in program.reached
        and not (scope is body.scope and contains(body.loop, statement))
        and _comes_to_backward(inner, fixed(program, scope, call, _function(inner), {}))
        for scope, call, statement in program.callers.get(_function(inner).node, ())
    )


def _comes_to_backward(body: Candidate, known: Constants) -> bool:
    flow = flow_with(_function(body), known)
    return any(flow.path(START, flow.before(site.statement)) for site in body.sites)


def _function(body: Body) -> Function:
    assert isinstance(body.scope, FUNCTIONS)
    return Function(body.source, body.scope)


def _is_compiled(knowledge: Knowledge, function: Function) -> bool:
    """Whether a function is handed to a compiler, by a decorator or by a call."""
    program, source = knowledge.program, function.source
    decorators = [d.func if isinstance(d, ast.Call) else d for d in function.node.decorator_list]
    given = [(source, source.scope_of(function.node), d) for d in decorators]
    for word in ("compile", "script", "trace", "jit"):
        for where, scope, call in program.calls_named(word):
            if any(function in program.of(where, scope, a) for a in call.args[:1]):
                given.append((where, scope, call.func))
    return any(
        libraries.compiles(external_name(value))
        for where, scope, node in given
        for value in program.of(where, scope, node)
    )


def seen_from(knowledge: Knowledge, site: Site, depth: int) -> Site | None:
    """A backward as one of the helpers on the way to it sees it."""
    rest = site.chain[depth:]
    call, statement = site.backward, site.backward_statement
    if rest:
        found = call_of(knowledge, site.chain[depth - 1], rest[0])
        if found is None:
            return None
        call, statement = found
    return replace(site, statement=statement, call=call, chain=rest)


def departures(candidate: Candidate) -> Iterator[Departure]:
    """Helpers whose call may be other than the step."""
    knowledge, scope = candidate.knowledge, candidate.scope
    outer = Function(candidate.source, scope) if isinstance(scope, FUNCTIONS) else None
    for site in candidate.sites:
        caller = outer
        for depth, (function, known) in enumerate(_along(knowledge.program, site), 1):
            inner = [s for each in candidate.sites if (s := seen_from(knowledge, each, depth))]
            body, backwards = Body.of(knowledge, function), [s.statement for s in inner]
            told = (
                _without(body, known, backwards)
                or _accumulates(body, backwards)
                or _evaluates(body, backwards)
            )
            if told is not None:
                yield Departure(site, depth, function, function.source, told)
            for other in _run_instead(knowledge, caller, function) if caller is not None else ():
                if not knowledge.has_backward(other) and not is_stub(other):
                    yield Departure(site, depth, function, other.source, other.node)
            caller = function


def _along(program: Program, site: Site) -> Iterator[tuple[Function, Constants]]:
    """The helpers from the loop down to the backward, each with what its calls fix."""
    known: Constants = {}
    caller: ScopeNode | None = None
    for function in site.chain:
        each = [
            fixed(program, scope, call, function, known)
            for scope, call, _ in program.callers.get(function.node, ())
            if (call is site.call if caller is None else scope is caller)
        ]
        known = shared(each)
        yield function, known
        caller = function.node


def _without(body: Body, known: Constants, backwards: list[ast.stmt]) -> ast.stmt | None:
    """What a call that comes to its end past every backward and update meets last."""
    # a flow of its own: what this call fixes decides some of the tests
    flow = flow_with(_function(body), known)
    met = _met(body, flow, [*backwards, *body.steps])
    if not flow.path(START, END, met):
        return None
    returns = [s for s in flow.statements if isinstance(s, ast.Return)]
    past = [s for s in returns if flow.path(START, flow.before(s), met)]
    return next(iter([*past, *flow.deciders(START, *met)]), body.loop.body[0])


def _accumulates(body: Body, backwards: list[ast.stmt]) -> ast.stmt | None:
    """An update that follows a backward in some calls only, where none comes with the backward."""
    flow, steps = body.flow, body.steps
    met = _met(body, flow, steps)
    later = [u for u in steps if any(flow.path(flow.after(s), flow.before(u)) for s in backwards)]
    skips = any(flow.path(flow.after(s), END, met) for s in backwards if s not in steps)
    return later[0] if later and skips else None


def _met(body: Body, flow: Flow, statements: Iterable[ast.stmt]) -> set[int]:
    """The points of statements; for those in a loop, which may walk over nothing, the loop's."""
    return {
        flow.before(around)
        for statement in statements
        if statement in flow.begins
        for around in (statement, *body.source.loops_around(statement))
    }


def _evaluates(body: Body, backwards: list[ast.stmt]) -> ast.stmt | None:
    """The first statement behind the step that runs a model without gradients."""
    flow = body.flow
    behind = (
        statement
        for statement in flow.statements
        if any(flow.path(flow.after(s), flow.before(statement)) for s in backwards)
        and not any(flow.reaches(statement, s) for s in backwards)
    )
    return next((s for s in behind if _is_evaluation(body, s)), None)


def _is_evaluation(body: Body, statement: ast.stmt) -> bool:
    knowledge, source, scope = body.knowledge, body.source, body.scope
    if knowledge.without_gradients(source, statement):
        return bool(gradients_of(knowledge).forwards(source, scope, [statement]))
    return any(map(body.evaluates, own_calls(statement)))


def _run_instead(knowledge: Knowledge, caller: Function, called: Function) -> Iterator[Function]:
    """Methods that run in place of the called one, in instances of the classes that are made.

    Where none is made (a library's file by itself), those that switch gradients off.
    """
    program = knowledge.program
    owner = caller.source.class_of.get(caller.node)
    if owner is None or not any(
        callee(c) == called.name and receiver(c) == "self"
        for c, _ in program.calls.get(caller.node, ())
    ):
        return
    # an abstract class that nobody makes runs no loop
    family = [Class(caller.source, owner), *program.subclasses.get(owner, ())]
    made = [cls for cls in family if _is_made(program, cls)]
    for cls in made or family:
        running, found = (
            next(iter(program.methods(cls, f.name, overrides=False)), None)
            for f in (caller, called)
        )
        if running == caller and found is not None and found != called:
            if made or knowledge.evaluates(found):
                yield found


def _is_made(program: Program, cls: Class) -> bool:
    """Whether the program makes an instance of just this class."""
    return any(
        cls in program.names.of(source, program.scope_of(source, call), call.func)
        for source in program.sources.values()
        for call in source.calls
    )
