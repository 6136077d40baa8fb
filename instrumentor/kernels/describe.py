"""A decorated function -> Kernel: grid, threads, buffers, what it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.kernels.decorators import KERNELS, THREADS, Decorator, decorator
from instrumentor.kernels.model import BufferShape, Grid, Kernel, Thread, shortened
from instrumentor.kernels.sizes import Sizes
from instrumentor.locate.syntax import FUNCTIONS, FunctionNode, ScopeNode, dotted, own_nodes
from instrumentor.locate.values import Function

_MAKERS = (
    "make_dataflow_buffer_like",
    "make_dataflow_buffer",
    "make_circular_buffer_like",
    "make_circular_buffer",
)


def kernels_of(sizes: Sizes) -> Iterator[Kernel]:
    """The kernels of a file, in source order: decorated functions and decorator calls."""
    source = sizes.source
    for function in source.functions:
        made = _decorated(sizes, function, KERNELS)
        if made is not None:
            yield _kernel(sizes, function, made, function, function.name)
    for statement, place in source.places.items():
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        bound, call = dotted(statement.targets[0]), statement.value
        if not bound or "[" in bound or not isinstance(call, ast.Call) or len(call.args) != 1:
            continue
        made = decorator(sizes.names, source, place.scope, call.func)
        body = _function(sizes, place.scope, call.args[0])
        if made is not None and made.word in KERNELS and body is not None:
            yield _kernel(sizes, body, made, statement, bound)


def _decorated(sizes: Sizes, function: FunctionNode, words: tuple[str, ...]) -> Decorator | None:
    """The first decorator of a function with one of these words."""
    scope = sizes.source.scope_of(function)
    found = (decorator(sizes.names, sizes.source, scope, d) for d in function.decorator_list)
    return next((one for one in found if one is not None and one.word in words), None)


def _kernel(
    sizes: Sizes, function: FunctionNode, made: Decorator, statement: ast.stmt, bound: str
) -> Kernel:
    source = sizes.source
    around = [
        s.name for s in source.ancestors(function) if isinstance(s, (*FUNCTIONS, ast.ClassDef))
    ]
    factory = next((s.name for s in source.ancestors(function) if isinstance(s, FUNCTIONS)), "")
    arguments = function.args
    return Kernel(
        source=source,
        name=function.name,
        qualified=".".join([*reversed(around), function.name]),
        decorator=made.word,
        statement=statement,
        bound=bound,
        line=function.lineno,
        end_line=function.end_lineno or function.lineno,
        grid=_grid(sizes, made.arguments, source.scope_of(statement)),
        threads=tuple(_threads(sizes, function)),
        buffers=tuple(_buffers(sizes, function)),
        factory=factory,
        parameters=tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args)),
        returns=_returns(function),
    )


def _grid(sizes: Sizes, arguments: ast.expr, scope: ScopeNode) -> Grid:
    given = arguments if isinstance(arguments, ast.Call) else ast.Call(arguments, [], [])
    named = (k.value for k in given.keywords if k.arg == "grid")
    node = next(named, given.args[0] if given.args else None)
    if node is None:
        return Grid("default")
    text = shortened(ast.unparse(node), 60)
    if isinstance(node, ast.Lambda) or _function(sizes, scope, node) is not None:
        return Grid("callable", text)
    kind, size = _extent(sizes, node, scope)
    return Grid(kind, text, size)


def _extent(sizes: Sizes, node: ast.expr, scope: ScopeNode) -> tuple[str, tuple[int, ...] | None]:
    """The kind of a grid that is no function, and its size where that is visible."""
    found = sizes.bound(node.id, scope) if isinstance(node, ast.Name) else None
    written = found[0] if found is not None else node
    if isinstance(written, ast.Constant) and written.value in ("auto", "full"):
        return str(written.value), None
    single = sizes.integer(node, scope)
    size = sizes.shape(node, scope) or (None if single is None else (single,))
    return "tuple" if size or isinstance(written, (ast.Tuple, ast.List)) else "unknown", size


def _threads(sizes: Sizes, function: FunctionNode) -> Iterator[Thread]:
    for node in ast.walk(function):
        if isinstance(node, FUNCTIONS) and node is not function:
            made = _decorated(sizes, node, THREADS)
            if made is not None:
                yield Thread(node.name, made.word, node.lineno)


def _buffers(sizes: Sizes, function: FunctionNode) -> Iterator[BufferShape]:
    for node in own_nodes(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        if dotted(call.func).rpartition(".")[2] not in _MAKERS:
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        factor = given.get("buffer_factor", given.get("block_count"))
        yield BufferShape(
            name=dotted(node.targets[0]) or shortened(ast.unparse(node.targets[0]), 20),
            line=node.lineno,
            tiles=sizes.shape(given.get("shape"), function),
            factor=sizes.integer(factor, function),
        )


def _returns(function: FunctionNode) -> str | None:
    values = [
        node.value
        for node in own_nodes(function)
        if isinstance(node, ast.Return)
        and node.value is not None
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
    ]
    names = {value.id if isinstance(value, ast.Name) else None for value in values}
    if not values:
        return ""
    only = names.pop() if len(names) == 1 else None
    arguments = function.args
    known = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    return only if only in known else None


def _function(sizes: Sizes, scope: ScopeNode, node: ast.expr) -> FunctionNode | None:
    """The function of the same file that an expression names."""
    found = sizes.names.of(sizes.source, scope, node) if dotted(node) else ()
    plain = (v.node for v in found if isinstance(v, Function) and v.source is sizes.source)
    return next(plain, None)
