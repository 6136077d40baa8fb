"""Words of validation, logging and host reads: how a single call is spelled."""

from __future__ import annotations

import ast
import re

from instrumentor.locate.syntax import (
    callee,
    dotted,
    own_calls,
    own_nodes,
)

_VALIDATE = re.compile(
    r"^_*((validate|evaluate|eval|evaluation|validation|test)(_[a-z0-9_]+)?|"
    r"(run|do|perform|maybe|compute|calc|calculate|estimate|get)_(initial_)?"
    r"(val|valid|validation|validate|eval|evaluate|evaluation|test)(_[a-z0-9_]*)?|"
    r"[a-z0-9_]*_(validate|evaluate|evaluation|validation|eval)|"
    r"estimate_loss|log_validation(_[a-z0-9]+)?)$",
    re.I,
)
_NOT_VALIDATE = re.compile(
    r"load|dataset|dataloader|data$|corpus|input|param|shape|schema|same_|_set$|device|type|"
    r"version|token|prompt|consisten|check|config|_dl$|_ds$|split|transform|sampler|make_|build|create|"
    r"^get_(eval|val|valid|validation|test)(_[a-z]*)?_?(set|env|envs|data|batch|loader|iter|file)|"
    r"^get_loss|freq|steps?$|interval|args|prepare|mode$|path|name|should",
    re.I,
)
_LOGGER = re.compile(
    r"log|wandb|writer|print|tensorboard|tracker|metric|mlflow|tqdm|pbar|bar$|progress"
)


def is_validation_name(name: str) -> bool:
    return bool(_VALIDATE.match(name)) and not _NOT_VALIDATE.search(name)


def is_logging(call: ast.Call) -> bool:
    """A call whose purpose is to show or record values."""
    return bool(_LOGGER.search(dotted(call.func).lower()))


def host_read(node: ast.AST, tensors: frozenset[str]) -> ast.AST | None:
    """The first expression that waits for a device value, or None.

    `.item()`, `.cpu()`, `.numpy()`, `.tolist()`, `.to("cpu")` always count; `print(x)`,
    `float(x)`, `int(x)`, `bool(x)`, f-strings, comparisons and isnan tests count when they read
    one of `tensors`, the names computed by the forward.
    """
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and is_logging(node.value):
        shown = [*node.value.args, *(k.value for k in node.value.keywords)]
        if _reads_tensor(shown, tensors):
            return node.value
    for call in own_calls(node):
        name = callee(call)
        if isinstance(call.func, ast.Attribute):
            if name in ("item", "tolist", "numpy", "cpu") and not call.args:
                return call
            if name == "to" and call.args:
                first = call.args[0]
                if isinstance(first, ast.Constant) and first.value == "cpu":
                    return call
                if isinstance(first, ast.Call) and callee(first) == "device" and first.args:
                    inner = first.args[0]
                    if isinstance(inner, ast.Constant) and inner.value == "cpu":
                        return call
        elif name in ("print", "float", "int", "bool") and _reads_tensor(call.args, tensors):
            return call
    for part in own_nodes(node):
        if isinstance(part, ast.FormattedValue) and _reads_tensor([part.value], tensors):
            return part
    tests = [n.test for n in (node, *own_nodes(node)) if isinstance(n, (ast.If, ast.Assert))]
    for test in tests:
        if _is_value_test(test, tensors):
            return test
    return None


_SHAPE_WORDS = frozenset(
    {"shape", "size", "dtype", "device", "dim", "numel", "ndim", "requires_grad"}
)


def _reads_tensor(nodes: list[ast.expr], tensors: frozenset[str]) -> bool:
    return any(_tensor_value(node, tensors) for node in nodes)


def _tensor_value(node: ast.AST, tensors: frozenset[str]) -> bool:
    """True when the *values* of a tensor are read: not its shape, dtype or identity."""
    if isinstance(node, ast.Attribute) and node.attr in _SHAPE_WORDS:
        return False
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPE_WORDS:
            return False
        if callee(node) in ("len", "isinstance", "type", "hasattr", "id"):
            return False
    if isinstance(node, ast.Compare) and all(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops):
        return False
    if isinstance(node, ast.Name):
        return node.id in tensors
    return any(_tensor_value(child, tensors) for child in ast.iter_child_nodes(node))


def _is_value_test(test: ast.expr, tensors: frozenset[str]) -> bool:
    for node in (test, *own_nodes(test)):
        if isinstance(node, ast.Call) and callee(node) in (
            "isnan",
            "isinf",
            "isfinite",
            "any",
            "all",
        ):
            if _reads_tensor([*node.args, node.func], tensors):
                return True
        elif isinstance(node, ast.Compare) and not all(
            isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops
        ):
            if _reads_tensor([node.left, *node.comparators], tensors):
                return True
    return False
