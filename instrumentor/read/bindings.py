"""What each scope of a module binds, and to what: the ground that names are resolved on."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct, field

from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    all_parameters,
    below,
    bound_by,
)

#: Steps into a bound value: the index of an unpacked part, None for any element.
Path: TypeAlias = tuple[int | None, ...]


class Bound(Struct, frozen=True):
    """A name bound to (a part of) the value of an expression."""

    value: ast.expr
    path: Path = ()


class Imported(Struct, frozen=True):
    """`import module`, or `from module import name`; name is '*' for all of it."""

    module: str
    name: str
    level: int


class Defined(Struct, frozen=True):
    """A function or class statement."""

    node: FunctionNode | ast.ClassDef


class Parameter(Struct, frozen=True):
    """A parameter of a function; position counts positional ones, -1 for the others."""

    function: FunctionNode
    argument: ast.arg
    position: int


#: What a list or a dict is made longer by.
_FILLS = (ast.List, ast.Tuple, ast.ListComp, ast.Dict, ast.Name, ast.Attribute)

Binding: TypeAlias = Bound | Imported | Defined | Parameter
Table: TypeAlias = dict[str, list[Binding]]


class Put(Struct, frozen=True):
    """`owner.name = value`; with name '' `owner[...] = value`, and what methods put there.

    key: of `owner["key"] = value` or `owner.update(key=value)`; None where none is written out.
    """

    scope: ScopeNode
    owner: ast.expr
    name: str
    bound: Bound
    key: str | None = None


class Bindings(Struct, eq=False, dict=True):
    """The tables of one module."""

    source: Source
    scopes: dict[ScopeNode, Table] = field(default_factory=dict)
    classes: dict[ast.ClassDef, Table] = field(default_factory=dict)
    puts: list[Put] = field(default_factory=list)
    #: Elements that come in by `fns += [f]`.
    fills: list[Put] = field(default_factory=list)
    #: `setattr(owner, name, value)` by a name that is computed, and `owner.__dict__.update(...)`.
    sets: list[Put] = field(default_factory=list)

    def __post_init__(self) -> None:
        for statement, place in self.source.places.items():
            self._bind(statement, place.scope, self._table(statement))
        for node in self.source.nodes:
            if isinstance(node, (ast.comprehension, ast.NamedExpr)):
                scope, at = self.source.scope_of(node), self.source.statement_of(node)
                own = self._of(scope)
                if isinstance(node, ast.NamedExpr) and at is not None:
                    own = self._table(at)
                for target, bound in targets_of(node):
                    self._target(scope, own, target, bound)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                self._fill(node, node.func)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self._set(node)
            elif isinstance(node, ast.AugAssign) and isinstance(node.value, _FILLS):
                scope = self.source.scope_of(node)
                self.fills.append(Put(scope, node.target, "", Bound(node.value, (None,))))
        self._share_globals()

    def _fill(self, call: ast.Call, method: ast.Attribute) -> None:
        """What a method puts into a list or a dict."""
        scope, owner = self.source.scope_of(call), method.value
        for key, added in _added_by(call, method.attr):
            self.puts.append(Put(scope, owner, "", added, key))
        of = owner.value if isinstance(owner, ast.Attribute) and owner.attr == "__dict__" else None
        if method.attr == "update" and of is not None:
            values = [*call.args, *(k.value for k in call.keywords if k.arg is None)]
            self.sets += [Put(scope, of, "", Bound(value, (None,))) for value in values]

    def _set(self, call: ast.Call) -> None:
        """`setattr(owner, "name", value)`"""
        match call:
            case ast.Call(func=ast.Name(id="setattr"), args=[owner, named, value]):
                scope = self.source.scope_of(call)
                written = isinstance(named, ast.Constant) and isinstance(named.value, str)
                name = str(named.value) if isinstance(named, ast.Constant) else ""
                into = self.puts if written else self.sets
                into.append(Put(scope, owner, name, Bound(value)))

    def _of(self, scope: ScopeNode) -> Table:
        return self.scopes.setdefault(scope, defaultdict(list))

    def _table(self, statement: ast.stmt) -> Table:
        place = self.source.places[statement]
        cls = self.source.class_around(statement)
        if cls is not None:
            return self.classes.setdefault(cls, defaultdict(list))
        return self._of(place.scope)

    def _bind(self, statement: ast.stmt, scope: ScopeNode, table: Table) -> None:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            table[statement.name].append(Defined(statement))
            if isinstance(statement, FUNCTIONS):
                self._parameters(statement)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                table[alias.asname or whole].append(Imported(whole, "", 0))
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                found = Imported(statement.module or "", alias.name, statement.level)
                table[alias.asname or alias.name].append(found)
        else:
            for target, bound in targets_of(statement):
                self._target(scope, table, target, bound)

    def _target(self, scope: ScopeNode, table: Table, target: ast.expr, bound: Bound) -> None:
        if isinstance(target, ast.Name):
            table[target.id].append(bound)
        elif isinstance(target, ast.Attribute):
            self.puts.append(Put(scope, target.value, target.attr, bound))
        elif isinstance(target, ast.Subscript):
            self.puts.append(Put(scope, target.value, "", bound, _text(target.slice)))

    def _parameters(self, function: FunctionNode) -> None:
        positional = len(function.args.posonlyargs) + len(function.args.args)
        for at, argument in enumerate(all_parameters(function)):
            parameter = Parameter(function, argument, at if at < positional else -1)
            self._of(function)[argument.arg].append(parameter)

    def _share_globals(self) -> None:
        """What a function binds under `global` or `nonlocal` is bound in the scope around it."""
        for statement, place in self.source.places.items():
            if isinstance(statement, (ast.Global, ast.Nonlocal)):
                outer: ScopeNode = self.source.tree
                if isinstance(statement, ast.Nonlocal) and isinstance(place.scope, FUNCTIONS):
                    outer = self.source.scope_of(place.scope)
                inner = self._of(place.scope)
                for name in statement.names:
                    self._of(outer)[name].extend(inner.pop(name, ()))

    @cached_property
    def stars(self) -> list[Imported]:
        """`from module import *` of the module's own scope."""
        found = self.scopes.get(self.source.tree, {}).get("*", ())
        return [b for b in found if isinstance(b, Imported)]


def _added_by(call: ast.Call, method: str) -> Iterator[tuple[str | None, Bound]]:
    """What a call of a container's method puts there, with its key where one is written out."""
    match method, call.args:
        case ("append" | "add" | "appendleft", [value]) | ("insert", [_, value]):
            yield None, Bound(value)
        case ("setdefault", [key, value]):
            yield _text(key), Bound(value)
        case ("update", [ast.Dict(keys=keys, values=values)]):
            for at, value in zip(keys, values, strict=True):
                yield _text(at), Bound(value, (None,) if at is None else ())
        case ("extend" | "update", [others]):
            yield None, Bound(others, (None,))
    for keyword in call.keywords if method == "update" else ():
        yield keyword.arg, Bound(keyword.value, () if keyword.arg else (None,))


def _text(key: ast.AST | None) -> str | None:
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def targets_of(node: ast.AST) -> Iterator[tuple[ast.expr, Bound]]:
    """Names, attributes and elements that a statement's header binds, each with its own value."""
    for target, bound in _bound_by(node):
        yield from _unpacked(target, bound)


def _bound_by(node: ast.AST) -> Iterator[tuple[ast.expr, Bound]]:
    """Targets of a statement's own header or an expression, each with what it is bound to."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, Bound(value)) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, Bound(value)
        case ast.NamedExpr(target=target, value=value):
            yield target, Bound(value)
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            yield node.target, Bound(node.iter, (None,))
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield item.optional_vars, Bound(item.context_expr)
        case ast.Match(subject=subject, cases=cases):
            for case in cases:
                yield from _captured(case.pattern, subject)
    for handler in getattr(node, "handlers", ()):
        if handler.name and handler.type is not None:
            yield ast.Name(handler.name, ast.Store()), Bound(handler.type, (None,))


def _captured(pattern: ast.pattern, subject: ast.expr) -> Iterator[tuple[ast.expr, Bound]]:
    for node in below(pattern):
        bound = Bound(subject, () if node is pattern else (None,))
        yield from ((ast.Name(name, ast.Store()), bound) for name in bound_by(node))


def _unpacked(target: ast.expr, bound: Bound) -> Iterator[tuple[ast.expr, Bound]]:
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, bound
        return
    given = bound.value.elts if isinstance(bound.value, (ast.Tuple, ast.List)) else []
    spread = any(isinstance(e, ast.Starred) for e in (*target.elts, *given))
    for at, element in enumerate(target.elts):
        if isinstance(element, ast.Starred):
            yield from _unpacked(element.value, Bound(bound.value, (*bound.path, None)))
        elif len(given) == len(target.elts) and not spread and not bound.path:
            yield from _unpacked(element, Bound(given[at]))
        else:
            part = (*bound.path, None if spread else at)
            yield from _unpacked(element, Bound(bound.value, part))
