"""How an optimizer step covers several backwards: branch, continue, context, nested, none."""

from __future__ import annotations

import ast
import re

from instrumentor.locate.counter import increments
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update
from instrumentor.locate.program import Function
from instrumentor.locate.syntax import Source, dotted, last, own_nodes
from instrumentor.locate.tree import between, callee_of, contains, exclusive


def accumulation_guard(
    source: Source, candidate: Candidate, site: Site, update: Update
) -> ast.If | None:
    """The `if` that lets only every N-th iteration reach the update, or None."""
    if update.source is not source or update.scope is not candidate.scope:
        return None
    found: ast.If | None = None
    for parent in source.parents(update.statement):
        if parent is candidate.loop:
            break
        if isinstance(parent, ast.If) and not contains(parent, site.statement):
            if _is_count_test(parent.test, _counted_names(candidate.loop.body)):
                found = parent
    return found


_ACCUMULATION_TEST = re.compile(
    r"accum|micro|sync_gradients|n_acc|acc_|grad_acc|every|step|iter|batch|idx|(^|\b)i\b|update",
    re.I,
)


def _counted_names(body: list[ast.stmt]) -> frozenset[str]:
    """Names that a loop's body counts up by one, or enumerates."""
    found = {
        increments(node)
        for top in body
        for node in (top, *own_nodes(top))
        if isinstance(node, ast.stmt)
    }
    return frozenset(found - {""})


def _is_count_test(test: ast.expr, counted: frozenset[str] = frozenset()) -> bool:
    """A test that counts: modulo, a comparison of counters, `sync_gradients`, `is_update`."""
    for node in (test, *own_nodes(test)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return True
        if isinstance(node, ast.Compare) and not all(
            isinstance(o, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for o in node.ops
        ):
            compared = {dotted(n) for n in (node.left, *node.comparators)}
            if compared & counted or _ACCUMULATION_TEST.search(ast.unparse(node)):
                return True
        if isinstance(node, (ast.Name, ast.Attribute)) and re.search(
            r"sync_gradients|accum|should_(step|update|sync)|do_(step|update)|need_update|is_update|"
            r"is_last_micro|last_micro|update_(now|step|grad)|gradient_accumulation_boundary",
            last(dotted(node)),
            re.I,
        ):
            return True
    return False


def accumulation_of(knowledge: Knowledge, candidate: Candidate, site: Site) -> str:
    """none, branch, continue, context or nested: how an update covers several backwards."""
    source = candidate.source
    for parent in source.parents(site.statement):
        if parent is candidate.loop:
            break
        if isinstance(parent, ast.With):
            for item in parent.items:
                if callee_of(item.context_expr) in ("accumulate",):
                    return "context"
    if not candidate.updates:
        return "none"
    update = candidate.updates[0]
    if not contains(candidate.loop, update.statement):
        return "nested"
    if update.source is source and exclusive(source, site.statement, update.statement):
        return "branch"
    guard = accumulation_guard(source, candidate, site, update)
    if guard is not None:
        return "context" if "sync_gradients" in ast.unparse(guard.test) else "branch"
    for statement in between(source, candidate.loop, site.statement, update.statement):
        if isinstance(statement, ast.If) and any(
            isinstance(s, ast.Continue) for s in statement.body
        ):
            if _is_count_test(statement.test, _counted_names(candidate.loop.body)):
                return "continue"
    if update.helper is not None or (site.chain and update.statement is site.statement):
        helper = update.helper or site.chain[-1]
        if _guarded_in(knowledge, helper):
            return "branch"
    return "none"


def _guarded_in(knowledge: Knowledge, helper: Function) -> bool:
    for call, statement in knowledge.program.calls.get(helper.node, ()):
        if any(c is call for c in knowledge.steps_in(helper.source, helper.node, statement)):
            for parent in helper.source.parents(statement):
                names = _counted_names(helper.node.body)
                if isinstance(parent, ast.If) and _is_count_test(parent.test, names):
                    return True
    return False
