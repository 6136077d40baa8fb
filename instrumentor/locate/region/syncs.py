"""What ends a region: the script's own sync between backward and optimizer, or an inserted one."""

from __future__ import annotations

import ast
from itertools import product, zip_longest

from msgspec import Struct

from instrumentor.locate.gradients.forward import call_of
from instrumentor.locate.loop.loops import Body, Candidate, Site, Update
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.region.accumulation import counting_tests
from instrumentor.read.control_flow import LEFT, OVER
from instrumentor.read.program import Function
from instrumentor.read.syntax import Source, dotted


class Sync(Struct, frozen=True):
    """What cuts a region's work off: the script's own sync, or with no statement an inserted one.

    Attributes:
        api: the call as spelled.
        line: the one of the call, inside its guard.
    """

    source: Source
    statement: ast.stmt | None = None
    api: str = ""
    line: int = 0

    @property
    def action(self) -> str:
        """`keep` or `insert`."""
        return "insert" if self.statement is None else "keep"


def own_sync(knowledge: Knowledge, source: Source, statement: ast.stmt | None) -> Sync:
    """The sync that a statement is; one to insert where it is none."""
    call = None if statement is None else knowledge.sync_of(source, statement)
    if call is None:
        return Sync(source)
    return Sync(source, statement, dotted(call.func), call.lineno)


def find_sync(candidate: Candidate, site: Site) -> Sync:
    """The first sync between the backward and the optimizer, in helpers first, then the loop."""
    knowledge, at = candidate.knowledge, site.backward_statement
    # from the innermost helper outwards: the first sync that is met ends the graph
    for caller, function in zip_longest(site.chain[-2::-1], reversed(site.chain)):
        body = Body.of(knowledge, function)
        found = _sync_after(body, at)
        if found is not None:
            return own_sync(knowledge, function.source, found)
        # behind the step a sync would put the optimizer into the sample
        if body.flow.path(body.flow.after(at), map(body.flow.before, body.steps)):
            return Sync(candidate.source)
        if caller is not None:
            call = call_of(knowledge, caller, function)
            if call is None:
                break
            at = call[1]
    found = _sync_after(candidate, site.statement)
    return own_sync(knowledge, candidate.source, found)


def _sync_after(body: Body, at: ast.stmt) -> ast.stmt | None:
    """The sync that follows a statement on every path, ahead of any optimizer step."""
    flow, start = body.flow, body.flow.after(at)
    ends = [*OVER, LEFT, *map(flow.before, body.steps)]
    for sync in body.syncs:
        here = flow.before(sync)
        if flow.path(start, here) and not flow.path(start, ends, {here}):
            return sync
    return None


def fused(candidate: Candidate, site: Site) -> tuple[ast.stmt, Update] | None:
    """A sync and an update that exclude each other, each the first to follow the backward.

    `if acc != N: sync ... else: <optimizer step>`: the last micro-batch is left pending.
    """
    flow, start = candidate.flow, candidate.flow.after(site.statement)
    updates = [u.statement for u in candidate.own_updates]

    def comes_first(statement: ast.stmt) -> bool:
        others = {flow.before(s) for s in (*candidate.syncs, *updates) if s is not statement}
        return flow.path(start, flow.before(statement), others)

    for sync, update in product(filter(comes_first, candidate.syncs), candidate.own_updates):
        if not flow.exclusive(sync, update.statement) or not comes_first(update.statement):
            continue
        if not any(flow.reaches(sync, u) for u in updates):
            return sync, update
    return None


def syncs_every_n(candidate: Candidate, site: Site) -> tuple[ast.stmt, Update] | None:
    """A sync that follows the backward only in the iterations that come to an update."""
    flow, start = candidate.flow, candidate.flow.after(site.statement)
    behind = [s for s in candidate.syncs if flow.path(start, flow.before(s))]
    for update in candidate.own_updates:
        step = {flow.before(update.statement)}
        without = [
            s
            for s in behind
            if flow.path(start, flow.before(s), step) and flow.path(flow.after(s), OVER, step)
        ]
        if behind and not without and counting_tests(candidate, site.statement, update):
            return behind[0], update
    return None


def with_sync(knowledge: Knowledge, source: Source, statement: ast.stmt) -> ast.stmt:
    """The statement, or the sync that directly follows it."""
    place = source.places[statement]
    for following in place.suite[place.index + 1 : place.index + 2]:
        if knowledge.sync_of(source, following) is not None:
            return following
    return statement


def syncs_itself(knowledge: Knowledge, helper: Function | None) -> bool:
    """Whether a function that steps the optimizer syncs behind the step, guarded or not."""
    if helper is None:
        return False
    body = Body.of(knowledge, helper)
    return any(body.flow.reaches(step, sync) for step in body.steps for sync in body.syncs)
