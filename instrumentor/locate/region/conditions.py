"""Which iterations run a backward, as far as the script can tell ahead of the forward.

One loop may serve training and evaluation: `if phase == "train": loss.backward()` behind a forward
that both share. Where the test says ahead of the region what it will say inside, the clock starts
only in the iterations that train. Elsewhere a sample that was begun is dropped at the next begin.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from itertools import takewhile

from instrumentor.locate.meaning.changed_names import effects, uses
from instrumentor.read.control_flow import OVER, Flow
from instrumentor.read.syntax import below, dotted

_PLAIN = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp),
    *(ast.expr_context, ast.cmpop, ast.boolop, ast.Not),
)


def condition(flow: Flow, begin: ast.stmt, backwards: Collection[ast.stmt]) -> str:
    """What is true ahead of a region in the iterations that come to a backward; empty for all."""
    answers = [
        part
        for test in skipping(flow, begin, backwards)
        for part in needed(flow, begin, test, backwards)[0]
    ]
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


def needed(
    flow: Flow, begin: ast.stmt, test: ast.If, backwards: Collection[ast.stmt]
) -> tuple[list[ast.expr], list[ast.expr]]:
    """What has to be true at a test for a backward to come: told ahead of a region, and the rest.

    Of `if training and loss.isfinite():` the first is told ahead of the forward. Behind something
    that is not, nothing is: `is_ready(batch) and batch.training` may not be asked by half.
    """
    parts = _parts(test.test, flow.ways(test, [flow.after(b) for b in backwards])[0])
    ahead = [*takewhile(lambda part: _is_tellable(flow, begin, test, part), parts)]
    return ahead, parts[len(ahead) :]


def _parts(test: ast.expr, answer: bool) -> list[ast.expr]:
    """What each has to be true for a test to come to an answer."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values) if answer:
            return values
        case ast.BoolOp(op=ast.Or(), values=values) if not answer:
            return [_negated(value) for value in values]
    return [test if answer else _negated(test)]


def _is_tellable(flow: Flow, begin: ast.stmt, test: ast.If, part: ast.expr) -> bool:
    """Whether part of a test comes to the same ahead of a region: nothing changes its names."""
    ran = [begin, *flow.between(begin, test)] if begin is not test else []
    changed = set[str]().union(*map(effects, ran))
    plain = all(isinstance(node, _PLAIN) for node in below(part))
    return plain and not uses(part) & changed


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


_PHASE = re.compile(
    r"(^|\.|_)(phase|split|mode|is_train|is_training|training|train|do_train|train_mode)$", re.I
)


def tells_a_phase(test: ast.expr) -> bool:
    """Whether a test is spelled like one for training: `phase == "train"`, `optimizer is None`."""
    nodes = below(test)
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    attributes = [n for n in nodes if isinstance(n, ast.Attribute) and n not in called]
    # `cfg.training` of `cfg.training.skip_bad_batches` is a group of settings; a phase is a whole
    # name, a member of an enumeration, or the text whose method is called: `phase.lower()`
    inner = {n.value for n in attributes if n.attr not in ("name", "value")}
    chains = [n for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) and n not in inner]
    names = set(map(dotted, chains))
    words = {node.value for node in nodes if isinstance(node, ast.Constant)}
    optional = None in words and any("optim" in name.lower() for name in names)
    spelled = bool(words & {"train", "training", "Train"}) or any(map(_PHASE.search, names))
    return optional or spelled
