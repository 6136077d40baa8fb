"""What all callers of a function give to a parameter, where every call of it is in sight."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import TypeAlias

from instrumentor.read.program import Function, Program
from instrumentor.read.signatures import default_of
from instrumentor.read.syntax import ScopeNode, Source, callee, dotted, last
from instrumentor.read.values import External

#: An expression where it stands.
Place: TypeAlias = tuple[Source, ScopeNode, ast.expr]

_PLAIN_DECORATORS = frozenset(
    ("staticmethod", "classmethod", "no_grad", "enable_grad", "inference_mode", "autocast")
)
#: Calls that are given a class and make no object of it.
_ASK = ("isinstance", "issubclass", "super", "cast")


def given_by_all(
    program: Program,
    function: Function,
    name: str,
    runs: Callable[[ScopeNode, ast.Call], bool] = lambda *_: True,
) -> list[Place] | None:
    """What each call gives to a parameter, or its default.

    None where a call may be out of sight, or one gives what is not told.

    Args:
        runs: whether a call is ever made.
    """
    node = function.node
    several = (a.arg for a in (node.args.vararg, node.args.kwarg) if a is not None)
    calls = [(scope, c) for scope, c, _ in program.callers.get(node, ()) if runs(scope, c)]
    if not calls or name in several or not are_in_sight(program, function):
        return None
    default, found = default_of(node, name), list[Place]()
    for scope, call in calls:
        source = program.source_of_scope[scope]
        given = program.given(source, scope, call, function)
        values: list[Place] = [(source, scope, value) for to, value in given if to == name]
        if not values and default is not None:
            values = [(function.source, function.source.scope_of(node), default)]
        if not values or any(isinstance(value, ast.Starred) for *_, value in values):
            return None
        found += values
    return found


def are_in_sight(program: Program, function: Function) -> bool:
    """Whether nothing but the calls that can be read runs a function."""
    if function.node in program.handed or not is_called_as_written(function):
        return False
    cls = function.source.class_of.get(function.node)
    if cls is not None and function.name == "__init__":
        classes = [cls, *(c.node for c in program.subclasses.get(cls, ()))]
        return not any(c.decorator_list for c in classes) and all(
            is_only_called(program, c.name, _ASK) for c in classes
        )
    # a method of an object whose type is not known may be this one, but no `torch.save(...)`
    return cls is None or all(
        program.resolve(*each) or _is_of_a_library(program, *each)
        for each in program.calls_named(function.name)
    )


def _is_of_a_library(program: Program, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
    values = program.of(source, scope, call.func)
    return bool(values) and all(isinstance(value, External) for value in values)


def is_called_as_written(function: Function) -> bool:
    """No decorator, such as those of command lines, gives it arguments of its own."""
    words = {last(dotted(decorator)) for decorator in function.node.decorator_list}
    return words <= _PLAIN_DECORATORS


def is_only_called(program: Program, name: str, asking: Collection[str] = ()) -> bool:
    """Whether a class is named to make an object, or as a base, and never handed on.

    Args:
        asking: functions that may be given it all the same.
    """
    for source in program.sources.values():
        if named := source.mentions.get(name, ()):
            asked = (c for c in source.calls if callee(c) in asking)
            known = {c.func for c in source.calls} | {a for c in asked for a in c.args}
            for node in named:
                if node not in known and not isinstance(source.statement_of(node), ast.ClassDef):
                    return False
    return True
