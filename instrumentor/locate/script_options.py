"""What the options of a script come to: as it is called, else by their defaults.

Where a script holds several training loops and its options choose one (`if args.lm:`), the loop
that runs is the one that the options leave.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property

from instrumentor.locate.constants import decided
from instrumentor.locate.program import Program
from instrumentor.locate.syntax import Source, dotted, parse
from instrumentor.locate.values import Item, Member, Object, Value

_UNKNOWN = object()
#: Actions of argparse by the value without the option, and the one with it.
_SWITCHES = {"store_true": (False, True), "store_false": (True, False)}


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
        source = self.program.entry
        lines = source.data.split(b"\n")
        dead, end = sorted(self._ruled_out(source)), 0
        for first, last, stays in dead:
            if first <= end:  # within one that is gone
                continue
            end = last
            indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
            lines[first - 1 : last] = [b""] * (last - first + 1)
            lines[first - 1] = indent + b"pass" if stays else b""
        return parse(source.path, b"\n".join(lines)) if dead else None

    def _ruled_out(self, source: Source) -> Iterator[tuple[int, int, bool]]:
        """First and last lines of branches that do not run, and whether a suite must stay."""
        for statement in source.places:
            if not isinstance(statement, ast.If):
                continue
            answer = self._decided(source, statement.test)
            if answer is None:
                continue
            suite = statement.orelse if answer else statement.body
            if suite and suite[0].lineno > statement.lineno:
                first = min(n.lineno for n in (suite[0], *getattr(suite[0], "decorator_list", ())))
                elif_ = suite is statement.orelse and suite[0].col_offset == statement.col_offset
                yield first, suite[-1].end_lineno or first, not elif_

    def _decided(self, source: Source, test: ast.expr) -> bool | None:
        known = {
            dotted(node): self._values[node.attr]
            for node in ast.walk(test)
            if isinstance(node, ast.Attribute)
            and self._values.get(node.attr, _UNKNOWN) is not _UNKNOWN
            and self._is_parsed(source, node.value)
        }
        return decided(test, known) if known else None

    def _is_parsed(self, source: Source, node: ast.expr) -> bool:
        """Whether an expression is what `parse_args()` returned."""
        scope = self.program.scope_of(source, node)
        values = self.program.names.of(source, scope, node)
        return bool(values) and all(map(_is_namespace, values))

    @cached_property
    def _values(self) -> dict[str, object]:
        """By their names in the namespace, those that are known."""
        found: dict[str, object] = {}
        for _, _, call in self.program.calls_named("add_argument"):
            name, value = self._value(call)
            found[name] = value if found.get(name, value) == value else _UNKNOWN
        for name in found:
            if self._is_set_later(name):
                found[name] = _UNKNOWN
        return found

    def _is_set_later(self, name: str) -> bool:
        """By `parser.set_defaults(name=...)` or `args.name = ...`."""
        defaults = (k.arg for *_, c in self.program.calls_named("set_defaults") for k in c.keywords)
        puts = self.program.names.puts_of(name)
        return name in defaults or any(self._is_parsed(where, put.owner) for where, put in puts)

    def _value(self, call: ast.Call) -> tuple[str, object]:
        """An option's name and value by its `add_argument`."""
        given = {k.arg: k.value for k in call.keywords}
        flags = [a.value for a in call.args if isinstance(a, ast.Constant)]
        options = [f for f in flags if isinstance(f, str)]
        long = next((f for f in options if f.startswith("--")), options[0] if options else "")
        name = _constant(given.get("dest"), long.lstrip("-").replace("-", "_"))
        action = _constant(given.get("action"), "store")
        absent, present = _SWITCHES.get(str(action), (None, _UNKNOWN))
        default = _constant(given.get("default"), absent)
        if not long.startswith("-") or "nargs" in given or _constant(given.get("required"), False):
            default = _UNKNOWN
        said = [word.partition("=")[0] for word in self.arguments]
        flag = next((word for word in reversed(said) if word in options), None)
        if flag is None:
            return str(name), default
        plain = action == "store" and "type" not in given and "nargs" not in given
        return str(name), self._said(flag) if plain else present

    def _said(self, flag: str) -> object:
        """The value that the arguments give to a flag last."""
        words = list(reversed(self.arguments))
        at = next(i for i, word in enumerate(words) if word.partition("=")[0] == flag)
        _, equals, value = words[at].partition("=")
        return value if equals else words[at - 1] if at else _UNKNOWN


def _constant(node: ast.expr | None, absent: object) -> object:
    if node is None:
        return absent
    return node.value if isinstance(node, ast.Constant) else _UNKNOWN


def _is_namespace(value: Value) -> bool:
    """What `parse_args()` returned, or the first of `parse_known_args()`."""
    if isinstance(value, Item):
        return value.index == 0 and _is_namespace(value.owner)
    made = value.made_by if isinstance(value, Object) else None
    return isinstance(made, Member) and made.name in ("parse_args", "parse_known_args")
