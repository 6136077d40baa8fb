"""Answers to questions that are asked in terms of each other, the same whoever asks first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")
_NOTHING = sys.maxsize
#: After so many questions also those are kept that led too deep: whole libraries that are read.
_MUCH = 4000
#: Questions in questions any deeper than this are left open: Python's own stack ends.
_DEEP = 40
#: A circle whose answers still change after so many rounds has none that is better than another.
_ROUNDS = 8


class Answers:
    """A memory for recursive questions; circles are gone round until nothing changes.

    A question that is met again while it is being answered has what the round before found, at
    first a default. The one at which a circle began is asked again until its answer is the
    same; then all questions of the circle are answered (the least fixed point).
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._open: dict[Hashable, int] = {}  # with their depth
        self._latest: dict[Hashable, Any] = {}  # of questions in open circles, the last round's
        self._closed: dict[Hashable, int] = {}  # those of this round: the open depth they lean on
        self._order: list[Hashable] = []  # of `_closed`
        self._leans_on = _NOTHING  # the least depth behind what was found for the current question
        self._asked = 0

    def ask(self, question: Hashable, answer: Callable[[], _Answer], default: _Answer) -> _Answer:
        """The kept answer, or what `answer()` finds; the default is where circles start."""
        if question in self._known:
            found: _Answer = self._known[question]
            return found
        depth = len(self._open)
        if question in self._open or question in self._closed or depth > _DEEP:
            beyond = -1 if self._asked < _MUCH else _NOTHING
            at = self._open.get(question, self._closed.get(question, beyond))
            self._leans_on = min(self._leans_on, at)
            kept: _Answer = self._latest.get(question, default)
            return kept
        self._asked += 1
        before, first = self._leans_on, len(self._order)
        self._open[question] = depth
        try:
            found, leans_on = self._round(answer, first)
            for _ in range(_ROUNDS):
                if leans_on != depth or found == self._latest.get(question, default):
                    break
                self._latest[question] = found
                found, leans_on = self._round(answer, first)
        finally:
            del self._open[question]
            self._leans_on = before
        self._close(question, found, leans_on, first)
        return found

    def _round(self, answer: Callable[[], _Answer], first: int) -> tuple[_Answer, int]:
        self._forget(first)
        self._leans_on = _NOTHING
        return answer(), self._leans_on

    def _close(self, question: Hashable, found: object, leans_on: int, first: int) -> None:
        depth = len(self._open)
        if leans_on >= depth:  # nothing further out can change it, nor what it leans on
            for member in self._order[first:]:
                self._known[member] = self._latest.pop(member)
            self._forget(first)
        elif depth:
            self._latest[question] = found
            self._order.append(question)
            self._closed.update(
                (member, min(leans_on, self._closed.get(member, leans_on)))
                for member in self._order[first:]
            )
            self._leans_on = min(self._leans_on, leans_on)
            return
        self._forget(first)
        self._latest.pop(question, None)
        self._known[question] = found

    def _forget(self, first: int) -> None:
        """What this round closed is asked again in the next."""
        if len(self._order) > first:
            for member in self._order[first:]:
                del self._closed[member]
            del self._order[first:]

    @property
    def incomplete(self) -> bool:
        """Whether what was found for the current question leans on one that is open."""
        return self._leans_on != _NOTHING
