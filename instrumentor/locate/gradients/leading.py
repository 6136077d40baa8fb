"""Statements that a backward's loss, or a helper's arguments, come from: by names, upwards."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

from instrumentor.locate.loop.loops import Candidate, Site
from instrumentor.locate.meaning import methods
from instrumentor.locate.meaning.changed_names import effects, uses
from instrumentor.read.names_used import binds
from instrumentor.read.syntax import LOOPS, callee, own_nodes, path_to, root_name, suites


def leading_to(
    candidate: Candidate,
    site: Site,
    changes: Callable[[ast.stmt], set[str]] = effects,
    read: Collection[str] = (),
) -> set[ast.stmt]:
    """Statements of the iteration that a backward's loss, or a helper's arguments, come from.

    Of a block on the way to it all counts that may change them; of what stands in the blocks
    ahead of it only what computes them.

    Args:
        changes: names that a statement binds or changes.
        read: names that the helper reads beside its arguments.
    """
    live = uses(site.call if site.chain else site.loss).union(read)
    needed, found = set(live), set[ast.stmt]()
    for suite, index in reversed(path_to(candidate.source, candidate.loop, site.statement)):
        for target, value in _bound_by_header(suite[index]):
            if binds(target) & live:
                live |= uses(value)
                needed |= uses(value)
        for statement in reversed(suite[:index]):
            needed = _ahead(statement, needed, found)
            if changes(statement) & live:
                found.add(statement)
                live |= uses(statement)
    return found


def _ahead(
    statement: ast.stmt,
    needed: set[str],
    found: set[ast.stmt],
    heads: dict[ast.stmt, set[str]] | None = None,
) -> set[str]:
    """The names that are needed ahead of a statement, for those that are needed behind it.

    Args:
        heads: of the loops around it and of those that a pass of these has come to, what an
            iteration needs; None outside of all loops. So many passes are as many as for one loop.
    """
    if not _gives(statement) & needed:
        return needed
    blocks = [*suites(statement)]
    if not blocks:
        return needed - _rebinds(statement) | uses(statement)
    ahead = needed.union(*(uses(part) for part in _header(statement)))
    passes = 1
    if isinstance(statement, LOOPS):
        passes, heads = (2, {}) if heads is None else (1, heads)
        ahead |= heads.get(statement, set())
    for _ in range(passes):
        behind = ahead | needed  # what one pass of a loop leaves, the next one needs
        for block in blocks:
            inside = behind
            for inner in reversed(block):
                if _gives(inner) & inside:
                    found.add(inner)
                inside = _ahead(inner, inside, found, heads)
            ahead |= inside
    if isinstance(statement, LOOPS) and heads is not None:
        heads[statement] = ahead
    return ahead


def _gives(statement: ast.stmt) -> set[str]:
    """Names that a statement computes: bound, stored into, or filled with elements."""
    found = binds(statement)
    for node in (statement, *own_nodes(statement)):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            found |= {root_name(node), *_attributes_of_self(node)}
        elif isinstance(node, ast.Call) and callee(node) in methods.FILLS:
            found |= {root_name(node.func), *_attributes_of_self(node.func)}
    return found - {"", "self", "cls"}


def _attributes_of_self(node: ast.AST) -> set[str]:
    return {name for name in uses(node) if name.startswith("self.")}


def _rebinds(statement: ast.stmt) -> set[str]:
    """Names that hold something else in any case behind a simple statement."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    parts = [p for t in targets for p in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _header(statement: ast.stmt) -> list[ast.AST]:
    """What a compound statement evaluates itself."""
    nested = (ast.stmt, ast.ExceptHandler, ast.match_case)
    return [n for n in ast.iter_child_nodes(statement) if not isinstance(n, nested)]


def _bound_by_header(around: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """`for loss in losses`, `with scale_loss(loss) as scaled`: what is bound, and from what."""
    if isinstance(around, (ast.For, ast.AsyncFor)):
        return [(around.target, around.iter)]
    if isinstance(around, (ast.With, ast.AsyncWith)):
        return [(i.optional_vars, i.context_expr) for i in around.items if i.optional_vars]
    return []
