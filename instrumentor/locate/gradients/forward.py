"""Where a forward starts: at the first statement that makes what its backward differentiates."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace

from instrumentor.locate.gradients.differentiable import PASSING
from instrumentor.locate.gradients.leading import leading_to
from instrumentor.locate.gradients.tracked_values import Made
from instrumentor.locate.gradients.walk import Differentiated, gradients_of
from instrumentor.locate.loop.counter import runs_once
from instrumentor.locate.loop.loops import Candidate, Site, from_callers
from instrumentor.locate.meaning import libraries, methods
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.changed_names import uses
from instrumentor.locate.meaning.roles import Evidence, Kind
from instrumentor.read import handed_on
from instrumentor.read.names import external_name
from instrumentor.read.names_used import binds
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import (
    LOOPS,
    ScopeNode,
    Source,
    beside,
    callee,
    contains,
    own_calls,
    own_nodes,
    receiver,
    suites,
)
from instrumentor.read.values import Class, Object

#: Where the forward of a backward starts: `unit` is where a region may begin.
Forward: TypeAlias = Made


def find_forwards(knowledge: Knowledge, candidate: Candidate) -> dict[Site, Forward]:
    """The start of the forward of each backward; left out where it is not in the iteration."""
    made = _differentiated(knowledge, candidate)
    found: dict[Site, Forward] = {}
    for site in candidate.sites:
        values = made.get((site.statement, site.backward), ())
        forward = _started(candidate, site, values)
        if forward is not None:
            unit = beside(candidate.source, forward.unit, site.statement)
            branches = _in_branches(candidate, site, values, unit)
            found[site] = replace(forward, unit=unit, branches=branches)
    return found


def needed(knowledge: Knowledge, candidate: Candidate, sites: Iterable[Site]) -> list[Made]:
    """What made the values that some backwards need, in the order of the source."""
    made = _differentiated(knowledge, candidate)
    every = (m for site in sites for m in made.get((site.statement, site.backward), ()))
    return sorted(every, key=lambda m: (m.unit.lineno, m.statement.lineno))


def _started(candidate: Candidate, site: Site, values: Sequence[Made]) -> Forward | None:
    """The first of some values that a backward needs, where the forward that made it starts."""
    on_graph = [m for m in values if not m.detached]
    each_time = [m for m in on_graph if not runs_once(candidate.loop, candidate.source, m.unit)]
    first = _first(each_time or on_graph)
    if first is None or _is_of_rollout(candidate, first, site):
        return None
    needed = values[: values.index(first)]
    certain = (m for m in needed if m.detached and m.certain)
    ahead = next((m for m in certain if _is_of_step(candidate, m, first, site)), first)
    unread = any(m.evidence is Evidence.UNREAD for m in needed)
    return replace(first, unit=ahead.unit, after_unread=unread)


def _in_branches(
    candidate: Candidate, site: Site, values: Sequence[Made], around: ast.stmt
) -> tuple[ast.stmt, ...]:
    """Where the forward starts in the branches of an `if`: no path to the backward is without.

    What makes the batch in a branch, ahead of its forward, is no part of the step.
    """
    if not isinstance(around, (ast.If, ast.Match)) or contains(around, site.statement):
        return ()
    flow, found = candidate.flow, list[ast.stmt]()
    for suite in suites(around):
        inside = [m for m in values if any(contains(s, m.unit) for s in suite)]
        forward = _started(candidate, site, inside)
        if forward is not None:
            unit = next(s for s in suite if contains(s, forward.unit))
            found += _in_branches(candidate, site, inside, unit) or (unit,)
    begun = {flow.before(s) for s in found}
    to_backward = flow.path(flow.before(around), flow.before(site.statement), begun)
    return () if to_backward else tuple(found)


def _differentiated(knowledge: Knowledge, candidate: Candidate) -> Differentiated:
    loop = candidate.loop
    fresh = binds(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else set[str]()
    return gradients_of(knowledge).differentiated(
        candidate.source, candidate.scope, loop.body, sorted(fresh)
    )


def made_ahead(candidate: Candidate, site: Site) -> Made | None:
    """The forward ahead of the loop, in its function or in what calls it, that a backward comes to.

    What one loop has kept, the next may take up: of the iteration itself only an unread call is
    seen then, which may be the loss of what was kept as well as a forward.
    """
    program, knowledge = candidate.program, candidate.knowledge
    places = [(candidate.source, candidate.scope, site)]
    places += from_callers(program, candidate.source, candidate.scope, site)
    for source, scope, seen in places:
        around = candidate.loop if scope is candidate.scope else seen.statement
        made = gradients_of(knowledge).differentiated(source, scope, scope.body)
        for one in made.get((seen.statement, seen.backward), ()):
            if one.is_typed and not one.detached and not contains(around, one.unit):
                return one
    return None


def is_made_elsewhere(candidate: Candidate, site: Site) -> bool:
    """Whether what a backward differentiates is seen to be made ahead of the loop, or in a rollout.

    Asked of a backward without a forward in the iteration.
    """
    made = _differentiated(candidate.knowledge, candidate)
    inside = made.get((site.statement, site.backward), ())
    return any(not m.detached for m in inside) or made_ahead(candidate, site) is not None


def unfollowed(candidate: Candidate, site: Site) -> tuple[Source, ast.Call | ast.Attribute] | None:
    """What the loss of a backward comes from, and of which nothing is known.

    A call, or an attribute of a model: its forward may set that. None where every value is known,
    so that the loss is of another loop or iteration.
    """
    made = _differentiated(candidate.knowledge, candidate)
    if made.get((site.statement, site.backward)):
        return None
    given: list[ast.AST] = [site.call if site.chain else site.loss]
    nodes = given + sorted(leading_to(candidate, site), key=lambda s: s.lineno)
    calls = [c for node in nodes for c in _calls_in(node)]
    found = _unfollowed(candidate.knowledge, candidate.source, candidate.scope, calls)
    return found or _of_a_model(candidate, nodes)


def _of_a_model(
    candidate: Candidate, nodes: Iterable[ast.AST]
) -> tuple[Source, ast.Attribute] | None:
    """`loss = model.last_loss`: an attribute of a model, read by the iteration."""
    knowledge, source, scope = candidate.knowledge, candidate.source, candidate.scope
    called = {call.func for call in source.calls}
    return next(
        (
            (source, part)
            for node in nodes
            for part in (node, *own_nodes(node))
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load)
            if part not in called and part.attr not in methods.NOT_DIFFERENTIABLE_ATTRIBUTES
            if knowledge.is_model(source, scope, part.value)
        ),
        None,
    )


def _calls_in(node: ast.AST) -> list[ast.Call]:
    return [part for part in (node, *own_nodes(node)) if isinstance(part, ast.Call)]


def _unfollowed(
    knowledge: Knowledge, source: Source, scope: ScopeNode, calls: Iterable[ast.Call]
) -> tuple[Source, ast.Call] | None:
    """The first of some calls that nobody can follow, in the functions that they run as well."""
    program, seen = knowledge.program, set[Function]()
    waiting = [(source, scope, call) for call in calls][::-1]
    while waiting:
        source, scope, call = waiting.pop()
        objects = program.of(source, scope, call.func)
        made = [v.made_by for v in objects if isinstance(v, Object)]
        classes = [cls for cls in made if isinstance(cls, Class)]
        forwards = (program.methods(cls, "forward", overrides=False) for cls in classes)
        functions = [*program.resolve(source, scope, call), *chain.from_iterable(forwards)]
        if not functions and not _is_known(knowledge, source, scope, call):
            return source, call
        for function in (f for f in reversed(functions) if f not in seen):
            seen.add(function)
            inner = program.calls.get(function.node, ())
            waiting += [(function.source, function.node, c) for c, _ in reversed(inner)]
    return None


def _is_known(knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
    """Whether a call of no function of the program is known to run no model."""
    words = (handed_on.COMMON_METHODS, methods.NOT_FORWARD, methods.NOT_DIFFERENTIABLE)
    if isinstance(call.func, ast.Attribute) and any(call.func.attr in each for each in words):
        return True
    if isinstance(call.func, ast.Attribute):
        if knowledge.kinds.is_a(source, scope, call.func.value, *PASSING - {Kind.LOSS}):
            return True
    objects = knowledge.values(source, scope, call.func)
    if any(isinstance(v, Class) for v in objects):
        return True
    names = [external_name(v.made_by if isinstance(v, Object) else v) for v in objects]
    return bool(names) and all(
        name.startswith("torch.") or libraries.is_on_host(name.partition(".")[0]) for name in names
    )


def _is_of_rollout(candidate: Candidate, made: Made, site: Site) -> bool:
    unit = beside(candidate.source, made.unit, site.statement)
    return not contains(unit, site.statement) and _is_rollout(
        candidate.program, candidate.scope, unit
    )


def _is_of_step(candidate: Candidate, needed: Made, first: Forward, site: Site) -> bool:
    """Whether a forward off the graph is one of the step: of each iteration, and no acting."""
    flow = candidate.flow
    if _now_and_then(candidate, needed.unit, first.unit) or _is_of_rollout(candidate, needed, site):
        return False
    units = (needed.unit, *flow.between(needed.unit, first.unit))
    return not any(_acts(call) for unit in units for call in own_calls(unit))


def _now_and_then(candidate: Candidate, unit: ast.stmt, first: ast.stmt) -> bool:
    """Whether a test of what changes from iteration to iteration leads to a statement."""
    loop, changing = (
        candidate.loop,
        {
            node.id
            for node in own_nodes(candidate.loop)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        },
    )
    return any(
        uses(around.test) & changing
        for around in candidate.source.parents(unit)
        if isinstance(around, ast.If) and contains(loop, around) and not contains(around, first)
    )


def _first(made: Sequence[Made]) -> Made | None:
    """What is known best: an unread call counts where nothing is certain."""
    unread = [m for m in made if m.evidence is Evidence.UNREAD]
    return next(chain((m for m in made if m.certain), unread, made), None)


_WORLD = re.compile(r"(^|[._])(envs?|environment|game|sim|simulator|world|gym)$", re.I)


def _is_rollout(program: Program, scope: ScopeNode, unit: ast.stmt) -> bool:
    """A loop that runs the model against an environment, here or in a function called here."""
    inner = chain.from_iterable(map(own_nodes, program.called_from(scope, [unit])))
    loops = (node for node in (unit, *inner) if isinstance(node, LOOPS))
    return any(_acts(call) for loop in loops for call in own_calls(loop))


def _acts(call: ast.Call) -> bool:
    return callee(call) in ("step", "act", "reset", "render") and bool(
        _WORLD.search(receiver(call))
    )


def call_of(
    knowledge: Knowledge, caller: Function, function: Function
) -> tuple[ast.Call, ast.stmt] | None:
    """Where one function calls another, at first."""
    return next(iter(knowledge.program.calls_between(caller, function)), None)
