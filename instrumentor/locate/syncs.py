"""What ends a region: the script's own sync between backward and optimizer, or an inserted one."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec import Struct

from instrumentor.locate.accumulation import accumulation_guard
from instrumentor.locate.forward import call_of
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update
from instrumentor.locate.program import Function
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    ScopeNode,
    Source,
    dotted,
    own_calls,
    own_nodes,
    suites,
)
from instrumentor.locate.tree import contains, path_to


class Sync(Struct, frozen=True):
    """What ends the region: the script's own sync (keep), or one that is inserted (insert)."""

    action: str
    source: Source
    statement: ast.stmt | None
    api: str


def find_sync(knowledge: Knowledge, candidate: Candidate, site: Site) -> Sync:
    """The first sync between the backward and the optimizer, in helpers first, then the loop."""
    at: ast.stmt = site.backward_statement
    for function in reversed(site.chain):
        found, stepped = _sync_after(knowledge, function.source, function.node, function.node, at)
        if found is not None:
            return Sync("keep", function.source, found[0], found[1])
        if stepped:
            return Sync("insert", candidate.source, None, "")
        position = site.chain.index(function)
        if position > 0:
            step = call_of(knowledge, site.chain[position - 1], function)
            if step is None:
                break
            at = step[1]
    found, _ = _sync_after(
        knowledge, candidate.source, candidate.scope, candidate.loop, site.statement
    )
    if found is not None:
        return Sync("keep", candidate.source, found[0], found[1])
    return Sync("insert", candidate.source, None, "")


def _sync_after(
    knowledge: Knowledge, source: Source, scope: ScopeNode, top: ast.AST, at: ast.stmt
) -> tuple[tuple[ast.stmt, str] | None, bool]:
    """(the sync statement and its api, None) or (None, whether an optimizer step came first)."""
    for suite, index in reversed(path_to(source, top, at)):
        for statement in suite[index + 1 :]:
            call = knowledge.sync_of(source, statement)
            if call is not None:
                return (statement, dotted(call.func)), False
            if _steps(knowledge, source, scope, statement):
                return None, True
            if may_leave(statement):
                return None, False
    return None, False


def _steps(knowledge: Knowledge, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
    if any(True for _ in knowledge.steps_in(source, scope, statement)):
        return True
    return any(
        knowledge.stepped(t)
        for c in own_calls(statement)
        for t in knowledge.program.resolve(source, scope, c)
    )


def may_leave(statement: ast.stmt) -> bool:
    """`continue`, `break` or `return` of this iteration, at any depth but in inner loops."""
    if isinstance(statement, (ast.Continue, ast.Break, ast.Return)):
        return True
    if isinstance(statement, LOOPS):
        return any(isinstance(n, ast.Return) for n in own_nodes(statement))
    return any(
        may_leave(inner)
        for suite in suites(statement)
        for inner in suite
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef))
    )


def fused_branch(
    knowledge: Knowledge, candidate: Candidate, site: Site, updates: Sequence[Update]
) -> ast.If | None:
    """`if acc != N: sync ... else: <optimizer step>`: the last micro-batch is left pending."""
    source = candidate.source
    for suite, index in reversed(path_to(source, candidate.loop, site.statement)):
        for statement in suite[index + 1 :]:
            if knowledge.sync_of(source, statement) is not None:
                return None
            if isinstance(statement, ast.If) and statement.orelse:
                for syncing, other in (
                    (statement.body, statement.orelse),
                    (statement.orelse, statement.body),
                ):
                    has_sync = any(knowledge.sync_of(source, s) is not None for s in syncing)
                    stepped = any(contains(s, u.statement) for s in other for u in updates)
                    steps_too = any(contains(s, u.statement) for s in syncing for u in updates)
                    if has_sync and stepped and not steps_too:
                        return statement
            if any(contains(statement, u.statement) for u in updates):
                return None
    return None


def syncs_every_n(
    knowledge: Knowledge, candidate: Candidate, site: Site, updates: Sequence[Update]
) -> ast.stmt | None:
    """An accumulation branch that holds the optimizer step and the iteration's only sync."""
    source = candidate.source
    for update in updates:
        guard = accumulation_guard(source, candidate, site, update)
        if guard is None:
            continue
        inside = [
            s
            for s in own_nodes(guard)
            if isinstance(s, ast.stmt) and knowledge.sync_of(source, s) is not None
        ]
        if not inside:
            continue
        outside = [
            s
            for top in candidate.loop.body
            for s in (top, *own_nodes(top))
            if isinstance(s, ast.stmt)
            and isinstance(s, ast.Expr)
            and knowledge.sync_of(source, s) is not None
            and not contains(guard, s)
            and (s.lineno > site.statement.lineno)
        ]
        if not outside:
            return guard
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
    steps = [
        n.lineno
        for n in own_nodes(helper.node)
        if isinstance(n, ast.Call) and knowledge.is_step(helper.source, helper.node, n)
    ]
    return any(
        knowledge.sync_of(helper.source, s) is not None
        and getattr(s, "lineno", 0) > min(steps, default=0)
        for s in own_nodes(helper.node)
    )
