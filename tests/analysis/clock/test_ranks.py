"""Who waits for whom, on records with a known late rank."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.clock.ranks import covered, late, ranks
from instrumentor_analysis.clock.timings import read_timings
from instrumentor_analysis.model import Ranks

NAMES = ["step_steady_1", "step_steady_2"]


def step(
    rank: int, number: int, arrives: list[float], ends: list[float], ms: float = 100.0
) -> dict[str, Any]:
    calls = [["gloo:all_reduce", at, end - at] for at, end in zip(arrives, ends, strict=True)]
    told = {"event": "collectives", "rank": rank, "world": 2, "step": number, "ms": ms}
    return {**told, "calls": calls}


def sample(rank: int, name: str, ms: float, pid: int = 0) -> list[dict[str, Any]]:
    same = {"rank": rank, "world": 2, "name": name, "pid": pid or 10 + rank}
    kind = name.split("_")[1]
    taken = {"event": "sample", "kind": kind, "label": "fwd+bwd", "ms": ms, "batch_samples": 8}
    return [{**same, **taken}, {**same, "event": "iteration", "ms": ms + 10}]


def found_in(events: list[dict[str, Any]]) -> Ranks:
    found = ranks(events, NAMES)
    assert found is not None
    return found


def test_the_rank_that_comes_last_is_named_with_the_others_wait() -> None:
    events = [each for rank in (0, 1) for name in NAMES for each in sample(rank, name, 40.0)]
    for number in range(4):
        events += [step(0, number, [10, 60], [45, 70]), step(1, number, [40, 65], [45, 70])]
    found = found_in(events)
    assert (found.slowest, found.waited_ms, found.waited_percent) == (1, 35.0, 35.0)
    assert [row.waited_ms for row in found.rows] == [35.0, 0.0]
    assert [row.arrived_last for row in found.rows] == [0, 8]
    assert [(row.samples, row.median_ms, row.iteration_ms) for row in found.rows] == [
        (2, 40, 50)
    ] * 2
    # Eight samples in 50 ms, in each of two.
    assert found.samples_per_s == pytest.approx(320)
    (told,) = late(found)
    assert told.kind == "late-rank" and "35 %" in told.message


def test_ranks_that_are_equally_late_are_no_finding() -> None:
    events = [step(0, 0, [10], [45], 1000.0), step(1, 0, [12], [45], 1000.0)]
    events += [each for rank in (0, 1) for each in sample(rank, NAMES[0], 1.0)]
    assert late(found_in(events)) == ()


def test_what_overlaps_is_waited_once() -> None:
    assert covered([(0, 10), (5, 12), (20, 21), (20, 20)]) == 13
    found = found_in([step(0, 0, [0, 5], [30, 30]), step(1, 0, [20, 20], [30, 30])])
    assert found.rows[0].waited_ms == 20


def test_calls_in_another_order_say_nothing() -> None:
    one, other = step(0, 0, [1], [9]), step(1, 0, [1, 2], [9, 9])
    found = found_in([one, other])
    assert (found.slowest, found.waited_ms, found.calls) == (None, None, 0)
    assert all(row.waited_ms is None for row in found.rows)


def test_a_step_that_one_rank_alone_recorded_says_nothing() -> None:
    both = [step(0, 0, [10], [30]), step(1, 0, [20], [30])]
    found = found_in([*both, step(0, 1, [0], [1000])])
    assert (found.steps, found.calls, found.waited_ms) == (1, 1, 10.0)
    assert found_in([step(0, 1, [0], [1000])]).calls == 0


def test_a_broadcast_s_root_goes_on_alone() -> None:
    both = [step(rank, 0, [rank * 5], [9]) for rank in (0, 1)]
    for each in both:
        each["calls"][0][0] = "gloo:broadcast"
    assert found_in(both).calls == 0


def test_a_rank_without_steps_is_told() -> None:
    (told,) = late(found_in(sample(0, NAMES[0], 10.0)))
    assert told.kind == "ranks-missing" and "1 of 2" in told.message


def test_a_process_alone_has_none() -> None:
    assert ranks([{"event": "sample", "name": NAMES[0], "ms": 1.0}], NAMES) is None
    assert late(None) == ()


def test_the_late_rank_among_noise() -> None:
    """A skew of 5 % of the step: the right rank, its wait within 3 % of the truth."""
    right, errors = 0, []
    chance = random.Random(3)
    for _ in range(300):
        world, slow = chance.randint(2, 8), 0
        slow = chance.randrange(world)
        events, truth = [], []
        for number in range(4):
            at = [50 + chance.uniform(0, 1) + (6 if rank == slow else 0) for rank in range(world)]
            truth.append(sum(max(at) - each for each in at) / (world - 1))
            ends = max(at) + 4
            events += [step(rank, number, [at[rank]], [ends]) for rank in range(world)]
        found = found_in(events)
        right += found.slowest == slow
        errors.append(abs((found.waited_ms or 0) / (sum(truth) / len(truth)) - 1))
    assert right == 300 and max(errors) < 0.03


def test_the_clock_s_figures_are_those_of_the_first_rank(tmp_path: Path) -> None:
    events = [each for name in NAMES for each in sample(1, name, 70.0)]
    events += [each for name in NAMES for each in sample(1, f"{name}0", 70.0)]
    events += [each for name in NAMES for each in sample(0, name, 40.0)]
    path = tmp_path / "timings.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    timings = read_timings(path)
    assert [each.ms for each in timings.samples] == [40.0, 40.0]
    assert not any(each.kind == "several-processes" for each in timings.warnings)
    assert timings.ranks is not None and [row.median_ms for row in timings.ranks.rows] == [40, 70]


@pytest.mark.usefixtures("no_hang")
def test_as_many_ranks_as_lines() -> None:
    many = 60_000
    events = [
        {"event": "sample", "rank": at, "name": "step_steady_1", "ms": 1.0} for at in range(many)
    ]
    found = ranks(events, ["step_steady_1"])
    assert found is not None and [row.samples for row in found.rows] == [1] * many
