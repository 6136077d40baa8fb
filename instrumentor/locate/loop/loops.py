"""Candidates: loops whose iterations run a backward and lead to an update of parameters.

From each backward the search goes outwards: to the innermost loop of its own scope, else to the
callers of its function. A loop that only walks over finished losses (`for loss in losses`) is
part of a step, not the loop of steps.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.loop.by_hand import updates_by_hand
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.read.constants import passed_over
from instrumentor.read.control_flow import LEFT, OVER, Flow, flow_of
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    LoopNode,
    ScopeNode,
    Source,
    called_on,
    callee,
    contains,
    own_nodes,
    receiver,
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
        call: what steps it; None where no optimizer object does.
        optimizer: the name that is stepped.
        helper: the function that holds the step, None when it is direct.
    """

    source: Source
    scope: ScopeNode
    statement: ast.stmt
    call: ast.Call | None
    optimizer: str
    helper: Function | None = None


class Body(Struct, frozen=True, eq=False, dict=True):
    """The statements of a loop, or of a function whose calls are the iterations."""

    knowledge: Knowledge
    source: Source
    scope: ScopeNode
    loop: LoopNode | FunctionNode

    @classmethod
    def of(cls, knowledge: Knowledge, function: Function) -> Body:
        return cls(knowledge, function.source, function.node, function.node)

    @property
    def program(self) -> Program:
        return self.knowledge.program

    @property
    def flow(self) -> Flow:
        """The paths through an iteration."""
        return flow_of(self.loop)

    @cached_property
    def steps(self) -> list[ast.stmt]:
        """Statements that step an optimizer, themselves or in a function that they call."""
        return [
            statement
            for call, statement in self.program.calls.get(self.scope, ())
            if statement in self.flow.begins
            if self.knowledge.stepped_by(self.source, self.scope, call)
        ]

    @cached_property
    def syncs(self) -> list[ast.stmt]:
        """Syncs in the order of the source, each with the `if`s that guard it alone."""
        found = [s for s in self.flow.statements if self.knowledge.sync_of(self.source, s)]
        return [s for s in found if not any(p in found for p in self.source.parents(s))]

    def called(self, call: ast.Call) -> list[Function]:
        """Functions of the program that a call of it may run."""
        return self.program.resolve(self.source, self.scope, call)

    def evaluates(self, call: ast.Call) -> bool:
        """Whether a call of it runs a function that evaluates and trains nothing."""
        evaluates, trains = self.knowledge.evaluates, self.knowledge.has_backward
        return any(evaluates(f) and not trains(f) for f in self.called(call))


class Candidate(Body, frozen=True, eq=False, dict=True):
    """A loop with the backwards of its iterations and the updates they lead to."""

    sites: tuple[Site, ...] = ()
    updates: tuple[Update, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        return (str(self.source.path), self.loop.lineno)

    @property
    def own_updates(self) -> list[Update]:
        """Updates that stand in the scope of the loop."""
        return [u for u in self.updates if u.source is self.source and u.scope is self.scope]

    @property
    def helpers(self) -> dict[Function, None]:
        """Functions on the way from the loop to its backwards."""
        return dict.fromkeys(f for site in self.sites for f in site.chain)


def find_candidates(knowledge: Knowledge) -> list[Candidate]:
    """All loops with a backward, in order of file and line, updates attached (maybe none)."""
    program = knowledge.program
    found: dict[ast.AST, Candidate] = {}
    sites: dict[ast.AST, dict[tuple[ast.stmt, ast.Call], Site]] = defaultdict(dict)
    for source in program.sources.values():
        for scope in (source.tree, *source.functions):
            for call, statement in program.calls.get(scope, ()):
                if not knowledge.is_backward(source, scope, call):
                    continue
                loss = knowledge.loss_of(source, scope, call)
                direct = Site(statement, call, call, statement, source, loss)
                for candidate, site in _climb(knowledge, source, scope, direct):
                    found[candidate.loop] = candidate
                    sites[candidate.loop].setdefault((site.statement, site.backward), site)
    complete = [
        replace(
            candidate,
            sites=in_order(sites[loop].values()),
            updates=tuple(find_updates(candidate)),
        )
        for loop, candidate in found.items()
    ]
    return sorted(complete, key=lambda c: c.key)


def without_probes(candidates: list[Candidate]) -> list[Candidate]:
    """Without loops whose gradients nothing is trained with, beside another loop's own step."""
    return [
        c
        for c in candidates
        if not any(_clears(other, c) or _is_updated_in(other, c) for other in candidates)
    ]


def _is_updated_in(step: Candidate, probe: Candidate) -> bool:
    """Whether all updates behind a loop are those of another one's iterations, to come later.

    `ones(rays).sum().backward()` counts the views of a grid, ahead of the training of another one.
    """
    if step is probe or not probe.updates or not step.sites:
        return False
    if any(f.node is step.scope for site in probe.sites for f in site.chain):
        return False
    in_iteration = step.program.called_from(step.scope, step.loop.body)
    if contains(step.loop, probe.loop) or probe.scope in in_iteration:
        return False
    return all(
        contains(step.loop, u.statement)
        or (u.helper is not None and _steps_only_in(step, u.helper, within=step.loop))
        for u in probe.updates
    )


def _clears(step: Candidate, probe: Candidate) -> bool:
    """Whether the updates behind a loop are those of another function, which clears gradients."""
    helpers = [u.helper for u in probe.updates if u.helper is not None]
    if step is probe or not helpers or len(helpers) < len(probe.updates):
        return False
    if not all(_steps_only_in(step, helper) for helper in helpers):
        return False
    if any(f.node is step.scope for site in probe.sites for f in site.chain):
        return False  # its gradients are those of that call
    flow = flow_of(step.scope)
    return any(
        callee(call) == "zero_grad" and flow.path(flow.before(at), flow.before(site.statement))
        for call, at in step.program.calls.get(step.scope, ())
        for site in step.sites
    )


def _steps_only_in(step: Candidate, helper: Function, within: ast.AST | None = None) -> bool:
    """Whether the optimizers that a function steps are all stepped in the function of a loop.

    Args:
        within: where in that function.
    """
    program, knowledge = step.program, step.knowledge
    at = [
        (scope, statement)
        for scope in (helper.node, *program.called_from(helper.node, helper.node.body))
        for call, statement in program.calls.get(scope, ())
        if knowledge.is_step(program.source_of_scope[scope], scope, call)
    ]
    inside = within is None or all(contains(within, statement) for _, statement in at)
    return inside and {scope for scope, _ in at} == {step.scope}


def cleared(candidate: Candidate) -> list[Site]:
    """Backwards behind the step of an iteration whose gradients are cleared before the next one.

    Every so often a second one estimates a Hessian, say, and trains nothing by itself.
    """
    flow, updates = candidate.flow, [u for u in candidate.own_updates if u.call is not None]
    updates = [u for u in updates if u.statement in flow.begins]
    names = {u.optimizer for u in updates}
    clearing = [_clearing(candidate, name, alone=len(names) == 1) for name in names]

    def is_cleared(at: ast.stmt) -> bool:
        behind = any(flow.path(flow.after(u.statement), flow.before(at)) for u in updates)
        again = any(flow.path(flow.after(at), flow.before(u.statement)) for u in updates)
        return (
            behind
            and not again
            and not any(flow.path(flow.after(at), (*OVER, LEFT), each) for each in clearing)
        )

    found = [site for site in candidate.sites if is_cleared(site.statement)]
    return found if len(found) < len(candidate.sites) else []


def _clearing(candidate: Candidate, optimizer: str, *, alone: bool) -> set[int]:
    """Where an iteration clears the gradients of an optimizer, or of a model if it is `alone`."""
    knowledge, flow, at = candidate.knowledge, candidate.flow, (candidate.source, candidate.scope)
    return {
        flow.before(statement)
        for call, statement in candidate.program.calls.get(candidate.scope, ())
        if callee(call) == "zero_grad" and statement in flow.begins
        if receiver(call) == optimizer or (alone and knowledge.is_model(*at, called_on(call)))
    }


def in_order(sites: Iterable[Site]) -> tuple[Site, ...]:
    """Backwards in the order of their statements."""
    key = attrgetter("statement.lineno", "call.lineno", "backward.lineno")
    return tuple(sorted(sites, key=key))


def _climb(
    knowledge: Knowledge, source: Source, scope: ScopeNode, site: Site
) -> Iterator[tuple[Candidate, Site]]:
    """The innermost loops around a backward, in its own function or in those that lead to it."""
    waiting, seen = [(source, scope, site)], set[ScopeNode]()
    while waiting:
        source, scope, site = waiting.pop(0)
        around = source.loops_around(site.statement)
        if around:
            yield Candidate(knowledge, source, scope, around[0]), site
        # a backward further down is a library's: no loop around it is the script's own
        elif scope not in seen and len(site.chain) <= 6:
            seen.add(scope)
            waiting += from_callers(knowledge.program, source, scope, site)


def from_callers(
    program: Program, source: Source, scope: ScopeNode, site: Site
) -> Iterator[tuple[Source, ScopeNode, Site]]:
    """A backward as the calls of its function see it, each with its place."""
    if isinstance(scope, FUNCTIONS):
        function = Function(source, scope)
        passed = (function, *site.chain)
        for caller, call, holder in program.callers.get(scope, ()):
            if passed_over(program, caller, call, passed, site.backward_statement):
                continue
            seen = replace(site, statement=holder, call=call, chain=passed)
            yield program.source_of_scope[caller], caller, seen


def outwards(
    program: Program,
    source: Source,
    scope: ScopeNode,
    statement: ast.stmt,
    sites: Sequence[Site] = (),
) -> Iterator[tuple[Source, ScopeNode, ast.stmt]]:
    """A statement and those that lead to it: the calls of its function, and the calls of theirs.

    Args:
        sites: backwards below the statement: without the calls that come to none of them.
    """
    waiting, seen = [(source, scope, statement, tuple[Function, ...]())], set[ScopeNode]()
    while waiting:  # each function once: call graphs have circles, and diamonds without end
        source, scope, statement, inner = waiting.pop()
        yield source, scope, statement
        if isinstance(scope, FUNCTIONS) and scope not in seen:
            seen.add(scope)
            chain = (Function(source, scope), *inner)
            waiting += [
                (program.source_of_scope[caller], caller, held, chain)
                for caller, call, held in reversed(program.callers_of(scope))
                if not leaves_out_all(program, caller, call, chain, sites)
            ]


def leaves_out_all(
    program: Program,
    caller: ScopeNode,
    call: ast.Call,
    chain: Sequence[Function],
    sites: Sequence[Site],
) -> bool:
    """Whether what a call writes out leaves out all of these backwards.

    Args:
        chain: the called function, and those on the way to the scope of the backwards' loop.
    """
    return bool(sites) and all(
        passed_over(program, caller, call, (*chain, *site.chain), site.backward_statement)
        for site in sites
    )


def find_updates(
    candidate: Candidate, runs: Callable[[Update], bool] = lambda _: True
) -> list[Update]:
    """Updates inside the loop; else around or behind it, and likewise in its callers."""
    at = candidate.source, candidate.scope
    outside = _outside(candidate.program, *at, candidate.loop)
    bodies = chain([(*at, candidate.loop.body)], outside)
    found = ([*filter(runs, _updates_below(candidate.knowledge, *body))] for body in bodies)
    return next(filter(None, found), [])


def _outside(
    program: Program, source: Source, scope: ScopeNode, statement: ast.stmt
) -> Iterator[tuple[Source, ScopeNode, list[ast.stmt]]]:
    """The loops around a statement and what may run behind it, and those of the calls to it."""
    for where, inside, at in outwards(program, source, scope, statement):
        for outer in where.loops_around(at):
            yield where, inside, outer.body
        yield where, inside, flow_of(inside).later(at)


def _updates_below(
    knowledge: Knowledge, source: Source, scope: ScopeNode, body: list[ast.stmt]
) -> Iterator[Update]:
    program = knowledge.program
    inside = {s for top in body for s in (top, *own_nodes(top))}
    for call, statement in program.calls.get(scope, ()):
        if statement not in inside:
            continue
        functions = program.resolve(source, scope, call)
        if knowledge.is_step(source, scope, call):
            helper = next(iter(functions), None)
            helper = helper if helper is not None and knowledge.stepped(helper) else None
            name = knowledge.stepped_by(source, scope, call)[0]
            yield Update(source, scope, statement, call, name, helper)
            continue
        for function in functions:
            for name in knowledge.stepped_in(scope, call, function):
                yield Update(source, scope, statement, call, name, function)
    for top in filter(updates_by_hand, body):
        yield Update(source, scope, top, None, "parameters")


#: Stands for the optimizer of a loop that was asked for although no step of one is seen in it.
UNKNOWN = "unknown"


def end_of_iteration(candidate: Candidate) -> Update:
    """An update behind the last statement of a loop's body."""
    return Update(candidate.source, candidate.scope, candidate.loop.body[-1], None, UNKNOWN)
