"""A decorated function -> Kernel: grid, threads, buffers, what it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.kernels.constants import Constants
from instrumentor.kernels.model import BufferShape, Grid, Kernel, Thread, shortened
from instrumentor.kernels.spelling import KERNEL_DECORATORS, THREAD_DECORATORS, Spelling
from instrumentor.locate.syntax import FUNCTIONS, FunctionNode, ScopeNode, Source, dotted, own_nodes

_MAKERS = (
    "make_dataflow_buffer_like",
    "make_dataflow_buffer",
    "make_circular_buffer_like",
    "make_circular_buffer",
)


def kernels_of(source: Source, spelling: Spelling, constants: Constants) -> Iterator[Kernel]:
    """The kernels of a file, in source order: decorated functions and decorator calls."""
    for function in source.functions:
        found = kernel_decorator(function, spelling)
        if found is not None:
            yield _kernel(source, spelling, constants, function, *found, function, function.name)
    for statement in source.places:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        bound = dotted(statement.targets[0])
        call = statement.value
        if not bound or "[" in bound or not isinstance(call, ast.Call) or len(call.args) != 1:
            continue
        applied = spelling.decorator(call.func)
        body = _function_named(source, dotted(call.args[0]))
        if applied is not None and applied[0] in KERNEL_DECORATORS and body is not None:
            yield _kernel(source, spelling, constants, body, *applied, statement, bound)


def kernel_decorator(function: FunctionNode, spelling: Spelling) -> tuple[str, ast.expr] | None:
    """The decorator that makes a function a kernel, with its arguments."""
    for node in function.decorator_list:
        found = spelling.decorator(node)
        if found is not None and found[0] in KERNEL_DECORATORS:
            return found
    return None


def _kernel(
    source: Source,
    spelling: Spelling,
    constants: Constants,
    function: FunctionNode,
    word: str,
    decorator: ast.expr,
    statement: ast.stmt,
    bound: str,
) -> Kernel:
    around = [
        s.name for s in source.ancestors(function) if isinstance(s, (*FUNCTIONS, ast.ClassDef))
    ]
    factory = next((s.name for s in source.ancestors(function) if isinstance(s, FUNCTIONS)), "")
    scope = source.places[statement].scope
    arguments = function.args
    return Kernel(
        source=source,
        name=function.name,
        qualified=".".join([*reversed(around), function.name]),
        decorator=word,
        statement=statement,
        bound=bound,
        line=function.lineno,
        end_line=function.end_lineno or function.lineno,
        grid=_grid(decorator, constants, scope),
        threads=tuple(_threads(function, spelling)),
        buffers=tuple(_buffers(function, constants)),
        factory=factory,
        parameters=tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args)),
        returns=_returns(function),
    )


def _grid(decorator: ast.expr, constants: Constants, scope: ScopeNode) -> Grid:
    if not isinstance(decorator, ast.Call):
        return Grid("default")
    node = next((k.value for k in decorator.keywords if k.arg == "grid"), None)
    if node is None and decorator.args:
        node = decorator.args[0]
    if node is None:
        return Grid("default")
    text = shortened(ast.unparse(node), 60)
    if isinstance(node, ast.Name):
        bound = constants.lookup(node.id, scope)
        if bound is not None:
            node, scope = bound
    if isinstance(node, ast.Constant) and node.value in ("auto", "full"):
        return Grid(str(node.value), text)
    size = constants.shape(node, scope)
    if size:
        return Grid("tuple", text, size)
    single = constants.integer(node, scope)
    if single is not None:
        return Grid("tuple", text, (single,))
    named = isinstance(node, ast.Name) and _function_named(constants.source, node.id) is not None
    if isinstance(node, ast.Lambda) or named:
        return Grid("callable", text)
    return Grid("tuple" if isinstance(node, (ast.Tuple, ast.List)) else "unknown", text)


def _threads(function: FunctionNode, spelling: Spelling) -> Iterator[Thread]:
    for node in ast.walk(function):
        if not isinstance(node, FUNCTIONS) or node is function:
            continue
        for decorator in node.decorator_list:
            found = spelling.decorator(decorator)
            if found is not None and found[0] in THREAD_DECORATORS:
                yield Thread(node.name, found[0], node.lineno)


def _buffers(function: FunctionNode, constants: Constants) -> Iterator[BufferShape]:
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
            tiles=constants.shape(given.get("shape"), function),
            factor=constants.integer(factor, function),
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


def _function_named(source: Source, name: str) -> FunctionNode | None:
    return next((f for f in source.functions if f.name == name), None) if name else None
