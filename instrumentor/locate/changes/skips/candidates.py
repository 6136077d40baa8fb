"""Where to look: evaluations ahead of the loops, evaluations and saves between the samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from instrumentor.locate.changes.skips.facts import Facts, Place
from instrumentor.locate.changes.skips.storage import Frame
from instrumentor.locate.located import Kept
from instrumentor.read.program import Function
from instrumentor.read.syntax import (
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
from instrumentor.read.vocabulary import is_validation_name

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)
_NOTHING = ("", "")


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


def find_pieces(facts: Facts, *, keep_validation: bool) -> tuple[list[Piece], list[Kept]]:
    """The outermost statements that evaluate or save, none that evaluates on request.

    Returns:
        Those that can be read, in source order, and those that cannot.
    """
    search = _Search(facts, keep_validation)
    found: list[Piece] = []
    kept: list[Kept] = []
    for (source, scope, statement), initial in search.places():
        for hit, what, why in search.hits((source, scope, statement), initial):
            piece = Piece(source, scope, hit, initial, what)
            if why:
                kept.append(piece.kept(why))
            elif not any(p.holds(piece) for p in found):
                found.append(piece)
    return found, list(dict.fromkeys(kept))


class _Search(Struct, eq=False):
    facts: Facts
    keep_validation: bool

    def places(self) -> Iterator[tuple[Place, bool]]:
        """The statements between the samples, and those ahead of the first."""
        for source, scope, anchor in self.facts.anchors:
            loops = [s for s in (anchor, *source.loops_around(anchor)) if isinstance(s, LOOPS)]
            if loops and scope is self.facts.candidate.scope:
                for statement in self._loop_of_update(loops).body:
                    yield (source, scope, statement), False
            for suite, index in path_to(source, scope, loops[-1] if loops else anchor):
                for statement in suite[:index]:
                    yield (source, scope, statement), True

    def _loop_of_update(self, loops: list[LoopNode]) -> LoopNode:
        """The loop whose iterations are whole steps: with nested micro-steps the one around."""
        updates = [u.statement for u in self.facts.candidate.updates]
        return next((p for p in loops if any(contains(p, u) for u in updates)), loops[0])

    def hits(self, place: Place, initial: bool) -> Iterator[tuple[ast.stmt, str, str]]:
        """Evaluations and saves in or below a statement, outermost first; why one is unread."""
        source, scope, statement = place
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return
        sites = self.facts.candidate.sites if source is self.facts.candidate.source else ()
        trains = any(contains(statement, s.statement) for s in sites)
        if statement in self.facts.of_the_step and not trains:
            return
        frame = Frame(source, scope)
        if not trains and self.facts.knowledge.without_gradients(source, statement):
            if not self.keep_validation and self._runs_a_model(frame, statement):
                yield statement, "validation", ""
            return
        for part in (s for suite in suites(statement) for s in suite):
            yield from self.hits((source, scope, part), initial)
        if isinstance(statement, _SIMPLE) and not trains:
            what, why = self._simple(frame, own_calls(statement), initial)
            if what:
                yield statement, what, why

    def _simple(self, frame: Frame, calls: list[ast.Call], initial: bool) -> tuple[str, str]:
        """What a simple statement is by its calls, and why it cannot be read."""
        evaluates, why = (False, "") if self.keep_validation else self._evaluates(frame, calls)
        if evaluates or (why and initial):
            return "validation", why
        if not initial and any(self._saves(frame, c) for c in calls):
            return "checkpoint", ""
        if why:
            return "validation", why
        is_save = self.facts.knowledge.is_save
        if not initial and any(is_save(frame.source, frame.scope, c) for c in calls):
            return "checkpoint", "what it does cannot be read"
        return _NOTHING

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
        where, objects = (frame.source, frame.scope, call.func.value), self.facts.objects
        return not objects.is_module(*where) and not objects.is_library(*where)

    def _is_evaluation(self, function: Function) -> bool:
        knowledge, does = self.facts.knowledge, self.facts.does(function)
        trains = knowledge.has_backward(function) or knowledge.stepped(function)
        return not trains and does.evaluates and does.runs_a_model

    def _saves(self, frame: Frame, call: ast.Call) -> bool:
        functions = self.facts.reader.functions(frame, call)
        if functions:
            return any(self.facts.does(f).saves_weights for f in functions)
        return self.facts.objects.saves_weights(frame.source, frame.scope, call)

    def _runs_a_model(self, frame: Frame, statement: ast.stmt) -> bool:
        """Calls a module, or a function that does, in a block without gradients."""
        return any(
            self.facts.objects.is_module(frame.source, frame.scope, call.func)
            or any(
                self.facts.does(f).runs_a_model for f in self.facts.reader.functions(frame, call)
            )
            for call in own_calls(statement)
        )
