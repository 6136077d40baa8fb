"""The script's own count of steps, and where it is incremented."""

from __future__ import annotations

import ast

from msgspec import Struct

from instrumentor.locate.catalogue import SPELLED_COUNT, SPELLED_OTHER_COUNT
from instrumentor.locate.loops import Candidate, Site
from instrumentor.locate.syntax import LoopNode, callee, dotted, own_nodes
from instrumentor.locate.tree import between, contains


class Counter(Struct, frozen=True):
    name: str
    line: int
    position: str
    statement: ast.stmt | None


def find_counter(candidate: Candidate, site: Site, forward: ast.stmt) -> Counter | None:
    """The script's own count of steps: incremented in the loop or around it, or enumerated."""
    inside = [c for c in counters(candidate.loop) if not _amid(forward, c[1], site.statement)]
    if inside:
        name, statement = inside[0]
        position = _position(candidate, site, forward, statement)
        return Counter(name, statement.lineno, position, statement)
    for outer in candidate.source.loops_around(candidate.loop):
        for name, statement in counters(outer):
            if statement in outer.body:
                return Counter(name, statement.lineno, "outer", statement)
    loop = candidate.loop
    target = header_count(loop)
    return Counter(target, loop.lineno, "enumerate", None) if target else None


def _amid(forward: ast.stmt, statement: ast.stmt, backward: ast.stmt) -> bool:
    """Between forward and backward: a sum for the loss or for the log, no count of steps."""
    return forward.lineno < statement.lineno < backward.lineno


def counters(loop: LoopNode) -> list[tuple[str, ast.stmt]]:
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
    found = [f for f in found if f[0] not in set_back and not SPELLED_OTHER_COUNT.search(f[0])]
    return sorted(found, key=lambda f: (not SPELLED_COUNT.search(f[0]), f[1].lineno))


def header_count(loop: LoopNode) -> str:
    """`step` of `for step, batch in enumerate(...)` and of `for step in range(...)`."""
    return (enumerated(loop) or counted(loop)) if isinstance(loop, ast.For) else ""


def increments(statement: ast.stmt) -> str:
    """The name that a statement counts up by one, or ''."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        if isinstance(statement.value, ast.Constant) and statement.value.value == 1:
            return dotted(statement.target)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        value = statement.value
        target = dotted(statement.targets[0])
        if (
            isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Add)
            and dotted(value.left) == target
            and isinstance(value.right, ast.Constant)
            and value.right.value == 1
        ):
            return target
    return ""


def enumerated(loop: ast.For) -> str:
    iterator: ast.expr = loop.iter
    for call in (iterator, *own_nodes(iterator)):
        if isinstance(call, ast.Call) and callee(call) == "enumerate":
            if isinstance(loop.target, ast.Tuple) and loop.target.elts:
                return dotted(loop.target.elts[0])
    return ""


def counted(loop: ast.For) -> str:
    """`for step in range(...)` and `itertools.count(...)`."""
    name = dotted(loop.target)
    for call in (loop.iter, *own_nodes(loop.iter)):
        if isinstance(call, ast.Call) and callee(call) in ("range", "count", "trange"):
            return "" if name == "_" else name
    return ""


def _position(candidate: Candidate, site: Site, forward: ast.stmt, node: ast.stmt) -> str:
    source = candidate.source
    for parent in source.parents(node):
        if parent is candidate.loop:
            break
        if isinstance(parent, ast.If) and not contains(parent, site.statement):
            return "branch"
    if (node.lineno, node.col_offset) < (site.statement.lineno, site.statement.col_offset):
        return "before"
    for statement in between(source, candidate.loop, site.statement, node):
        if isinstance(statement, ast.If) and any(
            isinstance(n, ast.Continue) for n in own_nodes(statement)
        ):
            return "after_continue"
    return "after"
