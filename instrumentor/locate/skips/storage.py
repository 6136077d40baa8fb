"""Through which storage the object of an expression is reached, and who else can reach it.

What a name *is* says :mod:`instrumentor.locate.names`; here it matters whether two expressions
may mean one object that one of them changes. Storage is told apart by names: a variable of one
scope, or an attribute of that name of any object. Parameters are followed to what a call passes.
What a call gives back counts as its object or its arguments unless the catalogue knows it as new.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.locate import catalogue
from instrumentor.locate.bindings import Binding, Bound, Parameter
from instrumentor.locate.catalogue import Gives
from instrumentor.locate.names import default_of, is_method, passed
from instrumentor.locate.program import Function, Program
from instrumentor.locate.syntax import ScopeNode, Source, arguments, last, own_nodes
from instrumentor.locate.values import Class, Object

_DEPTH = 24
#: Expressions that are followed in one program; a trainer whose classes all know each other leads
#: from each to every other one.
_MOST = 100_000
_BUILTINS = frozenset(dir(builtins))


class Cell(Struct, frozen=True):
    """Storage: a variable of a scope, or (no scope) an attribute of that name of any object."""

    name: str
    scope: ScopeNode | None = None


class Reach(Struct, frozen=True):
    """How an object is reached.

    Attributes:
        cells: storage that leads to it; empty for one that nobody else has.
        held: storage that leads to what it holds, of a container made where it is used.
        fresh: made where it is used.
        plain: a number or a text, which nobody can change.
        own: an object of one of the program's classes, whose attributes no library reads.
        once: an iterator: walking over it changes it.
        path: how the outermost scope spells it, '' when it cannot.
        constant: its text, when it is a text constant.
    """

    cells: frozenset[Cell] = frozenset()
    held: frozenset[Cell] = frozenset()
    fresh: bool = False
    plain: bool = False
    own: bool = False
    once: bool = False
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
            self.once or other.once,
            self.path if self.path == other.path else "",
            self.constant if self.constant == other.constant else "",
        )

    @property
    def part(self) -> Reach:
        """Of something that is taken out of it."""
        every = self.cells | self.held
        return Reach(every, fresh=self.fresh and not self.held, plain=self.plain)


class TooMuch(Exception):
    """More expressions lead to an object than are followed: nothing is proven of it."""


UNKNOWN = Reach()
FRESH = Reach(fresh=True)
PLAIN = Reach(fresh=True, plain=True)
Arguments = tuple[tuple[str, Reach], ...]
_Seen = frozenset[object]


class Frame(Struct, frozen=True):
    """A scope with what its parameters reach; `top` is the one that is examined."""

    source: Source
    scope: ScopeNode
    given: Arguments = ()
    top: bool = True


class Storage(Struct, eq=False):
    """Reaches of the expressions of a program; :class:`TooMuch` when it is all too entangled."""

    program: Program
    _kept: dict[tuple[Frame, ast.expr], Reach] = field(default_factory=dict)
    #: Where the answer being made came back to itself: what is complete but for that is not kept.
    _cut: set[object] = field(default_factory=set)
    _followed: int = 0

    def of(self, frame: Frame, node: ast.expr) -> Reach:
        return self._of(frame, node, frozenset())

    def owner(self, source: Source, scope: ScopeNode, name: str) -> ScopeNode:
        """The scope whose variable a name is; the module for what nobody binds."""
        return self.program.names.binder(source, scope, name) or source.tree

    def arguments(self, frame: Frame, call: ast.Call, function: Function) -> Arguments:
        """What a function's parameters reach when a call runs it."""
        return self._arguments(frame, call, function, frozenset())

    # -- expressions ---------------------------------------------------------------------------

    def _of(self, frame: Frame, node: ast.expr, seen: _Seen) -> Reach:
        found = self._kept.get((frame, node))
        if found is None:
            outer, self._cut = self._cut, set()
            found = self._expression(frame, node, seen)
            if not self._cut or not seen:
                self._kept[frame, node] = found
            self._cut |= outer
        return found

    def _expression(self, frame: Frame, node: ast.expr, seen: _Seen) -> Reach:
        self._followed += 1
        if self._followed > _MOST:
            raise TooMuch
        if len(seen) > _DEPTH:
            self._cut.add(_DEPTH)
            return UNKNOWN
        match node:
            case ast.Name():
                return self._name(frame, node.id, seen)
            case ast.Attribute():
                return self._attribute(frame, node, seen)
            case ast.Call():
                return self._result(frame, node, seen)
            case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.Await(value=inner):
                return self._of(frame, inner, seen).part
            case ast.NamedExpr(value=inner):
                return self._of(frame, inner, seen)
            case ast.IfExp(body=body, orelse=orelse):
                return self._of(frame, body, seen).either(self._of(frame, orelse, seen))
            case ast.BoolOp(values=values):
                return _one_of(self._of(frame, value, seen) for value in values)
        return self._display(frame, node, seen)

    def _display(self, frame: Frame, node: ast.expr, seen: _Seen) -> Reach:
        """A container: whoever has it reaches what it holds, and may change it without them."""
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return self._holding(frame, parts, seen)
            case ast.Dict(values=parts):
                return self._holding(frame, parts, seen)
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.DictComp(value=part):
                return self._holding(frame, [part], seen)
            case ast.GeneratorExp(elt=part):
                return replace(self._holding(frame, [part], seen), once=True)
        return self._computed(frame, node, seen)

    def _computed(self, frame: Frame, node: ast.expr, seen: _Seen) -> Reach:
        match node:
            case ast.Constant(value=value):
                return replace(PLAIN, constant=value if isinstance(value, str) else "")
            case ast.JoinedStr() | ast.Compare():
                return PLAIN
            case ast.UnaryOp(operand=side):
                return replace(FRESH, plain=self._of(frame, side, seen).plain)
            case ast.BinOp(left=left, right=right):
                sides = [self._of(frame, side, seen) for side in (left, right)]
                return replace(FRESH, plain=all(side.plain for side in sides))
        return FRESH

    def _holding(self, frame: Frame, parts: Iterable[ast.expr], seen: _Seen) -> Reach:
        inner = [self._of(frame, part, seen) for part in parts]
        return Reach(held=frozenset().union(*(r.cells | r.held for r in inner)), fresh=True)

    def _name(self, frame: Frame, name: str, seen: _Seen) -> Reach:
        owner = self.owner(frame.source, frame.scope, name)
        bindings = self.program.names.bindings(frame.source, owner, name)
        key = (owner, name)
        if key in seen or (not bindings and name in _BUILTINS):
            self._cut |= {key} & seen
            return dict(frame.given).get(name, UNKNOWN) if owner is frame.scope else UNKNOWN
        inner = frame if owner is frame.scope else Frame(frame.source, owner)
        found = _one_of(self._values(inner, name, bindings, seen | {key}))
        self._cut.discard(key)
        values = self.program.names.named(frame.source, frame.scope, name)
        own = any(isinstance(v, Object) and isinstance(v.made_by, Class) for v in values)
        if frame.top or owner is not frame.scope:  # outlives the functions that are called
            cells = found.cells | ({Cell(name, owner)} if self._is_storage(bindings) else set())
            return replace(found, cells=cells, path=name, own=own)
        return replace(found, own=found.own or own)

    def _values(
        self, frame: Frame, name: str, bindings: list[Binding], seen: _Seen
    ) -> Iterator[Reach]:
        given = dict(frame.given).get(name)
        if given is not None:
            yield given
        for binding in bindings:
            if isinstance(binding, Bound):
                yield self._bound(frame, binding, seen)
            elif isinstance(binding, Parameter) and given is None and not frame.top:
                yield from self._passed(frame.source, binding, seen)

    def _passed(self, source: Source, parameter: Parameter, seen: _Seen) -> Iterator[Reach]:
        """What callers give to a parameter, wherever they stand."""
        function = Function(source, parameter.function)
        for where, scope, call in self.program.names.callers(function):
            given = dict(self._arguments(Frame(where, scope), call, function, seen))
            if parameter.argument.arg in given:
                yield replace(given[parameter.argument.arg], path="")

    @staticmethod
    def _is_storage(bindings: list[Binding]) -> bool:
        """Not an import, a function or a class."""
        return not bindings or any(isinstance(b, (Bound, Parameter)) for b in bindings)

    def _bound(self, frame: Frame, bound: Bound, seen: _Seen) -> Reach:
        whole = self._of(frame, bound.value, seen)
        return whole.part if bound.path else whole

    def _attribute(self, frame: Frame, node: ast.Attribute, seen: _Seen) -> Reach:
        owner = self._of(frame, node.value, seen)
        path = f"{owner.path}.{node.attr}" if owner.path else ""
        if self.program.names.is_imported(frame.source, frame.scope, node.value):
            return Reach(path=path)
        if owner.fresh and not owner.cells | owner.held:
            return Reach(fresh=True, path=path)
        key = ("attribute", node.attr)
        self._cut |= {key} & seen
        stored = self.program.names.puts_of(node.attr)
        found = _one_of(
            self._bound(Frame(source, put.scope, top=False), put.bound, seen | {key})
            for source, put in (stored if key not in seen and len(stored) <= 8 else ())
            if not (isinstance(put.bound.value, ast.Constant) and put.bound.value.value is None)
        )
        if key not in seen:
            self._cut.discard(key)
        own = found.cells | {Cell(node.attr)}
        if not owner.own:
            own |= owner.part.cells  # `p.data` is p
        elif not stored:
            own |= owner.held  # a field of a dataclass
        return Reach(own, found.held, plain=found.plain, once=found.once, path=path)

    # -- calls ---------------------------------------------------------------------------------

    def _result(self, frame: Frame, call: ast.Call, seen: _Seen) -> Reach:
        names = self.program.names
        functions = self.program.resolve(frame.source, frame.scope, call)
        if any(isinstance(v, Class) for v in names.of(frame.source, frame.scope, call.func)):
            return self._holding(frame, arguments(call), seen)
        if functions:
            return self._returned(frame, call, functions, seen)
        full = names.qualified(frame.source, frame.scope, call.func)
        method = "" if full or not isinstance(call.func, ast.Attribute) else call.func.attr
        gives = catalogue.method_gives(method) if method else catalogue.gives(full)
        if gives in (Gives.NUMBER, Gives.NEW):
            return PLAIN if gives is Gives.NUMBER else FRESH
        given = self._holding(frame, arguments(call), seen)
        if last(full)[:1].isupper():
            return given  # an object that keeps what it is given
        if catalogue.is_iterator(full):
            return replace(given, once=True)
        if not isinstance(call.func, ast.Attribute) or not method:
            return given.part
        own = self._of(frame, call.func.value, seen)
        if gives is Gives.OBJECT:
            return own
        return own.part.either(given.part) if method in catalogue.GIVES_ARGUMENTS else own.part

    def _returned(
        self, frame: Frame, call: ast.Call, functions: list[Function], seen: _Seen
    ) -> Reach:
        """What the program's function gives back: one of its arguments, or its own making."""
        found: list[Reach] = []
        for function in functions:
            key = ("returned", function.node)
            if key in seen:
                self._cut.add(key)
                continue
            given = self._arguments(frame, call, function, seen | {key})
            inner = Frame(function.source, function.node, given, top=False)
            for node in own_nodes(function.node):
                if isinstance(node, ast.Return) and node.value is not None:
                    found.append(self._of(inner, node.value, seen | {key}))
                elif isinstance(node, (ast.Yield, ast.YieldFrom)):
                    value = (node.value,) if node.value is not None else ()
                    found.append(replace(self._holding(inner, value, seen | {key}), once=True))
            self._cut.discard(key)
        return replace(_one_of(found), path="") if found else FRESH

    def _arguments(
        self, frame: Frame, call: ast.Call, function: Function, seen: _Seen
    ) -> Arguments:
        spec = function.node.args
        given: dict[str, list[Reach]] = {}
        first = next(iter((*spec.posonlyargs, *spec.args)), None)
        bound = is_method(function) and first is not None
        if bound and first is not None:
            own = FRESH  # the new object of a constructor
            if isinstance(call.func, ast.Attribute):
                own = self._of(frame, call.func.value, seen)
            elif isinstance(call.func, ast.Call) or function.name != "__init__":
                own = UNKNOWN
            given[first.arg] = [own]
        for name, value in passed(call, function.node, bound=bound):
            given.setdefault(name, []).append(self._of(frame, value, seen))
        outside = Frame(function.source, function.source.scope_of(function.node))
        for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            default = default_of(function.node, parameter.arg)
            if parameter.arg not in given and default is not None:
                given[parameter.arg] = [self._of(outside, default, seen)]
        for several in (spec.vararg, spec.kwarg):
            if several is not None and several.arg in given:
                held = _one_of(given[several.arg]).part.cells
                given[several.arg] = [Reach(held=held, fresh=True)]
        return tuple(sorted((name, _one_of(reaches)) for name, reaches in given.items()))


def _one_of(reaches: Iterable[Reach]) -> Reach:
    """Of a value that may be any of these; unknown when there is none."""
    found: Reach | None = None
    for reach in reaches:
        found = reach if found is None else found.either(reach)
    return found or UNKNOWN
