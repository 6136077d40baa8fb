"""How an optimizer step covers several backwards: branch, continue, context, nested, none."""

from __future__ import annotations

import ast
import re

from instrumentor.locate.loop.counter import increments
from instrumentor.locate.loop.loops import Body, Candidate, Site, Update
from instrumentor.read.control_flow import NEXT, START
from instrumentor.read.syntax import callee, dotted, last, own_nodes

# as micro-steps are called in the scripts of a census; `isfinite(norm)` is no count
_COUNTED = re.compile(
    r"accum|micro|sync_gradients|n_acc|acc_|grad_acc|every|step|iter|batch|idx|(^|\b)i\b|update",
    re.I,
)
_ASKED = re.compile(
    r"sync_gradients|accum|should_(step|update|sync)|do_(step|update)|need_update|is_update|"
    r"is_last_micro|last_micro|update_(now|step|grad)|gradient_accumulation_boundary",
    re.I,
)
_NO_COUNTS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def counting_tests(candidate: Candidate, first: ast.stmt, update: Update) -> list[ast.If]:
    """The tests behind a statement that let only every N-th iteration come to the update."""
    flow = candidate.flow
    if update not in candidate.own_updates or update.statement not in flow.begins:
        return []
    counted = _counted_names(candidate.loop.body)
    tests = flow.deciders(flow.after(first), flow.before(update.statement))
    return [test for test in tests if _is_count_test(test.test, counted)]


def _counted_names(body: list[ast.stmt]) -> set[str]:
    """Names that statements count up by one."""
    nodes = (node for top in body for node in (top, *own_nodes(top)))
    return {increments(node) for node in nodes if isinstance(node, ast.stmt)} - {""}


def _is_count_test(test: ast.expr, counted: set[str]) -> bool:
    """A test that counts: modulo, a comparison of counters, `sync_gradients`, `is_update`."""
    for node in (test, *own_nodes(test)):
        match node:
            case ast.BinOp(op=ast.Mod()):
                return True
            case ast.Compare(left=left, ops=ops, comparators=others):
                if not all(isinstance(op, _NO_COUNTS) for op in ops):
                    compared = set(map(dotted, (left, *others)))
                    if compared & counted or _COUNTED.search(ast.unparse(node)):
                        return True
            case ast.Name() | ast.Attribute() if _ASKED.search(last(dotted(node))):
                return True
    return False


def accumulation_of(candidate: Candidate, site: Site) -> str:
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
    counts = helper is not None and _counts_in(Body.of(candidate.knowledge, helper))
    return "branch" if counts else "none"


def accumulating(statement: ast.stmt) -> ast.Call | None:
    """The call of `with accelerator.accumulate(model):`."""
    calls = [i.context_expr for i in statement.items] if isinstance(statement, ast.With) else []
    named = (c for c in calls if isinstance(c, ast.Call) and callee(c) == "accumulate")
    return next(named, None)


def _counts_in(body: Body) -> bool:
    """Whether a helper steps its optimizer in every N-th call only."""
    counted = _counted_names(body.loop.body)
    return any(
        _is_count_test(test.test, counted)
        for step in body.steps
        for test in body.flow.deciders(START, body.flow.before(step))
    )
