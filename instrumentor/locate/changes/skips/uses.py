"""Who reads what statements write that are taken out, by whatever name.

A place that names an object only hands it on (to a parameter of the program's own function, to a
plain alias), or only puts more into it; any other place reads it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any, TypeGuard

from msgspec import Struct, field

from instrumentor.locate.changes.skips.ahead import Ahead
from instrumentor.locate.changes.skips.candidates import Piece
from instrumentor.locate.changes.skips.confined import Place
from instrumentor.locate.changes.skips.effects import Change
from instrumentor.locate.changes.skips.facts import Facts, Mention
from instrumentor.locate.changes.skips.liveness import reads_of, variables
from instrumentor.locate.changes.skips.removal import Gone
from instrumentor.locate.changes.skips.storage import ANYWHERE, FAR, Cell, Frame
from instrumentor.locate.meaning.libraries.library import rows
from instrumentor.read.bindings import Parameter
from instrumentor.read.callers import given_by_all
from instrumentor.read.names import external_name
from instrumentor.read.program import Function
from instrumentor.read.signatures import is_property, suspends
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    arguments,
    callee,
    last,
    own_calls,
    parameters,
)
from instrumentor.read.values import Group, Object

#: What takes nothing but paths, which are texts or as little to be changed as those.
_TAKE_PATHS = (
    *rows("os.path.", "abspath basename dirname exists isabs isdir isfile join normpath realpath"),
    *rows("os.", "makedirs mkdir listdir"),
)


class _Way(Struct):
    """How the changes of a piece are followed.

    Attributes:
        home: the scope of the piece.
        in_place: what is changed stays the same object.
    """

    home: ScopeNode
    in_place: bool
    seen: set[Cell] = field(default_factory=set)


class Uses(Struct, eq=False):
    """Reads by what stays.

    Attributes:
        gone: what is taken out.
        unread: that, and what the early stop does not come to.
        late: that, and what runs behind the last sample.
        ahead: what ran before the piece.
    """

    facts: Facts
    gone: Gone
    unread: Gone
    late: Gone
    ahead: Ahead

    def of(
        self, piece: Piece, statements: list[ast.stmt]
    ) -> Iterator[tuple[Mention, Change | None, Mention | None]]:
        """Reads of what a piece's statements write: of names that they bind, and of objects that
        they change, with what changes them, and where the piece's scope hands these on.
        """
        effects = self.facts.reader.of(piece.source, piece.scope, statements)
        own = {cell for cell in effects.bound if cell.scope is piece.scope}
        removed = self.gone.by_source.get(piece.source, [])
        for cell in sorted(own, key=lambda c: c.name):
            reads = reads_of(self.facts.program, piece.scope, cell.name, statements, removed)
            in_order = sorted(reads, key=lambda r: (r.lineno, r.col_offset))
            # what never runs may read a name that something else binds, and else has to go too
            gone = self.unread if self._is_bound(piece, cell.name) else self.gone
            for read in in_order:
                scope = self.facts.program.scope_of(piece.source, read)
                mention: Mention = (piece.source, scope, read)
                if _stays(gone, mention):
                    yield mention, None, None
        for changed in (effects.replaced, effects.changed):
            way = _Way(piece.scope, in_place=changed is effects.changed)
            for cell in sorted(changed, key=self._position):
                # of a name of its own what it puts there
                cells = [*self.facts.storage.put_into(cell)] if cell.at(0) in own else [cell]
                for each in cells:
                    for mention, via in self._reads_of_object(each, way):
                        yield mention, changed[cell], via

    def _is_bound(self, piece: Piece, name: str) -> bool:
        """Whether what stays binds a name of the piece's scope as well."""
        source, scope = piece.source, piece.scope
        return (isinstance(scope, FUNCTIONS) and name in parameters(scope)) or any(
            isinstance(node.ctx, ast.Store) and not self.gone.holds(source, node)
            for node in variables(self.facts.program, source, scope, name)
        )

    def _position(self, cell: Cell) -> tuple[str, str, int, int]:
        if cell.scope is None:
            return cell.name, "", 0, -cell.inside
        source = self.facts.program.source_of_scope[cell.scope]
        return cell.name, str(source.path), getattr(cell.scope, "lineno", 0), -cell.inside

    # -- objects -------------------------------------------------------------------------------

    def _reads_of_object(
        self, cell: Cell, way: _Way, via: Mention | None = None
    ) -> Iterator[tuple[Mention, Mention | None]]:
        """Where the value of a changed object may come out again, through calls and aliases."""
        if any(cell.at(inside) in way.seen for inside in (*range(cell.inside, FAR + 1), ANYWHERE)):
            return
        way.seen.add(cell)
        every = [(s, self.facts.program.scope_of(s, n), n) for s, n in self._mentions(cell)]
        if cell.scope is None and self.facts.storage.is_called_never(cell.name):  # `tensor.sum()`
            called = {c.func for _, _, c in self.facts.program.calls_named(cell.name)}
            every = [mention for mention in every if mention[2] not in called]
        for mention in every:
            stays = _stays(self.unread, mention)
            if not stays and not cell.inside:
                continue
            loads = isinstance(mention[2].ctx, ast.Load)
            if loads and self._is_another(cell, mention, way):
                continue
            others = self._goes_to(mention) if loads else []
            inside = cell.inside
            if others is None and stays and self.ahead.holds(mention):
                if not (way.in_place or cell.inside) and isinstance(mention[2], ast.Attribute):
                    if mention[2].attr == cell.name:
                        continue  # it has read what was there then
                in_place = way.in_place or bool(cell.inside)
                others = self.ahead.kept(mention, in_place=in_place)
                inside = ANYWHERE
            settled = way.in_place and others is None and self._is_unchangeable(mention)
            if others is None and stays and not settled and not self._is_told(mention):
                led = self._led_from_home(cell, mention, way)
                yield from [(mention, via)] if led is None else ((place, None) for place in led)
            given = mention if mention[1] is way.home and stays else via
            for other in others or ():
                yield from self._reads_of_object(other.at(inside), way, given)
        for other in self.facts.storage.put_into(cell):
            yield from self._reads_of_object(other, way, via)

    def _is_another(self, cell: Cell, mention: Mention, way: _Way) -> bool:
        """Whether what is read is not what was changed, though it lies where that lies."""
        confined = self.facts.storage.confined
        return cell.of is not None and confined.is_set_ahead(*mention, way.home)

    def _is_unchangeable(self, mention: Mention) -> bool:
        """A text, as what is given for a path has to be: nobody changes one in place."""
        source, scope, node = mention
        statement = source.statement_of(node)
        for call in own_calls(statement) if statement is not None else ():
            if any(a is node for a in arguments(call)):
                if self.facts.program.names.qualified(source, scope, call.func) in _TAKE_PATHS:
                    return True
        return False

    def _led_from_home(self, cell: Cell, mention: Mention, way: _Way) -> list[Mention] | None:
        """Where a piece's own scope leads into a method that reads an object; None if others do.

        What uses the object there is taken out with the piece, or stays with it.
        """
        made, home = cell.of, way.home
        if made is None or mention[1] is home:
            return None
        confined, found = self.facts.storage.confined, list[Mention]()
        places = {place[2]: place for place in confined.places(made)}
        constructed = mention[2] in _attributes(confined.uses(made, self._runs(places)))
        if constructed:
            # its constructor does; if it has run before, it has read what was there then
            if way.in_place or cell.inside or not self._is_made_ahead(made):
                return None
        for node, place in places.items():
            runs = self._runs({*places, made.node} - {node})
            if mention[2] not in _attributes(confined.uses(made, runs)):
                continue
            if place[1] is not home or not isinstance(node, (ast.Name, ast.Attribute)):
                return None
            found.append((place[0], place[1], node))
        return found if found or constructed else None

    def _is_made_ahead(self, made: Object) -> bool:
        where, node = made.where, made.node
        return where is not None and isinstance(node, ast.Call) and self.ahead.holds((*where, node))

    def _runs(self, without: Collection[ast.expr | None]) -> Callable[[Place], bool]:
        return lambda place: place[2] not in without and _stays(self.unread, place)

    def _goes_to(self, mention: Mention) -> list[Cell] | None:
        """The names that an object is handed on to, none if it is only changed; None for a read."""
        source, scope, node = mention
        statement = source.statement_of(node)
        match statement:
            case None:
                return []
            case ast.Return(value=value) if value is node and _is_read_as_attribute(scope):
                return [Cell(scope.name)]
            case ast.Assign(targets=targets, value=value) if value is node:
                return self._bound(mention, statement, targets)
            case ast.Assign(targets=targets):
                if any(n is node for target in targets for n in _put_into(target)):
                    return []
            case ast.AugAssign(target=target):
                if any(n is node for n in _put_into(target)):
                    return []
            case ast.Expr(value=ast.Call(func=function)):
                if _called_on(function, node) and self._keeps_to_itself(mention):
                    return []
        for call in own_calls(statement):
            if any(a is node for a in arguments(call)):
                return self._taken(mention, call)
        return None

    def _bound(
        self, mention: Mention, statement: ast.Assign, targets: list[ast.expr]
    ) -> list[Cell] | None:
        source, scope, _ = mention
        found: list[Cell] = []
        for target in targets:
            if isinstance(target, ast.Attribute):
                found.append(self.facts.storage.put(source, scope, target))
            elif isinstance(target, ast.Name):
                of_a_class = source.class_around(statement) is not None
                owner = self.facts.storage.owner(source, scope, target.id)
                found.append(Cell(target.id, None if of_a_class else owner))
            else:
                return None
        return found

    def _taken(self, mention: Mention, call: ast.Call) -> list[Cell] | None:
        source, scope, node = mention
        functions = self.facts.reader.functions(Frame(source, scope), call)
        taken = [
            Cell(parameter, f.node)
            for f in functions
            for parameter, value in self.facts.program.given(source, scope, call, f)
            if node in (value, getattr(value, "value", None))
        ]
        outside = self.facts.storage.leaves(Frame(source, scope), call)
        if not functions or outside:
            return None
        statement = source.statement_of(call)
        if isinstance(statement, ast.Assign) and statement.value is call:
            if all(suspends(f.node) for f in functions):  # whoever walks over that reads it
                return self._bound(mention, statement, statement.targets)
        return taken

    def _keeps_to_itself(self, mention: Mention) -> bool:
        """Whether a call on an object, its value unused, can change nothing but the object."""
        objects = self.facts.objects
        if objects.is_sink(*mention) or objects.is_own(*mention):
            return True
        values = self.facts.program.names.of(*mention)
        return bool(values) and all(
            isinstance(v, Group) or (isinstance(v, Object) and self._holds_nothing(v))
            for v in values
        )

    def _holds_nothing(self, made: Object) -> bool:
        """Made by a library from nothing that others have."""
        if made.where is None or made.node is None or not external_name(made.made_by):
            return False
        frame = Frame(*made.where)
        reaches = [self.facts.storage.of(frame, a) for a in arguments(made.node)]
        return all(r.plain or not (r.cells or r.held) for r in reaches)

    # -- what only tells -----------------------------------------------------------------------

    def _is_told(self, mention: Mention) -> bool:
        """Whether a place behind the last sample shows or writes an object as it is."""
        source, scope, node = mention
        statement = source.statement_of(node)
        if not isinstance(statement, ast.Expr) or _stays(self.late, mention):
            return False
        match _path(statement.value, node):
            case [ast.Call() as call, *_]:
                return self.facts.objects.tells(source, scope, call)
        return False

    # -- mentions ------------------------------------------------------------------------------

    def _mentions(self, cell: Cell) -> Iterator[tuple[Source, ast.Name | ast.Attribute]]:
        """Where a variable is named, or an attribute of that name of any object."""
        program = self.facts.program
        if cell.of is not None:
            # an alias that only a removed statement makes may still lead into what it holds
            runs = partial(_stays, self.unread) if not cell.inside else _everywhere
            used = self.facts.storage.confined.uses(cell.of, runs)
            yield from ((source, node) for source, node in used if node.attr == cell.name)
            return
        home = None if cell.scope is None else program.source_of_scope[cell.scope]
        if home is None or cell.scope is home.tree:
            for source in program.sources.values():
                for node in source.mentions.get(cell.name, ()):
                    if not isinstance(node, ast.Attribute):
                        continue
                    scope = program.scope_of(source, node)
                    if program.names.is_of_a_library(source, scope, node.value):
                        continue  # `torch.utils.data`
                    if cell.kinds and self._is_of_others(cell, source, scope, node):
                        continue
                    if home is None or home in program.names.of(source, scope, node.value):
                        yield source, node
        if home is None:
            yield from self._read_by_name(cell)
        for source, scope, name in self.facts.storage.names_of(cell):
            yield from ((source, n) for n in variables(program, source, scope, name))

    def _is_of_others(
        self, cell: Cell, source: Source, scope: ScopeNode, node: ast.Attribute
    ) -> bool:
        """Whether an attribute is one of objects of other classes."""
        values = self.facts.program.names.of(source, scope, node.value)
        if values and all(
            isinstance(v, Object)
            and last(external_name(v.made_by))[:1].isupper()
            and self._holds_nothing(v)
            for v in values
        ):
            return True  # of a class of a library
        kinds = self.facts.storage.kinds(Frame(source, scope, run="before"), node)
        return bool(kinds) and kinds.isdisjoint(cell.kinds)

    def _is_table_of_others(
        self, cell: Cell, source: Source, scope: ScopeNode, owner: ast.expr
    ) -> bool:
        """Whether `self.__dict__` holds what objects of other classes have."""
        if not cell.kinds:
            return False
        kinds = self.facts.storage.kinds_of(Frame(source, scope, run="before"), owner)
        return bool(kinds) and kinds.isdisjoint(cell.kinds)

    def _read_by_name(self, cell: Cell) -> Iterator[tuple[Source, ast.Name | ast.Attribute]]:
        """`getattr(x, "name")`; of an object of the program also `vars(x)` and any other name."""
        program, objects, name = self.facts.program, self.facts.objects, cell.name
        of_options = self.facts.is_of_a_namespace(name)
        yield from self.facts.namespaces_given if of_options else ()

        def is_own(*where: Any) -> bool:
            may_be = of_options and (objects.is_namespace(*where) or not program.of(*where))
            return may_be or objects.is_own(*where)

        for source in program.sources.values():
            for node in source.mentions.get("__dict__", ()):
                scope = program.scope_of(source, node)
                if (
                    isinstance(node, ast.Attribute)
                    and is_own(source, scope, node.value)
                    and not self._is_table_of_others(cell, source, scope, node.value)
                ):
                    yield source, node
        for source, _, call in program.calls_named("attrgetter"):
            written = [a.value if isinstance(a, ast.Constant) else None for a in call.args]
            if any(not text or name in str(text).split(".") for text in written):
                if isinstance(call.func, (ast.Name, ast.Attribute)):
                    yield source, call.func
        for word in ("getattr", "hasattr", "vars", "asdict"):
            for source, scope, call in program.calls_named(word):
                match call.args:
                    case [ast.Name() | ast.Attribute() as owner, ast.Constant(value=str(text)), *_]:
                        if text == name:
                            yield source, owner
                    case [_, ast.JoinedStr(values=parts), *_] if not _may_spell(parts, name):
                        pass
                    case [ast.Name() | ast.Attribute() as owner, *rest]:
                        texts = self._texts(source, scope, rest[0]) if rest else None
                        if (texts is None or name in texts) and is_own(source, scope, owner):
                            yield source, owner

    def _texts(self, source: Source, scope: ScopeNode, node: ast.expr) -> set[str] | None:
        """The texts that all callers write out for a parameter; None when it may be any."""
        program, found = self.facts.program, set[str]()
        if not isinstance(node, ast.Name):
            return None
        where = program.names.binder(source, scope, node.id)
        bindings = program.names.bound(source, where, node.id) if where is not None else []
        for binding in bindings:
            if not isinstance(binding, Parameter):
                return None
            function = Function(source, binding.function)
            given = given_by_all(program, function, binding.argument.arg)
            written = (getattr(value, "value", None) for *_, value in given or ())
            texts = [text for text in written if isinstance(text, str)]
            if given is None or len(texts) < len(given):
                return None
            found.update(texts)
        return found or None


def _is_read_as_attribute(scope: ScopeNode) -> TypeGuard[FunctionNode]:
    return isinstance(scope, FUNCTIONS) and is_property(scope)


def _may_spell(parts: list[ast.expr], name: str) -> bool:
    """Whether all that is written out of a text occurs in a name."""
    written = (part.value for part in parts if isinstance(part, ast.Constant))
    return all(str(text) in name for text in written)


def _attributes(used: Iterable[tuple[Source, ast.Attribute]]) -> set[ast.expr]:
    return {node for _, node in used}


def _everywhere(_: object) -> bool:
    return True


def _stays(gone: Gone, mention: tuple[Source, ScopeNode, ast.expr]) -> bool:
    source, scope, node = mention
    return not (
        scope in gone.functions or gone.holds(source, node) or gone.leaves_out(source, scope, node)
    )


def _path(top: ast.expr, node: ast.expr) -> list[ast.expr]:
    """What hands a value on as it is, from a call inwards; nothing where it is computed with.

    What takes the largest of none, or the last, would fail.
    """
    if top is node:
        return [top]
    parts: list[ast.expr] = []
    match top:
        case ast.Call(func=ast.Attribute(value=ast.Call() as made)):
            if callee(made)[:1].isupper():  # `DataFrame(rows).to_csv(path)`
                parts = [*arguments(made), *arguments(top)]
        case ast.Call():
            parts = arguments(top)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            pass
        case ast.JoinedStr(values=parts):
            pass
        case ast.FormattedValue(value=part, format_spec=None):
            parts = [part]
    inner = (part for part in parts if part is node or not isinstance(part, ast.Call))
    found = next(filter(None, (_path(part, node) for part in inner)), None)
    return [top, *found] if found else []


def _called_on(function: ast.expr, node: ast.expr) -> bool:
    """Whether a call is one of a method of an object, or of one that it holds."""
    while isinstance(function, (ast.Attribute, ast.Subscript)):
        function = function.value
        if function is node:
            return True
    return False


def _put_into(target: ast.expr) -> Iterator[ast.expr]:
    """What an assignment binds or puts something into; what its index reads is neither."""
    yield target
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _put_into(element)
    elif isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)):
        yield from _put_into(target.value)
