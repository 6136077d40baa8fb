"""Micro-steps: how many make an update, and what an update takes."""

from __future__ import annotations

import pytest

from instrumentor_analysis.clock.updates import updates


def of(pattern: str, **more: bool) -> tuple[int | None, int, float | None] | None:
    """Of iterations of 10 ms (``.``), and of 25 ms with an update (``U``); the first is no sample.

    ``x``, ``X``: the same, but not among the samples. ``_``: one under a profiler, of which
    nothing was recorded.
    """
    ran = [at for at, each in enumerate(pattern) if each != "_"]
    pattern = pattern.replace("_", "")
    found = updates(
        [each in "UX" for each in pattern],
        [25.0 if each in "UX" else 10.0 for each in pattern],
        {at for at, each in enumerate(pattern) if each in ".U"},
        regions=ran,
        **more,
    )
    return None if found is None else (found.micro_steps, found.count, found.ms)


@pytest.mark.parametrize(
    "pattern",
    ["UUUUUUUU", "UUU.UUUU", "..UUUUUUUU", "........"],
    ids=["each", "one was skipped", "the scaler had to settle", "none was seen"],
)
def test_iterations_that_update_each_are_no_micro_steps(pattern: str) -> None:
    assert of(pattern) is None


def test_an_update_takes_what_its_micro_steps_take_together() -> None:
    assert of("...U" * 3) == (4, 2, 55.0)
    found = updates([False, True] * 9, [10.0, 20.0] * 9, set(range(18)))
    assert found is not None and found.interval_ms is not None
    assert (found.ms, found.interval_ms.low, found.interval_ms.high) == (30.0, 30.0, 30.0)
    assert found.values_ms == (30.0,) * 8


def test_an_update_that_was_not_measured_whole_counts_for_the_number_alone() -> None:
    assert of("xxxX...U.x.U") == (4, 1, 55.0)
    assert of("xxxX.x.U.x.U") == (4, 0, None)


def test_a_step_under_a_profiler_makes_no_update_shorter() -> None:
    assert of("...U._.U...U") == (4, 1, 55.0)
    assert of("...U._.U") == of("..._...U") == (None, 0, None)
    assert of("...U..._...U...U") == (4, 1, 55.0)  # it made the update
    assert of("U_U_U") is None


def test_updates_at_the_end_of_an_epoch_are_shorter() -> None:
    assert of("...U...U.U...U...U") == (4, 3, 55.0)


def test_a_number_that_was_not_seen_is_not_made_up() -> None:
    assert of(".....U..") == (None, 0, None)
    assert of("..U.U..U....U") == (None, 0, None)
    assert of("....", accumulates=True) == (None, 0, None)
    assert of("UUUU", accumulates=True) is None
