"""Questions asked in terms of each other: every order of asking finds the same."""

from __future__ import annotations

import itertools

import pytest

from instrumentor.read.fixpoint import Answers

#: What each name is bound to: letters are names, capitals are values. a, b and c are a circle.
BOUND = {"a": "bX", "b": "cY", "c": "aZ", "d": "b", "e": "W", "f": "fV", "g": ""}


def ask(answers: Answers, name: str, counts: dict[str, int] | None = None) -> frozenset[str]:
    def union() -> frozenset[str]:
        if counts is not None:
            counts[name] = counts.get(name, 0) + 1
        parts = (ask(answers, b, counts) if b.islower() else {b} for b in BOUND[name])
        return frozenset().union(*parts)

    return answers.ask(name, union, frozenset())


@pytest.mark.parametrize("order", list(itertools.permutations("abcd")), ids="".join)
def test_a_circle_has_one_answer_whoever_asks_first(order: tuple[str, ...]) -> None:
    answers = Answers()
    found = {name: ask(answers, name) for name in order}
    assert found == dict.fromkeys("abcd", frozenset("XYZ"))


def test_what_refers_to_itself_is_its_other_bindings() -> None:
    assert ask(Answers(), "f") == {"V"} and ask(Answers(), "g") == set()


def test_an_answer_is_kept() -> None:
    answers, counts = Answers(), dict[str, int]()
    for name in "abcdeabcde":
        ask(answers, name, counts)
    assert counts["e"] == counts["d"] == 1
    assert max(counts.values()) <= 3  # a circle is gone round until nothing changes


def test_what_leads_too_deep_is_left_open_and_not_kept() -> None:
    answers = Answers()

    def follow(number: int) -> frozenset[int]:
        return answers.ask(
            number, lambda: follow(number - 1) if number else frozenset({0}), frozenset()
        )

    assert follow(500) == frozenset()
    assert follow(20) == {0}  # nothing that an earlier question gave up is kept
    assert follow(45) == {0}


def test_a_circle_that_never_settles_ends() -> None:
    answers = Answers()

    def flip() -> int:
        return answers.ask("flip", lambda: flip() + 1, 0)

    assert flip() == flip()


def test_a_question_that_fails_is_open_no_more() -> None:
    answers = Answers()
    with pytest.raises(ZeroDivisionError):
        answers.ask("x", lambda: 1 // 0, 0)
    assert answers.ask("x", lambda: 7, 0) == 7
