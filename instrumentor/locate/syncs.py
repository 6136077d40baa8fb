"""What ends a region: the script's own sync between backward and optimizer, or an inserted one."""

from __future__ import annotations

import ast
from itertools import product, zip_longest

from msgspec import Struct

from instrumentor.locate.accumulation import counting_tests
from instrumentor.locate.control import LEFT, OVER, Flow, flow_of
from instrumentor.locate.forward import call_of
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update, stepping
from instrumentor.locate.program import Function
from instrumentor.locate.syntax import FunctionNode, LoopNode, ScopeNode, Source, dotted


class Sync(Struct, frozen=True):
    """What ends the region: the script's own sync (keep), or one that is inserted (insert)."""

    action: str
    source: Source
    statement: ast.stmt | None
    api: str


def find_sync(knowledge: Knowledge, candidate: Candidate, site: Site) -> Sync:
    """The first sync between the backward and the optimizer, in helpers first, then the loop."""
    at: ast.stmt = site.backward_statement
    for caller, function in zip_longest(site.chain[-2::-1], reversed(site.chain)):
        source, node = function.source, function.node
        found = _sync_after(knowledge, source, node, node, at)
        if found is not None:
            return kept(knowledge, source, found)
        flow = flow_of(node)
        steps = {flow.before(s) for s in stepping(knowledge, source, node, node)}
        if flow.path(flow.after(at), steps):
            return Sync("insert", candidate.source, None, "")
        call = None if caller is None else call_of(knowledge, caller, function)
        if caller is not None and call is None:
            break
        at = call[1] if call is not None else at
    source, scope = candidate.source, candidate.scope
    found = _sync_after(knowledge, source, scope, candidate.loop, site.statement)
    return Sync("insert", source, None, "") if found is None else kept(knowledge, source, found)


def _sync_after(
    knowledge: Knowledge,
    source: Source,
    scope: ScopeNode,
    top: LoopNode | FunctionNode,
    at: ast.stmt,
) -> ast.stmt | None:
    """The sync that follows a statement on every path, ahead of any optimizer step."""
    flow = flow_of(top)
    start = flow.after(at)
    steps = [flow.before(s) for s in stepping(knowledge, source, scope, top)]
    for sync in syncs_in(knowledge, source, flow):
        here = flow.before(sync)
        if flow.path(start, here) and not flow.path(start, (*OVER, LEFT, *steps), {here}):
            return sync
    return None


def syncs_in(knowledge: Knowledge, source: Source, flow: Flow) -> list[ast.stmt]:
    """Syncs in the order of the source, each with the `if`s that guard it alone."""
    found = [s for s in flow.statements if knowledge.sync_of(source, s) is not None]
    return [s for s in found if not any(p in found for p in source.parents(s))]


def fused(knowledge: Knowledge, candidate: Candidate, site: Site) -> tuple[ast.stmt, Update] | None:
    """A sync and an update that exclude each other, each the first to follow the backward.

    `if acc != N: sync ... else: <optimizer step>`: the last micro-batch is left pending.
    """
    flow, start = candidate.flow, candidate.flow.after(site.statement)
    syncs = syncs_in(knowledge, candidate.source, flow)
    updates = [u.statement for u in candidate.own_updates]

    def comes_first(statement: ast.stmt) -> bool:
        others = {flow.before(s) for s in (*syncs, *updates) if s is not statement}
        return flow.path(start, flow.before(statement), others)

    for sync, update in product(filter(comes_first, syncs), candidate.own_updates):
        if not flow.exclusive(sync, update.statement) or not comes_first(update.statement):
            continue
        if not any(flow.reaches(sync, u) for u in updates):
            return sync, update
    return None


def syncs_every_n(
    knowledge: Knowledge, candidate: Candidate, site: Site
) -> tuple[ast.stmt, Update] | None:
    """A sync that follows the backward only in the iterations that come to an update."""
    flow, start = candidate.flow, candidate.flow.after(site.statement)
    syncs = syncs_in(knowledge, candidate.source, flow)
    behind = [s for s in syncs if flow.path(start, flow.before(s))]
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


def kept(knowledge: Knowledge, source: Source, statement: ast.stmt) -> Sync:
    call = knowledge.sync_of(source, statement)
    return Sync("keep", source, statement, dotted(call.func) if call is not None else "")


def with_sync(knowledge: Knowledge, source: Source, statement: ast.stmt) -> ast.stmt:
    """The statement, or the sync that directly follows it."""
    place = source.places[statement]
    for following in place.suite[place.index + 1 :]:
        if knowledge.sync_of(source, following) is not None:
            return following
        break
    return statement


def syncs_itself(knowledge: Knowledge, helper: Function | None) -> bool:
    """Whether a function that steps the optimizer syncs behind the step, guarded or not."""
    if helper is None:
        return False
    flow, source = flow_of(helper.node), helper.source
    steps = stepping(knowledge, source, helper.node, helper.node)
    syncs = syncs_in(knowledge, source, flow)
    return any(flow.reaches(step, sync) for step in steps for sync in syncs)
