"""Which names hold numbers of Python's own: to show or to compare one waits for no device."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct, field

from instrumentor.locate.meaning import methods
from instrumentor.read.bindings import Binding, Bound, Parameter
from instrumentor.read.program import Function, Program
from instrumentor.read.signatures import default_of
from instrumentor.read.syntax import ScopeNode, Source, callee

#: Functions whose result is a number, or a description of what they are given.
_COUNT = frozenset(
    f"builtins.{name}" for name in ("len", "int", "float", "bool", "range", "isinstance", "type")
)
#: Methods of a tensor whose result is a number; `x.type(dtype)` is another tensor.
_OF_A_TENSOR = (methods.DESCRIBES_TENSOR - {"type"}) | {"item"}
#: Functions whose result is a number where what they are given is.
_OF_NUMBERS = frozenset(
    f"builtins.{name}" for name in ("min", "max", "sum", "abs", "round", "pow", "divmod", "str")
)
#: Expressions that hold what their parts hold.
_OF_PARTS = (
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple),
    *(ast.JoinedStr, ast.FormattedValue),
)
_Place = tuple[Source, ScopeNode, ast.expr]


def is_plain(program: Program, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
    """Whether an expression is made of numbers and texts of Python's own alone.

    Literals, lengths, shapes, counters of `range` and `enumerate`, times of day, and names,
    attributes of `self` and parameters that are never given anything else.
    """
    return _Asked(program).plain((source, scope, node))


class _Asked(Struct, eq=False):
    """One question: what it has come to before is taken for plain, until a part of it is not."""

    program: Program
    met: set[tuple[object, str]] = field(default_factory=set)

    def plain(self, place: _Place) -> bool:
        source, scope, node = place
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return self._name(source, scope, name)
            case ast.Attribute(attr=word) if word in methods.DESCRIBES_TENSOR:
                return True
            case ast.Call(func=ast.Attribute(attr=word)) if word in _OF_A_TENSOR:
                return True
            case ast.Attribute():
                return self._attribute(source, scope, node)
            case ast.Subscript(value=held):
                return self.plain((source, scope, held))
            case ast.Call():
                return self._call(source, scope, node)
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return isinstance(node, _OF_PARTS) and all(self.plain((source, scope, n)) for n in parts)

    def _call(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        name = self.program.qualified(source, scope, call.func)
        if name in _COUNT or name.startswith("time."):
            return True
        given = (*call.args, *(k.value for k in call.keywords))
        return name in _OF_NUMBERS and all(self.plain((source, scope, a)) for a in given)

    def _name(self, source: Source, scope: ScopeNode, name: str) -> bool:
        where = self.program.binder(source, scope, name)
        if where is None or (where, name) in self.met:
            return where is not None
        self.met.add((where, name))
        added = (
            (at, statement.value)
            for at, statement in _added(source).get(name, ())
            if self.program.binder(source, at, name) is where
        )
        return all(
            self._binding(source, where, each) for each in self.program.bound(source, where, name)
        ) and all(self.plain((source, at, value)) for at, value in added)

    def _attribute(self, source: Source, scope: ScopeNode, node: ast.Attribute) -> bool:
        """Of `self.step`: whatever sets an attribute of that name anywhere sets a number."""
        program, name = self.program, node.attr
        puts = program.puts_of(name)
        if not puts or program.class_of_self(source, scope, node.value) is None:
            return False
        if (None, name) in self.met:
            return True
        self.met.add((None, name))
        added = (
            (where, at, statement.value)
            for where in program.sources.values()
            for at, statement in _added(where).get(f".{name}", ())
        )
        return all(self._part(where, put.scope, put.bound) for where, put in puts) and all(
            map(self.plain, added)
        )

    def _binding(self, source: Source, scope: ScopeNode, binding: Binding) -> bool:
        if isinstance(binding, Bound):
            return self._part(source, scope, binding)
        return isinstance(binding, Parameter) and self._parameter(source, binding)

    def _part(self, source: Source, scope: ScopeNode, bound: Bound) -> bool:
        """A value, or what it holds: a count of `enumerate`, a key, whatever else there is."""
        if bound.path[:2] == (None, 0) and self._counts(source, scope, bound.value):
            return True
        return self.plain((source, scope, bound.value))

    def _counts(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """`enumerate(loader)`, or `losses.items()`, also in `tqdm(enumerate(loader))`."""
        if isinstance(node, ast.Call) and callee(node) == "items" and not node.args:
            return True
        while isinstance(node, ast.Call) and node.args:
            name = self.program.qualified(source, scope, node.func)
            if name == "builtins.enumerate":
                return all(self.plain((source, scope, start)) for start in _start(node))
            if callee(node) != "tqdm":
                return False
            node = node.args[0]
        return False

    def _parameter(self, source: Source, parameter: Parameter) -> bool:
        """Whether all calls of a function are seen, and each gives a number or leaves it."""
        program, function = self.program, Function(source, parameter.function)
        name, callers = parameter.argument.arg, program.callers.get(parameter.function, ())
        unknown = any(not program.resolve(*made) for made in program.calls_named(function.name))
        if not callers or unknown or parameter.function in program.handed:
            return False
        for scope, call, _ in callers:
            where = program.source_of_scope[scope]
            given = dict(program.given(where, scope, call, function))
            value = given.get(name, default_of(parameter.function, name))
            if value is None or not self.plain((where, scope, value)):
                return False
        return True


def _start(call: ast.Call) -> Iterator[ast.expr]:
    yield from (*call.args[1:], *(k.value for k in call.keywords))


@lru_cache(maxsize=256)
def _added(source: Source) -> dict[str, list[tuple[ScopeNode, ast.AugAssign]]]:
    """`x += value` by the name, `self.x += value` by `.x`, each with its scope."""
    found: dict[str, list[tuple[ScopeNode, ast.AugAssign]]] = defaultdict(list)
    for statement, place in source.places.items():
        match statement:
            case ast.AugAssign(target=ast.Name(id=name)):
                found[name].append((place.scope, statement))
            case ast.AugAssign(target=ast.Attribute(attr=name)):
                found[f".{name}"].append((place.scope, statement))
    return found
