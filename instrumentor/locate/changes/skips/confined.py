"""Objects that nothing but names leads to, told apart by the call that made each.

What a library, a container or an attribute never gets is used where it is named: as `x.total`, in
the methods that `x.add()` runs, in functions that are given `x`. Two meters of one class are two
objects then, and what one of them counts says nothing of the other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from instrumentor.locate.changes.skips.liveness import variables
from instrumentor.read.bindings import Bound, Parameter, targets_of
from instrumentor.read.control_flow import START, flow_of
from instrumentor.read.names import external_name
from instrumentor.read.program import Function, Program
from instrumentor.read.signatures import is_decorated, own_parameter
from instrumentor.read.syntax import FUNCTIONS, ScopeNode, Source, contains, own_nodes
from instrumentor.read.values import PLAIN_BASES, Class, Object

Place = tuple[Source, ScopeNode, ast.expr]
#: A variable: where it is bound, and its name.
_Variable = tuple[Source, ScopeNode, str]
#: In a function that may go on, or read something, later than where that stands.
_LATER = (ast.Yield, ast.YieldFrom, ast.Await, ast.GeneratorExp, ast.Lambda, ast.Try)
#: Methods that run where nothing names them, or decide what an attribute is.
_DECIDING = {"__new__", "__getattr__", "__getattribute__", "__setattr__", "__delattr__", "__del__"}


class Escapes(Exception):
    """Something else than names leads to the object."""


class Confined(Struct, eq=False, dict=True):
    """Of a program's objects those that only names lead to; answers are kept."""

    program: Program
    _known: dict[Object, bool] = field(default_factory=dict)

    def holds(self, made: Object) -> bool:
        """Whether names alone lead to what a call made."""
        if made not in self._known:
            try:
                self._known[made] = bool([*self.uses(made, lambda _: True)])
            except Escapes:
                self._known[made] = False
        return self._known[made]

    def uses(
        self, made: Object, runs: Callable[[Place], bool]
    ) -> Iterator[tuple[Source, ast.Attribute]]:
        """Where an attribute of the object is named, in methods and functions that get it too.

        Args:
            runs: whether a place is run; what it calls is not gone into otherwise.

        Raises:
            Escapes: something else than names leads to the object.
        """
        waiting, seen = [*self._first(made, runs)], set[_Variable]()
        while waiting:
            variable = waiting.pop()
            if variable in seen:
                continue
            seen.add(variable)
            for node in variables(self.program, *variable):
                source, scope = variable[0], self.program.scope_of(variable[0], node)
                at = self._parent(source, node)
                if isinstance(at, ast.Attribute):
                    yield source, at
                if runs((source, scope, node)):
                    waiting += self._led_to(made, source, scope, node, at)

    def _first(self, made: Object, runs: Callable[[Place], bool]) -> Iterator[_Variable]:
        """Names of what a call makes, and that of its constructor."""
        if made.node is None or made.where is None or not isinstance(made.made_by, Class):
            raise Escapes
        (source, scope), cls = made.where, made.made_by
        if not self._is_plain(cls):
            raise Escapes
        yield from self._names(made)
        if runs((source, scope, made.node)):
            for method in self.program.methods(cls, "__init__", overrides=False):
                yield from _itself(method)

    def places(self, made: Object) -> list[Place]:
        """Where the names of an object that nothing else leads to stand, but for what they get."""
        return [
            (variable[0], self.program.scope_of(variable[0], node), node)
            for variable in self._names(made)
            for node in variables(self.program, *variable)
        ]

    def is_set_ahead(
        self, source: Source, scope: ScopeNode, node: ast.expr, home: ScopeNode
    ) -> bool:
        """Whether a method sets an attribute of its object wherever it comes to read it.

        Args:
            home: a scope whose statements may set it as well, unless the method runs that.
        """
        statement, owner = source.statement_of(node), getattr(node, "value", None)
        if statement is None or scope is home or not isinstance(scope, FUNCTIONS):
            return False
        nodes = [*own_nodes(scope)]
        if not isinstance(owner, ast.Name) or any(isinstance(n, _LATER) for n in nodes):
            return False
        own = self.program.names.binder(source, scope, owner.id) is scope
        bound = self.program.names.bound(source, scope, owner.id)
        if not own or not all(isinstance(b, Parameter) for b in bound):
            return False
        sets = [
            n
            for n in nodes
            if isinstance(n, ast.Assign) and n is not statement
            if ast.unparse(node) in map(ast.unparse, n.targets)
        ]
        flow = flow_of(scope)
        if not sets or statement not in flow.begins:
            return False
        if home in self.program.called_from(scope, scope.body):
            return False
        return not flow.path(START, flow.before(statement), {flow.before(s) for s in sets})

    def _names(self, made: Object) -> Iterator[_Variable]:
        """The names that a call's own statement binds to what it makes."""
        assert made.node is not None and made.where is not None
        source, scope = made.where
        statement = source.statement_of(made.node)
        in_a_class = statement is None or source.class_around(statement) is not None
        if in_a_class or not isinstance(statement, ast.Assign):
            raise Escapes
        node = made.node  # one of `losses, top1 = Meter(), Meter()`
        bound = [(t, b) for t, b in targets_of(statement) if contains(b.value, node)]
        if not bound or any(b.value is not node or b.path for _, b in bound):
            raise Escapes
        for target, _ in bound:
            owner = None
            if isinstance(target, ast.Name):
                owner = self.program.binder(source, scope, target.id)
            if owner is None or not isinstance(target, ast.Name):
                raise Escapes
            if owner is source.tree and source.path in self._imported:
                raise Escapes
            yield source, owner, target.id

    @cached_property
    def _imported(self) -> set[Path]:
        """Files of the modules whose variables others may name."""
        program = self.program
        return {path for each in program.sources.values() for path in program.imported_files(each)}

    def _is_plain(self, cls: Class) -> bool:
        """A class on no other, so that its own statements say what its objects do."""
        source, node = cls.source, cls.node
        scope = source.scope_of(node)
        bases = [v for b in node.bases for v in self.program.of(source, scope, b) or (None,)]
        made = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
        names = (self.program.of(source, scope, d) for d in made)
        known = all([*map(external_name, v)] == ["dataclasses.dataclass"] for v in names)
        odd = _DECIDING & self.program.bindings_of(source).classes.get(node, {}).keys()
        return known and not odd and not node.keywords and all(b in PLAIN_BASES for b in bases)

    def _led_to(
        self, made: Object, source: Source, scope: ScopeNode, node: ast.Name, at: ast.AST | None
    ) -> Iterator[_Variable]:
        """The parameters that get the object where it is named."""
        match at:
            case ast.Attribute():
                yield from self._accessed(made, source, at)
            case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
                pass
            case ast.Call() if at.func is not node:
                yield from self._given(source, scope, at, node)
            case ast.keyword():
                call = self._parent(source, at)
                assert isinstance(call, ast.Call)
                yield from self._given(source, scope, call, node)
            case ast.Assign() | ast.Tuple() if isinstance(node.ctx, ast.Store):
                pass
            case ast.Delete() | ast.For():
                if isinstance(node.ctx, ast.Load):
                    raise Escapes
            case _:
                raise Escapes

    def _accessed(self, made: Object, source: Source, at: ast.Attribute) -> Iterator[_Variable]:
        """Of `x.name`: the object of a method that is called, none of a value of its own."""
        assert isinstance(made.made_by, Class)
        cls = made.made_by
        bound = self.program.bindings_of(cls.source).classes.get(cls.node, {}).get(at.attr, [])
        if at.attr.startswith("__") or any(
            isinstance(b, Bound) and isinstance(b.value, ast.Call) for b in bound
        ):
            raise Escapes  # a descriptor
        for method in self.program.methods(cls, at.attr, overrides=False):
            around = self._parent(source, at)
            called = isinstance(around, ast.Call) and around.func is at
            if is_decorated(method.node, "staticmethod", "classmethod"):
                continue
            if method.node.decorator_list or not called:
                raise Escapes
            yield from _itself(method)

    def _given(
        self, source: Source, scope: ScopeNode, call: ast.Call, node: ast.Name
    ) -> Iterator[_Variable]:
        values = self.program.of(source, scope, call.func)
        functions = self.program.resolve(source, scope, call)
        if not functions or not all(isinstance(v, Function) for v in values):
            raise Escapes
        for function in functions:
            taken = self.program.given(source, scope, call, function)
            found = [parameter for parameter, value in taken if value is node]
            several = {a.arg for a in (function.node.args.vararg, function.node.args.kwarg) if a}
            if not found or function.node.decorator_list or several & {*found}:
                raise Escapes
            yield from ((function.source, function.node, parameter) for parameter in found)

    def _parent(self, source: Source, node: ast.AST) -> ast.AST | None:
        """What holds a node, in the code of its own scope."""
        statement = source.statement_of(node)
        if statement is None:
            return None
        around = (statement, *own_nodes(statement))
        return next((n for n in around if node in ast.iter_child_nodes(n)), None)


def _itself(method: Function) -> Iterator[_Variable]:
    if not (itself := own_parameter(method)):
        raise Escapes
    yield method.source, method.node, itself
