"""Names whose objects statements change for good, and attributes of `self` that they read."""

from __future__ import annotations

import ast

from instrumentor.locate.meaning.host_values import is_logging
from instrumentor.read.handed_on import RETURNS_SELF
from instrumentor.read.names_used import binds, reads
from instrumentor.read.syntax import below, callee, dotted, own_nodes, root_name

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
    return binds(node) | changed(node)


def changed(node: ast.AST, *, modes: bool = True) -> set[str]:
    """As `effects`, of objects alone; without modes `model.eval()` changes none."""
    found = set[str]()
    for child in (node, *own_nodes(node)):
        target: ast.expr | None = None
        if isinstance(child, (ast.Attribute, ast.Subscript)) and isinstance(
            child.ctx, (ast.Store, ast.Del)
        ):
            target = child if isinstance(child, ast.Attribute) else child.value
        elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
            function = child.value.func
            counts = modes or callee(child.value) not in RETURNS_SELF
            if isinstance(function, ast.Attribute) and counts and not is_logging(child.value):
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
