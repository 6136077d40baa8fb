"""Where a number or a text is read, which only another value in its place can change.

A call that may change *something* of a name, in place, leaves a reader of such a value as it is.
Everything that sets the name has to be in sight for that: not only what storage knows of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct, field

from instrumentor.locate.changes.skips.removal import BASES_TO_EXTEND
from instrumentor.locate.changes.skips.storage import SAMENESS, Frame, Storage
from instrumentor.locate.meaning import methods
from instrumentor.locate.meaning.roles import Gives
from instrumentor.read.bindings import Binding, Bound, Imported, Parameter
from instrumentor.read.callers import given_by_all
from instrumentor.read.names import external_name
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import ScopeNode, Source, arguments
from instrumentor.read.values import PLAIN_BASES, Class, Object

_BASES = (*PLAIN_BASES, *BASES_TO_EXTEND)
#: Methods that decide what an attribute is.
_DECIDING = {"__getattr__", "__getattribute__", "__setattr__", "__delattr__", "__slots__"}
#: Calls that set attributes by names that are not written out.
_IN_THE_DARK = ("setattr", "vars", "__setattr__", "__setstate__", "parse_args", "parse_known_args")


class Plain(Struct, eq=False, dict=True):
    """Of a program; answers are kept."""

    program: Program
    storage: Storage
    _known: dict[ast.expr, bool] = field(default_factory=dict)
    _asked: set[object] = field(default_factory=set)

    def holds(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether a number, a text or a tuple of such is all that can be read here."""
        if node not in self._known:
            self._asked.clear()
            reach = self.storage.of(Frame(source, scope), node)
            self._known[node] = reach.plain and self._is_told(source, scope, node)
        return self._known[node]

    def _is_told(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether all that an expression may mean is written where it can be seen."""
        match node:
            case ast.Constant() | ast.JoinedStr():
                return True
            case ast.Name():
                binder = self.program.names.binder(source, scope, node.id)
                return binder is not None and self._variable(source, binder, node.id)
            case ast.Attribute():
                return self._attribute(source, scope, node)
            case ast.Compare(ops=ops) if all(isinstance(op, SAMENESS) for op in ops):
                return True
            case ast.Compare(left=left, comparators=others):
                parts = [left, *others]
            case ast.UnaryOp(op=ast.Not()):
                return True
            case ast.UnaryOp(operand=one) | ast.NamedExpr(value=one):
                parts = [one]
            case ast.BinOp(left=left, right=right):
                parts = [left, right]
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
                pass
            case ast.IfExp(body=left, orelse=right):
                parts = [left, right]
            case ast.Call():
                return self._is_number(source, scope, node)
            case _:
                return False
        frame = Frame(source, scope)
        return all(
            self.storage.of(frame, part).plain and self._is_told(source, scope, part)
            for part in parts
        )

    def _is_number(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        if self.program.resolve(source, scope, call):
            return False
        full = self.program.names.qualified(source, scope, call.func)
        if not full and isinstance(call.func, ast.Attribute):
            return methods.method_gives(call.func.attr) is Gives.NUMBER
        return methods.gives(full) is Gives.NUMBER or (
            full in ("builtins.max", "builtins.min", "builtins.abs")
            and all(self._is_told(source, scope, a) for a in arguments(call))
        )

    # -- variables -----------------------------------------------------------------------------

    def _variable(self, source: Source, scope: ScopeNode, name: str) -> bool:
        if (source, scope, name) in self._asked:
            return True
        self._asked.add((source, scope, name))
        bindings = self.program.names.bound(source, scope, name)
        if scope is source.tree and self._is_set_elsewhere(source, name):
            return False
        return (
            bool(bindings)
            and all(self._binding(source, b) for b in bindings)
            and self._is_grown_by_such(source, name)
        )

    def _is_grown_by_such(self, source: Source, name: str) -> bool:
        """`n += step`"""
        grown = source.grown(name)
        return all(self._is_told(source, source.scope_of(at), at.value) for at in grown)

    def _is_set_elsewhere(self, source: Source, name: str) -> bool:
        """Whether a module's variable may be set by other means than an assignment to it."""
        names = self.program.names
        if any(s is source for s, _, _ in self.program.calls_named("globals")):
            return True
        return any(source in names.of(s, p.scope, p.owner) for s, p in names.puts_of(name))

    def _binding(self, source: Source, binding: Binding) -> bool:
        match binding:
            case Bound(value=value):
                return self._is_told(source, source.scope_of(value), value)
            case Parameter():
                return self._parameter(source, binding)
            case Imported(module=module, name=name, level=level) if name:
                home = self.program.names.module(module, source, level)
                return isinstance(home, Source) and self._variable(home, home.tree, name)
        return False

    def _parameter(self, source: Source, parameter: Parameter) -> bool:
        """Given by calls that are all known."""
        function, name = Function(source, parameter.function), parameter.argument.arg
        given = given_by_all(self.program, function, name)
        return given is not None and all(self._is_told(*each) for each in given)

    # -- attributes ----------------------------------------------------------------------------

    def _attribute(self, source: Source, scope: ScopeNode, node: ast.Attribute) -> bool:
        if self.storage.is_option(Frame(source, scope), node):
            return True
        values = self.program.names.of(source, scope, node.value)
        classes, name = list[Class](), node.attr
        for value in values:
            made = value.made_by if isinstance(value, Object) else None
            if isinstance(value, Source):
                if not self._variable(value, value.tree, name):
                    return False
            elif isinstance(made, Class):
                classes.append(made)
            else:
                return False
        return bool(values) and (not classes or self._is_set_by_name(classes, name))

    def _is_set_by_name(self, classes: list[Class], name: str) -> bool:
        names = self.program.names
        families = [{*self._family(cls)} for cls in classes]
        every = set[Class]().union(*families)
        if any(self._decides(cls, name) for cls in every) or self._is_set_in_the_dark(every):
            return False
        owners = {
            getattr(value, "made_by", value)
            for s, put in names.puts_of(name)
            for value in names.of(s, put.scope, put.owner)
        }
        own = all(
            owners & family or any(name in self._table(cls) for cls in family)
            for family in families
        )
        if (name, "attribute") in self._asked:
            return own
        self._asked.add((name, "attribute"))
        return (
            own
            and all(
                self._is_told(s, where, bound.value)
                for s, where, bound in self.storage.stored(name)
            )
            and all(self._is_grown_by_such(s, name) for s in self.program.sources.values())
        )

    def _family(self, cls: Class) -> Iterator[Class]:
        """A class with those that it is derived from, and that are derived from it."""
        names = self.program.names
        for each in (cls, *names.subclasses.get(cls.node, ())):
            yield each
            yield from names.bases(each)

    def _table(self, cls: Class) -> dict[str, list[Binding]]:
        return self.program.bindings_of(cls.source).classes.get(cls.node, {})

    def _decides(self, cls: Class, name: str) -> bool:
        """Whether a class says what an attribute is by other means than by setting it."""
        table, scope = self._table(cls), cls.source.scope_of(cls.node)
        bases = [self.program.names.of(cls.source, scope, base) for base in cls.node.bases]
        return bool(
            cls.node.decorator_list
            or cls.node.keywords
            or _DECIDING & table.keys()
            or not all(isinstance(b, Bound) for b in table.get(name, ()))
            or not all(v and all(isinstance(b, Class) or b in _BASES for b in v) for v in bases)
        )

    def _is_set_in_the_dark(self, family: set[Class]) -> bool:
        """Whether a call or `__dict__` may set whatever attribute of an object of such a class."""
        for word in _IN_THE_DARK:
            for source, scope, call in self.program.calls_named(word):
                match call.args:
                    case [_, ast.Constant(), *_] if word == "setattr":
                        continue
                if word.startswith("parse"):
                    if len(call.args) < 2 and all(k.arg == "args" for k in call.keywords):
                        continue
                    return True
                if self._may_be_of(source, scope, next(iter(call.args), call), family):
                    return True
        return any(
            isinstance(node, ast.Attribute)
            and self._may_be_of(source, source.scope_of(node), node.value, family)
            for source in self.program.sources.values()
            for node in source.mentions.get("__dict__", ())
        )

    def _may_be_of(
        self, source: Source, scope: ScopeNode, node: ast.expr, family: set[Class]
    ) -> bool:
        values = self.program.names.of(source, scope, node)
        made = [v.made_by if isinstance(v, Object) else v for v in values]
        told = (m not in family if isinstance(m, Class) else external_name(m) for m in made)
        return not made or not all(told)
