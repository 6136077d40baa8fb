"""Wall-clock statistics: exact values, broken records, several processes."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

import pytest

from instrumentor_analysis.clock import timings as timings_module
from instrumentor_analysis.clock.neighbours import Beside
from instrumentor_analysis.clock.timings import (
    Sample,
    Timings,
    main_label,
    outliers,
    read_timings,
    unfit_steps,
    wall_clock,
)
from instrumentor_analysis.model import Compilation
from instrumentor_analysis.shared.documents import plain
from instrumentor_analysis.shared.files import Unfit
from tests.analysis.records import Event, event, record, steady_events
from tests.warned import texts


def steady(*values: float) -> list[Sample]:
    """Steady samples of one label."""
    return [Sample(f"step_steady_{i}", "steady", "x", ms, i) for i, ms in enumerate(values, 1)]


@pytest.mark.usefixtures("no_hang")
def test_many_steps_without_a_time_are_held_against_one_median() -> None:
    assert outliers(steady(*[0.0] * 60_000)) == ()
    slow = steady(*[1.0] * 60_000, *[9.0] * 10_000)
    assert len(outliers(slow)) == 10_000


def test_absent_file_is_an_empty_record(tmp_path: Path) -> None:
    timings = read_timings(tmp_path / "timings.jsonl")
    assert timings == Timings()
    assert main_label(timings) is None


def test_statistics_are_of_the_steady_samples_only(tmp_path: Path) -> None:
    values = (12.0, 10.0, 16.0, 11.0)
    path = record(
        tmp_path / "t.jsonl",
        {"event": "load", "pid": 1, "file": "/shadow/train.py", "time": 1.0},
        event("step_compile", 4000.0),
        event("step_warmup_1", 50.0, kind="warmup"),
        *steady_events(*values),
        {"event": "profiled", "pid": 1, "name": "step_profiled", "ms": 99.0, "device": "cpu"},
        {"event": "cancelled", "pid": 1, "name": "step_steady_5"},
        {"event": "complete", "pid": 1, "samples": 6},
    )
    timings = read_timings(path)
    wall = wall_clock(timings, "fwd+bwd")
    assert (wall.samples, wall.compile_ms, wall.warmup_ms) == (4, 4000.0, (50.0,))
    assert (wall.mean_ms, wall.median_ms, wall.min_ms, wall.max_ms) == (12.25, 11.5, 10.0, 16.0)
    assert wall.stdev_ms == statistics.stdev(values)
    assert wall.samples_ms == values
    assert [each.ms for each in timings.profiled] == [99.0]
    assert timings.cancelled == ("step_steady_5",)


def test_the_warm_up_stands_in_only_where_the_script_came_to_its_own_end(tmp_path: Path) -> None:
    path = record(
        tmp_path / "t.jsonl",
        event("step_compile", 4000.0),
        event("step_warmup_1", 50.0, kind="warmup"),
        event("step_steady_2", 10.0),
        {"event": "steady", "pid": 1, "names": ["step_warmup_1"]},
    )
    of = {ended: wall_clock(read_timings(path, ended=ended), "fwd+bwd") for ended in (True, False)}
    assert of[True].samples_ms == (50.0, 10.0)
    assert (of[False].samples_ms, of[False].warmup_ms) == ((10.0,), (50.0,))


def test_cpu_time_is_that_of_the_steady_samples_that_all_tell_it(tmp_path: Path) -> None:
    def cpu_ms(*each: float | None) -> float | None:
        samples = [
            event(f"step_steady_{at}", 9.0, **({} if ms is None else {"cpu_ms": ms}))
            for at, ms in enumerate(each)
        ]
        first = event("step_compile", 9.0, cpu_ms=70.0)
        return wall_clock(
            read_timings(record(tmp_path / "t.jsonl", first, *samples)), "fwd+bwd"
        ).cpu_ms

    assert cpu_ms(4.0, 2.0, 3.0) == 3.0
    assert cpu_ms(4.0, None, 3.0) is None, "an older record"
    assert cpu_ms(0.0, 0.0, 10.0) is None, "a clock of 10 ms"


def test_a_compile_step_alone_has_no_steady_figures(tmp_path: Path) -> None:
    timings = read_timings(record(tmp_path / "t.jsonl", event("step_compile", 9.0)))
    wall = wall_clock(timings, "fwd+bwd")
    assert (wall.samples, wall.compile_ms, wall.mean_ms, wall.median_ms) == (0, 9.0, None, None)
    assert plain(wall)["mean"] is None


def test_labels_are_never_pooled(tmp_path: Path) -> None:
    first = event("step_compile", 9.0), event("step_steady_1", 1.0)
    second = steady_events(5.0, 7.0, label="fwd+bwd+optimizer")
    timings = read_timings(record(tmp_path / "t.jsonl", *first, *second))
    assert main_label(timings) == "fwd+bwd+optimizer"
    assert wall_clock(timings, "fwd+bwd").mean_ms == 1.0
    assert wall_clock(timings, "fwd+bwd+optimizer").mean_ms == 6.0


def test_lines_that_are_no_records_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("nonsense\n[1]\n" + json.dumps(event("a", 2.0)) + '\n{"event":"sam')
    timings = read_timings(path)
    assert [s.name for s in timings.samples] == ["a"]
    first, second, cut = texts(timings.warnings)
    assert "line 1" in first and "line 2" in second and "cut short" in cut


def test_a_record_of_more_lines_than_any_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timings_module, "LIMIT_LINES", 3)
    path = record(tmp_path / "t.jsonl", *steady_events(1.0, 2.0, 3.0), tail="cut short")
    assert len(read_timings(path).samples) == 3
    path.write_text(path.read_text() + "\n")
    with pytest.raises(Unfit, match="has more than 3 lines"):
        read_timings(path)


def test_of_a_record_full_of_faults_the_first_are_told(tmp_path: Path) -> None:
    warned = [{"event": "warning", "kind": f"k{n}", "text": "t", "pid": 1} for n in range(300)]
    unusable = [event(f"s{n}", None) for n in range(300)]
    lines = "".join(f"{n}\n" for n in range(300))
    path = record(tmp_path / "t.jsonl", event("a", 2.0), *warned, *unusable, tail=lines)
    told = texts(read_timings(path).warnings)
    assert 300 < len(told) < 320
    assert told.count("Further warnings of the record are left out: 200.") == 1


@pytest.mark.parametrize("ms", [-1.0, float("nan"), float("inf"), None, "7"])
def test_an_unusable_time_is_left_out_and_said(tmp_path: Path, ms: object) -> None:
    timings = read_timings(record(tmp_path / "t.jsonl", event("a", ms)))
    assert timings.samples == ()
    assert "usable time" in texts(timings.warnings)[0]


def test_the_process_with_most_samples_counts(tmp_path: Path) -> None:
    compiled = [event("step_compile", float(pid), pid=pid) for pid in (7, 8)]
    warning: Event = {"event": "warning", "pid": 8, "text": "a step was left early"}
    path = record(tmp_path / "t.jsonl", *compiled, event("step_steady_1", 3.0, pid=8), warning)
    timings = read_timings(path)
    assert [s.ms for s in timings.samples] == [8.0, 3.0]
    told = texts(timings.warnings)[0]
    assert told.startswith("2 processes recorded samples. Those of process 8 are used, 1 of the ")
    assert "a step was left early" in texts(timings.warnings)


def test_events_of_each_kind_are_read_as_that_alone(tmp_path: Path) -> None:
    beside: Event = {"event": "beside", "pid": 1, "of": "phases", "seconds": 1.5, "cpus": 2}
    phases: Event = {"event": "phases", "pid": 1, "ms": 9.0, "parts": {"forward": 9.0}}
    whole: Event = {"event": "iteration", "pid": 1, "name": "step_steady_1", "ms": 4.0}
    found = read_timings(record(tmp_path / "t.jsonl", event("a", 2.0), beside, phases, whole))
    assert found.beside == (Beside("phases", 1.5, 0.0, 2),)
    assert [each.ms for each in found.extra] == [9.0]
    assert [each.ms for each in found.iterations] == [4.0]
    assert [each.ms for each in found.samples] == [2.0]
    assert found.called == found.told == found.again == ()


def test_a_recompile_among_three_steps_is_an_outlier() -> None:
    (found,) = outliers(steady(10.0, 60.0, 10.2))
    assert (found.name, found.ms) == ("step_steady_2", 60.0)
    assert found.times_median == pytest.approx(60 / 10.1)


@pytest.mark.parametrize("values", [(10.0, 60.0), (10.0, 11.0, 12.0, 13.0), (5.0,), ()])
def test_no_outlier_without_a_majority_against_it(values: tuple[float, ...]) -> None:
    assert outliers(steady(*values)) == ()


def test_one_outlier_of_many_is_found() -> None:
    draw = random.Random(5)
    values = [draw.gauss(10.0, 0.5) for _ in range(20_001)]
    values[7] = 900.0
    assert [o.name for o in outliers(steady(*values))] == ["step_steady_8"]


def test_what_turned_out_to_compile_is_no_steady_step(tmp_path: Path) -> None:
    samples = event("step_compile", 90_000.0), *steady_events(70_000.0, 12.2, 12.3, 12.4, 12.5)
    late: Event = {"event": "compiled", "pid": 1, "name": "step_steady_1", "why": "2 graphs"}
    timings = read_timings(record(tmp_path / "t.jsonl", *samples, late))
    wall = wall_clock(timings, "fwd+bwd")
    assert wall.samples_ms == (12.2, 12.3, 12.4, 12.5)
    assert (wall.compile_ms, wall.outliers) == (90_000.0, ())
    assert wall.compilations == (Compilation("step_steady_1", 70_000.0),)
    assert unfit_steps(timings)["step_steady_1"] == "a compile step"


def test_steps_that_drift_widen_the_interval_of_their_median() -> None:
    values = [100.0 * 0.997**at for at in range(200)]
    wall = wall_clock(Timings(samples=tuple(steady(*values))), "x")
    assert wall.drifts
    assert wall.trend_percent == pytest.approx((0.997**199 - 1) * 100)
    assert wall.median_interval_ms.low <= values[-1] * 1.0001
    assert wall.median_interval_ms.high >= values[0] * 0.9999


def test_how_the_device_was_waited_for(tmp_path: Path) -> None:
    check: Event = {"event": "barrier", "pid": 1, "device": "xla", "reads": 4}
    waited = event("step_steady_1", 2.0, device="xla", barrier="read one")
    passed = {**check, "method": "read one", "idle": True, "left_ms": 0.25}
    failed = {**check, "method": "synchronize", "idle": False, "left_ms": 5.5}
    refused: Event = {"event": "refused", "pid": 1, "name": "x", "reason": "nothing to read"}
    timings = read_timings(record(tmp_path / "t.jsonl", waited, failed, passed, refused))
    barrier = timings.barrier
    assert (barrier.device, barrier.method, barrier.left_ms, barrier.tensors_read) == (
        "xla", "read one", 0.25, 4,
    )  # fmt: skip
    assert barrier.given_up == {"synchronize": 5.5}
    (only,) = texts(timings.warnings)
    assert only.startswith("1 step was not counted as a sample: nothing to read")
    unsure = read_timings(record(tmp_path / "t.jsonl", waited, failed))
    assert "is not confirmed: read one may leave work pending" in texts(unsure.warnings)[0]
