"""Branches for where something is not there yet, in a run that has made it by then.

`if Logger.current is None: configure()` does nothing behind `configure()`: whoever asks for what
is made once, and has been made ahead of the samples, changes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from msgspec import Struct

from instrumentor.read.bindings import Binding, Bound
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    contains,
    own_nodes,
    path_to,
)
from instrumentor.read.values import Class

#: A statement and where it stands.
Place = tuple[Source, ScopeNode, ast.stmt]
_DEEP = 4
#: What may set anything by a name that is not written out.
_BY_NAME = ("setattr", "globals")


class MadeAhead(Struct):
    """Of a program.

    Attributes:
        anchors: what leads to the samples, in each scope on the way.
        unused: functions that no run comes to.
    """

    program: Program
    anchors: list[Place]
    unused: Collection[ScopeNode]

    def never(self) -> Iterator[tuple[Source, ast.stmt]]:
        """The statements to which no run comes for that."""
        for source in self.program.sources.values():
            for statement in source.places:
                match statement:
                    case ast.If(test=ast.Compare(left=asked, ops=[ast.Is() | ast.IsNot() as op])):
                        out = statement.body if isinstance(op, ast.Is) else statement.orelse
                    case _:
                        continue
                scope = source.scope_of(statement)
                if out and _is_none(statement.test) and isinstance(scope, FUNCTIONS):
                    if self._is_made(source, scope, statement, asked):
                        yield from ((source, s) for s in out)

    def _is_made(self, source: Source, scope: FunctionNode, test: ast.If, asked: ast.expr) -> bool:
        """Whether what is asked for is always something where a function comes to a test."""
        found = self._set(source, scope, asked)
        if found is None:
            return False
        made = False
        for where, inside, bound in found:
            if isinstance(inside, FUNCTIONS) and self._is_unused(where, inside):
                continue
            at = where.statement_of(bound.value)
            value = bound.value
            if isinstance(inside, FUNCTIONS):
                if bound.path or at is None or not self._makes(where, inside, value):
                    return False
                asks = Function(source, scope)
                made |= self._runs_ahead((where, inside, at), test, asks, _DEEP)
            elif not (isinstance(value, ast.Constant) and value.value is None):
                return False
        return made

    def _set(
        self, source: Source, scope: ScopeNode, asked: ast.expr
    ) -> list[tuple[Source, ScopeNode, Bound]] | None:
        """All that an attribute of a class, or a module's variable, is set to; None if not told."""
        names, found = self.program.names, list[tuple[Source, ScopeNode, Binding]]()
        match asked:
            case ast.Attribute(value=owner, attr=name):
                match names.of(source, scope, owner):
                    case (Class() as cls,):
                        pass
                    case _:
                        return None
                table = self.program.bindings_of(cls.source).classes.get(cls.node, {})
                found += [(cls.source, cls.source.tree, b) for b in table.get(name, ())]
                for where, put in names.puts_of(name):
                    owners = names.of(where, put.scope, put.owner)
                    if owners != (cls,):
                        return None
                    found.append((where, put.scope, put.bound))
            case ast.Name(id=name) if names.binder(source, scope, name) is source.tree:
                if any(source in names.of(s, p.scope, p.owner) for s, p in names.puts_of(name)):
                    return None
                found += [
                    (source, self._scope_of(source, b), b)
                    for b in names.bound(source, source.tree, name)
                ]
            case _:
                return None
        if any(map(any, map(self.program.calls_named, _BY_NAME))) or any(source.grown(name)):
            return None
        bound = [(s, where, b) for s, where, b in found if isinstance(b, Bound)]
        return bound if len(bound) == len(found) else None

    def _scope_of(self, source: Source, binding: Binding) -> ScopeNode:
        """The function that sets a module's variable, which it declares global."""
        at = source.statement_of(binding.value) if isinstance(binding, Bound) else None
        return source.scope_of(at) if at is not None else source.tree

    def _is_unused(self, source: Source, scope: FunctionNode) -> bool:
        """Nobody calls a function, or names it."""
        named = any(scope.name in each.mentions for each in self.program.sources.values())
        return scope in self.unused or (not named and source.class_of.get(scope) is None)

    def _makes(self, source: Source, scope: ScopeNode, value: ast.expr) -> bool:
        """A call of a class, which gives an object."""
        names = self.program.names
        made = names.of(source, scope, value.func) if isinstance(value, ast.Call) else ()
        return bool(made) and all(
            isinstance(v, Class) and not self.program.methods(v, "__new__", overrides=False)
            for v in made
        )

    def _runs_ahead(self, place: Place, test: ast.If, asks: Function, deep: int) -> bool:
        """Whether a run comes to a statement ahead of the samples, and asks only behind it."""
        source, scope, at = place
        anchored = next((a for _, where, a in self.anchors if where is scope), None)
        if anchored is None:
            if not deep or not isinstance(scope, FUNCTIONS) or at not in scope.body:
                return False
            ahead = scope.body[: scope.body.index(at)]
            if any(isinstance(n, ast.Return) for s in ahead for n in (s, *own_nodes(s))):
                return False
            if any(self._asks(scope, s, asks) for s in ahead):
                return False
            return any(
                self._runs_ahead(
                    (self.program.source_of_scope[s], s, call_at), test, asks, deep - 1
                )
                for s, _, call_at in self.program.callers.get(scope, ())
                if not contains(test, call_at) or s is not asks.node
            )
        for suite, index in path_to(source, scope, anchored):
            if at in suite[:index]:
                break
        else:
            return False
        for where, inner, anchor in reversed(self.anchors):  # in the order in which they run
            for suite, index in path_to(where, inner, anchor):
                for before in suite[:index]:
                    if before is at:
                        return True
                    if self._asks(inner, before, asks):
                        return False
        return False

    def _asks(self, scope: ScopeNode, statement: ast.stmt, asks: Function) -> bool:
        defines = isinstance(statement, (*FUNCTIONS, ast.ClassDef))
        return not defines and asks.node in self.program.called_from(scope, [statement])


def _is_none(test: ast.expr) -> bool:
    """`x is None`, `x is not None`"""
    match test:
        case ast.Compare(comparators=[ast.Constant(value=None)]):
            return True
    return False
