"""What a decorator of the program makes: what it is given, or a function that calls just that.

def timed(function):
    def inner(*args, **kwargs):
        start = time.time()
        result = function(*args, **kwargs)
        print(time.time() - start)
        return result
    return inner
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from instrumentor.read.bindings import Bound, Parameter
from instrumentor.read.program import Function, Program
from instrumentor.read.signatures import is_method
from instrumentor.read.syntax import LOOPS, all_parameters, below, own_nodes, parameters, returned


class Wrapper(Struct, frozen=True):
    """A function that stands in the place of what is decorated.

    Attributes:
        call: hands on to that what it is given itself, once; its value is what comes back.
        is_certain: it does so whenever it is called.
    """

    function: Function
    call: ast.Call
    is_certain: bool


def wrappers(program: Program, decorator: Function) -> list[Wrapper] | None:
    """What takes the place of a decorated function; None where it is another one.

    An empty list where the function itself comes back.
    """
    found: list[Wrapper] = []
    taken = all_parameters(decorator.node)[int(is_method(decorator)) :]
    name = taken[0].arg if taken else ""
    given = program.names.bound(decorator.source, decorator.node, name)
    if not returned(decorator.node) or not all(isinstance(b, Parameter) for b in given):
        return None
    for value in returned(decorator.node):
        if isinstance(value, ast.Name) and value.id == name:
            continue
        for function in program.names.of(decorator.source, decorator.node, value):
            wrapper = None
            if isinstance(function, Function):
                wrapper = _wrapper(program, decorator, function, name)
            if wrapper is None:
                return None
            found.append(wrapper)
    return found


def _wrapper(program: Program, around: Function, inner: Function, name: str) -> Wrapper | None:
    source, node = inner.source, inner.node
    if source is not around.source or source.scope_of(node) is not around.node:
        return None
    named = [n for n in below(node) if isinstance(n, ast.Name) and n.id == name]
    calls = [n for n in own_nodes(node) if isinstance(n, ast.Call) and n.func in named]
    if len(calls) != 1 or not _hands_on_all(program, inner, calls[0]):
        return None
    (call,) = calls
    own = {call.func, *(n for d in node.decorator_list for n in below(d)), *_read_of(node)}
    parents = [*_parents(inner, call)]
    at = source.statement_of(call)
    whole = isinstance(at, (ast.Return, ast.Assign, ast.Expr)) and at.value is call
    if not (whole and own.issuperset(named)) or any(isinstance(p, LOOPS) for p in parents):
        return None
    returns = [n for n in own_nodes(node) if isinstance(n, ast.Return)]
    if not all(_is_result(program, inner, each.value, call) for each in returns):
        return None
    is_certain = len(returns) <= 1 and all(
        isinstance(p, (ast.With, ast.AsyncWith)) for p in parents
    )
    return Wrapper(inner, call, is_certain)


def _parents(function: Function, call: ast.Call) -> Iterator[ast.stmt]:
    at = function.source.statement_of(call)
    yield from function.source.parents(at) if at is not None else ()


def _read_of(node: ast.AST) -> Iterator[ast.AST]:
    """`function.__name__`"""
    for each in below(node):
        if isinstance(each, ast.Attribute) and each.attr in ("__name__", "__qualname__", "__doc__"):
            yield each.value


def _hands_on_all(program: Program, function: Function, call: ast.Call) -> bool:
    """Whether a call is given just what the function is given, under the same names."""
    spec = function.node.args
    positional = [ast.Name(a.arg) for a in (*spec.posonlyargs, *spec.args)]
    several = [ast.Starred(ast.Name(spec.vararg.arg), ast.Load())] if spec.vararg else []
    named = [ast.keyword(a.arg, ast.Name(a.arg)) for a in spec.kwonlyargs]
    others = [ast.keyword(None, ast.Name(spec.kwarg.arg))] if spec.kwarg else []
    same = ast.Call(call.func, [*positional, *several], [*named, *others])
    bound = (
        binding
        for name in parameters(function.node)
        for binding in program.names.bound(function.source, function.node, name)
    )
    return ast.unparse(same) == ast.unparse(call) and all(isinstance(b, Parameter) for b in bound)


def _is_result(
    program: Program, function: Function, value: ast.expr | None, call: ast.Call
) -> bool:
    """The call itself, or a name that only its value is given."""
    if isinstance(value, ast.Name):
        bound = program.names.bound(function.source, function.node, value.id)
        return bool(bound) and all(isinstance(b, Bound) and b == Bound(call) for b in bound)
    return value is call
