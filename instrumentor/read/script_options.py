"""What the options of a script come to: as it is called, else by their defaults.

Where a script holds several training loops and its options choose one (`if args.lm:`), the loop
that runs is the one that the options leave; and so of several ways through one step.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NoReturn

from instrumentor.read.constants import decided, decided_against
from instrumentor.read.program import Program
from instrumentor.read.syntax import Source, dotted, parse, source_of
from instrumentor.read.values import Item, Member, Object, Value

#: Keywords of `add_argument` that a value hangs on.
_READ = ("action", "const", "default", "dest", "nargs", "required", "type")
_TYPES = {"bool": bool, "float": float, "int": int, "str": str}


class ScriptOptions:
    """Options that a program gives to argparse, with their values.

    Args:
        arguments: what the script is called with.
    """

    def __init__(self, program: Program, arguments: Sequence[str] = ()) -> None:
        self.program, self.arguments = program, arguments

    def entry_as_called(self) -> Source | None:
        """The entry without the branches that the options rule out; None when they rule out none.

        Every line keeps its number.
        """
        entry, ruled_out = self.program.entry, False
        tree = parse(entry.path, entry.data).tree
        for node, twin in zip(ast.walk(entry.tree), ast.walk(tree), strict=True):
            if not (isinstance(node, ast.If) and isinstance(twin, ast.If)):
                continue
            answer = self._decided(entry, node.test)
            if answer is False:
                twin.body = [ast.copy_location(ast.Pass(), twin.body[0])]
            elif answer:
                twin.orelse = []
            ruled_out |= answer is False or bool(answer and node.orelse)
        return source_of(entry.path, entry.data, tree) if ruled_out else None

    def rule_out(self, source: Source, statement: ast.stmt) -> bool:
        """Whether an `if` around a statement is decided against it."""
        return decided_against(source, statement, lambda test: self._decided(source, test))

    def _decided(self, source: Source, test: ast.expr) -> bool | None:
        known = {
            dotted(node): self._values[node.attr]
            for node in ast.walk(test)
            if isinstance(node, ast.Attribute)
            and node.attr in self._values
            and self._is_parsed(source, node.value)
        }
        return decided(test, known) if known else None

    def _is_parsed(self, source: Source, node: ast.expr) -> bool:
        """Whether an expression is what `parse_args()` returned."""
        values = self.program.of(source, source.scope_of(node), node)
        return bool(values) and all(map(_is_namespace, values))

    @cached_property
    def _values(self) -> dict[str, object]:
        """By their names in the namespace, those that are known: argparse itself reads them."""
        parser, known = _Parser(add_help=False), dict[str, bool]()
        for _, _, call in self.program.calls_named("add_argument"):
            name, is_plain = _add(parser, call)
            known[name] = is_plain and name not in known
        if self._may_be_any:
            return {}
        try:
            found = vars(parser.parse_known_args(list(self.arguments))[0])
        except ValueError:
            return {}
        return {n: v for n, v in found.items() if known.get(n) and not self._is_set_later(n)}

    @property
    def _may_be_any(self) -> bool:
        """Options of names that are not written out may be set: `vars(args).update(settings)`."""
        named = self.program.calls_named
        return (
            any(k.arg is None for *_, call in named("set_defaults") for k in call.keywords)
            or any(k.arg == "namespace" for *_, call in named("parse_args") for k in call.keywords)
            or any(self._is_parsed(s, c.args[0]) for s, _, c in named("setattr") if c.args)
            or any(self._holds_options(s, c.func) for s, _, c in named("update"))
        )

    def _holds_options(self, source: Source, method: ast.expr) -> bool:
        """Whether a method is one of `vars(args)` or of `args.__dict__`."""
        match method:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="vars"), args=[owner])):
                return self._is_parsed(source, owner)
            case ast.Attribute(value=ast.Attribute(value=owner, attr="__dict__")):
                return self._is_parsed(source, owner)
        return False

    def _is_set_later(self, name: str) -> bool:
        """By `parser.set_defaults(name=...)` or `args.name = ...`."""
        defaults = (k.arg for *_, c in self.program.calls_named("set_defaults") for k in c.keywords)
        puts = self.program.puts_of(name)
        return name in defaults or any(self._is_parsed(where, put.owner) for where, put in puts)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _add(parser: argparse.ArgumentParser, call: ast.Call) -> tuple[str, bool]:
    """Add what a call of `add_argument` adds; its name, and whether its value can be known."""
    flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    given = {k.arg: k.value for k in call.keywords if k.arg in _READ}
    plain: dict[str, Any] = {
        str(name): node.value for name, node in given.items() if isinstance(node, ast.Constant)
    }
    kind = given.get("type")
    if isinstance(kind, ast.Name) and kind.id in _TYPES:
        plain["type"] = _TYPES[kind.id]
    required = plain.pop("required", False)
    try:
        if plain.get("action") in ("help", "version"):
            raise ValueError("it ends the script")
        name = parser.add_argument(*flags, **plain).dest
    except (ValueError, TypeError, argparse.ArgumentError):  # given twice, or nothing of argparse
        return flags[-1].lstrip("-").replace("-", "_") if flags else "", False
    return name, flags[0].startswith("-") and not required and len(plain) >= len(given)


def _is_namespace(value: Value) -> bool:
    """What `parse_args()` returned, or the first of `parse_known_args()`."""
    if isinstance(value, Item):
        return value.index == 0 and _is_namespace(value.owner)
    made = value.made_by if isinstance(value, Object) else None
    return isinstance(made, Member) and made.name in ("parse_args", "parse_known_args")
