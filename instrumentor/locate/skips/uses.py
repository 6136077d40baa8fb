"""Who reads what statements write that are taken out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from instrumentor.locate.skips.aliases import Aliases, Mention
from instrumentor.locate.skips.facts import Facts
from instrumentor.locate.skips.gone import Gone
from instrumentor.locate.skips.liveness import loads, reads_of
from instrumentor.locate.skips.pieces import Piece
from instrumentor.locate.skips.storage import Cell
from instrumentor.locate.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    dotted,
    own_nodes,
    parameters,
)


class Uses(Struct, eq=False, dict=True):
    """Reads by what stays."""

    facts: Facts
    gone: Gone

    @cached_property
    def _aliases(self) -> Aliases:
        return Aliases(self.facts)

    def of(self, piece: Piece, statements: list[ast.stmt]) -> Iterator[Mention]:
        """Reads of what a piece's statements write: of names they bind, of objects they change."""
        effects = self.facts.reader.of(piece.source, piece.scope, statements)
        for cell in sorted(effects.bound, key=self._position):
            if cell.scope is None:
                continue
            source = self.facts.program.source_of_scope[cell.scope]
            if cell.scope is piece.scope:
                removed = self.gone.by_source.get(source, [])
                reads = reads_of(cell.scope, cell.name, statements, removed)
                for read in sorted(reads, key=lambda r: (r.lineno, r.col_offset)):
                    if not self.gone.holds(source, read):
                        yield source, cell.scope, read
            if cell.scope is source.tree:
                yield from self._module_reads(source, cell.name)
        seen: set[Cell] = set()
        local = {cell for cell in effects.bound if cell.scope is piece.scope}
        for cell in sorted(effects.changed - local, key=self._position):
            yield from self._reads_of_object(cell, seen)

    def _position(self, cell: Cell) -> tuple[str, str, int]:
        if cell.scope is None:
            return cell.name, "", 0
        source = self.facts.program.source_of_scope[cell.scope]
        return cell.name, str(source.path), getattr(cell.scope, "lineno", 0)

    def _module_reads(self, source: Source, name: str) -> Iterator[Mention]:
        """Reads of a module's variable in its functions."""
        for function in source.functions:
            if function in self.gone.functions:
                continue
            if self.facts.storage.owner(source, function, name) is source.tree:
                for use in loads(function, name):
                    if not self.gone.holds(source, use):
                        yield source, function, use

    def _reads_of_object(self, cell: Cell, seen: set[Cell]) -> Iterator[Mention]:
        """Where the value of a changed object may come out again, through calls and aliases."""
        if cell in seen:
            return
        seen.add(cell)
        for source, scope, node in self._mentions(cell):
            stays = isinstance(node.ctx, ast.Load) and not self.gone.holds(source, node)
            if not stays or not self._aliases.comes_out(source, node):
                continue
            handed_on = self._aliases.handed_on(source, scope, node)
            if handed_on is None:
                yield source, scope, node
                continue
            for other in handed_on:
                yield from self._reads_of_object(other, seen)

    def _mentions(self, cell: Cell) -> Iterator[Mention]:
        """Places of a variable or of an attribute, functions that only pieces call left out."""
        program = self.facts.program
        sources = list(program.sources.values())
        if cell.scope is not None:
            sources = [program.source_of_scope[cell.scope]]
        for source in sources:
            for scope in (source.tree, *source.functions):
                if scope in self.gone.functions:
                    continue
                own = _set_first(scope, cell.name) if cell.scope is None else ""
                for node in _nodes_with_lambdas(scope, cell.name):
                    if isinstance(node, ast.Call) and cell.scope is None:
                        owner = _read_by_name(node, cell.name)
                        if owner is not None:
                            yield source, scope, owner
                    elif isinstance(node, ast.Attribute) and cell.scope is None:
                        if node.attr == cell.name and (not own or dotted(node.value) != own):
                            yield source, scope, node
                    elif isinstance(node, ast.Name) and cell.scope is not None:
                        if node.id == cell.name:
                            if self.facts.storage.owner(source, scope, node.id) is cell.scope:
                                yield source, scope, node


def _nodes_with_lambdas(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """Nodes of a scope, of its lambdas as well where they have no such parameter."""
    for node in own_nodes(scope):
        yield node
        if isinstance(node, ast.Lambda) and name not in parameters(node):
            yield from _nodes_with_lambdas(node, name)


def _read_by_name(call: ast.Call, attribute: str) -> ast.Name | ast.Attribute | None:
    """The object of `getattr(x, "best", None)` and `hasattr(x, "best")`."""
    match call.func, call.args:
        case ast.Name(id="getattr" | "hasattr"), [
            ast.Name() | ast.Attribute() as owner,
            ast.Constant(value=name),
            *_,
        ] if name == attribute:
            return owner
    return None


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
