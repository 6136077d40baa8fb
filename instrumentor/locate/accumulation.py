"""How an optimizer step covers several backwards: branch, continue, context, nested, none."""

from __future__ import annotations

import ast
import re

from instrumentor.locate.control import NEXT, START, flow_of
from instrumentor.locate.counter import increments
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update, stepping
from instrumentor.locate.program import Function
from instrumentor.locate.syntax import callee, dotted, last, own_nodes


def counting_tests(candidate: Candidate, first: ast.stmt, update: Update) -> list[ast.If]:
    """The tests behind a statement that let only every N-th iteration come to the update."""
    flow = candidate.flow
    if update not in candidate.own_updates or update.statement not in flow.begins:
        return []
    counted = _counted_names(candidate.loop.body)
    tests = flow.deciders(flow.after(first), flow.before(update.statement))
    return [test for test in tests if _is_count_test(test.test, counted)]


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
    flow = candidate.flow
    if any(map(accumulating, candidate.source.parents(site.statement))):
        return "context"
    if not candidate.updates:
        return "none"
    update = candidate.updates[0]
    if update.statement not in flow.begins:
        return "nested"
    if flow.exclusive(site.statement, update.statement):
        return "branch"
    for test in counting_tests(candidate, site.statement, update):
        if "sync_gradients" in ast.unparse(test.test):
            return "context"
        skips = flow.path(flow.before(test), NEXT, {flow.before(update.statement)})
        return "continue" if skips else "branch"
    helper = update.helper
    if helper is None and site.chain and update.statement is site.statement:
        helper = site.chain[-1]
    return "branch" if helper is not None and _counts_in(knowledge, helper) else "none"


def accumulating(statement: ast.stmt) -> ast.Call | None:
    """The call of `with accelerator.accumulate(model):`."""
    calls = [i.context_expr for i in statement.items] if isinstance(statement, ast.With) else []
    named = (c for c in calls if isinstance(c, ast.Call) and callee(c) == "accumulate")
    return next(named, None)


def _counts_in(knowledge: Knowledge, helper: Function) -> bool:
    """Whether a helper steps its optimizer in every N-th call only."""
    flow, counted = flow_of(helper.node), _counted_names(helper.node.body)
    return any(
        _is_count_test(test.test, counted)
        for step in stepping(knowledge, helper.source, helper.node, helper.node)
        for test in flow.deciders(START, flow.before(step))
    )
