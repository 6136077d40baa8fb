"""Names that statements read and bind, and the slice of an iteration that leads to the loss."""

from __future__ import annotations

import ast

from instrumentor.read.syntax import below, bound_by, dotted, own_nodes, root_name
from instrumentor.read.vocabulary import is_logging


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
    return {name for child in (node, *own_nodes(node)) for name in bound_by(child)}


_MODULES = frozenset(
    (
        *("torch", "F", "nn", "xm", "xr", "torch_xla", "np", "numpy", "time", "os", "sys"),
        *("math", "random", "logging", "wandb", "plt", "gc", "self", "cls"),
    )
)


def effects(node: ast.AST) -> set[str]:
    """Names bound below a node and objects changed there: stores, and methods called for effect.

    Attributes of `self` stand as `self.x`; modules, and objects that only log, are left out.
    """
    found = binds(node)
    for child in (node, *own_nodes(node)):
        target: ast.expr | None = None
        if isinstance(child, (ast.Attribute, ast.Subscript)) and isinstance(
            child.ctx, (ast.Store, ast.Del)
        ):
            target = child if isinstance(child, ast.Attribute) else child.value
        elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            function = child.value.func
            if isinstance(function, ast.Attribute) and not is_logging(child.value):
                target = function.value
        if target is None:
            continue
        if dotted(target).startswith("self."):
            found.add(".".join(dotted(target).split(".")[:2]).split("(")[0].split("[")[0])
        elif root_name(target) not in _MODULES:
            found.add(root_name(target))
    found.discard("")
    return found


def uses(node: ast.AST) -> set[str]:
    """Names read below a node, attributes of `self` as `self.x`."""
    found = reads(node) - {"self", "cls"}
    for child in below(node):
        if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
            if child.value.id == "self":
                found.add(f"self.{child.attr}")
    return found
