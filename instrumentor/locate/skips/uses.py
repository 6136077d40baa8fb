"""Who reads what statements write that are taken out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from instrumentor.locate.skips.aliases import Aliases, Mention
from instrumentor.locate.skips.effects import Change
from instrumentor.locate.skips.facts import Facts
from instrumentor.locate.skips.gone import Gone
from instrumentor.locate.skips.liveness import reads_of, variables
from instrumentor.locate.skips.pieces import Piece
from instrumentor.locate.skips.storage import Cell
from instrumentor.locate.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    dotted,
    own_nodes,
)


class Uses(Struct, eq=False, dict=True):
    """Reads by what stays."""

    facts: Facts
    gone: Gone

    @cached_property
    def _aliases(self) -> Aliases:
        return Aliases(self.facts)

    def of(
        self, piece: Piece, statements: list[ast.stmt]
    ) -> Iterator[tuple[Mention, Change | None]]:
        """Reads of what a piece's statements write: of names that they bind, and of objects that
        they change, with what changes them.
        """
        effects = self.facts.reader.of(piece.source, piece.scope, statements)
        for cell in sorted(effects.bound, key=self._position):
            if cell.scope is None:
                continue
            source = self.facts.program.source_of_scope[cell.scope]
            if cell.scope is piece.scope:
                removed = self.gone.by_source.get(source, [])
                reads = reads_of(self.facts.program, cell.scope, cell.name, statements, removed)
                for read in sorted(reads, key=lambda r: (r.lineno, r.col_offset)):
                    scope = self.facts.program.scope_of(source, read)
                    if not self._is_gone(source, scope, read):
                        yield (source, scope, read), None
        seen: set[Cell] = set()
        local = {cell for cell in effects.bound if cell.scope is piece.scope}
        for cell in sorted(effects.changed.keys() - local, key=self._position):
            for mention in self._reads_of_object(cell, seen):
                yield mention, effects.changed[cell]

    def _position(self, cell: Cell) -> tuple[str, str, int]:
        if cell.scope is None:
            return cell.name, "", 0
        source = self.facts.program.source_of_scope[cell.scope]
        return cell.name, str(source.path), getattr(cell.scope, "lineno", 0)

    def _is_gone(self, source: Source, scope: ScopeNode, node: ast.AST) -> bool:
        return scope in self.gone.functions or self.gone.holds(source, node)

    def _reads_of_object(self, cell: Cell, seen: set[Cell]) -> Iterator[Mention]:
        """Where the value of a changed object may come out again, through calls and aliases."""
        if cell in seen:
            return
        seen.add(cell)
        for source, scope, node in self._mentions(cell):
            if not self._aliases.comes_out(source, node):
                continue
            handed_on = self._aliases.handed_on(source, scope, node)
            if handed_on is None:
                yield source, scope, node
                continue
            for other in handed_on:
                yield from self._reads_of_object(other, seen)

    def _mentions(self, cell: Cell) -> Iterator[Mention]:
        """Where what stays reads a variable, or an attribute of that name of any object."""
        program = self.facts.program
        found = list(self._attributes(cell))
        for source, scope, name in self.facts.storage.names_of(cell):
            found += [(source, n) for n in variables(program, source, scope, name)]
        for source, node in found:
            scope = program.scope_of(source, node)
            if isinstance(node.ctx, ast.Load) and not self._is_gone(source, scope, node):
                yield source, scope, node

    def _attributes(self, cell: Cell) -> Iterator[tuple[Source, ast.Name | ast.Attribute]]:
        """`x.name`, of any object or of the module whose variable it is; `getattr(x, "name")`."""
        program = self.facts.program
        home = None if cell.scope is None else program.source_of_scope[cell.scope]
        if home is not None and cell.scope is not home.tree:
            return
        for source in program.sources.values():
            for node in source.mentions.get(cell.name, ()):
                scope = program.scope_of(source, node)
                if not isinstance(node, ast.Attribute):
                    continue
                if home is not None:
                    if home in program.names.of(source, scope, node.value):
                        yield source, node
                else:
                    own = _set_first(scope, cell.name)
                    if not own or dotted(node.value) != own:
                        yield source, node
        if home is None:
            yield from self._read_by_name(cell.name)

    def _read_by_name(self, name: str) -> Iterator[tuple[Source, ast.Name | ast.Attribute]]:
        """`getattr(x, "name")`; of an object of the program also `vars(x)` and any other name."""
        calls_named, is_own = self.facts.program.calls_named, self.facts.objects.is_own
        for source in self.facts.program.sources.values():
            for node in source.mentions.get("__dict__", ()):
                scope = self.facts.program.scope_of(source, node)
                if isinstance(node, ast.Attribute) and is_own(source, scope, node.value):
                    yield source, node
        for word in ("getattr", "hasattr", "vars", "asdict"):
            for source, scope, call in calls_named(word):
                match call.args:
                    case [
                        ast.Name() | ast.Attribute() as owner,
                        ast.Constant(value=str() as text),
                        *_,
                    ]:
                        if text == name:
                            yield source, owner
                    case [ast.Name() | ast.Attribute() as owner, *_]:
                        if is_own(source, scope, owner):
                            yield source, owner


def _set_first(scope: ScopeNode, attribute: str) -> str:
    """The object whose attribute a function sets ahead of every read of its own; '' for none."""
    for statement in scope.body if isinstance(scope, FUNCTIONS) else ():
        uses = [
            n
            for n in (statement, *own_nodes(statement))
            if isinstance(n, ast.Attribute) and n.attr == attribute
        ]
        if uses:
            stores = isinstance(statement, ast.Assign) and all(
                isinstance(n.ctx, ast.Store) for n in uses
            )
            return dotted(uses[0].value) if stores else ""
    return ""
