"""Names that statements read and bind."""

from __future__ import annotations

import ast

from instrumentor.read.syntax import BINDERS, below, bound_by, own_nodes


def reads(node: ast.AST) -> set[str]:
    """Names read below a node; nested functions count with all that they read."""
    found: set[str] = set()
    for child in below(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
            found.add(child.id)
        elif isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name):
            found.add(child.target.id)
    return found


def binds(node: ast.AST) -> set[str]:
    """Names certainly or possibly rebound below a node in its own scope."""
    binders = [child for child in (node, *own_nodes(node)) if type(child) in BINDERS]
    return {name for child in binders for name in bound_by(child)}
