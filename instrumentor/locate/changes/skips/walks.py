"""Which data loaders a walk begins, each of which draws its seeds then.

A walk is begun by a loop, or by a call that makes an iterator or takes all there is. Whatever may
walk over a loader in a way that is not known here counts as one that is not told.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from itertools import chain, product

from msgspec import Struct

from instrumentor.locate.changes.skips.liveness import variables
from instrumentor.locate.changes.skips.objects import Objects
from instrumentor.locate.changes.skips.storage import NOWHERE, Frame, Reach, Spelling, Storage
from instrumentor.locate.meaning import methods
from instrumentor.locate.meaning.roles import Gives
from instrumentor.read.bindings import Binding, Bound, Parameter
from instrumentor.read.handed_on import GIVES_BACK, words
from instrumentor.read.syntax import (
    LOOPS,
    ScopeNode,
    Source,
    alternatives,
    arguments,
    below,
    header,
    last,
    own_nodes,
)
from instrumentor.read.values import External, Function, Group, Item, Member, Object, Opaque, Value

_ITER, _NEXT = "builtins.iter", "builtins.next"
_CHAIN, _PARTIAL = "itertools.chain", "functools.partial"
#: Begin to walk over what they are given when they are called.
_BEGIN = words(
    "builtins.list builtins.tuple builtins.set builtins.frozenset builtins.sorted builtins.dict "
    "builtins.sum builtins.max builtins.min builtins.any builtins.all builtins.zip builtins.iter "
    "builtins.enumerate builtins.map builtins.filter collections.deque functools.reduce "
    "itertools.islice itertools.cycle itertools.tee itertools.zip_longest itertools.starmap "
    "itertools.takewhile itertools.dropwhile itertools.accumulate itertools.chain"
)
_NEVER = words(
    "builtins.getattr builtins.hasattr builtins.setattr builtins.vars builtins.type builtins.id "
    "builtins.print builtins.repr builtins.str copy.copy copy.deepcopy"
)
#: Methods of whatever object that keep what they are given, or give it back.
_KEEP = (methods.FILLS - {"extend", "update"}) | methods.KEEPS | GIVES_BACK
_OF_TABLES = words("keys values items copy")
_SAMPLERS = ("sampler", "batch_sampler")
_DEEP = 6

Where = tuple[Source, ScopeNode, ast.expr]
#: In their order; nothing for one that is not told.
Begun = tuple[Spelling, ...]


class Does(Enum):
    """What a library's call does with a loader that it is given."""

    NOTHING = auto()
    BEGINS = auto()
    UNKNOWN = auto()


class Walks(Struct, eq=False):
    """Of a program.

    Attributes:
        comes_to: whether what binds a name runs, with what is constant in the call that is read.
    """

    storage: Storage
    objects: Objects
    comes_to: Callable[[Frame, Binding], bool]

    def over(self, frame: Frame, iterable: ast.expr) -> Begun:
        """The loaders that a walk over something begins, if it goes to the end."""
        ways = {*self._ways(frame, iterable, set())}
        return () if not any(ways) else ways.pop() if len(ways) == 1 else (NOWHERE,)

    def begun_by(self, frame: Frame, call: ast.Call) -> Begun:
        """The loaders that a call begins to walk over: `iter(loader)`, `list(loader)`."""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "__iter__":
            return self.over(frame, call.func.value)
        name, does = self._name(frame, call), self.does(frame, call)
        if name == _NEXT and call.args:  # of one that others have it may be the first
            outlives = self.storage.of(frame, call.args[0]).cells
            may = outlives and self.is_a_loader(frame, call.args[0])
            return (NOWHERE,) if may else ()
        if self._is_walked_where_it_is_named(frame, call, name):
            return ()
        if name == _CHAIN:
            return self._chained(frame, call, set())
        given = arguments(call)
        if name != _ITER and does is Does.BEGINS:  # most are lists and batches
            given = [a for a in given if self.is_a_loader(frame, a)]
        if does is Does.BEGINS and given:
            return tuple(chain.from_iterable(self.over(frame, a) for a in given))
        every = name not in _BEGIN or any(self._is_function(frame, a) for a in arguments(call))
        may = does is not Does.NOTHING and any(
            self._is_made_of_loaders((frame.source, frame.scope, a), parts=every)
            for a in arguments(call)
            if not self._has_begun(frame, a)
        )
        return (NOWHERE,) if may else ()

    def does(self, frame: Frame, call: ast.Call) -> Does:
        name = self._name(frame, call)
        if name in _BEGIN:
            return Does.BEGINS
        where, word = (frame.source, frame.scope), getattr(call.func, "attr", "")
        resolved = self.objects.knowledge.program.resolve(*where, call)
        known = (
            (bool(resolved) and not self.storage.leaves(frame, call))
            or name in _NEVER
            or methods.gives(name) is Gives.NUMBER
            or last(name)[:1].isupper()  # which walks later, if at all
            or (name != _PARTIAL and self.objects.is_walked_through(*where, call))
            or (not name and word in _KEEP | methods.READING_METHODS)
            or self.objects.tells(*where, call)
        )
        return Does.NOTHING if known else Does.UNKNOWN

    def is_a_loader(self, frame: Frame, node: ast.expr) -> bool:
        return any(self.objects.is_loader(*where) for where, _ in self._leaves(frame, node, set()))

    # -- what is walked over -------------------------------------------------------------------

    def _ways(self, frame: Frame, node: ast.expr, seen: set[ast.expr]) -> Iterator[Begun]:
        """What may be begun, through names, progress bars and choices."""
        for one in self._choices(frame, node, seen):
            if isinstance(one, ast.Call):
                yield self._chained(frame, one, seen)
            else:
                yield self._of_leaf(*one)

    def _leaves(
        self, frame: Frame, node: ast.expr, seen: set[ast.expr]
    ) -> Iterator[tuple[Where, Reach]]:
        for one in self._choices(frame, node, seen):
            if isinstance(one, ast.Call):
                for part in one.args:
                    yield from self._leaves(frame, part, seen)
            else:
                yield one

    def _choices(
        self, frame: Frame, node: ast.expr, seen: set[ast.expr]
    ) -> Iterator[tuple[Where, Reach] | ast.Call]:
        """What it may be that is walked over: one expression, or several in a chain."""
        if node in seen:
            return
        seen.add(node)
        parts = alternatives(node)
        match node:
            case _ if parts:
                pass
            case ast.Call() if (
                not self._has_begun(frame, node) and self._name(frame, node) == _CHAIN
            ):
                yield node
                return
            case ast.Call(args=[one, *_]) if not self._has_begun(
                frame, node
            ) and self.objects.is_walked_through(frame.source, frame.scope, node):
                parts = [one]
            case ast.Name() if meant := self._meant(frame, node):
                for binding in meant:
                    yield from self._of_binding(frame, node, binding, seen)
                return
            case _:
                yield (frame.source, frame.scope, node), self.storage.of(frame, node)
                return
        for part in parts:
            yield from self._choices(frame, part, seen)

    def _of_binding(
        self, frame: Frame, node: ast.Name, binding: Binding, seen: set[ast.expr]
    ) -> Iterator[tuple[Where, Reach] | ast.Call]:
        given = dict(frame.given).get(node.id)
        if isinstance(binding, Bound) and not binding.path:
            yield from self._choices(frame, binding.value, seen)
        elif isinstance(binding, Parameter) and given is not None:
            if not given.plain:  # nobody walks over None
                yield (frame.source, frame.scope, node), given
        else:
            yield (frame.source, frame.scope, node), self.storage.of(frame, node)

    def _meant(self, frame: Frame, node: ast.Name) -> list[Binding]:
        """What a name may be bound to, where that says more than the name does.

        A name of the examined scope is a loader's own spelling unless it is of a progress bar.
        """
        where = (frame.source, frame.scope, node.id)
        if self.storage.owner(*where) is not frame.scope:
            return []
        bindings = self.storage.bound_ahead(frame, node)
        every = bindings or self.objects.knowledge.program.names.bound(*where)
        meant = [b for b in every if self.comes_to(frame, b)]
        if frame.run == "examined":
            bound = (b.value for b in meant if isinstance(b, Bound) and not b.path)
            through = self.objects.is_walked_through
            if not any(
                isinstance(n, ast.Call) and through(frame.source, frame.scope, n)
                for value in bound
                for n in (value, *below(value))
            ):
                return []
        return meant

    def _chained(self, frame: Frame, call: ast.Call, seen: set[ast.expr]) -> Begun:
        """`chain(a, b)`, which comes to the second where nobody leaves the first."""
        parts = [[*self._ways(frame, part, {*seen})] for part in call.args]
        ways = {tuple(chain.from_iterable(each)) for each in product(*parts)}
        begun = ways.pop() if len(ways) == 1 else (NOWHERE,) if any(ways) else ()
        return begun if len(begun) < 2 or _goes_to_the_end(frame.source, call) else (NOWHERE,)

    def _of_leaf(self, where: Where, reach: Reach) -> Begun:
        source, scope, node = where
        if isinstance(node, ast.Starred):  # all that it holds, one after the other
            inside = self._is_made_of_loaders((source, scope, node.value), parts=True)
            return (NOWHERE,) if inside else ()
        if self._has_begun(Frame(source, scope), node) or (reach.once and not reach.cells):
            return ()
        loader = self.objects.walked(*where)
        if loader is not None and self.objects.seeds(source, scope, loader):
            # of an iterator the order of its samples is drawn with the first of them
            return (NOWHERE if reach.once else reach.path,)
        may = self._is_made_of_loaders(where) or self._leads_to_loaders(where, reach)
        return (NOWHERE,) if may else ()

    def _has_begun(self, frame: Frame, node: ast.expr) -> bool:
        """Whether making it begins the walk, which counts there."""
        if not isinstance(node, ast.Call):
            return False
        name = self._name(frame, node)
        made = name in _BEGIN or getattr(node.func, "attr", "") == "__iter__"
        return made and not self._is_walked_where_it_is_named(frame, node, name)

    def _is_walked_where_it_is_named(self, frame: Frame, call: ast.Call, name: str) -> bool:
        """Whether nothing but a loop takes from an iterator, so that it may count there."""
        statement = frame.source.statement_of(call)
        if name not in (_ITER, _CHAIN) or statement is None:
            return False
        match statement:
            case ast.For(iter=walked) if self._is_one_of(frame, walked, call):
                return True
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if self._is_one_of(
                frame, value, call
            ):
                program = self.objects.knowledge.program
                named = variables(program, frame.source, frame.scope, target)
                read = [n for n in named if isinstance(n.ctx, ast.Load)]
                at = frame.source.statement_of(read[0]) if len(read) == 1 else None
                around = frame.source.loops_around
                return (
                    at is not None
                    and any(self._is_one_of(frame, walk, read[0]) for walk in _walked_by(at))
                    and [*around(at)] == [*around(statement)]
                )
        return False

    def _is_one_of(self, frame: Frame, node: ast.expr, sought: ast.expr) -> bool:
        # what `(name := value)` binds others may take from
        parts = [] if isinstance(node, ast.NamedExpr) else alternatives(node)
        if node is not sought and isinstance(node, ast.Call):
            if self.objects.is_walked_through(frame.source, frame.scope, node):
                parts = node.args[:1]
        return node is sought or any(self._is_one_of(frame, part, sought) for part in parts)

    # -- what may hold a loader ----------------------------------------------------------------

    def _is_made_of_loaders(self, where: Where, *, parts: bool = False) -> bool:
        """Whether walking over something may walk over a loader: over an object that keeps one.

        Args:
            parts: over what a container holds, too.
        """
        values = self._values(where)
        return any(
            self._holds(value, _DEEP)
            for value in values
            if parts or not (isinstance(value, Group) or _is_of_a_table(value))
        )

    def _leads_to_loaders(self, where: Where, reach: Reach) -> bool:
        """Whether what nobody tells is reached by the name of a loader: as one of `*loaders`."""
        program = self.objects.knowledge.program
        return not self._values(where) and any(
            self.objects.is_made_a_loader(value)
            for cell in reach.cells
            if cell.scope is not None
            for value in program.names.named(
                program.source_of_scope[cell.scope], cell.scope, cell.name
            )
        )

    def _holds(self, value: Value, deep: int) -> bool:
        if self.objects.is_made_a_loader(value):
            return True
        match value:
            case Group(items=items) if deep:
                return any(self._holds(each, deep - 1) for values in items for each in values)
            case Member(owner=owner, name=name) if self.objects.is_made_a_loader(owner):
                return name in _SAMPLERS
            case (
                Item(owner=owner) | Object(made_by=Member(owner=owner, name="next" | "__next__"))
            ) if self.objects.is_made_a_loader(owner):
                return False  # a batch
            case Member(owner=owner) | Item(owner=owner) | Object(made_by=Member(owner=owner)):
                return bool(deep) and self._holds(owner, deep - 1)
            case Object(made_by=External(name=name), node=ast.Call() as call) if deep:
                kept = last(name)[:1].isupper() or name in _BEGIN
                given = arguments(call) if kept and value.where is not None else ()
                return any(
                    self._holds(each, deep - 1)
                    for a in given
                    if value.where is not None
                    for each in self._values((*value.where, a))
                )
        return False

    def _is_function(self, frame: Frame, node: ast.expr) -> bool:
        values = self._values((frame.source, frame.scope, node))
        return any(isinstance(v, (Function, Opaque)) for v in values)

    def _values(self, where: Where) -> Iterable[Value]:
        return self.objects.knowledge.program.names.of(*where)

    def _name(self, frame: Frame, call: ast.Call) -> str:
        names = self.objects.knowledge.program.names
        return names.qualified(frame.source, frame.scope, call.func)


def _walked_by(statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement itself walks over, once."""
    for node in header(statement):
        if isinstance(node, ast.For):
            yield node.iter
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            yield node.generators[0].iter


def _is_of_a_table(value: Value) -> bool:
    """`loaders.items()`"""
    return isinstance(value, Object) and getattr(value.made_by, "name", "") in _OF_TABLES


def _goes_to_the_end(source: Source, call: ast.Call) -> bool:
    """Whether what a call gives is walked over where it stands, and by nothing that may stop."""
    statement = source.statement_of(call)
    ends = (ast.Break, ast.Return, ast.Raise)
    return isinstance(statement, LOOPS) and not any(
        isinstance(n, ends) for n in own_nodes(statement)
    )
