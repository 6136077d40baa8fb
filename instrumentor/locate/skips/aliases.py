"""Where an object goes from a place that names it: out to a reader, on to other names, nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from instrumentor.locate.names import external_name, is_method, passed
from instrumentor.locate.skips.facts import Facts
from instrumentor.locate.skips.storage import Cell, Frame
from instrumentor.locate.syntax import (
    ScopeNode,
    Source,
    arguments,
    own_calls,
)
from instrumentor.locate.values import Group, Object

#: A place that names a variable or an attribute.
Mention = tuple[Source, ScopeNode, ast.Name | ast.Attribute]


class Aliases(Struct, eq=False):
    """Follows objects one step."""

    facts: Facts

    def handed_on(
        self, source: Source, scope: ScopeNode, node: ast.Name | ast.Attribute
    ) -> list[Cell] | None:
        """Other names that the object gets: a parameter of the program's own, a plain alias."""
        statement = source.statement_of(node)
        if isinstance(statement, ast.Assign) and statement.value is node:
            found: list[Cell] = []
            for target in statement.targets:
                if isinstance(target, ast.Attribute):
                    found.append(Cell(target.attr))
                elif isinstance(target, ast.Name):
                    of_a_class = isinstance(source.places[statement].parent, ast.ClassDef)
                    owner = self.facts.storage.owner(source, scope, target.id)
                    found.append(Cell(target.id, None if of_a_class else owner))
                else:
                    return None
            return found
        for call in own_calls(statement) if statement is not None else ():
            if any(a is node for a in arguments(call)):
                targets = self.facts.reader.functions(Frame(source, scope), call)
                if not targets:
                    return None
                return [
                    Cell(parameter, f.node)
                    for f in targets
                    for parameter, value in passed(call, f.node, bound=is_method(f))
                    if node in (value, getattr(value, "value", None))
                ]
        return None

    def comes_out(self, source: Source, node: ast.Name | ast.Attribute) -> bool:
        """False for what only puts more into an object or replaces it."""
        statement = source.statement_of(node)
        if statement is None:
            return False
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            function: ast.AST = statement.value.func
            while isinstance(function, (ast.Attribute, ast.Subscript)):
                function = function.value
                if function is node:
                    return not self._keeps_to_itself(source, source.scope_of(statement), node)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AugAssign):
            targets = [statement.target]
        return not any(n is node for target in targets for n in _put_into(target))

    def _keeps_to_itself(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether a call on an object, its value unused, can change nothing but the object."""
        objects = self.facts.objects
        if objects.is_sink(source, scope, node) or objects.is_own(source, scope, node):
            return True
        values = self.facts.program.names.of(source, scope, node)
        return bool(values) and all(
            isinstance(v, Group)
            or (isinstance(v, Object) and v.node is not None and self._holds_nothing(v))
            for v in values
        )

    def _holds_nothing(self, made: Object) -> bool:
        """Made by a library from nothing that others have."""
        if made.where is None or made.node is None or not external_name(made.made_by):
            return False
        frame = Frame(*made.where)
        reaches = [self.facts.storage.of(frame, a) for a in arguments(made.node)]
        return all(r.plain or not (r.cells or r.held) for r in reaches)


def _put_into(target: ast.expr) -> Iterator[ast.expr]:
    """What an assignment binds or puts something into; what its index reads is neither."""
    yield target
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _put_into(element)
    elif isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)):
        yield from _put_into(target.value)
