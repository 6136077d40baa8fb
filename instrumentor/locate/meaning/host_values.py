"""What waits for a value of the device, and how validation and logging are spelled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.meaning import methods, spelling
from instrumentor.read.syntax import arguments, callee, dotted, own_nodes


def is_validation_name(name: str) -> bool:
    """Whether it is called like a validation, and not like what belongs to one."""
    found = spelling.VALIDATION.fits(name)
    return found and not spelling.BESIDE_VALIDATION.fits(name)


def is_logging(call: ast.Call) -> bool:
    """A call whose purpose is to show or record values."""
    return spelling.LOG.fits(dotted(call.func))


def host_read(node: ast.AST, tensors: frozenset[str]) -> ast.AST | None:
    """The first expression that waits for a device value, or None."""
    return next(host_reads(node, tensors), None)


def host_reads(node: ast.AST, tensors: frozenset[str]) -> Iterator[ast.AST]:
    """The expressions below a node that wait for a device value.

    `.item()`, `.cpu()`, `.numpy()`, `.tolist()`, `.to("cpu")` always count; `print(x)`,
    `float(x)`, `int(x)`, `bool(x)`, f-strings, comparisons, isnan tests and calls that log count
    when they read one of `tensors`, the names computed by the forward.
    """
    yield from (part for part in (node, *own_nodes(node)) if _waits(part, tensors))


def _waits(node: ast.AST, tensors: frozenset[str]) -> bool:
    match node:
        case ast.Expr(value=ast.Call() as call) if is_logging(call):
            # a list of log probabilities is no log
            return callee(call) not in methods.PUTS and _any_values(arguments(call), tensors)
        case ast.Call(func=ast.Attribute(attr="to"), args=[device, *_]):
            return _is_cpu(device)
        case ast.Call(func=ast.Attribute(attr=word), args=given):
            return word in methods.HANDS_TO_HOST and not given
        case ast.Call(func=ast.Name(id=word), args=given):
            return word in methods.ASKS_VALUE and _any_values(given, tensors)
        case ast.FormattedValue(value=value):
            return _any_values([value], tensors)
        case ast.If(test=test) | ast.Assert(test=test):
            return any(_compares(part, tensors) for part in (test, *own_nodes(test)))
    return False


def _is_cpu(node: ast.expr) -> bool:
    """`"cpu"` or `torch.device("cpu")`."""
    if isinstance(node, ast.Call) and callee(node) == "device" and node.args:
        node = node.args[0]
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _compares(node: ast.AST, tensors: frozenset[str]) -> bool:
    """A part of a test that depends on the values of a tensor."""
    match node:
        case ast.Call(args=given) if callee(node) in methods.TESTS_VALUES:
            return _any_values([*given, node.func], tensors)
        case ast.Compare(left=left, ops=ops, comparators=others):
            same = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
            return not all(isinstance(op, same) for op in ops) and _any_values(
                [left, *others], tensors
            )
    return False


def _any_values(nodes: list[ast.expr], tensors: frozenset[str]) -> bool:
    return any(has_values(node, tensors) for node in nodes)


def has_values(node: ast.AST, tensors: frozenset[str]) -> bool:
    """Whether the *values* of a tensor are read: not its shape, dtype or identity."""
    match node:
        case ast.Name(id=name):
            return name in tensors
        case ast.Attribute(attr=word) | ast.Call(func=ast.Attribute(attr=word) | ast.Name(id=word)):
            if word in methods.DESCRIBES_TENSOR:
                return False
        case ast.Compare(ops=ops) if all(isinstance(op, (ast.Is, ast.IsNot)) for op in ops):
            return False
    return any(has_values(child, tensors) for child in ast.iter_child_nodes(node))
