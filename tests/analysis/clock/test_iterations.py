"""Iterations: parts that add up, rates, and steps of several kinds."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from instrumentor_analysis.clock.iterations import Taken, iteration, region_ms
from instrumentor_analysis.clock.populations import of_shapes
from instrumentor_analysis.clock.timings import read_timings, wall_clock
from instrumentor_analysis.model import KeptWork, Sample, WallClock
from instrumentor_analysis.reports import brief
from instrumentor_analysis.reports.headline import wall_clock_figures_of
from tests.analysis.records import Event, batch, event, record


def measured(
    tmp_path: Path,
    *steps: tuple[Event, Event | None],
    fetches: bool = True,
    label: str = "fwd+bwd",
) -> WallClock:
    """The wall clock of samples, each with what its iteration says."""
    events: list[Event] = []
    for at, (sample, between) in enumerate(steps):
        name = f"step_steady_{at}"
        events.append(event(name, **sample))
        if between is not None:
            events.append({"event": "iteration", "pid": 1, "name": name, **between})
    timings = read_timings(record(tmp_path / "t.jsonl", *events))
    return wall_clock(timings, label, fetches=fetches)


def test_parts_add_up_to_the_median_and_throughput_is_the_iteration_s(tmp_path: Path) -> None:
    between = {"ms": 80.0, "data_ms": 65.0, "next_ms": 1.0, "optimizer_ms": 1.0, "lead_ms": 2.0}
    found = measured(tmp_path, *[({"ms": 8.0, **batch(32, 4)}, between)] * 8, ({"ms": 8.0}, None))
    whole = found.iteration
    assert (whole.count, whole.median_ms, found.median_ms) == (8, 80.0, 8.0)
    assert [(part.name, part.ms) for part in whole.parts] == [
        ("data", 66.0), ("before forward", 2.0), ("fwd+bwd", 8.0), ("optimizer", 1.0),
        ("other", 3.0),
    ]  # fmt: skip
    assert sum(part.ms for part in whole.parts) == pytest.approx(whole.median_ms)
    assert whole.samples_per_s == pytest.approx(400.0)


def test_iterations_that_hold_a_kept_validation_are_told_apart(tmp_path: Path) -> None:
    """The iteration is that of the others, and what was left out is named with its time."""
    plain: Event = {"ms": 10.0, "stepped": [0]}
    held: Event = {"ms": 110.0, "stepped": [0], "kept": "validation", "kept_ms": 100.0}
    sample: Event = {"ms": 8.0, **batch(32, 4)}
    steps = [(sample, held if at % 3 == 0 else plain) for at in range(12)]
    wall = measured(tmp_path, *steps)
    found = wall.iteration
    assert (found.median_ms, found.max_ms, found.count) == (10.0, 10.0, 8)
    assert found.kept == KeptWork(("validation",), 4, 12, 100.0, left_out=True)
    assert not any("kept" in part.name for part in found.parts)
    assert found.samples_per_s == pytest.approx(3200.0)
    notes = [each.note for each in wall_clock_figures_of(wall) if each.name == "iteration"]
    assert notes[0].endswith("without the 4 of 12 that hold a kept validation of 100 ms")


@pytest.mark.parametrize("without", [0, 2])
def test_what_hardly_any_iteration_is_without_is_a_part_of_them(
    tmp_path: Path, without: int
) -> None:
    plain: Event = {"ms": 10.0, "stepped": [0]}
    held: Event = {"ms": 110.0, "stepped": [0], "kept": "validation_and_checkpoint",
                   "kept_ms": 100.0}  # fmt: skip
    steps = [({"ms": 8.0}, plain if at < without else held) for at in range(12)]
    wall = measured(tmp_path, *steps)
    found = wall.iteration
    parts = {part.name: part.ms for part in found.parts}
    assert parts["kept validation and checkpoint"] == pytest.approx(100.0)
    assert (found.median_ms, found.kept.left_out) == (110.0, False)
    (note,) = (each.note for each in wall_clock_figures_of(wall) if each.name == "iteration")
    assert note.endswith("in 12 of 12, and so does throughput") or without


def test_a_kind_that_always_holds_kept_work_is_not_left_out(tmp_path: Path) -> None:
    """A save behind each update of two micro-steps: without these there would be no update."""
    plain: Event = {"ms": 10.0, "stepped": []}
    held: Event = {"ms": 30.0, "stepped": [0], "kept": "checkpoint", "kept_ms": 20.0}
    steps = [({"ms": 8.0}, held if at % 2 else plain) for at in range(12)]
    found = measured(tmp_path, *steps).iteration
    assert found.update.ms == 40.0 and not found.kept.left_out


def test_a_report_has_one_figure_of_the_region(tmp_path: Path) -> None:
    """The region has the median of its samples, and the others share the rest."""
    steps = [(10.0, 20.0), (11.0, 21.0), (12.0, 24.0), (11.0, 23.0), (13.0, 25.0), (11.0, 22.0)]
    between = [{"ms": whole, "data_ms": whole - ms - 3, "optimizer_ms": 3.0} for ms, whole in steps]
    found = measured(
        tmp_path, *[({"ms": ms}, said) for (ms, _), said in zip(steps, between, strict=True)]
    )
    parts = {part.name: part.ms for part in found.iteration.parts}
    assert parts["fwd+bwd"] == found.median_ms == 11.0
    assert sum(parts.values()) == pytest.approx(found.iteration.median_ms)
    assert parts["data"] / parts["optimizer"] == pytest.approx(8.25 / 3, rel=0.05)


def test_the_parts_of_a_step_add_up_to_the_step(tmp_path: Path) -> None:
    """The optimizer within a region is a part of it; alone or not, where medians do not fit."""
    steps = [(10.0, 20.0), (11.0, 21.0), (12.0, 24.0), (11.0, 23.0), (13.0, 25.0), (11.0, 22.0)]
    events = [
        each
        for at, (ms, whole) in enumerate(steps)
        for each in (
            event(f"s{at}", ms, label="step"),
            {"event": "iteration", "pid": 1, "name": f"s{at}", "ms": whole, "data_ms": whole - ms,
             "inside_optimizer_ms": 3.0},
        )
    ]  # fmt: skip
    found = wall_clock(read_timings(record(tmp_path / "t.jsonl", *events)), "step")
    parts = {part.name: part.ms for part in found.iteration.parts}
    assert parts["fwd+bwd"] + parts["optimizer"] == pytest.approx(found.median_ms)
    assert region_ms(found.iteration, "step") == pytest.approx(11.0)
    assert region_ms(found.iteration, "another") is None
    assert sum(parts.values()) == pytest.approx(found.iteration.median_ms)


@given(st.lists(st.tuples(st.floats(1, 1e3), st.floats(0, 1e3)), min_size=2, max_size=30))
def test_a_region_is_never_longer_than_its_iteration(steps: list[tuple[float, float]]) -> None:
    """Whatever the steps are, and though the last one has no iteration."""
    samples = [Sample(f"s{n}", "steady", "step", ms, n) for n, (ms, _) in enumerate(steps)]
    taken = [
        Taken(f"s{n}", ms + more, data_ms=more * 0.7) for n, (ms, more) in enumerate(steps[:-1])
    ]
    found = iteration(samples, taken)
    assert found is not None and not found.populations
    parts = {part.name: part.ms for part in found.parts}
    region_ms = statistics.median(ms for ms, _ in steps)
    assert parts["step"] == pytest.approx(region_ms)
    assert region_ms <= found.median_ms * (1 + 1e-9) and min(parts.values()) >= 0
    assert sum(parts.values()) == pytest.approx(found.median_ms)
    # What nothing follows was not measured: it is in the median, and in no list.
    assert found.values_ms == tuple(each.ms for each in taken)
    assert (found.min_ms, found.max_ms) == (min(found.values_ms), max(found.values_ms))


def test_what_no_part_explains_is_other(tmp_path: Path) -> None:
    """Iterations around a gap: the median of the iteration lies above it, the region's below."""
    short = [({"ms": 10.0}, {"ms": 11.0, "data_ms": 1.0})] * 5
    long = [({"ms": 100.0}, {"ms": 101.0, "data_ms": 1.0})] * 4
    late = [({"ms": 10.0}, {"ms": 105.0, "data_ms": 1.0})]
    found = measured(tmp_path, *short, *long, *late).iteration
    parts = {part.name: part.ms for part in found.parts}
    assert found.median_ms == 56.0 and parts["fwd+bwd"] == 10.0
    assert parts["data"] < 2 and parts["other"] > 40


def test_medians_that_do_not_belong_together_leave_the_shares(tmp_path: Path) -> None:
    """The median of the samples would leave next to nothing for the optimizer's share."""
    update = {"ms": 20.5, "optimizer_ms": 8.0}
    samples = [*[({"ms": 12.0}, update)] * 7, *[({"ms": 20.0}, None)] * 8]
    found = measured(tmp_path, *samples)
    assert found.median_ms == 20.0
    parts = {part.name: part.ms for part in found.iteration.parts}
    assert parts == {"fwd+bwd": 12.0, "optimizer": 8.0, "other": 0.5}


def test_without_a_loader_of_torch_the_wait_is_not_called_data(tmp_path: Path) -> None:
    between = {"ms": 20.0, "next_ms": 11.0, "optimizer_ms": 1.0}
    found = measured(tmp_path, *[({"ms": 8.0}, between)] * 3)
    assert [part.name for part in found.iteration.parts] == ["next batch", "fwd+bwd", "optimizer"]


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("fwd+bwd", ["fwd+bwd", "after fwd+bwd"]),
        ("step", ["next batch", "step"]),  # which holds the update
        ("inference", ["next batch", "inference"]),
    ],
)
def test_what_may_be_an_update_by_hand_is_not_called_a_batch(
    tmp_path: Path, label: str, parts: list[str]
) -> None:
    """It lies in one gap with the fetch of a loop over a generator."""
    steps = [({"ms": 8.0, "label": label}, {"ms": 20.0, "next_ms": 12.0})] * 3
    whole = measured(tmp_path, *steps, label=label).iteration
    assert [part.name for part in whole.parts] == parts


@pytest.mark.parametrize(
    ("between", "parts"),
    [
        # An update by hand, between the backward and the head of `for i in range(n)`.
        ({"next_ms": 12.0}, ["fwd+bwd", "after fwd+bwd"]),
        ({"next_ms": 9.0, "optimizer_ms": 3.0}, ["fwd+bwd", "optimizer", "other"]),
        # Only the wait for a loader is data; the fetch in the body lies before the forward.
        ({"next_ms": 8.0, "data_ms": 1.0, "optimizer_ms": 3.0},
         ["data", "fwd+bwd", "optimizer", "other"]),
        ({"lead_ms": 9.0, "optimizer_ms": 3.0}, ["before forward", "fwd+bwd", "optimizer"]),
    ],
)  # fmt: skip
def test_the_head_of_a_loop_that_only_counts_fetches_nothing(
    tmp_path: Path, between: Event, parts: list[str]
) -> None:
    steps = [({"ms": 8.0}, {"ms": 20.0, **between})] * 3
    whole = measured(tmp_path, *steps, fetches=False).iteration
    assert [part.name for part in whole.parts] == parts
    assert sum(part.ms for part in whole.parts) == pytest.approx(20.0)


def test_data_within_the_region_is_taken_out_of_it_on_the_cpu_alone(tmp_path: Path) -> None:
    between = {"ms": 10.0, "inside_data_ms": 4.0}
    parts = {
        device: [
            part.name
            for part in measured(
                tmp_path, *[({"ms": 10.0, "device": device}, between)] * 3
            ).iteration.parts
        ]
        for device in ("cpu", "cuda")
    }
    assert parts == {"cpu": ["data", "fwd+bwd"], "cuda": ["fwd+bwd"]}


@pytest.mark.parametrize(
    ("label", "name"), [("step", "fwd+bwd"), ("fwd+bwd+optimizer", "fwd+bwd"),
                        ("whole step", "rest of whole step")],
)  # fmt: skip
def test_a_region_without_the_optimizer_in_it_has_another_name(
    tmp_path: Path, label: str, name: str
) -> None:
    """A report does not call by one name what holds the update and what does not."""
    events = [
        each
        for at in range(4)
        for each in (
            event(f"step_steady_{at}", 10.0, label, device="cpu"),
            {"event": "iteration", "pid": 1, "name": f"step_steady_{at}", "ms": 12.0,
             "inside_optimizer_ms": 4.0},
        )
    ]  # fmt: skip
    whole = wall_clock(read_timings(record(tmp_path / "t.jsonl", *events)), label).iteration
    assert {part.name: part.ms for part in whole.parts} == {
        name: 6.0, "optimizer": 4.0, "other": 2.0,
    }  # fmt: skip


def test_micro_steps_with_and_without_an_update_are_weighted(tmp_path: Path) -> None:
    plain, update = {"ms": 10.0, "stepped": []}, {"ms": 30.0, "stepped": [0], "optimizer_ms": 20.0}
    sample = {"ms": 10.0, "nodes": 7, **batch(4, 2)}
    found = measured(tmp_path, *[(sample, plain), (sample, update)] * 6)
    whole = found.iteration
    assert not found.populations and found.median_interval_ms is not None
    assert [(x.samples, x.kind, x.median_ms) for x in whole.populations] == [
        (6, "without update", 10.0),
        (6, "with update", 30.0),
    ]
    update = whole.update
    assert update is not None
    assert (whole.word, update.micro_steps, update.count, update.ms) == ("micro-step", 2, 5, 40.0)
    assert whole.median_interval_ms is None  # of fewer than six updates
    assert whole.median_ms == 20.0 and whole.samples_per_s == pytest.approx(200.0)
    assert {part.name: part.ms for part in whole.parts} == {"fwd+bwd": 10.0, "optimizer": 10.0}


def test_an_update_of_micro_steps_has_an_interval_and_they_have_their_share_of_it(
    tmp_path: Path,
) -> None:
    """Micro-steps that are all alike are micro-steps nevertheless."""
    between = [{"ms": 10.0 + at * 7 % 10 / 100, "stepped": [0] * (at % 2)} for at in range(40)]
    whole = measured(tmp_path, *[({"ms": 8.0, "nodes": 7}, each) for each in between]).iteration
    assert not whole.populations and whole.update.count == 19
    assert whole.median_ms == pytest.approx(whole.update.ms / 2)
    assert whole.median_interval_ms.low == pytest.approx(whole.update.interval_ms.low / 2)


def test_a_mixture_of_kinds_has_no_interval(tmp_path: Path) -> None:
    """What disturbs one kind disturbs the others, too: their errors are not independent."""
    turns = [({"ms": 5.0, "nodes": 7 + n}, {"ms": 10.0 * (n + 1), "stepped": [n]}) for n in (0, 1)]
    whole = measured(tmp_path, *turns * 20).iteration
    assert (whole.median_ms, whole.median_interval_ms, whole.update) == (15.0, None, None)
    assert [each.kind for each in whole.populations] == ["optimizer 1", "optimizer 2"]
    assert all(each.median_interval_ms is not None for each in whole.populations)


def test_two_models_by_turns_have_no_common_interval(tmp_path: Path) -> None:
    small, large = {"ms": 10.0, "nodes": 7}, {"ms": 40.0, "nodes": 30}
    found = measured(tmp_path, *[(small, None), (large, None)] * 10)
    assert [(each.samples, each.kind, each.median_ms) for each in found.populations] == [
        (10, "7 nodes", 10.0),
        (10, "30 nodes", 40.0),
    ]
    assert found.median_interval_ms is None and not found.outliers


def test_kinds_are_called_by_their_shapes_where_each_has_one_of_its_own(tmp_path: Path) -> None:
    short, long = (
        {"ms": ms, "nodes": nodes, **batch(4, length)}
        for ms, nodes, length in ((10.0, 7, 8), (40.0, 30, 32))
    )
    found = measured(tmp_path, *[(short, None), (long, None)] * 10)
    assert [each.kind for each in found.populations] == ["batch 4x8", "batch 4x32"]
    assert of_shapes(found.populations)
    alike = {**long, "batch_shape": [4, 8]}
    found = measured(tmp_path, *[(short, None), (alike, None)] * 10)
    assert [each.kind for each in found.populations] == ["7 nodes", "30 nodes"]
    assert not of_shapes(found.populations)


def test_a_rare_kind_is_no_outlier(tmp_path: Path) -> None:
    plain, regularised = {"ms": 10.0, "nodes": 7}, {"ms": 25.0, "nodes": 50}
    found = measured(tmp_path, *[(plain, None)] * 15, (regularised, None), *[(plain, None)] * 15,
                     (regularised, None))  # fmt: skip
    assert [each.samples for each in found.populations] == [30, 2]
    assert found.outliers == ()


@pytest.mark.parametrize(
    "nodes",
    [[7] * 8, [None] * 8, [1, 2, 3, 4, 5, 6, 7, 8], [7, 7, 7, 9, 7, 7, 7, 7], [7, 9] * 4],
)
def test_steps_that_vary_or_are_alike_are_of_one_kind(
    tmp_path: Path, nodes: list[int | None]
) -> None:
    found = measured(tmp_path, *[({"ms": 10.0 + at / 100, "nodes": n}, None)
                                 for at, n in enumerate(nodes)])  # fmt: skip
    assert found.populations == ()


def test_the_region_of_a_micro_step_is_called_what_it_is(tmp_path: Path) -> None:
    """Its part of the median update is neither the mean nor the median of its samples."""
    took = [8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 48.0]
    steps = [({"ms": ms, "cpu_ms": 3.0}, {"ms": ms + 2, "stepped": [0] if at % 2 else []})
             for at, ms in enumerate(took)]  # fmt: skip
    wall = measured(tmp_path, *steps)
    (line,) = (each for each in brief._clock(wall, more=True) if each.name == "fwd+bwd")
    assert (line.value, line.note) == ("17.1 ms", "an update (2 x 8.57 ms); of 10 micro-steps")
    (line,) = (each for each in wall_clock_figures_of(wall) if each.name == "CPU time")
    assert line.note == "of the process in a micro-step: user and system, all threads"


def test_a_guessed_axis_of_the_batch_is_told_beside_the_throughput(tmp_path: Path) -> None:
    wall = measured(tmp_path, *[({"ms": 8.0, **batch(35, 20)}, {"ms": 10.0})] * 4)
    for guessed, note in [
        (False, "batch 35x20"),
        (True, "batch 35x20, axis 0 taken: --batch-dim 1 if samples lie along the second"),
    ]:
        told = wall_clock_figures_of(replace(wall, batch_axis_guessed=guessed))
        assert {line.name: line.note for line in told}["throughput"] == note
