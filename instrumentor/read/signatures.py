"""What a call gives to each parameter of a function, and what a function's signature says."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.read.syntax import FunctionNode, ScopeNode, all_parameters, own_nodes
from instrumentor.read.values import Class, Function, Values


def passed(
    call: ast.Call, function: FunctionNode | ast.Lambda, *, bound: bool
) -> Iterator[tuple[str, ast.expr]]:
    """Parameters of a function with what a call gives them.

    Those that `*args` or `**kwargs` of the call may fill come with a starred expression.

    Args:
        bound: the function is a method, and its object is not among the arguments.
    """
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    own, names = names[:bound], names[bound:]
    starred = (at for at, a in enumerate(call.args) if isinstance(a, ast.Starred))
    certain = min(next(starred, len(call.args)), len(names))
    yield from zip(names, call.args[:certain], strict=False)
    late = names[certain:] + ([spec.vararg.arg] if spec.vararg is not None else [])
    for value in call.args[certain:]:
        yield from ((name, _spread(value)) for name in late)
    named = {a.arg for a in (*spec.args, *spec.kwonlyargs)}.difference(own, names[:certain])
    rest = {spec.kwarg.arg} if spec.kwarg is not None else set[str]()
    for keyword in call.keywords:
        if keyword.arg is None:
            yield from ((name, _spread(keyword.value)) for name in sorted(named | rest))
        else:
            yield from ((n, keyword.value) for n in ({keyword.arg} & named or rest))


def _spread(value: ast.expr) -> ast.Starred:
    return value if isinstance(value, ast.Starred) else ast.Starred(value, ast.Load())


def default_of(function: FunctionNode | ast.Lambda, name: str) -> ast.expr | None:
    """The default of a parameter; None when it has none."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    late = positional[len(positional) - len(given.defaults) :]
    pairs = [*zip(late, given.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d]
    return next((d for a, d in pairs if a.arg == name), None)


def is_method(function: Function) -> bool:
    """Takes its object, or its class, as the first parameter."""
    own = function.node in function.source.class_of
    return own and not is_decorated(function.node, "staticmethod")


def own_parameter(function: Function) -> str:
    """The parameter as which a method gets its object, or its class; '' where there is none."""
    taken = all_parameters(function.node) if is_method(function) else ()
    return taken[0].arg if taken else ""


def on_class(values: Values) -> bool:
    """`Trainer.step(trainer, x)`: the function taken from its class, so that self is passed."""
    functions = [v for v in values if isinstance(v, Function)]
    bound = any(f.owner is not None for f in functions)
    return bool(functions) and not bound and not any(isinstance(v, Class) for v in values)


def is_decorated(function: FunctionNode, *names: str) -> bool:
    """Whether one of its decorators has one of these names: `@property`, `@functools.wraps`."""
    words = (getattr(d, "id", getattr(d, "attr", "")) for d in function.decorator_list)
    return not set(names).isdisjoint(words)


def is_property(function: FunctionNode) -> bool:
    """Whether reading the attribute runs the function."""
    return is_decorated(function, "property", "cached_property")


def suspends(scope: ScopeNode) -> bool:
    """A generator, whose callers go on in the middle of it."""
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(scope))
