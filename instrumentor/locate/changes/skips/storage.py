"""Through which storage the object of an expression is reached, and who else can reach it.

What a name *is* says :mod:`instrumentor.read.names`; here it matters whether two expressions may
mean one object that one of them changes. Storage is told apart by names: a variable of one scope,
or an attribute of that name: of one object where names alone lead to it. Parameters are followed to
what a call passes. What a call gives back counts as its object or its arguments unless it is known
to be new.
A container and what it holds are told apart by how far inside of the storage an object lies.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.locate.changes.skips.confined import Confined
from instrumentor.locate.changes.skips.liveness import variables
from instrumentor.locate.meaning import libraries, methods
from instrumentor.locate.meaning.roles import Gives, Kind
from instrumentor.read import handed_on
from instrumentor.read.bindings import Binding, Bound, Imported, Parameter
from instrumentor.read.control_flow import START, flow_of
from instrumentor.read.fixpoint import Answers
from instrumentor.read.names import external_name
from instrumentor.read.names_used import binds
from instrumentor.read.program import Function, Program
from instrumentor.read.script_options import is_namespace
from instrumentor.read.signatures import default_of, is_property, own_parameter, passed
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    alternatives,
    arguments,
    below,
    contains,
    last,
    own_calls,
    own_nodes,
    parameters,
    returned,
)
from instrumentor.read.values import (
    Class,
    External,
    Group,
    Item,
    Member,
    Object,
    Opaque,
    Value,
    is_own,
)

_DEPTH = 24
#: Expressions that are followed in one program; a trainer whose classes all know each other leads
#: from each to every other one.
_MOST = 100_000
_BUILTINS = frozenset(dir(builtins))
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
#: Walk over what they are given, and keep nothing of it, as `list` and `itertools.cycle` would.
_WALK = (
    *("builtins.enumerate", "builtins.zip", "builtins.iter", "builtins.next", "tqdm.tqdm"),
    *("tqdm.auto.tqdm", "itertools.islice", "itertools.chain"),
)

#: Attributes that tensors have before anybody sets them.
_OF_TENSORS = ("data", "grad")
_NOT_CALLED = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr, ast.List, ast.Dict)
#: Comparisons that are true or false, whatever they compare.
_SAMENESS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)

#: So far inside of what a storage names, or at any depth.
FAR = 3
ANYWHERE = 9


class Cell(Struct, frozen=True):
    """Storage: a variable of a scope, or (no scope) an attribute of that name.

    Attributes:
        inside: what is meant lies at most so deep in the object: 0 for the object itself, 1 for
            an element of a list.
        of: the object whose attribute it is, of any where that is not told.
        under: in what a container holds, how many containers of its own lie around it.
    """

    name: str
    scope: ScopeNode | None = None
    inside: int = 0
    of: Object | None = None
    under: int = 0

    def at(self, inside: int) -> Cell:
        inside = inside if inside <= FAR else ANYWHERE
        return Cell(self.name, self.scope, inside, self.of)

    def below(self, containers: int) -> Cell:
        """The same with so many containers of its own around it."""
        under = min(containers, FAR)
        return Cell(self.name, self.scope, self.inside, self.of, under)


def anywhere(cells: Iterable[Cell]) -> frozenset[Cell]:
    """Storage of objects and of whatever they lead to."""
    return frozenset(cell.at(ANYWHERE) for cell in cells)


class Spelling(Struct, frozen=True):
    """A dotted name or an element of one, and the scope whose variable its first word is."""

    text: str = ""
    scope: ScopeNode | None = None

    @property
    def words(self) -> list[str]:
        return re.findall(r"\w+", self.text)

    @property
    def first(self) -> str:
        return next(iter(self.words), "")


NOWHERE = Spelling()


class Reach(Struct, frozen=True):
    """How an object is reached.

    Attributes:
        cells: storage that leads to it; empty for one that nobody else has.
        held: storage that leads to what it holds, of a container made where it is used.
        fresh: made where it is used.
        plain: a number or a text, which nobody can change.
        own: an object of one of the program's classes, whose attributes no library reads.
        once: an iterator: walking over it changes it.
        makes: walking over it makes new objects: a data loader that stacks its samples.
        path: how the outermost scope spells it, nothing when it cannot.
        maybe: how that spells those of which it is one, where it is one of several.
        constant: its text, when it is a text constant.
        made: the objects of the program's classes that it is one of; empty when that is not told.
    """

    cells: frozenset[Cell] = frozenset()
    held: frozenset[Cell] = frozenset()
    fresh: bool = False
    plain: bool = False
    own: bool = False
    once: bool = False
    makes: bool = False
    path: Spelling = NOWHERE
    maybe: frozenset[Spelling] = frozenset()
    constant: str = ""
    made: frozenset[Object] = frozenset()

    @property
    def is_new(self) -> bool:
        """Nobody else has it, nor anything that it holds."""
        return self.fresh and not self.cells | self.held

    @property
    def is_own_making(self) -> bool:
        """Nobody else has it, though others may have what it holds."""
        return self.fresh and not self.cells and bool(self.made)

    def either(self, other: Reach) -> Reach:
        """Of a value that may be this one or another."""
        changing = [reach for reach in (self, other) if not reach.plain] or [self, other]
        return Reach(
            frozenset().union(*(reach.cells for reach in changing)),
            frozenset().union(*(reach.held for reach in changing)),
            self.fresh and other.fresh,
            self.plain and other.plain,
            self.own and other.own,
            self.once or other.once,
            self.makes and other.makes,
            self.path if self.path == other.path else NOWHERE,
            self._spelled_with(other),
            self.constant if self.constant == other.constant else "",
            frozenset().union(*(r.made for r in changing if all(r.made for r in changing))),
        )

    @property
    def _spelled(self) -> frozenset[Spelling]:
        return frozenset({self.path}) if self.path.text else self.maybe

    def _spelled_with(self, other: Reach) -> frozenset[Spelling]:
        """How the one or the other is spelled, where both are told and differ."""
        told = self._spelled and other._spelled and self.path != other.path
        return self._spelled | other._spelled if told else frozenset()

    def named(self, owner: Reach, attribute: str) -> Reach:
        """Spelled as an attribute of another."""
        named = {replace(s, text=f"{s.text}.{attribute}") for s in owner._spelled}
        path = named.pop() if len(named) == 1 else NOWHERE
        return replace(self, path=path, maybe=frozenset(named))

    @property
    def unnamed(self) -> Reach:
        """Where the outermost scope is another."""
        return replace(self, path=NOWHERE, maybe=frozenset())

    @property
    def part(self) -> Reach:
        """Of something that is taken out of it."""
        found = {cell for cell in self.held if not cell.under}
        deeper = frozenset(cell.below(cell.under - 1) for cell in self.held - found)
        every = frozenset(cell.at(cell.inside + 1) for cell in self.cells) | found
        return Reach(every, deeper, fresh=self.fresh and not found, plain=self.plain)

    @property
    def elements(self) -> frozenset[Cell]:
        """What another container holds that has the same elements."""
        return frozenset(cell.at(cell.inside + 1) for cell in self.cells) | self.held

    def held_at(self, depth: int = 1) -> frozenset[Cell]:
        """What a container holds in which this lies so deep."""
        held = (cell.below(cell.under + depth) for cell in self.held)
        return frozenset(cell.below(depth - 1) for cell in self.cells).union(held)

    @property
    def slice(self) -> Reach:
        """Of a slice: a view of a tensor, or a list of its own with the elements of another."""
        return replace(self.part, cells=self.cells, held=self.elements)

    @property
    def view(self) -> Reach:
        """Of something that a call made of it: itself, a view or a part."""
        every = anywhere(self.cells | self.held)
        return Reach(every, fresh=self.fresh and not self.held, plain=self.plain)

    @property
    def element(self) -> Reach:
        """Of what walking over it gives."""
        return FRESH if self.makes else self.part


class TooMuch(Exception):
    """More expressions lead to an object than are followed: nothing is proven of it."""


UNKNOWN = Reach()
FRESH = Reach(fresh=True)
PLAIN = Reach(fresh=True, plain=True)
Arguments = tuple[tuple[str, Reach], ...]


class Frame(Struct, frozen=True):
    """A scope with what its parameters reach.

    Attributes:
        run: whether it is the scope that is examined, runs for it, or has run before.
        inside: the lambda in it that runs; what is given goes to its parameters then.
    """

    source: Source
    scope: ScopeNode
    given: Arguments = ()
    run: Literal["examined", "called", "before"] = "examined"
    inside: ast.Lambda | None = None


class Filled(Struct, frozen=True):
    """A value that is put into something: `rows.append(value)`, `table[key]['a'] = value`.

    Attributes:
        owner: the name or attribute that leads to what is filled.
        inside: how deep in that the value lies then.
    """

    source: Source
    scope: ScopeNode
    owner: ast.Name | ast.Attribute
    inside: int
    value: Bound


class Storage(Struct, eq=False, dict=True):
    """Reaches of the expressions of a program; :class:`TooMuch` when it is all too entangled."""

    program: Program
    plain_options: Container[str] = ()
    alive: Container[ScopeNode] = ()
    losses: Callable[[Source, ScopeNode, ast.expr], bool] = lambda *_: False
    _answers: Answers = field(default_factory=Answers)
    _owners: dict[str, set[Value]] = field(default_factory=dict)
    _declared: dict[Source, set[str]] = field(default_factory=dict)
    _followed: int = 0
    _depth: int = 0

    def owner(self, source: Source, scope: ScopeNode, name: str) -> ScopeNode:
        """The scope whose variable a name is; the module for what nobody binds."""
        return self.program.names.binder(source, scope, name) or source.tree

    def names_of(self, cell: Cell) -> Iterator[tuple[Source, ScopeNode, str]]:
        """Names of a variable: its own, and for a module's those that it is imported under."""
        if cell.scope is not None:
            home = self.program.source_of_scope[cell.scope]
            yield home, cell.scope, cell.name
            if cell.scope is home.tree:
                yield from self._imported.get((home, cell.name), ())
                yield from ((s, o, cell.name) for s, o, _ in self._imported.get((home, "*"), ()))

    @cached_property
    def confined(self) -> Confined:
        return Confined(self.program)

    @cached_property
    def _imported(self) -> dict[tuple[object, str], list[tuple[Source, ScopeNode, str]]]:
        found: dict[tuple[object, str], list[tuple[Source, ScopeNode, str]]] = {}
        for source in self.program.sources.values():
            for statement, place in source.places.items():
                if not isinstance(statement, ast.ImportFrom):
                    continue
                level, name = statement.level, statement.module or ""
                home = self.program.names.module(name, source, level)
                for alias in statement.names if isinstance(home, Source) else ():
                    known = (source, place.scope, alias.asname or alias.name)
                    found.setdefault((home, alias.name), []).append(known)
        return found

    # -- what is put into containers -----------------------------------------------------------

    @cached_property
    def _filled(self) -> dict[str, list[Filled]]:
        """By each word of what leads there."""
        found: dict[str, list[Filled]] = {}
        for source in self.program.sources.values():
            for scope, owner, value in self._puts(source):
                for inside, node in enumerate(_led_by(owner), 1):
                    if isinstance(node, (ast.Name, ast.Attribute)):
                        word = node.id if isinstance(node, ast.Name) else node.attr
                        filled = Filled(source, scope, node, inside, value)
                        found.setdefault(word, []).append(filled)
        return found

    def _puts(self, source: Source) -> Iterator[tuple[ScopeNode, ast.expr, Bound]]:
        for put in self.program.bindings_of(source).puts:
            yield put.scope, put.owner, put.bound
        for call in source.calls:
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr in methods.FILLS | methods.KEEPS
            ):
                for value in arguments(call):
                    yield source.scope_of(call), call.func.value, Bound(value)
                    if call.func.attr in methods.FILLS_WITH_ITS and value in call.args:
                        yield source.scope_of(call), call.func.value, Bound(value, (0,))

    def is_filled(self, name: str) -> bool:
        """Whether something is put into what a name leads to, anywhere."""
        return name in self._filled

    def put_into(self, cell: Cell) -> Iterator[Cell]:
        """Storage of the values that are put where a cell leads to."""
        for filled in self._filled.get(cell.name, ()) if cell.inside else ():
            if filled.inside <= cell.inside and self._is_of(filled, cell):
                value = self._bound(Frame(filled.source, filled.scope, run="before"), filled.value)
                further = cell.inside - filled.inside
                further = ANYWHERE if cell.inside > FAR else further
                for other in () if value.plain else value.cells:
                    yield other.at(other.inside + further)
                for other in () if value.plain else value.held:
                    if further > other.under:
                        yield other.at(other.inside + further - other.under - 1)

    def _is_of(self, filled: Filled, cell: Cell) -> bool:
        if isinstance(filled.owner, ast.Attribute) or cell.scope is None:
            return isinstance(filled.owner, ast.Attribute)
        owner = self.owner(filled.source, filled.scope, filled.owner.id)
        names = ((s, self.owner(s, scope, n)) for s, scope, n in self.names_of(cell))
        return owner is cell.scope or (filled.source, owner) in names

    def _contents(self, frame: Frame, name: str) -> Iterator[Reach]:
        """What a variable of a called function holds, put there by it or by what it calls."""
        for filled in self._filled.get(name, ()):
            if filled.scope is frame.scope and isinstance(filled.owner, ast.Name):
                value = self._bound(frame, filled.value)
                if not value.plain:
                    yield Reach(held=value.held_at(filled.inside), fresh=True)
        for node in frame.source.mentions.get(name, ()):
            statement = frame.source.statement_of(node)
            if statement is None or frame.source.scope_of(statement) is not frame.scope:
                continue
            for call in own_calls(statement):
                if any(a is node for a in arguments(call)):
                    yield from self._filled_by(frame, call, node)
            if isinstance(statement, ast.Assign) and statement.value is node:
                for target in statement.targets:  # another name of it
                    if isinstance(target, ast.Name):
                        yield from self._ask_contents(frame, target.id)

    def _filled_by(self, frame: Frame, call: ast.Call, node: ast.expr) -> Iterator[Reach]:
        for function in self.program.resolve(frame.source, frame.scope, call):
            for parameter, value in self.program.given(frame.source, frame.scope, call, function):
                if value is node and parameter in self._filled:
                    given = self.arguments(frame, call, function)
                    inner = Frame(function.source, function.node, given, "called")
                    yield from self._ask_contents(inner, parameter)

    def _ask_contents(self, frame: Frame, name: str) -> Iterator[Reach]:
        found = self._answers.ask(
            ("contents", frame, name), lambda: _one_of([FRESH, *self._contents(frame, name)]), FRESH
        )
        yield found

    # -- expressions ---------------------------------------------------------------------------

    def of(self, frame: Frame, node: ast.expr) -> Reach:
        self._followed += 1
        if self._followed > _MOST:
            raise TooMuch
        match node:
            case ast.Name(id=name) if frame.inside and name in parameters(frame.inside):
                return dict(frame.given).get(name, UNKNOWN)
            case ast.Name():
                return self._name(frame, node.id, self.bound_ahead(frame, node))
            case ast.Attribute():
                return self._attribute(frame, node)
            case ast.Call():
                return self._result(frame, node)
            case ast.Subscript(value=inner, slice=index) if _is_slice(index):
                return self.of(frame, inner).slice
            case ast.Subscript(value=inner, slice=index):
                return replace(self._element(frame, inner), path=self._at(frame, inner, index))
            case ast.Await(value=inner):
                return self.of(frame, inner).part
            case ast.Starred(value=inner):
                return self.of(frame, inner).element
            case ast.IfExp() | ast.BoolOp() | ast.NamedExpr():
                return _one_of(self.of(frame, part) for part in alternatives(node))
        return self._display(frame, node)

    def _display(self, frame: Frame, node: ast.expr) -> Reach:
        """A container: whoever has it reaches what it holds, and may change it without them."""
        match node:
            case ast.Tuple(elts=parts):  # of numbers it is as little to be changed as they are
                plain = all(self.of(frame, part).plain for part in parts)
                return replace(self._holding(frame, parts), plain=plain)
            case ast.List(elts=parts) | ast.Set(elts=parts):
                return self._holding(frame, parts)
            case ast.Dict(values=parts):
                return self._holding(frame, parts)
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.DictComp(value=part):
                return self._holding(frame, [part])
            case ast.GeneratorExp(elt=part):  # what it walks over is used up with it
                used = _used_up(self.of(frame, g.iter) for g in node.generators)
                return replace(self._holding(frame, [part]), cells=used, once=True)
        return self._computed(frame, node)

    def _computed(self, frame: Frame, node: ast.expr) -> Reach:
        match node:
            case ast.Constant(value=value):
                return replace(PLAIN, constant=value if isinstance(value, str) else "")
            case ast.JoinedStr() | ast.UnaryOp(op=ast.Not()):
                return PLAIN
            case ast.Compare(left=left, ops=ops, comparators=others):  # of tensors a tensor
                compared = () if all(isinstance(o, _SAMENESS) for o in ops) else (left, *others)
                return replace(FRESH, plain=all(self.of(frame, one).plain for one in compared))
            case ast.UnaryOp(operand=side):
                return replace(FRESH, plain=self.of(frame, side).plain)
            case ast.BinOp(left=left, right=right):
                sides = [self.of(frame, side) for side in (left, right)]
                return replace(FRESH, plain=all(side.plain for side in sides))
        return FRESH

    def _holding(self, frame: Frame, parts: Iterable[ast.expr]) -> Reach:
        # a number or a text can be changed by nobody, whoever has what holds it
        inner = [r for r in (self.of(frame, part) for part in parts) if not r.plain]
        return Reach(held=frozenset().union(*(r.held_at() for r in inner)), fresh=True)

    def bound_ahead(self, frame: Frame, node: ast.Name) -> list[Binding]:
        """What a function's own variable may be bound to where it is read, if that is told."""
        source, name = frame.source, node.id
        statement = source.statement_of(node)
        if statement is None or source.scope_of(statement) is not frame.scope:
            return []
        if not self._is_local(frame, name) or any(contains(f, node) for f in source.lambdas):
            return []
        flow, scope = flow_of(frame.scope), frame.scope
        if statement not in flow.begins:
            return []
        here, starts, ends = flow.before(statement), list[tuple[Binding, int]](), set[int]()
        found: list[Binding] = []
        for binding in self.program.names.bound(source, scope, name):
            at = source.statement_of(binding.value) if isinstance(binding, Bound) else None
            if isinstance(binding, Parameter) and binding.function is scope:
                starts.append((binding, START))
            elif at is None or at not in flow.begins:
                return []
            elif isinstance(at, ast.Assign) and any(name in binds(t) for t in at.targets):
                starts.append((binding, flow.after(at)))
                ends.add(flow.after(at))
            elif at is statement:
                found.append(binding)
            else:
                starts.append((binding, flow.before(at)))
                if isinstance(at, ast.For) and name in binds(at.target):
                    if any(contains(inner, statement) for inner in at.body):
                        ends.add(flow.before(at))  # each turn binds it anew
        return found + [
            binding
            for binding, start in starts
            if flow.path(start, here, ends - {here, start}, failing=True)
        ]

    def _is_local(self, frame: Frame, name: str) -> bool:
        """A function's own variable, or a module's, which nothing else binds."""
        source, scope = frame.source, frame.scope
        if self.owner(source, scope, name) is not scope:
            return False
        if not isinstance(scope, FUNCTIONS) and self._is_bound_elsewhere(source, name):
            return False
        if frame.source not in self._declared:
            declared = (n for n in frame.source.nodes if isinstance(n, (ast.Global, ast.Nonlocal)))
            self._declared[frame.source] = {name for node in declared for name in node.names}
        return name not in self._declared[frame.source]

    def _is_bound_elsewhere(self, module: Source, name: str) -> bool:
        """`module.name = value`"""
        names = self.program.names
        return any(module in names.of(s, p.scope, p.owner) for s, p in names.puts_of(name))

    def _name(self, frame: Frame, name: str, ahead: Sequence[Binding] = ()) -> Reach:
        owner = self.owner(frame.source, frame.scope, name)
        bindings = self.program.names.bound(frame.source, owner, name)
        if not bindings and name in _BUILTINS:
            return UNKNOWN
        inner = frame if owner is frame.scope else Frame(frame.source, owner)
        ended = owner is not frame.scope and frame.run == "called" and self._ends(frame, owner)
        if ended:
            inner = Frame(frame.source, owner, run="called")
        meant = [*(ahead or bindings)]
        question = (inner, name, *ahead)
        found = self._ask(question, lambda: self._values(inner, name, meant))
        values = self.program.names.named(frame.source, frame.scope, name)
        own = any(map(is_own, values))
        outlives = frame.run == "examined" or (owner is not frame.scope and not ended)
        lives = frame.run == "before"  # a parameter is what callers have
        kinds = (Bound, Parameter) if outlives else (Bound,) if lives else ()
        if any(isinstance(b, kinds) for b in bindings) or (outlives and not bindings):
            found = replace(found, cells=found.cells | {Cell(name, owner)})
        if outlives:
            path = Spelling(name, owner)
            return replace(found, path=path, maybe=frozenset(), own=own)
        return replace(found, own=found.own or own)

    def _ends(self, frame: Frame, owner: ScopeNode) -> bool:
        """Whether a function around this one, which only it calls, is over with the call of it."""
        if not isinstance(owner, FUNCTIONS) or owner in self.alive:
            return False
        later = (ast.Yield, ast.YieldFrom, ast.Await)
        inner = frame.scope
        while isinstance(inner, FUNCTIONS) and inner is not owner:
            if inner in self.program.handed or inner in frame.source.class_of:
                return False
            around = frame.source.scope_of(inner)
            named = variables(self.program, frame.source, around, inner.name)
            called = {c.func for c in frame.source.calls}
            if not all(node in called for node in named):
                return False
            inner = around
        return inner is owner and not any(isinstance(n, later) for n in own_nodes(owner))

    def _ask(self, question: object, values: Callable[[], Iterable[Reach]]) -> Reach:
        """Of what may be any of these values, which may lead back to the question."""
        if self._depth > _DEPTH:
            return UNKNOWN
        self._depth += 1
        try:
            return self._answers.ask(question, lambda: _one_of(values()), PLAIN)
        finally:
            self._depth -= 1

    def _values(self, frame: Frame, name: str, bindings: list[Binding]) -> Iterator[Reach]:
        given = dict(frame.given).get(name)
        if not any(isinstance(b, Parameter) for b in bindings):
            given = None  # bound anew
        if given is not None:
            yield given
        for binding in bindings:
            if isinstance(binding, Bound):
                yield self._bound(frame, binding)
            elif isinstance(binding, Parameter) and given is None:
                yield from self._passed(frame.source, binding)
            elif isinstance(binding, Imported) and binding.name:
                yield from self._variable(frame.source, binding)
        if frame.run == "called" and given is None and bindings:
            made_here = any(isinstance(b, Bound) for b in bindings)
            yield from (r for r in self._ask_contents(frame, name) if not (made_here and r.is_new))
        lists = any(isinstance(b, Bound) and _makes_a_list(b.value) for b in bindings)
        yield from self._grown(frame.source, name, lists=lists)

    def _grown(self, source: Source, name: str, *, lists: bool = False) -> Iterator[Reach]:
        """What `x += value` makes of a number: of a tensor another tensor, of a list a longer one.

        Args:
            lists: it may be a list.
        """
        for statement in source.grown(name):
            more = self.of(Frame(source, source.scope_of(statement)), statement.value)
            held = more.elements if lists and not more.plain else frozenset[Cell]()
            yield Reach(held=held, fresh=True, plain=more.plain)

    def _passed(self, source: Source, parameter: Parameter) -> Iterator[Reach]:
        """What callers give to a parameter, wherever they stand."""
        function = Function(source, parameter.function)
        for scope, call, _ in self.program.callers.get(parameter.function, ()):
            frame = Frame(self.program.source_of_scope[scope], scope)
            given = dict(self.arguments(frame, call, function))
            if parameter.argument.arg in given:
                yield given[parameter.argument.arg].unnamed
        called = self.program.callers.get(parameter.function)
        if parameter.function in self.program.handed or not called:
            yield UNKNOWN  # a library may, and syntax runs properties

    def _variable(self, source: Source, imported: Imported) -> Iterator[Reach]:
        """A variable of another of the program's modules."""
        module = self.program.names.module(imported.module, source, imported.level)
        if isinstance(module, Source):
            yield self._name(Frame(module, module.tree), imported.name)

    def _bound(self, frame: Frame, bound: Bound) -> Reach:
        whole = self.of(frame, bound.value)
        for _ in bound.path:
            whole = whole.element
        return (
            replace(whole, plain=True)
            if bound.path and self._is_shape(frame, bound.value)
            else whole
        )

    def _element(self, frame: Frame, container: ast.expr) -> Reach:
        part = self.of(frame, container).part
        return replace(part, plain=True) if self._is_shape(frame, container) else part

    def _at(self, frame: Frame, container: ast.expr, index: ast.expr) -> Spelling:
        """`loaders['test']`, also by a name that is given that text."""
        path = self.of(frame, container).path
        if not path.text:
            return NOWHERE
        written = isinstance(index, ast.Constant)
        key = index.value if isinstance(index, ast.Constant) else self.of(frame, index).constant
        return replace(path, text=f"{path.text}[{key!r}]") if written or key else NOWHERE

    def _is_shape(self, frame: Frame, node: ast.expr) -> bool:
        """`x.shape`, which holds numbers, of nothing that may have a shape of another kind."""
        if not (isinstance(node, ast.Attribute) and node.attr == "shape"):
            return False
        values = self.program.names.of(frame.source, frame.scope, node.value)
        makers = [v.made_by for v in values if isinstance(v, Object)]
        made = any(
            isinstance(m, (Class, Object)) or external_name(m).partition(".")[0] in methods.HOLDERS
            for m in makers
        )
        return not made and not any(self.stored("shape"))

    def _attribute(self, frame: Frame, node: ast.Attribute) -> Reach:
        owner = self.of(frame, node.value)
        for value in self.program.names.of(frame.source, frame.scope, node.value):
            if isinstance(value, Source):
                return self._name(Frame(value, value.tree), node.attr).named(owner, node.attr)
        if self.program.names.is_of_a_library(frame.source, frame.scope, node.value):
            if not owner.cells:
                return UNKNOWN.named(owner, node.attr)
        shared = self.program.names.is_of_a_class(node.attr)  # by all objects of that class
        alone = owner.is_new or (owner.is_own_making and self._is_put(node.attr, owner.made))
        if alone and not shared:
            return self._put_on_new(frame, node).named(owner, node.attr)
        if not shared and self._is_of_its_own(frame, node, owner):
            return replace(owner.view, fresh=False).named(owner, node.attr)
        found = self._ask(node.attr, lambda: self._put(node.attr))
        for given in self._by_property(frame, node, owner):
            found = found.either(given)
        own = found.cells | self.slots(frame, node, owner, held=True)
        if not owner.own:
            own |= owner.view.cells  # `p.data` is p
        elif not self.program.names.puts_of(node.attr):
            own |= {cell.at(cell.inside) for cell in owner.held}  # a field of a dataclass
        told = found.plain and node.attr not in _OF_TENSORS and self._is_set(frame, node)
        plain = told or self.is_option(frame, node)
        found = replace(found, cells=own, fresh=False, plain=plain, own=False, constant="")
        return found.named(owner, node.attr)

    def _is_of_its_own(self, frame: Frame, node: ast.Attribute, owner: Reach) -> bool:
        """Whether only variables have an object, which sets that attribute of none of them.

        So `batch.data` is the batch, whatever `weight.data = other` sets.
        """
        known = owner.cells | owner.held
        if not (owner.fresh and known and all(isinstance(c.scope, FUNCTIONS) for c in known)):
            return False
        if node.attr in self._set_otherwise or "" in self._set_otherwise:
            return False
        values = self.program.names.of(frame.source, frame.scope, node.value)
        if any(map(is_own, values)):
            return False
        puts = self.program.names.puts_of(node.attr)
        owners = (self.of(Frame(source, put.scope), put.owner) for source, put in puts)
        others = self._ask(("owners", node.attr), lambda: (PLAIN, *owners))
        every = {(c.name, c.scope) for c in others.cells | others.held}
        return not any((c.name, c.scope) in every for c in known) and not any(
            isinstance(scope, FUNCTIONS)
            and name in parameters(scope)
            and (scope in self.program.handed or not self.program.callers.get(scope))
            for name, scope in every
        )

    def slots(
        self, frame: Frame, node: ast.Attribute, owner: Reach, *, held: bool = False
    ) -> frozenset[Cell]:
        """Storage of an attribute of an object.

        Args:
            owner: how the object is reached.
            held: what lies there is meant as well, which another object's attribute may hold too.
        """
        if held and not self._is_made_for_each(node.attr):
            return frozenset({Cell(node.attr)})
        if owner.made and all(map(self.confined.holds, owner.made)):
            return frozenset(Cell(node.attr, of=made) for made in owner.made)
        return frozenset({Cell(node.attr)})

    def _is_made_for_each(self, name: str) -> bool:
        """Whether what an attribute is set to is always a number, or made where it is set."""
        shared = self.program.names.is_of_a_class(name)
        return not shared and all(
            not bound.path and self._makes(source, scope, bound.value)
            for source, scope, bound in self.stored(name)
        )

    def _makes(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether an expression gives a number, or something that nobody else has."""
        if isinstance(node, ast.Subscript) and _is_slice(node.slice):
            node = node.value
        if not isinstance(node, ast.Call):
            return isinstance(node, (*_NOT_CALLED, ast.ListComp, ast.SetComp, ast.DictComp))
        full = self.program.names.qualified(source, scope, node.func)
        into = any(k.arg in ("out", "inplace") for k in node.keywords)
        as_it_is = full.startswith("torch.nn.functional.")  # `dropout()` in evaluation mode
        return full in methods.COPIES or (
            not into and not as_it_is and methods.gives(full) in (Gives.NUMBER, Gives.NEW)
        )

    def is_option(self, frame: Frame, node: ast.Attribute) -> bool:
        """`args.epochs`, a number or a text whoever sets it."""
        if node.attr not in self.plain_options:
            return False
        values = self.program.names.of(frame.source, frame.scope, node.value)
        if not values or not all(map(is_namespace, values)):
            return False
        return all(
            self._ask((where, put.bound), partial(self._only, where, put.bound)).plain
            for source, put in self.program.names.puts_of(node.attr)
            for where in (Frame(source, put.scope, run="before"),)
        )

    def _is_put(self, name: str, made: Collection[Object]) -> bool:
        """Whether an attribute is set by name on objects of the classes that made these."""
        classes = {one.made_by for one in made}
        return any(
            isinstance(owner, Object) and owner.made_by in classes
            for source, put in self.program.names.puts_of(name)
            for owner in self.program.names.of(source, put.scope, put.owner)
        )

    def _put_on_new(self, frame: Frame, node: ast.Attribute) -> Reach:
        """What an attribute of an object made where it is used may hold of others."""
        names = self.program.names
        values = names.of(frame.source, frame.scope, node.value)
        makers = {v.made_by for v in values if isinstance(v, Object)}
        makers = {maker for maker in makers if isinstance(maker, Class)}
        cells, held = frozenset[Cell](), frozenset(self._filled_in(node.attr, makers))
        for source, put in names.puts_of(node.attr):
            owners = names.of(source, put.scope, put.owner)
            same = any(o in values for o in owners) or not (makers or owners or values)
            if same or any(isinstance(o, Object) and o.made_by in makers for o in owners):
                where = Frame(source, put.scope, run="before")
                value = self._ask((where, put.bound), partial(self._only, where, put.bound))
                if not value.plain:
                    cells, held = cells | value.cells, held | value.held
        return Reach(cells, held, fresh=True)

    def _filled_in(self, name: str, makers: Collection[Value]) -> Iterator[Cell]:
        """Storage of what is put into an attribute of objects of some classes."""
        for filled in self._filled.get(name, ()) if makers else ():
            source, scope, owner = filled.source, filled.scope, filled.owner
            if isinstance(owner, ast.Attribute):
                owners = self.program.names.of(source, scope, owner.value)
                if any(isinstance(o, Object) and o.made_by in makers for o in owners):
                    where = Frame(source, scope, run="before")
                    value = self._ask(
                        (where, filled.value), partial(self._only, where, filled.value)
                    )
                    yield from () if value.plain else value.held_at(filled.inside)

    def _only(self, frame: Frame, bound: Bound) -> list[Reach]:
        return [self._bound(frame, bound)]

    def is_called_never(self, name: str) -> bool:
        """Whether an attribute of that name, where it is set, is a number or a container."""
        stored = [bound.value for _, _, bound in self.stored(name)]
        return bool(stored) and all(isinstance(value, _NOT_CALLED) for value in stored)

    def _put(self, name: str) -> Iterator[Reach]:
        stored = [*self.stored(name)]
        for source in self.program.sources.values() if stored else ():
            yield from self._grown(source, name)
        for source, scope, bound in stored:
            if not (isinstance(bound.value, ast.Constant) and bound.value.value is None):
                yield self._bound(Frame(source, scope, run="before"), bound)

    def stored(self, name: str) -> Iterator[tuple[Source, ScopeNode, Bound]]:
        """What an attribute of that name is set to, of any object or class."""
        for source, put in self.program.names.puts_of(name):
            yield source, put.scope, put.bound
        yield from self._set_otherwise.get(name, ())
        if name != "__dict__":  # that is the table itself
            yield from self._set_otherwise.get("", ())

    @cached_property
    def _set_otherwise(self) -> dict[str, list[tuple[Source, ScopeNode, Bound]]]:
        """By the body of a class; `x.__dict__[...] = value` by ''."""
        found: dict[str, list[tuple[Source, ScopeNode, Bound]]] = {}
        for source in self.program.sources.values():
            for cls, table in self.program.bindings_of(source).classes.items():
                for name, bindings in table.items():
                    bound = [b for b in bindings if isinstance(b, Bound)]
                    where = (source, source.scope_of(cls))
                    found.setdefault(name, []).extend((*where, b) for b in bound)
        for source, put in self.program.names.puts_of(""):
            if isinstance(put.owner, ast.Attribute) and put.owner.attr == "__dict__":
                found.setdefault("", []).append((source, put.scope, put.bound))
        return found

    def _by_property(self, frame: Frame, node: ast.Attribute, owner: Reach) -> Iterator[Reach]:
        if node.attr not in self.program.methods_by_name:
            return
        for value in self.program.names.of(frame.source, frame.scope, node.value):
            if not (isinstance(value, Object) and isinstance(value.made_by, Class)):
                continue
            every = value.node is None
            for method in self.program.methods(value.made_by, node.attr, overrides=every):
                itself = own_parameter(method)
                if is_property(method.node) and itself:
                    inner = Frame(method.source, method.node, ((itself, owner),), "called")
                    yield self._ask(inner, partial(self._given_back, inner))

    def _is_set(self, frame: Frame, node: ast.Attribute) -> bool:
        """Whether it is set in sight, of all objects that this may be one of."""
        values = self.program.names.of(frame.source, frame.scope, node.value)
        if node.attr not in self._owners:
            puts = self.program.names.puts_of(node.attr)
            owners = (v for s, put in puts for v in self.program.names.of(s, put.scope, put.owner))
            self._owners[node.attr] = {getattr(v, "made_by", v) for v in owners}
        return bool(values) and all(
            getattr(v, "made_by", v) in self._owners[node.attr] or is_own(v) for v in values
        )

    # -- calls ---------------------------------------------------------------------------------

    def leaves(self, frame: Frame, call: ast.Call) -> bool:
        """Whether a call may run what the program does not define, beside what it does.

        As behind `try: from tqdm import tqdm` with a function of that name for where it is missing.
        """
        values = self.program.names.called(frame.source, frame.scope, call.func)
        return any(_is_elsewhere(value) for value in values)

    def lambdas(self, frame: Frame, call: ast.Call) -> list[ast.Lambda]:
        """Those among what a call may run."""
        values = self.program.names.of(frame.source, frame.scope, call.func)
        nodes = (value.node for value in values if isinstance(value, Opaque))
        return [node for node in nodes if isinstance(node, ast.Lambda)]

    def _result(self, frame: Frame, call: ast.Call) -> Reach:
        own: list[Reach] = []
        functions = self.program.resolve(frame.source, frame.scope, call)
        if self._constructs(frame, call):
            values = self.program.names.of(frame.source, frame.scope, call)
            made = frozenset(v for v in values if isinstance(v, Object) and v.node is call)
            given = self._holding(frame, arguments(call))
            own.append(replace(given, made=made if len(values) == len(made) == 1 else frozenset()))
        elif functions:
            own.append(self._returned(frame, call, functions))
        if own and not self.leaves(frame, call):
            return own[0]
        own += self._of_lambdas(frame, call)
        return _one_of([*own, self._of_library(frame, call)])

    def _of_lambdas(self, frame: Frame, call: ast.Call) -> Iterator[Reach]:
        """What a lambda names that is none of its parameters."""
        for function in self.lambdas(frame, call):
            home = next(s for s in self.program.sources.values() if function in s.lambdas)
            outside = Frame(home, home.scope_of(function), run="before")
            for node in (function.body, *below(function.body)):
                names = {n.id for n in (node, *below(node)) if isinstance(n, ast.Name)}
                if isinstance(node, (ast.Name, ast.Attribute)) and not names & parameters(function):
                    yield self.of(outside, node).view

    def _of_library(self, frame: Frame, call: ast.Call) -> Reach:
        if self.losses(frame.source, frame.scope, call.func):
            return FRESH
        full = self.program.names.qualified(frame.source, frame.scope, call.func)
        if not full and self._is_layer(frame.source, frame.scope, call.func):
            return self._holding(frame, arguments(call)).view
        if not full and isinstance(call.func, ast.Attribute):
            return self._of_method(frame, call, call.func)
        gives = methods.gives(full)
        if gives in (Gives.NUMBER, Gives.NEW):
            return PLAIN if gives is Gives.NUMBER else FRESH
        if full == "copy.deepcopy" and "__deepcopy__" not in self.program.methods_by_name:
            return FRESH
        if full == "builtins.getattr":  # of what it looks into, else what it is told
            found = [self.of(frame, a).view for a in (*call.args[:1], *call.args[2:])]
            return _one_of(found)
        if not full and (forwards := self._forwards(frame, call.func)):
            return _one_of(self._of_forward(frame, call, forward) for forward in forwards)
        given = self._holding(frame, arguments(call))
        if full in methods.COPIES:
            parts = [self.of(frame, a).element for a in arguments(call)]
            return Reach(held=frozenset().union(*(r.held_at() for r in parts)), fresh=True)
        keeps = last(full)[:1].isupper() and not methods.is_iterator(full)
        if keeps:  # an object that keeps what it is given
            return replace(given, makes=full in _LOADERS and self._stacks(frame, call))
        return self._walked(frame, call, full, given)

    def _is_layer(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """A layer of torch.nn, whose output is new or its input: never what the layer holds."""
        values = self.program.names.of(source, scope, node)
        return bool(values) and all(map(self._makes_layer, values))

    def _makes_layer(self, value: Value) -> bool:
        if not (isinstance(value, Object) and isinstance(value.node, ast.Call) and value.where):
            return False
        name = external_name(value.made_by)
        if not name.startswith("torch.nn.") or libraries.made_by(name) is not Kind.MODEL:
            return False
        given = arguments(value.node)
        if libraries.is_container(name):  # hands on what those in it give back
            return all(self._is_layer(*value.where, part) for part in given)
        of_program = (self.program.names.of(*value.where, part) for part in given)
        return not any(is_own(v) or isinstance(v, Class) for values in of_program for v in values)

    def _walked(self, frame: Frame, call: ast.Call, full: str, given: Reach) -> Reach:
        """What a library's function gives back, which may be another way to walk over something."""
        walked = [self.of(frame, a) for a in call.args if full in _WALK]
        if full == "builtins.next" and walked:
            return walked[0].element
        makes = bool(walked) and all(r.makes or r.plain for r in walked)
        if methods.is_iterator(full):
            used = _used_up(self.of(frame, a) for a in call.args)
            return replace(given, cells=given.cells | used, once=True, makes=makes)
        if walked:  # a progress bar: what it is given, as far as others tell them apart
            return replace(walked[0], plain=False, makes=makes, constant="")
        return given.view

    def _stacks(self, frame: Frame, loader: ast.Call) -> bool:
        """Whether a data loader makes its batches of samples by itself, which makes new tensors."""
        named = {k.arg: k.value for k in loader.keywords if k.arg is not None}
        size = loader.args[1] if len(loader.args) > 1 else named.get("batch_size", loader)
        as_stored = isinstance(size, ast.Constant) and size.value is None
        keys = {*named, *self._unpacked(frame, loader)}
        told = not {None, "collate_fn"} & keys and ("batch_size" not in keys - named.keys())
        return not as_stored and len(loader.args) < 7 and told

    def _unpacked(self, frame: Frame, call: ast.Call) -> Iterator[object]:
        """The names under which `**options` hands something on; None where they are not told."""
        for given in (k.value for k in call.keywords if k.arg is None):
            values = self.program.names.of(frame.source, frame.scope, given)
            tables = [v for v in values if isinstance(v, Group) and isinstance(v.node, ast.Dict)]
            filled = not isinstance(given, ast.Name) or self.is_filled(given.id)
            if filled or not values or len(tables) < len(values):
                yield None
            yield from (key for table in tables for key in table.keys)

    def _of_method(self, frame: Frame, call: ast.Call, function: ast.Attribute) -> Reach:
        gives = methods.method_gives(function.attr)
        if gives in (Gives.NUMBER, Gives.NEW):
            return PLAIN if gives is Gives.NUMBER else FRESH
        own = self.of(frame, function.value)
        if function.attr in methods.METHODS_THAT_LOAD or own.plain:
            return FRESH  # of a text another text, or a list of its own
        if function.attr == "__iter__":
            return Reach(_used_up([own]), own.elements, True, once=True, makes=own.makes)
        if function.attr in ("next", "__next__") and own.once:
            return own.element
        if gives is Gives.OBJECT:
            return own
        if function.attr in methods.MAKES_TABLE and not arguments(call):
            copied = own if function.attr == "copy" else own.view
            return Reach(held=copied.elements, fresh=True)
        if function.attr in methods.GIVES_ARGUMENTS:
            if function.attr in handed_on.GIVES_BACK:
                return own.view.either(self._holding(frame, arguments(call)).view)
            return own.part.either(self._holding(frame, arguments(call)).part)  # an element
        return own.view

    def _forwards(self, frame: Frame, called: ast.expr) -> list[Function]:
        """What calling modules of the program's classes runs; nothing where one may be another."""
        values = self.program.names.of(frame.source, frame.scope, called)
        found: list[Function] = []
        for value in values:
            if not (isinstance(value, Object) and isinstance(value.made_by, Class)):
                return []
            any_of_it = value.node is None
            every = self.program.methods(value.made_by, "forward", overrides=any_of_it)
            if not every or any(f.node.decorator_list for f in every):
                return []
            found += every
        return list(dict.fromkeys(found))

    def _of_forward(self, frame: Frame, call: ast.Call, forward: Function) -> Reach:
        """Read once for all calls, with parameters that lead to themselves."""
        node, names = forward.node, sorted(parameters(forward.node))
        itself = [(name, Reach(frozenset({Cell(name, node)}), fresh=True)) for name in names]
        inner = Frame(forward.source, node, tuple(itself), "called")
        found = self._ask(inner, partial(self._given_back, inner))
        given = dict(self.arguments(frame, call, forward))
        if own := own_parameter(forward):
            given[own] = self.of(frame, call.func)
        return _with(found, node, given)

    def _returned(self, frame: Frame, call: ast.Call, functions: list[Function]) -> Reach:
        """What the program's function gives back: one of its arguments, or its own making."""
        frames = [
            Frame(f.source, f.node, self.arguments(frame, call, f), "called") for f in functions
        ]
        found = [self._ask(inner, partial(self._given_back, inner)) for inner in frames]
        return _one_of(found)

    def _given_back(self, frame: Frame) -> Iterator[Reach]:
        nodes = own_nodes(frame.scope)
        values = returned(frame.scope)
        yield from (self.of(frame, value) for value in values)
        for node in nodes:
            if isinstance(node, (ast.Yield, ast.YieldFrom)):
                held = (node.value,) if node.value is not None else ()
                used = _used_up(reach for _, reach in frame.given)
                yield replace(self._holding(frame, held), cells=used, once=True)
                values.append(node)
        if not values:
            yield FRESH

    def _constructs(self, frame: Frame, call: ast.Call) -> bool:
        """`Net(x)`, `models.Net(x)`"""
        values = self.program.names.of(frame.source, frame.scope, call.func)
        return any(isinstance(v, Class) for v in values)

    def arguments(self, frame: Frame, call: ast.Call, function: Function) -> Arguments:
        """What a function's parameters reach when a call runs it."""
        given: dict[str, list[Reach]] = {}
        if itself := own_parameter(function):
            own = FRESH  # the new object of a constructor
            if function.name == "__init__" and self._constructs(frame, call):
                pass
            elif isinstance(call.func, ast.Attribute):
                own = self.of(frame, call.func.value)
            elif isinstance(call.func, ast.Call) or function.name != "__init__":
                own = UNKNOWN
            given[itself] = [own]
        for name, value in self.program.given(frame.source, frame.scope, call, function):
            given.setdefault(name, []).append(self.of(frame, value))
        outside = Frame(function.source, function.source.scope_of(function.node))
        return self.completed(outside, function.node, given)

    def within(self, frame: Frame, call: ast.Call, inner: ast.Lambda) -> Frame:
        """A lambda with what its parameters reach when a call runs it."""
        home = next(s for s in self.program.sources.values() if inner in s.lambdas)
        outside = Frame(home, home.scope_of(inner), run="before")
        given: dict[str, list[Reach]] = {}
        for name, value in passed(call, inner, bound=False):
            given.setdefault(name, []).append(self.of(frame, value))
        return replace(outside, given=self.completed(outside, inner, given), inside=inner)

    def completed(
        self,
        outside: Frame,
        function: FunctionNode | ast.Lambda,
        given: dict[str, list[Reach]],
    ) -> Arguments:
        """With the defaults of what a call leaves out."""
        spec = function.args
        for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            default = default_of(function, parameter.arg)
            if parameter.arg not in given and default is not None:
                given[parameter.arg] = [self.of(outside, default)]
        for several in (spec.vararg, spec.kwarg):
            if several is not None and several.arg in given:
                held = _one_of(given[several.arg]).view.cells
                given[several.arg] = [Reach(held=held, fresh=True)]
        return tuple(sorted((name, _one_of(reaches)) for name, reaches in given.items()))


def _makes_a_list(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "list"
    return isinstance(node, (ast.List, ast.ListComp))


def _is_elsewhere(value: Value) -> bool:
    """Of a library, an object of one included, or without a name: `lambda x: x`."""
    match value:
        case External() | Opaque(node=ast.Lambda()):
            return True
        case Object(made_by=External(name="builtins.getattr")):
            return False  # of what it looks into
        case Member(owner=inner) | Item(owner=inner) | Object(made_by=inner):
            return _is_elsewhere(inner)
    return False


def _led_by(owner: ast.expr) -> Iterator[ast.expr]:
    """What leads to an object, from its own name or element outwards."""
    node: ast.expr | None = owner
    while node is not None:
        yield node
        if isinstance(node, ast.Call):
            node = node.func
        node = getattr(node, "value", None)


def _is_slice(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) for part in parts)


def _with(found: Reach, function: ScopeNode, given: dict[str, Reach]) -> Reach:
    """Of what a function gives back, with what a call gives in the place of its parameters."""
    own = [c for c in found.cells | found.held if c.scope is function]
    cells, held = found.cells - {*own}, found.held - {*own}
    for cell in own:
        passed_on = given.get(cell.name, PLAIN)
        if passed_on.plain:
            continue
        if cell.inside:
            passed_on = passed_on.view
        if cell in found.held:
            held |= passed_on.held_at(cell.under + 1)
        else:
            cells, held = cells | passed_on.cells, held | passed_on.held
    return replace(found, cells=cells, held=held, constant="").unnamed


def _used_up(walked: Iterable[Reach]) -> frozenset[Cell]:
    """Iterators that an iterator over them takes from."""
    return frozenset(cell for reach in walked if reach.once for cell in reach.cells)


def _one_of(reaches: Iterable[Reach]) -> Reach:
    """Of a value that may be any of these; unknown when there is none."""
    found: Reach | None = None
    for reach in reaches:
        found = reach if found is None else found.either(reach)
    return found or UNKNOWN
