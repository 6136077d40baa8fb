"""Functions under tt-lang's decorators, in whatever spelling, as kernels.

A module counts as tt-lang when a part of its dotted name is ``ttl`` or ``ttlang``, wherever it
comes from (``from sim import ttl`` is the simulator's).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.kernels.model import BufferShape, Grid, Kernel, Number, Thread, shortened
from instrumentor.kernels.sizes import Sizes
from instrumentor.read.bindings import Imported
from instrumentor.read.names import external_name
from instrumentor.read.syntax import FUNCTIONS, FunctionNode, ScopeNode, argument, dotted, own_nodes
from instrumentor.read.values import Free, Function, Object, Value

MODULES = frozenset({"ttl", "ttlang"})
#: kernel is tt-lang's older word, operation its newer one.
#: Names that are followed from a number's use to where it is written.
_FOLLOWED = 8
_KERNELS = ("kernel", "operation")
_THREADS = ("compute", "datamovement")
#: Circular buffers were renamed to dataflow buffers in newer versions of tt-lang.
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
        for word, arguments in _decorators(sizes, function):
            if word in _KERNELS:
                yield _kernel(sizes, function, word, arguments, function, function.name)
                break
    for statement, place in source.places.items():
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        bound, call = dotted(statement.targets[0]), statement.value
        if not bound or "[" in bound or not isinstance(call, ast.Call) or len(call.args) != 1:
            continue
        word, arguments = _decorator(sizes, place.scope, call.func)
        body = _function(sizes, place.scope, call.args[0])
        if word in _KERNELS and body is not None:
            yield _kernel(sizes, body, word, arguments, statement, bound)


def _decorators(sizes: Sizes, function: FunctionNode) -> Iterator[tuple[str, ast.expr]]:
    scope = sizes.source.scope_of(function)
    return (_decorator(sizes, scope, node) for node in function.decorator_list)


def _decorator(sizes: Sizes, scope: ScopeNode, node: ast.expr) -> tuple[str, ast.expr]:
    """The word of tt-lang's decorator that an expression is, '' for any other; and its call.

    ``one_core = ttl.kernel(grid=(1, 1))`` is one wherever ``one_core`` stands.
    """
    function = node.func if isinstance(node, ast.Call) else node
    for value in sizes.names.of(sizes.source, scope, function):
        made = value if isinstance(value, Object) and function is node else None
        word = _word(sizes, value if made is None else made.made_by)
        if word:
            return word, node if made is None or made.node is None else made.node
    return "", node


def _word(sizes: Sizes, value: Value) -> str:
    module, _, word = external_name(value).rpartition(".")
    if word in (*_KERNELS, *_THREADS) and isinstance(value, Free):
        # `from ttl import *` binds it out of sight.
        stars = sizes.names.bound(sizes.source, sizes.source.tree, "*")
        module = next((b.module for b in stars if isinstance(b, Imported)), "")
    ours = word in (*_KERNELS, *_THREADS) and not MODULES.isdisjoint(module.split("."))
    return word if ours else ""


def _kernel(
    sizes: Sizes,
    function: FunctionNode,
    word: str,
    arguments: ast.expr,
    statement: ast.stmt,
    bound: str,
) -> Kernel:
    source = sizes.source
    around = [s for s in source.ancestors(function) if isinstance(s, (*FUNCTIONS, ast.ClassDef))]
    arguments_of = (*function.args.posonlyargs, *function.args.args)
    positional = [a.arg for a in arguments_of]
    return Kernel(
        source=source,
        name=function.name,
        qualified=".".join([*(s.name for s in reversed(around)), function.name]),
        decorator=word,
        statement=statement,
        bound=bound,
        line=function.lineno,
        end_line=function.end_lineno or function.lineno,
        grid=_grid(sizes, arguments, source.scope_of(statement)),
        threads=tuple(_threads(sizes, function)),
        buffers=tuple(_buffers(sizes, function)),
        factory=next((s.name for s in around if isinstance(s, FUNCTIONS)), ""),
        parameters=tuple(positional),
        parameter_lines=tuple(a.lineno for a in arguments_of),
        returns=_returns(function, positional),
        numbers=tuple(_numbers(sizes, function, arguments)),
    )


def _grid(sizes: Sizes, arguments: ast.expr, scope: ScopeNode) -> Grid:
    node = _grid_node(arguments)
    if node is None:
        return Grid("default")
    text = shortened(ast.unparse(node), 60)
    if isinstance(node, ast.Lambda) or _function(sizes, scope, node) is not None:
        return Grid("callable", text, line=node.lineno)
    found = sizes.bound(node.id, scope) if isinstance(node, ast.Name) else None
    written = found[0] if found is not None else node
    if isinstance(written, ast.Constant) and written.value in ("auto", "full"):
        return Grid(str(written.value), text, line=node.lineno)
    single = sizes.integer(node, scope)
    size = sizes.shape(node, scope) or (None if single is None else (single,))
    plain = size or isinstance(written, (ast.Tuple, ast.List))
    return Grid("tuple" if plain else "unknown", text, size, node.lineno)


def _grid_node(arguments: ast.expr) -> ast.expr | None:
    given = arguments if isinstance(arguments, ast.Call) else ast.Call(arguments, [], [])
    return argument(given, "grid", at=0)


def _numbers(sizes: Sizes, function: FunctionNode, arguments: ast.expr) -> Iterator[Number]:
    grid = _grid_node(arguments)
    if grid is not None and grid.end_lineno == grid.lineno:
        yield Number("grid", "", grid.lineno, grid.col_offset, grid.end_col_offset or 0)
    for name, _, given in _made(function):
        factor = given.get("buffer_factor", given.get("block_count"))
        yield from _literal(sizes, function, factor, "block_count", name)
        shape = given.get("shape")
        for extent in shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else ():
            # A number that only one buffer has is no extent of the blocks of all.
            if isinstance(extent, ast.Name):
                yield from _literal(sizes, function, extent, "block", extent.id)


def _literal(
    sizes: Sizes, scope: ScopeNode, node: ast.expr | None, of: str, name: str
) -> Iterator[Number]:
    """Where an integer is written, through the names that are bound to it."""
    found: tuple[ast.expr | None, ScopeNode] | None = node, scope
    for _ in range(_FOLLOWED):
        if found is None or not isinstance(found[0], ast.Name):
            break
        # A block_count goes by its buffer; an extent is called what its line calls it.
        name = found[0].id if of == "block" else name
        found = sizes.bound(found[0].id, found[1])
    literal = found[0] if found is not None else None
    if isinstance(literal, ast.Constant) and type(literal.value) is int:
        at = literal.lineno, literal.col_offset, literal.end_col_offset or 0
        yield Number(of, name, *at, literal.value)


def _threads(sizes: Sizes, function: FunctionNode) -> Iterator[Thread]:
    for node in ast.walk(function):
        if isinstance(node, FUNCTIONS) and node is not function:
            words = [word for word, _ in _decorators(sizes, node) if word in _THREADS]
            if words:
                yield Thread(node.name, words[0], node.lineno)


def _buffers(sizes: Sizes, function: FunctionNode) -> Iterator[BufferShape]:
    for name, line, given in _made(function):
        factor = given.get("buffer_factor", given.get("block_count"))
        tiles = sizes.shape(given.get("shape"), function)
        yield BufferShape(name, line, tiles, sizes.integer(factor, function))


def _made(function: FunctionNode) -> Iterator[tuple[str, int, dict[str | None, ast.expr]]]:
    """Name, line and named arguments of each buffer that a kernel makes."""
    for node in own_nodes(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        if dotted(call.func).rpartition(".")[2] in _MAKERS:
            name = dotted(node.targets[0]) or shortened(ast.unparse(node.targets[0]), 20)
            yield name, node.lineno, {keyword.arg: keyword.value for keyword in call.keywords}


def _returns(function: FunctionNode, parameters: list[str]) -> str | None:
    """The parameter that it returns; '' for nothing, None for anything else."""
    returned = [node.value for node in own_nodes(function) if isinstance(node, ast.Return)]
    nothing = (v is None or (isinstance(v, ast.Constant) and v.value is None) for v in returned)
    values = [value for value, none in zip(returned, nothing, strict=True) if not none]
    names = {value.id if isinstance(value, ast.Name) else None for value in values}
    if not names:
        return ""
    only = names.pop() if len(names) == 1 else None
    return only if only in parameters else None


def _function(sizes: Sizes, scope: ScopeNode, node: ast.expr) -> FunctionNode | None:
    """The function of the same file that an expression names."""
    found = sizes.names.of(sizes.source, scope, node) if dotted(node) else ()
    plain = (v.node for v in found if isinstance(v, Function) and v.source is sizes.source)
    return next(plain, None)
