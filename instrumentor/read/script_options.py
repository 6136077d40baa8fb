"""What the options of a script come to: as it is called, else by their defaults.

Where a script holds several training loops and its options choose one (`if args.lm:`), the loop
that runs is the one that the options leave; and so of several ways through one step.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NoReturn

from instrumentor.read.bindings import Bound, Parameter
from instrumentor.read.callers import given_by_all
from instrumentor.read.constants import (
    UNKNOWN,
    came_to,
    decided,
    decided_against,
    is_same,
    left_out,
    written_out,
)
from instrumentor.read.fixpoint import Answers
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    arguments,
    contains,
    dotted,
    last,
    parse,
    source_of,
    suites,
)
from instrumentor.read.values import Class, External, Item, Member, Object, Opaque, Value

#: A statement and where it stands.
Place = tuple[Source, ast.stmt]
_PARSE = ("parse_args", "parse_known_args")
#: What the script gives to `parse_args` in place of what it was called with.
_WRITTEN_OUT = (ast.List, ast.Tuple, ast.Call, ast.BinOp)
#: Options that launchers give to a script, unless the script's own command line does.
_BY_LAUNCHERS = ("local_rank",)
#: Keywords of `add_argument` that a value hangs on.
#: `--flag` and `--no-flag`.
_EITHER = "BooleanOptionalAction"
#: Methods of a table after which it may have other keys.
_SET_KEYS = ("update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__")
_READ = ("action", "const", "default", "dest", "nargs", "required", "type")
_TYPES = {"bool": bool, "float": float, "int": int, "str": str}


class ScriptOptions:
    """Options that a program gives to argparse, with their values.

    Args:
        arguments: what the script is called with.
    """

    def __init__(self, program: Program, arguments: Sequence[str] = ()) -> None:
        self.program, self.arguments, self._answers = program, arguments, Answers()

    def entry_as_called(self) -> Source | None:
        """The entry without the branches that the options rule out; None when they rule out none.

        Every line keeps its number.
        """
        entry, ruled_out = self.program.entry, False
        tree = parse(entry.path, entry.data).tree
        for node, twin in zip(ast.walk(entry.tree), [*ast.walk(tree)], strict=True):
            out = {*left_out(node, lambda test: self.answer(entry, test))}
            for suite, same in zip(suites(node), suites(twin), strict=True) if out else ():
                if suite[0] in out:
                    same[:] = [ast.copy_location(ast.Pass(), same[0])]
            ruled_out |= bool(out)
        return source_of(entry.path, entry.data, tree) if ruled_out else None

    @cached_property
    def never(self) -> dict[ast.stmt, Source]:
        """The statements of the branches that the options leave out, in any module."""
        return {
            statement: source
            for source in self.program.sources.values()
            for node in source.places
            if isinstance(node, (ast.If, ast.Match))
            for statement in left_out(node, partial(self.answer, source))
        }

    @cached_property
    def plain(self) -> frozenset[str]:
        """Options that hold a number or a text, as far as argparse is told."""
        added: dict[str, bool] = {}
        for _, _, call in self.program.calls_named("add_argument"):
            given = {k.arg: k.value for k in call.keywords}
            flags = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
            long = next((f for f in flags if f.startswith("--")), next(iter(flags), ""))
            name = getattr(given.get("dest"), "value", None) or long.lstrip("-").replace("-", "_")
            added[str(name)] = added.get(str(name), True) and _holds_one(given)
        return frozenset(name for name, is_plain in added.items() if is_plain)

    def rule_out(self, source: Source, statement: ast.stmt) -> bool:
        """Whether an `if` around a statement is decided against it."""
        return decided_against(source, statement, lambda test: self.answer(source, test))

    def branch_of(self, source: Source, statement: ast.stmt) -> ast.stmt:
        """The outermost test by which the options leave a statement out; else itself."""
        return next(
            (
                test
                for test in reversed([*source.parents(statement)])
                if any(contains(out, statement) for out in self.left_out_of(source, [test]))
            ),
            statement,
        )

    def left_out_of(self, source: Source, statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
        """What of these statements' branches the options leave out."""
        for statement in statements:
            yield from left_out(statement, lambda test: self.answer(source, test))

    def makes(self, value: Value | None) -> bool:
        """Whether a run may come to where an object is made; True of all else."""
        if not isinstance(value, Object) or value.node is None or value.where is None:
            return True
        source, _ = value.where
        at = source.statement_of(value.node)
        return at is None or not self.rule_out(source, at)

    def never_made(
        self, source: Source, scope: ScopeNode, call: ast.Call, method: Function
    ) -> Place | None:
        """Where the object whose method this is would be made, if the options leave that out.

        Only where one of another class, with another method, is made in its place.
        """
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        left_out: Place | None = None
        instead = False
        for value in self.program.of(source, scope, owner) if owner is not None else ():
            if not isinstance(value, Object) or not isinstance(value.made_by, Class):
                return None  # it may be anything
            where = value.where[0] if value.where is not None else source
            at = where.statement_of(value.node) if value.node is not None else None
            out = at is not None and self.rule_out(where, at)
            nodes = (
                f.node for f in self.program.methods(value.made_by, method.name, overrides=False)
            )
            if method.node not in nodes:
                instead |= not out
            elif not out:
                return None
            elif at is not None:
                left_out = (where, at)
        return left_out if instead else None

    def answer(self, source: Source, test: ast.expr) -> bool | None:
        """What a test comes to; None where the options do not decide it."""
        if written_out(test) is not None or self._may_be_any:
            return None
        return decided(test, partial(self._named, source))

    # -- values --------------------------------------------------------------------------------

    def value(self, source: Source, node: ast.expr) -> object:
        """What an expression comes to that holds an option or a constant; None where not told."""
        told = written_out(node) is None and not self._may_be_any
        found = self._value(source, node) if told else UNKNOWN
        return None if found is UNKNOWN else found

    def _value(self, source: Source, node: ast.expr) -> object:
        return came_to(node, partial(self._named, source))

    def _named(self, source: Source, node: ast.expr) -> object:
        """What a name or an attribute is: an option, or what holds one and nothing else."""
        return self._answers.ask(node, lambda: self._meant(source, node), UNKNOWN)

    def _meant(self, source: Source, node: ast.expr) -> object:
        match node:
            case ast.Name(id=name):
                return self._of_name(source, source.scope_of(node), name)
            case ast.Attribute(value=owner, attr=name):
                if name in self._values and self._is_parsed(source, owner):
                    return self._values[name]
                return self._of_attribute(source, node)
            case ast.Subscript(value=table, slice=ast.Constant(value=str(name))):
                if name in self._values and self._is_table(source, table):
                    return self._values[name]
        return UNKNOWN

    def _of_name(self, source: Source, scope: ScopeNode, name: str) -> object:
        binder = self.program.binder(source, scope, name)
        match self.program.bound(source, binder, name) if binder is not None else []:
            case [Bound(value=ast.List() | ast.Set(), path=())]:
                return UNKNOWN  # which may be filled
            case [Bound(value=value, path=())] if not (
                any(source.grown(name)) or self._is_put(binder, name) or self._may_be_option(value)
            ):
                return self._value(source, value)
            case [Parameter(function=function)] if not any(source.grown(name)):
                given = given_by_all(self.program, Function(source, function), name)
                return _one(self._value(home, value) for home, _, value in given or ())
        return UNKNOWN

    def _of_attribute(self, source: Source, node: ast.Attribute) -> object:
        """`self.tune` or `settings.tune`, which nothing but the object's own class sets."""
        meant = self.program.of(source, source.scope_of(node), node.value)
        made = {v.made_by if isinstance(v, Object) else None for v in meant}
        puts = self.program.puts_of(node.attr) if len(made) == 1 else []
        own = {self.program.class_of_self(s, p.scope, p.owner) for s, p in puts} <= made - {None}
        if not own or self._is_set_otherwise(node.attr):
            return UNKNOWN
        if any(any(s.grown(node.attr)) or p.bound.path for s, p in puts):
            return UNKNOWN
        return _one(self._value(s, p.bound.value) for s, p in puts)

    def _may_be_option(self, value: ast.expr) -> bool:
        """Whether a variable may be an option by itself, in a script that has no others.

        Where nothing is parsed, a command line may be read into the variables of a module.
        """
        return not self._values and written_out(value) is not None

    def _is_put(self, binder: ScopeNode | None, name: str) -> bool:
        """Whether a variable of a module may be set from outside: `state.name = value`."""
        self_of = self.program.class_of_self
        puts = [] if isinstance(binder, FUNCTIONS) else self.program.puts_of(name)
        return any(self_of(source, put.scope, put.owner) is None for source, put in puts)

    def _is_set_otherwise(self, name: str) -> bool:
        """Whether a class body sets an attribute of that name, or one may be set by its text."""
        by_text = {text for _, _, text in self._set_by_text}
        return bool(by_text & {name, ""}) or self.program.is_of_a_class(name)

    def _is_parsed(self, source: Source, node: ast.expr) -> bool:
        """Whether an expression is what `parse_args()` returned."""
        values = self.program.of(source, source.scope_of(node), node)
        return bool(values) and all(map(is_namespace, values))

    def _is_table(self, source: Source, node: ast.expr) -> bool:
        """Whether an expression is the table of what was parsed: `config = vars(args)`."""
        values = self.program.of(source, source.scope_of(node), node)
        return bool(values) and all(map(self._is_made_a_table, values))

    def _is_made_a_table(self, value: Value) -> bool:
        match value:
            case Object(made_by=External(name="builtins.vars"), node=ast.Call(args=[one])):
                return value.where is not None and self._is_parsed(value.where[0], one)
        return False

    @cached_property
    def _set_in_tables(self) -> list[tuple[Source, ast.expr, str]]:
        """Where such a table, or what may be one, gets or loses a key, '' for one not known."""
        found = [each for source in self.program.sources.values() for each in _keyed(source)]
        if not self.program.calls_named("vars"):
            return []
        return [each for each in found if self._may_be_table(*each)]

    def _may_be_table(self, source: Source, node: ast.expr, key: str) -> bool:
        values = self.program.of(source, source.scope_of(node), node)
        untold = not values or any(isinstance(v, Opaque) for v in values)
        return bool(key and untold) or any(map(self._is_made_a_table, values))

    @cached_property
    def _values(self) -> dict[str, object]:
        """By their names in the namespace, those that are known: argparse itself reads them."""
        parser, known = _Parser(add_help=False), dict[str, bool]()
        for _, _, call in self.program.calls_named("add_argument"):
            name, is_plain = _add(parser, call, self.arguments)
            known[name] = is_plain and name not in known
        if self._may_be_any:
            return {}
        try:
            found = vars(parser.parse_known_args(list(self.arguments))[0])
        except ValueError:
            return {}
        return {n: v for n, v in found.items() if known.get(n) and not self._is_set_later(n)}

    @cached_property
    def _may_be_any(self) -> bool:
        """Options of names that are not written out may be set: `vars(args).update(settings)`."""
        named = self.program.calls_named
        parsing = [c for word in _PARSE for *_, c in named(word)]
        return (
            any(k.arg is None for *_, call in named("set_defaults") for k in call.keywords)
            or any(k.arg == "namespace" for call in parsing for k in call.keywords)
            or any(isinstance(a, _WRITTEN_OUT) for call in parsing for a in arguments(call))
            or any(last(dotted(put.owner)) == "argv" for _, put in self.program.puts_of(""))
            or any(not text and self._is_parsed(s, owner) for s, owner, text in self._set_by_text)
            or any(not key for *_, key in self._set_in_tables)
        )

    @cached_property
    def _set_by_text(self) -> list[tuple[Source, ast.expr, str]]:
        """Objects that have attributes set by a text, with it, '' for one that is not known.

        `setattr(args, name, value)`, `vars(args).update(settings)`, `args.__dict__[name] = value`
        """
        named = self.program.calls_named
        found = [
            (source, call.args[0], text)
            for source, scope, call in named("setattr")
            if call.args[1:]
            for text in self._among(source, scope, call) or [_text(call.args[1])]
        ]
        tables = [(source, put.owner) for source, put in self.program.puts_of("")]
        tables += [(source, call.func) for source, _, call in named("update")]
        owners = ((source, _owner_of_table(table)) for source, table in tables)
        return [*found, *((source, owner, "") for source, owner in owners if owner is not None)]

    def _among(self, source: Source, scope: ScopeNode, call: ast.Call) -> list[str]:
        """The texts that `name` is one of in `if name in FLAGS: setattr(args, name, value)`."""
        named, at = call.args[1], source.statement_of(call)
        for around in source.parents(at) if at is not None and isinstance(named, ast.Name) else ():
            match around:
                case ast.If(
                    test=ast.Compare(left=left, ops=[ast.In()], comparators=[ast.Name(id=flags)]),
                    body=[only],
                ) if only is at and dotted(left) == dotted(named):
                    binder = self.program.binder(source, scope, flags)
                    bound = self.program.bound(source, binder, flags) if binder is not None else []
                    match bound:
                        case [Bound(value=ast.List() | ast.Tuple() | ast.Set() as held, path=())]:
                            texts = [*map(_text, held.elts)]
                            return texts if all(texts) and not any(source.grown(flags)) else []
        return []

    def _is_set_later(self, name: str) -> bool:
        """By `parser.set_defaults(name=...)`, `args.name = ...` or `vars(args)["name"] = ...`."""
        if any(key == name for *_, key in self._set_in_tables):
            return True
        defaults = (k.arg for *_, c in self.program.calls_named("set_defaults") for k in c.keywords)
        owners = [
            (source, node.value)
            for source in self.program.sources.values()
            for node in source.mentions.get(name, ())
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        ]
        owners += [(source, owner) for source, owner, text in self._set_by_text if text == name]
        return name in defaults or any(self._may_be_parsed(*each) for each in owners)

    def _may_be_parsed(self, source: Source, node: ast.expr) -> bool:
        """Whether an expression is, or may be, what `parse_args()` returned."""
        values = self.program.of(source, source.scope_of(node), node)
        return not values or any(isinstance(v, Opaque) or is_namespace(v) for v in values)


def _owner_of_table(node: ast.expr) -> ast.expr | None:
    """`args` of `vars(args)`, of `args.__dict__` and of methods of them."""
    match node:
        case ast.Call(func=ast.Name(id="vars"), args=[owner]):
            return owner
        case ast.Attribute(value=owner, attr="__dict__"):
            return owner
        case ast.Attribute(value=owner):
            return _owner_of_table(owner)
    return None


def _keyed(source: Source) -> Iterator[tuple[Source, ast.expr, str]]:
    """What gets or loses a key in a module, with the key, '' for one that is not written out."""
    for node in source.nodes:
        match node:
            case ast.Subscript(value=owner, slice=index, ctx=ast.Store() | ast.Del()):
                yield source, owner, _text(index)
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as owner, op=ast.BitOr()):
                yield source, owner, ""
            case ast.Call(func=ast.Attribute(value=owner, attr=word)) if word in _SET_KEYS:
                first = [*map(_text, node.args[:1])] if word in ("setdefault", "pop") else []
                keys = first or [k.arg or "" for k in node.keywords]
                unknown = [""] if not keys or (node.args and not first) else []
                yield from ((source, owner, key) for key in (*keys, *unknown))


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _one(values: Iterable[object]) -> object:
    """The value that all of them are."""
    first, *others = [*values] or [UNKNOWN]
    return first if all(is_same(first, other) for other in others) else UNKNOWN


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _add(
    parser: argparse.ArgumentParser, call: ast.Call, arguments: Sequence[str]
) -> tuple[str, bool]:
    """Add what a call of `add_argument` adds; its name, and whether its value can be known."""
    converted = True
    flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    given = {k.arg: k.value for k in call.keywords if k.arg in _READ}
    constants = {str(name): written_out(node) for name, node in given.items()}
    plain: dict[str, Any] = {n: c.value for n, c in constants.items() if c is not None}
    kind = given.get("type")
    if isinstance(kind, ast.Name) and kind.id in _TYPES:
        plain["type"] = _TYPES[kind.id]
    elif kind is not None and not isinstance(plain.get("default", ""), str):
        given.pop("type")  # it reads what is given as text, which none is
        converted = not any(_may_be(a, flags) for a in arguments)
    if _action(given) == _EITHER:
        plain["action"] = argparse.BooleanOptionalAction
    elsewhere = plain.pop("required", False) or any(
        flag.lstrip("-").replace("-", "_") in _BY_LAUNCHERS for flag in flags
    )
    told = converted and (not elsewhere or any(_may_be(a, flags) for a in arguments))
    try:
        if plain.get("action") in ("help", "version"):
            raise ValueError("it ends the script")
        name = parser.add_argument(*flags, **plain).dest
    except (ValueError, TypeError, argparse.ArgumentError):  # given twice, or nothing of argparse
        return flags[-1].lstrip("-").replace("-", "_") if flags else "", False
    return name, flags[0].startswith("-") and told and plain.keys() >= given.keys() - {"required"}


def _holds_one(given: Mapping[str | None, ast.expr]) -> bool:
    """Whether what `add_argument` is given makes an option of one number or text."""
    kind = given.get("type")
    several = "nargs" in given and getattr(given["nargs"], "value", None) != "?"
    of_its_own = kind is not None and not (isinstance(kind, ast.Name) and kind.id in _TYPES)
    default = given.get("default", ast.Constant(None))
    written = isinstance(default, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.JoinedStr))
    one = _action(given) in ("store", "store_true", "store_false", "store_const", "count", _EITHER)
    return one and written and not (several or of_its_own or None in given)


def _action(given: Mapping[Any, ast.expr]) -> object:
    """Its text, or the name of its class."""
    node = given.get("action", ast.Constant("store"))
    return node.value if isinstance(node, ast.Constant) else last(dotted(node))


def _may_be(argument: str, flags: Sequence[str]) -> bool:
    """Whether an argument gives an option: also by the first letters of it, or with its value."""
    given = argument.partition("=")[0]
    return given.startswith("-") and any(
        flag.startswith(given) or given.startswith(flag) for flag in flags
    )


def is_namespace(value: Value) -> bool:
    """What `parse_args()` returned, or the first of `parse_known_args()`."""
    if isinstance(value, Item):
        return value.index == 0 and is_namespace(value.owner)
    made = value.made_by if isinstance(value, Object) else None
    return isinstance(made, Member) and made.name in _PARSE
