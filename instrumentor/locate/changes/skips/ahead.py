"""What ran once before a piece does, and which names still hold what it has read.

A value that was read then shows nothing of what the piece changes later, unless somebody kept it:
`rows = log.rows` is another name of the list, `len(log.rows)` a number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from instrumentor.locate.changes.skips.facts import Facts, Mention, Place
from instrumentor.locate.changes.skips.removal import Gone, is_delayed
from instrumentor.locate.changes.skips.storage import Cell, Frame
from instrumentor.locate.meaning import libraries, methods
from instrumentor.locate.meaning.roles import Effect, Gives
from instrumentor.read.program import Function
from instrumentor.read.signatures import own_parameter, suspends
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    arguments,
    contains,
    own_nodes,
    path_to,
)
from instrumentor.read.values import Class

_PLAIN = (ast.Compare, ast.JoinedStr, ast.UnaryOp)
#: Whoever gets one of these may read later.
_LATER = (ast.Lambda, ast.GeneratorExp, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_MANY = 24


class Ahead(Struct, eq=False, dict=True):
    """What ran once before a statement, the loops around it and the calls that lead to it."""

    facts: Facts
    place: Place

    @cached_property
    def _statements(self) -> list[tuple[Source, ast.stmt]]:
        return [each for outer in self.facts.once(*self.place) for each in _before(outer)]

    @cached_property
    def _gone(self) -> Gone:
        source, _, statement = self.place
        return Gone(self.facts.program, [(source, statement)], self._statements)

    @cached_property
    def _functions(self) -> set[FunctionNode]:
        """Functions that nothing but these statements calls."""
        program, closed = self.facts.program, self.facts.closed
        found: set[FunctionNode] = {
            f
            for source, statement in self._statements
            for f in program.called_from(source.scope_of(statement), [statement])
            if isinstance(f, FUNCTIONS) and f in closed.functions
            if not suspends(f) and closed.is_called_in_sight(f)
        }
        while outside := {
            f
            for f in found
            if any(
                scope not in found
                and not self._gone.holds(program.source_of_scope[scope], call)
                and not self.facts.is_dead(scope, call)
                for scope, call, _ in program.callers.get(f, ())
            )
        }:
            found -= outside
        return found

    def holds(self, mention: tuple[Source, ScopeNode, ast.expr]) -> bool:
        """Whether a place is passed for the last time before the piece runs."""
        source, scope, node = mention
        if not self._gone.holds(source, node) and scope not in self._functions:
            return False
        statement = source.statement_of(node)
        return statement is not None and not is_delayed(statement, node)

    def kept(self, mention: Mention, *, in_place: bool) -> list[Cell] | None:
        """Names that may hold a value, or a part of it, that was read; None where any may.

        Args:
            in_place: what was read is changed, else something takes its place where it was.
        """
        return self._kept(mention[0], mention[1], mention[2], _MANY, in_place=in_place)

    def _kept(
        self, source: Source, scope: ScopeNode, node: ast.expr, depth: int, *, in_place: bool
    ) -> list[Cell] | None:
        statement = source.statement_of(node)
        if statement is None or not depth:
            return None
        found: list[Cell] = []
        around = [
            n
            for n in own_nodes(statement)
            if isinstance(n, ast.expr) and n is not node and contains(n, node)
        ]
        for outer in reversed(around):
            if not in_place and self._copies(Frame(source, scope), outer):
                return found
            given = self._given(Frame(source, scope), outer, node)
            if given is None:
                return None
            found += given
            if self._ends(Frame(source, scope), outer):
                return found
        if not in_place and isinstance(statement, ast.For):
            return found
        bound = self._bound(source, scope, statement, depth, in_place=in_place)
        return None if bound is None else found + bound

    def _copies(self, frame: Frame, outer: ast.expr) -> bool:
        """`list(vars(args).items())`, which is as it was whatever is set then."""
        if isinstance(outer, _COMPREHENSIONS):
            return True
        name = isinstance(outer, ast.Call) and self.facts.program.names.qualified(
            frame.source, frame.scope, outer.func
        )
        return name in methods.COPIES

    def _ends(self, frame: Frame, outer: ast.expr) -> bool:
        """Whether an expression is a value of its own, whatever it is computed from."""
        if isinstance(outer, _PLAIN) or self.facts.storage.of(frame, outer).plain:
            return True
        if not isinstance(outer, ast.Call) or self.facts.reader.functions(frame, outer):
            return False
        name = self.facts.program.names.qualified(frame.source, frame.scope, outer.func)
        if libraries.effect_of(name) is Effect.LOADS:
            return True
        if name:
            return methods.gives(name) in (Gives.NUMBER, Gives.NEW)
        word = outer.func.attr if isinstance(outer.func, ast.Attribute) else ""
        return methods.method_gives(word) in (Gives.NUMBER, Gives.NEW)

    def _given(self, frame: Frame, outer: ast.expr, node: ast.expr) -> list[Cell] | None:
        """Parameters that hold the value inside of a call; None where a library may keep it."""
        if isinstance(outer, _LATER):
            return None
        if isinstance(outer, _COMPREHENSIONS):
            return None if any(isinstance(n, ast.Call) for n in own_nodes(outer)) else []
        if not isinstance(outer, ast.Call):
            return []
        values = self.facts.program.names.of(frame.source, frame.scope, outer.func)
        if any(isinstance(v, Class) for v in values):
            return None
        functions = self.facts.reader.functions(frame, outer)
        if functions and self.facts.storage.leaves(frame, outer):
            return None
        if functions:
            return [cell for f in functions for cell in self._parameters(frame, outer, f, node)]
        return [] if self._is_harmless(frame, outer, node) else None

    def _is_harmless(self, frame: Frame, call: ast.Call, node: ast.expr) -> bool:
        """A library's call that keeps nothing of a value."""
        where = (frame.source, frame.scope)
        if isinstance(call.func, ast.Attribute) and contains(call.func, node):
            return call.func.attr in methods.READING_METHODS
        if (
            isinstance(call.func, ast.Attribute)
            and self.facts.storage.of(frame, call.func.value).plain
        ):
            return True  # of a text: `'{}'.format(value)`
        if self.facts.objects.tells(*where, call):
            return True
        name = self.facts.program.names.qualified(*where, call.func)
        return bool(name) and libraries.effect_of(name) in (Effect.NOTHING, Effect.LOADS)

    def _bound(
        self, source: Source, scope: ScopeNode, statement: ast.stmt, depth: int, *, in_place: bool
    ) -> list[Cell] | None:
        """Names of a value that a statement ends in."""
        match statement:
            case ast.If() | ast.While() | ast.Assert() | ast.Expr():
                return []
            case ast.Assign(targets=targets):
                return self._targets(source, scope, targets)
            case ast.For(target=target) | ast.AnnAssign(target=target):
                return self._targets(source, scope, [target])
            case ast.Return() if isinstance(scope, FUNCTIONS):
                return self._returned(scope, depth - 1, in_place=in_place)
        return None

    def _targets(
        self, source: Source, scope: ScopeNode, targets: list[ast.expr]
    ) -> list[Cell] | None:
        found: list[Cell] = []
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                inner = self._targets(source, scope, target.elts)
                if inner is None:
                    return None
                found += inner
            elif isinstance(target, ast.Attribute):
                found.append(self.facts.storage.put(source, scope, target))
            elif isinstance(target, ast.Name):
                found.append(Cell(target.id, self.facts.storage.owner(source, scope, target.id)))
            else:
                return None
        return found

    def _parameters(
        self, frame: Frame, call: ast.Call, function: Function, node: ast.expr
    ) -> Iterator[Cell]:
        """Parameters of a function that get what holds a value."""
        own = own_parameter(function)
        if own and contains(call.func, node):
            yield Cell(own, function.node)
        given = [a for a in arguments(call) if contains(a, node)]
        passed = self.facts.program.given(frame.source, frame.scope, call, function)
        for parameter, value in passed:
            if any(a in (value, getattr(value, "value", None)) for a in given):
                yield Cell(parameter, function.node)

    def _returned(self, scope: FunctionNode, depth: int, *, in_place: bool) -> list[Cell] | None:
        """Names of what a function's callers, all of them ahead, get from it."""
        found: list[Cell] = []
        for where, call, _ in self.facts.program.callers.get(scope, ()):
            source = self.facts.program.source_of_scope[where]
            kept = self._kept(source, where, call, depth, in_place=in_place)
            if kept is None:
                return None
            found += kept
        return found


def _before(place: Place) -> Iterator[tuple[Source, ast.stmt]]:
    source, scope, statement = place
    for suite, index in path_to(source, scope, statement):
        yield from ((source, s) for s in suite[:index])
