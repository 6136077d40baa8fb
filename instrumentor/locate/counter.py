"""The script's own count of steps, and where it is incremented."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from instrumentor.locate.loops import Candidate, Site
from instrumentor.locate.syntax import callee, dotted, last, own_nodes
from instrumentor.locate.tree import between, contains


@dataclass(frozen=True)
class Counter:
    name: str
    line: int
    position: str
    statement: ast.stmt | None


def find_counter(candidate: Candidate, site: Site, forward: ast.stmt) -> Counter | None:
    """The script's own count of steps: incremented in the loop or around it, or enumerated."""
    source = candidate.source
    found: list[tuple[int, Counter]] = []
    for top in candidate.loop.body:
        for node in (top, *own_nodes(top)):
            if isinstance(node, ast.stmt) and increments(node):
                position = _position(candidate, site, forward, node)
                found.append(
                    (
                        rank_of(increments(node)),
                        Counter(increments(node), node.lineno, position, node),
                    )
                )
    named = [c for r, c in sorted(found, key=lambda f: (f[0], f[1].line)) if r <= 1]
    if named:
        return named[0]
    for outer in source.loops_around(candidate.loop):
        for statement in outer.body:
            name = increments(statement)
            if name and rank_of(name) == 0 and not contains(statement, candidate.loop):
                return Counter(name, statement.lineno, "outer", statement)
    loop = candidate.loop
    if isinstance(loop, ast.For):
        target = enumerated(loop) or counted(loop)
        if target:
            return Counter(target, loop.lineno, "enumerate", None)
    return None


_STEP_COUNTER = re.compile(
    r"global_?step|(^|_|\.)(step|steps|iter|iters|iteration|iterations|it|itr|update|updates)(_|$|\d)|"
    r"n_iter|iter_num|global_iter|num_updates|batch_(count|id|num)|completed_steps|step_count",
    re.I,
)


_NOT_STEP = re.compile(
    r"accum|micro|running|samples|token|grad_acc|correct|total_loss|epoch|max_|patience|since", re.I
)


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


def rank_of(name: str) -> int:
    word = last(name)
    if _NOT_STEP.search(word):
        return 2
    return 0 if _STEP_COUNTER.search(word) else 2


def enumerated(loop: ast.For) -> str:
    iterator: ast.expr = loop.iter
    for call in (iterator, *own_nodes(iterator)):
        if isinstance(call, ast.Call) and callee(call) == "enumerate":
            if isinstance(loop.target, ast.Tuple) and loop.target.elts:
                return dotted(loop.target.elts[0])
    return ""


def counted(loop: ast.For) -> str:
    """`for step in range(...)` and `itertools.count(...)`, when the name counts steps."""
    name = dotted(loop.target)
    for call in (loop.iter, *own_nodes(loop.iter)):
        if isinstance(call, ast.Call) and callee(call) in ("range", "count", "trange"):
            return name if rank_of(name) == 0 or "epoch" in name else ""
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
