"""Which iterations run a backward, as far as the script can tell ahead of the forward.

One loop may serve training and evaluation: `if phase == "train": loss.backward()` behind a forward
that both share. Where the test says ahead of the region what it will say inside, the clock starts
only in the iterations that train. Elsewhere a sample that was begun is dropped at the next begin.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from instrumentor.locate.control import OVER, Flow
from instrumentor.locate.dataflow import effects, uses
from instrumentor.locate.syntax import below, dotted

_PLAIN = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp),
    *(ast.expr_context, ast.cmpop, ast.boolop, ast.Not),
)


def condition(flow: Flow, begin: ast.stmt, backwards: Collection[ast.stmt]) -> str:
    """What is true ahead of a region in the iterations that come to a backward; empty for all."""
    goals = [flow.after(backward) for backward in backwards]
    tests = [t for t in skipping(flow, begin, backwards) if is_tellable(flow, begin, t)]
    answers = [t.test if flow.ways(t, goals)[0] else _negated(t.test) for t in tests]
    if not answers:
        return ""
    return ast.unparse(answers[0] if len(answers) == 1 else ast.BoolOp(ast.And(), answers))


def skipping(flow: Flow, begin: ast.stmt, backwards: Collection[ast.stmt]) -> list[ast.If]:
    """Tests on every path to the backwards by which an iteration may go on without any."""
    start, goals = flow.before(begin), [flow.after(backward) for backward in backwards]
    found = []
    for test in flow.deciders(start, *goals):
        at = flow.before(test)
        ways = zip(flow.following[at], flow.ways(test, goals), strict=True)
        goes_on = any(not comes and (way in OVER or flow.path(way, OVER)) for way, comes in ways)
        if goes_on and not flow.path(start, goals, {at}):
            found.append(test)
    return found


def is_tellable(flow: Flow, begin: ast.stmt, test: ast.If) -> bool:
    """Whether a test comes to the same ahead of a region: nothing in between changes its names."""
    ran = [begin, *flow.between(begin, test)] if begin is not test else []
    changed = set[str]().union(*map(effects, ran))
    plain = all(isinstance(node, _PLAIN) for node in below(test.test))
    return plain and not uses(test.test) & changed


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


_PHASE = re.compile(
    r"(^|\.|_)(phase|split|mode|is_train|is_training|training|train|do_train|train_mode)$", re.I
)


def tells_a_phase(test: ast.expr) -> bool:
    """Whether a test is spelled like one for training: `phase == "train"`, `optimizer is None`."""
    names = {dotted(node) for node in below(test) if isinstance(node, (ast.Name, ast.Attribute))}
    words = {node.value for node in below(test) if isinstance(node, ast.Constant)}
    optional = None in words and any("optim" in name.lower() for name in names)
    spelled = bool(words & {"train", "training", "Train"}) or any(map(_PHASE.search, names))
    return optional or spelled
