"""Through which storage the object of an expression is reached, and who else can reach it.

What a name *is* says :mod:`instrumentor.locate.names`; here it matters whether two expressions
may mean one object that one of them changes. Storage is told apart by names: a variable of one
scope, or an attribute of that name of any object. Parameters are followed to what a call passes.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field, replace

from instrumentor.locate.bindings import Binding, Bound, Parameter
from instrumentor.locate.known_calls import (
    GIVES_A_NUMBER,
    PASSES_THROUGH,
    READING_METHODS,
    SAME_OBJECT_METHODS,
)
from instrumentor.locate.program import Function, Program
from instrumentor.locate.syntax import ScopeNode, Source, own_nodes
from instrumentor.locate.values import Class, Object

_DEPTH = 24
#: Functions of these give back values of their own.
_COMPUTES = ("torch.nn.functional.", "numpy.", "math.")
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class Cell:
    """Storage: a variable of a scope, or (no scope) an attribute of that name of any object."""

    name: str
    scope: ScopeNode | None = None


@dataclass(frozen=True)
class Reach:
    """How an object is reached.

    Attributes:
        cells: storage that leads to it; empty for one that nobody else has.
        held: storage that leads to what it holds, of a container made where it is used.
        fresh: made where it is used.
        plain: a number or a text, which nobody can change.
        own: an object of one of the program's classes, whose attributes no library reads.
        path: how the outermost scope spells it, '' when it cannot.
        constant: its text, when it is a text constant.
    """

    cells: frozenset[Cell] = frozenset()
    held: frozenset[Cell] = frozenset()
    fresh: bool = False
    plain: bool = False
    own: bool = False
    path: str = ""
    constant: str = ""

    def either(self, other: Reach) -> Reach:
        """Of a value that may be this one or another."""
        return Reach(
            self.cells | other.cells,
            self.held | other.held,
            self.fresh and other.fresh,
            self.plain and other.plain,
            self.own and other.own,
            self.path if self.path == other.path else "",
            self.constant if self.constant == other.constant else "",
        )


UNKNOWN = Reach()
FRESH = Reach(fresh=True)
PLAIN = Reach(fresh=True, plain=True)
Arguments = tuple[tuple[str, Reach], ...]
_Seen = frozenset[object]


@dataclass(frozen=True)
class Frame:
    """A scope with what its parameters reach; `top` is the one that is examined."""

    source: Source
    scope: ScopeNode
    given: Arguments = ()
    top: bool = True


@dataclass(eq=False)
class Storage:
    """Reaches of the expressions of a program."""

    program: Program
    _kept: dict[tuple[Frame, ast.expr], Reach] = field(default_factory=dict, repr=False)
    _returns: dict[ast.AST, list[ast.expr]] = field(default_factory=dict, repr=False)

    def of(self, frame: Frame, node: ast.expr) -> Reach:
        found = self._kept.get((frame, node))
        if found is None:
            found = self._kept[frame, node] = self._of(frame, node, frozenset())
        return found

    def owner(self, source: Source, scope: ScopeNode, name: str) -> ScopeNode:
        """The scope whose variable a name is; the module for what nobody binds."""
        return self.program.names.binder(source, scope, name) or source.tree

    def arguments(self, frame: Frame, call: ast.Call, function: Function) -> Arguments:
        """What a function's parameters reach when a call runs it."""
        return self._arguments(frame, call, function, frozenset())

    def _of(self, frame: Frame, node: ast.expr, seen: _Seen) -> Reach:
        if len(seen) > _DEPTH:
            return UNKNOWN
        if isinstance(node, ast.Name):
            return self._name(frame, node.id, seen)
        if isinstance(node, ast.Attribute):
            return self._attribute(frame, node, seen)
        if isinstance(node, ast.Call):
            return self._result(frame, node, seen)
        if isinstance(node, ast.Constant):
            return replace(PLAIN, constant=node.value if isinstance(node.value, str) else "")
        if isinstance(node, (ast.JoinedStr, ast.Compare)):
            return PLAIN
        if isinstance(node, ast.UnaryOp):
            return replace(FRESH, plain=self._of(frame, node.operand, seen).plain)
        if isinstance(node, ast.BinOp):
            sides = [self._of(frame, side, seen) for side in (node.left, node.right)]
            return replace(FRESH, plain=all(side.plain for side in sides))
        if isinstance(node, (ast.Subscript, ast.Starred, ast.Await)):
            inner = self._of(frame, node.value, seen)
            return _part_of(inner)
        if isinstance(node, ast.NamedExpr):
            return self._of(frame, node.value, seen)
        if isinstance(node, ast.IfExp):
            return self._of(frame, node.body, seen).either(self._of(frame, node.orelse, seen))
        if isinstance(node, (ast.BoolOp, ast.Dict)):
            return self._holding(frame, node.values, seen)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return self._holding(frame, node.elts, seen)
        return FRESH

    def _holding(self, frame: Frame, parts: list[ast.expr], seen: _Seen) -> Reach:
        """A container: whoever has it reaches what it holds."""
        inner = [self._of(frame, part, seen) for part in parts]
        return Reach(held=frozenset().union(*(r.cells | r.held for r in inner)), fresh=True)

    def _name(self, frame: Frame, name: str, seen: _Seen) -> Reach:
        owner = self.owner(frame.source, frame.scope, name)
        key = (owner, name)
        given = dict(frame.given).get(name) if owner is frame.scope else None
        values_of = self.program.names.named(frame.source, frame.scope, name)
        own = any(isinstance(v, Object) and isinstance(v.made_by, Class) for v in values_of)
        if key in seen:
            return given or UNKNOWN
        bindings = self.program.names.bindings(frame.source, owner, name)
        if not bindings and name in _BUILTINS:
            return UNKNOWN
        inner = frame if owner is frame.scope else Frame(frame.source, owner, top=False)
        values = [given] if given is not None else []
        values += [self._bound(inner, b, seen | {key}) for b in bindings if isinstance(b, Bound)]
        found = values[0] if values else UNKNOWN
        for value in values[1:]:
            found = found.either(value)
        if (frame.top and owner is frame.scope) or owner is frame.source.tree:
            cells = found.cells | ({Cell(name, owner)} if self._is_storage(bindings) else set())
            return replace(found, cells=cells, path=name, own=own)
        return replace(found, own=found.own or own)

    @staticmethod
    def _is_storage(bindings: list[Binding]) -> bool:
        """Not an import, a function or a class."""
        return not bindings or any(isinstance(b, (Bound, Parameter)) for b in bindings)

    def _bound(self, frame: Frame, bound: Bound, seen: _Seen) -> Reach:
        whole = self._of(frame, bound.value, seen)
        return _part_of(whole) if bound.path else whole

    def _attribute(self, frame: Frame, node: ast.Attribute, seen: _Seen) -> Reach:
        owner = self._of(frame, node.value, seen)
        path = f"{owner.path}.{node.attr}" if owner.path else ""
        if self.program.names.is_imported(frame.source, frame.scope, node.value):
            return Reach(path=path)
        if owner.fresh and not owner.cells:
            return Reach(fresh=True, path=path)
        found: Reach | None = None
        key = ("attribute", node.attr)
        stored = self.program.names.puts_of(node.attr)
        for source, put in stored if key not in seen and len(stored) <= 8 else ():
            value = put.bound.value
            if not (isinstance(value, ast.Constant) and value.value is None):
                inner = self._bound(Frame(source, put.scope, top=False), put.bound, seen | {key})
                found = inner if found is None else found.either(inner)
        found = found or UNKNOWN
        own = found.cells | {Cell(node.attr)}
        if not owner.own:
            own |= owner.cells  # `p.data` is p
        return Reach(own, found.held, plain=found.plain, path=path)

    def _result(self, frame: Frame, call: ast.Call, seen: _Seen) -> Reach:
        names = self.program.names
        functions = self.program.resolve(frame.source, frame.scope, call)
        values = names.of(frame.source, frame.scope, call.func)
        if any(isinstance(v, Class) for v in values):
            return FRESH
        if functions:
            return self._returned(frame, call, functions, seen)
        full = names.qualified(frame.source, frame.scope, call.func)
        word = call.func.attr if isinstance(call.func, ast.Attribute) else full
        if word.removeprefix("builtins.") in GIVES_A_NUMBER or full in GIVES_A_NUMBER:
            return PLAIN
        if full.removeprefix("builtins.") in PASSES_THROUGH:
            held = self._holding(frame, call.args, seen)
            return Reach(held.held, fresh=not held.held)
        if isinstance(call.func, ast.Attribute) and not full:
            own = self._of(frame, call.func.value, seen)
            if call.func.attr in READING_METHODS - SAME_OBJECT_METHODS:
                return FRESH
            return own if call.func.attr in SAME_OBJECT_METHODS else _part_of(own)
        if full.startswith(_COMPUTES):
            return FRESH
        return self._holding(frame, call.args, seen)  # a library may keep what it is given

    def _returned(
        self, frame: Frame, call: ast.Call, functions: list[Function], seen: _Seen
    ) -> Reach:
        """What the program's function gives back: one of its arguments, or its own making."""
        found: Reach | None = None
        for function in functions:
            key = ("returned", function.node)
            if key in seen:
                continue
            given = self._arguments(frame, call, function, seen | {key})
            inner = Frame(function.source, function.node, given, top=False)
            for returned in self._returned_by(function):
                value = self._of(inner, returned, seen | {key})
                found = value if found is None else found.either(value)
        return replace(found, path="") if found else FRESH

    def _returned_by(self, function: Function) -> list[ast.expr]:
        found = self._returns.get(function.node)
        if found is None:
            nodes = own_nodes(function.node)
            found = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
            self._returns[function.node] = found
        return found

    def _arguments(
        self, frame: Frame, call: ast.Call, function: Function, seen: _Seen
    ) -> Arguments:
        spec = function.node.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        given: dict[str, Reach] = {}
        if is_method(function) and names:
            own = FRESH  # the new object of a constructor
            if isinstance(call.func, ast.Attribute):
                own = self._of(frame, call.func.value, seen)
            elif isinstance(call.func, ast.Call) or function.name != "__init__":
                own = UNKNOWN
            given[names.pop(0)] = own
        positional = [a for a in call.args if not isinstance(a, ast.Starred)]
        for name, value in zip(names, positional, strict=False):
            given[name] = self._of(frame, value, seen)
        for keyword in call.keywords:
            if keyword.arg in {a.arg for a in (*spec.args, *spec.kwonlyargs)}:
                given[str(keyword.arg)] = self._of(frame, keyword.value, seen)
        if spec.vararg is not None:
            given[spec.vararg.arg] = self._holding(frame, positional[len(names) :], seen)
        return tuple(sorted(given.items(), key=lambda item: item[0]))


def _part_of(whole: Reach) -> Reach:
    return Reach(whole.cells | whole.held, fresh=whole.fresh and not whole.held, plain=whole.plain)


def is_method(function: Function) -> bool:
    """Takes its object as the first parameter."""
    return function.node in function.source.class_of and not any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.node.decorator_list
    )
