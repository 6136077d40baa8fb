"""Where to look: evaluations ahead of the loops, evaluations and saves between the samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from instrumentor.locate.model import Kept
from instrumentor.locate.program import Function
from instrumentor.locate.skips.facts import Facts
from instrumentor.locate.skips.storage import Frame
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    LoopNode,
    ScopeNode,
    Source,
    callee,
    contains,
    own_calls,
    path_to,
    suites,
)
from instrumentor.locate.vocabulary import is_validation_name

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)


class Piece(Struct, frozen=True, eq=False):
    """One evaluation or save."""

    source: Source
    scope: ScopeNode
    statement: ast.stmt
    initial: bool
    what: str  # validation | checkpoint

    def holds(self, other: Piece) -> bool:
        return other.source is self.source and contains(self.statement, other.statement)

    def kept(self, why: str) -> Kept:
        return Kept(self.source, self.statement, self.initial, self.what, why)


class Pieces(Struct, frozen=True):
    """found: in source order; kept: what looks like one and cannot be read."""

    found: tuple[Piece, ...]
    kept: tuple[Kept, ...]


def find_pieces(facts: Facts, *, keep_validation: bool) -> Pieces:
    """The outermost statements that evaluate or save; none that evaluates on request."""
    search = _Search(facts, keep_validation)
    found: list[Piece] = []
    kept: list[Kept] = []
    for piece, why in search.pieces():
        if why:
            kept.append(piece.kept(why))
        elif not any(p.holds(piece) for p in found):
            found.append(piece)
    return Pieces(tuple(found), tuple(dict.fromkeys(kept)))


class _Search(Struct, eq=False):
    facts: Facts
    keep_validation: bool

    def pieces(self) -> Iterator[tuple[Piece, str]]:
        """What evaluates or saves, with why it cannot be read."""
        for source, scope, statement, initial in self._places():
            for hit, what, why in self._hits(source, scope, statement, initial):
                yield Piece(source, scope, hit, initial, what), why

    def _places(self) -> Iterator[tuple[Source, ScopeNode, ast.stmt, bool]]:
        for source, scope, anchor in self.facts.anchors():
            outermost = source.loops_around(anchor)
            loops = ([anchor] if isinstance(anchor, LOOPS) else []) + list(outermost)
            if loops and scope is self.facts.candidate.scope:
                for statement in self._loop_of_update(loops).body:
                    yield source, scope, statement, False
            top: ast.stmt = loops[-1] if loops else anchor
            for suite, index in path_to(source, scope, top):
                for statement in suite[:index]:
                    yield source, scope, statement, True

    def _loop_of_update(self, loops: list[LoopNode]) -> LoopNode:
        """The loop whose iterations are whole steps: with nested micro-steps the one around."""
        for loop in loops:
            if any(contains(loop, u.statement) for u in self.facts.candidate.updates):
                return loop
        return loops[0]

    def _hits(
        self, source: Source, scope: ScopeNode, statement: ast.stmt, initial: bool
    ) -> Iterator[tuple[ast.stmt, str, str]]:
        """Evaluations and saves in or below a statement, outermost first."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return
        holds = self._holds_backward(source, statement)
        if statement in self.facts.of_the_step and not holds:
            return
        if not holds and self.facts.knowledge.without_gradients(source, statement):
            if not self.keep_validation and self._runs_a_model(source, scope, statement):
                yield statement, "validation", ""
            return
        inner = [s for suite in suites(statement) for s in suite]
        for part in inner:
            yield from self._hits(source, scope, part, initial)
        if isinstance(statement, _SIMPLE) and not holds:
            what, why = self._simple(Frame(source, scope), statement, initial)
            if what:
                yield statement, what, why

    def _holds_backward(self, source: Source, statement: ast.stmt) -> bool:
        candidate = self.facts.candidate
        sites = candidate.sites if source is candidate.source else ()
        return any(contains(statement, s.statement) for s in sites)

    def _simple(self, frame: Frame, statement: ast.stmt, initial: bool) -> tuple[str, str]:
        """What a simple statement is, and why it cannot be read."""
        where = (frame.source, frame.scope)
        calls = list(own_calls(statement))
        evaluates, why = (False, "") if self.keep_validation else self._evaluates(frame, calls)
        if evaluates or (why and initial):
            return "validation", why
        if not initial and any(self._saves(frame, c) for c in calls):
            return "checkpoint", ""
        if why:
            return "validation", why
        if not initial and any(self.facts.knowledge.is_save(*where, c) for c in calls):
            return "checkpoint", "what it does cannot be read"
        return "", ""

    def _evaluates(self, frame: Frame, calls: list[ast.Call]) -> tuple[bool, str]:
        """A call of a function that runs a model without gradients and trains nothing."""
        hidden = ""
        for call in calls:
            functions = self.facts.reader.functions(frame, call)
            if any(self._is_evaluation(f) for f in functions):
                return True, ""
            if not functions and is_validation_name(callee(call)) and self._hides(frame, call):
                hidden = f"{ast.unparse(call.func)}() is not in the program's own files"
        return False, hidden

    def _hides(self, frame: Frame, call: ast.Call) -> bool:
        """A call on an object of which nothing is known."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr in ("eval", "test"):
            return False
        where = (frame.source, frame.scope, call.func.value)
        objects = self.facts.objects
        return not objects.is_module(*where) and not objects.is_library(*where)

    def _is_evaluation(self, function: Function) -> bool:
        knowledge = self.facts.knowledge
        if knowledge.has_backward(function) or knowledge.stepped(function):
            return False
        traits = self.facts.does(function)
        return traits.evaluates and traits.runs_a_model

    def _saves(self, frame: Frame, call: ast.Call) -> bool:
        functions = self.facts.reader.functions(frame, call)
        if functions:
            return any(self.facts.does(f).saves_weights for f in functions)
        return self.facts.objects.saves_weights(frame.source, frame.scope, call)

    def _runs_a_model(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
        """Calls a module, or a function that does, in a block without gradients."""
        frame = Frame(source, scope)
        return any(
            self.facts.objects.is_module(source, scope, call.func)
            or any(
                self.facts.does(f).runs_a_model for f in self.facts.reader.functions(frame, call)
            )
            for call in own_calls(statement)
        )
