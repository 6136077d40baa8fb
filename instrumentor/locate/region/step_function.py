"""The function that makes the step for the loop, where the clock has to stand inside of it.

A call of it is no step when it may return ahead of its backward (a replay memory that is not full
yet, a validation batch), and more than one when it evaluates behind its update. Then the region
lies in the body of the function, and a call that does not come there is no sample.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from instrumentor.locate.gradients.forward import call_of, find_forwards
from instrumentor.locate.gradients.walk import Gradients
from instrumentor.locate.loop.loops import Body, Candidate, Site, find_updates
from instrumentor.locate.meaning.calls import Knowledge, is_stub
from instrumentor.read.constants import Constants, decided, fixed, shared
from instrumentor.read.control_flow import END, START, Flow
from instrumentor.read.program import Class, Function, Program
from instrumentor.read.syntax import FUNCTIONS, ScopeNode, Source, callee, own_calls, receiver


class Departure(NamedTuple):
    """A helper whose call may be other than the step.

    depth: how many calls from the loop; told: the statement that tells: a `return` past the
    backward, a test, an evaluation, or a method that runs in its place.
    """

    depth: int
    function: Function
    source: Source
    told: ast.stmt


def step_function(candidate: Candidate) -> Candidate | None:
    """The body of the function that holds the step; None where its call is the step.

    The innermost one that may do other than the step; every backward has to run through it, and
    its forward as well.
    """
    depth = max((d.depth for d in departures(candidate)), default=0)
    first = candidate.sites[0]
    if not depth or any(
        s.statement is not first.statement or s.chain[:depth] != first.chain[:depth]
        for s in candidate.sites
    ):
        return None
    knowledge, function = candidate.knowledge, first.chain[depth - 1]
    sites = [_seen_from(knowledge, site, depth) for site in candidate.sites]
    at = function.source, function.node, function.node
    body = Candidate(knowledge, *at, tuple(filter(None, sites)))
    body = replace(body, updates=tuple(find_updates(body)))
    complete = None not in sites and find_forwards(knowledge, body).keys() >= set(body.sites)
    return body if complete else None


def _seen_from(knowledge: Knowledge, site: Site, depth: int) -> Site | None:
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
            inner = [s for each in candidate.sites if (s := _seen_from(knowledge, each, depth))]
            body, backwards = Body.of(knowledge, function), [s.statement for s in inner]
            told = (
                _without(body, known, backwards)
                or _accumulates(body, backwards)
                or _evaluates(body, backwards)
            )
            if told is not None:
                yield Departure(depth, function, function.source, told)
            for other in _run_instead(knowledge, caller, function) if caller is not None else ():
                if not knowledge.has_backward(other) and not is_stub(other):
                    yield Departure(depth, function, other.source, other.node)
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
    flow = Flow(body.loop.body, partial(decided, known=known), returned=END)
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
        return bool(Gradients(knowledge).forwards(source, scope, [statement]))
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
