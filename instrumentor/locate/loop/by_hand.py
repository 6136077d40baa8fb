"""Updates without an optimizer object: `for p in params: p.data -= lr * p.grad` and kin."""

from __future__ import annotations

import ast
import re

from instrumentor.read.syntax import callee, dotted, own_nodes

# without `mul_`: weight decay alone is no step
_IN_PLACE = ("add_", "sub_", "addcmul_", "addcdiv_", "copy_")
_SAME_TENSOR = re.compile(r"(\.data|\.detach\(\)|\.\[\]|\.[a-z]+_\(\))*")


def updates_by_hand(statement: ast.stmt) -> bool:
    """Whether a statement changes a tensor whose gradient it reads.

    `importance += p.grad ** 2` changes another one: it only keeps a sum.
    """
    nodes = (statement, *own_nodes(statement))
    if any(isinstance(n, ast.Call) and callee(n) == "backward" for n in nodes):
        return False
    with_gradient = (n for n in nodes if isinstance(n, ast.Attribute) and n.attr == "grad")
    parameters = {dotted(n.value) for n in with_gradient} - {""}
    changed = [dotted(target) for n in nodes for target in _changed(n)] if parameters else []
    return any(
        name.startswith(p) and _SAME_TENSOR.fullmatch(name.removeprefix(p))
        for name in changed
        for p in parameters
    )


def _changed(node: ast.AST) -> list[ast.expr]:
    """The tensors that a node changes in place, or by a difference: `w = w - lr * w.grad`."""
    match node:
        case ast.AugAssign(target=target):
            return [target]
        case ast.Call(func=ast.Attribute(value=owner, attr=word)) if word in _IN_PLACE:
            return [owner]
        case ast.Assign(targets=targets, value=ast.BinOp(op=ast.Sub())):
            return targets
    return []
