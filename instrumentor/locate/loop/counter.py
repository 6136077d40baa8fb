"""The script's own count of steps, and where it is incremented."""

from __future__ import annotations

import ast

from msgspec import Struct

from instrumentor.locate.loop.loops import Candidate, Site
from instrumentor.locate.meaning import spelling
from instrumentor.read.control_flow import END, NEXT, START, Flow
from instrumentor.read.syntax import (
    FunctionNode,
    LoopNode,
    Source,
    callee,
    contains,
    dotted,
    own_calls,
    own_nodes,
)


class Counter(Struct, frozen=True):
    name: str
    line: int
    position: str
    statement: ast.stmt | None


def find_counter(candidate: Candidate, site: Site, forward: ast.stmt) -> Counter | None:
    """The script's own count of steps: incremented in the loop or around it, or enumerated."""
    loop = candidate.loop
    for name, statement in counters(loop):
        position = _position(candidate.flow, site.statement, forward, statement)
        if position:
            return Counter(name, statement.lineno, position, statement)
    for outer in candidate.source.loops_around(loop):
        for name, statement in counters(outer):
            if statement in outer.body:
                return Counter(name, statement.lineno, "outer", statement)
    target = header_count(loop)
    return Counter(target, loop.lineno, "enumerate", None) if target else None


def _position(flow: Flow, site: ast.stmt, forward: ast.stmt, counter: ast.stmt) -> str:
    """Where a count stands: before or after the backward, behind a `continue`, in a branch.

    Empty between forward and backward: that is a sum for the loss or the log, no count of steps.
    """
    at = flow.before(counter)
    if flow.path(at, flow.before(site)):
        if flow.path(flow.before(forward), at):
            return ""
        return "branch" if flow.path(START, flow.before(site), {at}) else "before"
    if flow.path(flow.after(site), END, {at}):
        return "branch"
    return "after_continue" if flow.path(flow.after(site), NEXT, {at}) else "after"


def counters(loop: LoopNode | FunctionNode) -> list[tuple[str, ast.stmt]]:
    """Names that a loop counts up and never sets back, with the statement; the likeliest first.

    What is set back in the loop counts micro-steps.
    """
    statements = [n for top in loop.body for n in (top, *own_nodes(top)) if isinstance(n, ast.stmt)]
    set_back = {
        dotted(node)
        for s in statements
        if isinstance(s, ast.Assign) and not increments(s)
        for target in s.targets
        for node in ast.walk(target)
        if isinstance(node, (ast.Name, ast.Attribute))
    }
    found = [(increments(s), s) for s in statements if increments(s)]
    found = [f for f in found if f[0] not in set_back and not spelling.OTHER_COUNT.fits(f[0])]
    return sorted(found, key=lambda f: (not spelling.COUNT.fits(f[0]), f[1].lineno))


def runs_once(loop: LoopNode | FunctionNode, source: Source, statement: ast.stmt) -> bool:
    """Whether only one iteration comes to a statement: `if epoch == first and i == 0:`."""
    name = header_count(loop)
    tests = [
        around.test
        for around in source.parents(statement)
        if isinstance(around, ast.If) and contains(loop, around)
        if any(contains(inner, statement) for inner in around.body)
    ]
    return bool(name) and any(_is_one(test, name) for test in tests)


def _is_one(test: ast.expr, name: str) -> bool:
    """`i == 0`, maybe with other conditions."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_is_one(value, name) for value in values)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            sides = (left, right)
            return name in map(dotted, sides) and any(isinstance(s, ast.Constant) for s in sides)
    return False


def header_count(loop: LoopNode | FunctionNode) -> str:
    """`step` of `for step, batch in enumerate(...)` and of `for step in range(...)`."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return ""  # the `range` of `[draw() for _ in range(5)]` counts nothing here
    made = {callee(call) for call in own_calls(loop.iter)}
    if "enumerate" in made and isinstance(loop.target, ast.Tuple) and loop.target.elts:
        return dotted(loop.target.elts[0])
    name = dotted(loop.target)
    return name if name != "_" and made & {"range", "count", "trange"} else ""


def increments(statement: ast.stmt) -> str:
    """The name that a statement counts up by one, or ''."""
    match statement:
        case ast.AugAssign(target=target, op=ast.Add(), value=ast.Constant(value=1)):
            return dotted(target)
        case ast.Assign(
            targets=[target],
            value=ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1)),
        ) if dotted(left) == dotted(target):
            return dotted(target)
    return ""
