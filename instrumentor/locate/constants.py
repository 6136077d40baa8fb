"""Parameters that a call fixes to constants, and the tests that they decide."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from instrumentor.locate.dataflow import binds
from instrumentor.locate.loops import Site
from instrumentor.locate.program import Function, Program
from instrumentor.locate.syntax import below, callee, dotted, last, receiver

Constants = Mapping[str, object]
_UNKNOWN = object()


def along(program: Program, site: Site) -> Iterator[tuple[Function, Constants]]:
    """The helpers from the loop down to the backward, each with what its call fixes."""
    calls = [site.call]
    known: Constants = {}
    for position, function in enumerate(site.chain):
        each = [fixed(function, call, known) for call in calls]
        known = {
            name: value
            for name, value in (each[0] if each else {}).items()
            if all(name in other and _same(other[name], value) for other in each)
        }
        yield function, known
        if position + 1 < len(site.chain):
            following = site.chain[position + 1].node
            calls = [
                call
                for call, _ in program.calls.get(function.node, ())
                if any(
                    t.node is following
                    for t in program.resolve(function.source, function.node, call)
                )
            ]


def fixed(function: Function, call: ast.Call, known: Constants) -> dict[str, object]:
    """Parameters whose value is a constant at this call, by argument or by default.

    Nothing is known when arguments are unpacked, when a method is called on its class, or when
    the function is called by another name (a partial may have set some).
    """
    arguments = function.node.args
    if (
        callee(call) != function.name
        or last(receiver(call))[:1].isupper()
        or any(isinstance(a, ast.Starred) for a in call.args)
        or any(k.arg is None for k in call.keywords)
    ):
        return {}
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    given: dict[str, ast.expr | None] = dict(
        zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True)
    )
    given.update(zip((a.arg for a in arguments.kwonlyargs), arguments.kw_defaults, strict=True))
    found = {n: _value(v, {}) for n, v in given.items()}
    method = function.node in function.source.class_of and isinstance(call.func, ast.Attribute)
    static = any(dotted(d) == "staticmethod" for d in function.node.decorator_list)
    positional = names[1:] if method and not static else names
    found.update(zip(positional, (_value(a, known) for a in call.args), strict=False))
    found.update((k.arg, _value(k.value, known)) for k in call.keywords if k.arg is not None)
    rebound = binds(function.node)
    for node in below(function.node):
        if isinstance(node, ast.Nonlocal):
            rebound.update(node.names)
    return {n: v for n, v in found.items() if v is not _UNKNOWN and n not in rebound}


def decided(test: ast.expr, known: Constants) -> bool | None:
    """What a test comes to with these constants; None when they do not decide it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = decided(test.operand, known)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [decided(value, known) for value in test.values]
        settles = isinstance(test.op, ast.Or)
        if settles in parts:
            return settles
        return None if None in parts else not settles
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = _value(test.left, known), _value(test.comparators[0], known)
        if left is _UNKNOWN or right is _UNKNOWN:
            return None
        if isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return _same(left, right) == isinstance(test.ops[0], ast.Is)
        if isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
            return (left == right) == isinstance(test.ops[0], ast.Eq)
        return None
    value = _value(test, known)
    return None if value is _UNKNOWN else bool(value)


def may_run(test: ast.If, known: Constants) -> list[ast.stmt]:
    """The statements of an `if` that these constants leave possible."""
    answer = decided(test.test, known)
    return [
        *(test.body if answer is not False else ()),
        *(test.orelse if answer is not True else ()),
    ]


def _value(node: ast.expr | None, known: Constants) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    return known.get(node.id, _UNKNOWN) if isinstance(node, ast.Name) else _UNKNOWN


def _same(left: object, right: object) -> bool:
    """As `is` has it for constants: 1 is not True."""
    return type(left) is type(right) and left == right
