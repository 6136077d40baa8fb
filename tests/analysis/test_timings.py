"""Wall-clock statistics: exact values, broken records, several processes."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor_analysis.model import Interval
from instrumentor_analysis.timings import (
    Sample,
    bootstrap_median,
    main_label,
    outliers,
    read_timings,
    trend_percent,
    wall_clock,
)


def record(path: Path, *events: dict[str, object], tail: str = "") -> Path:
    """A record file, with something behind its last line."""
    path.write_text("".join(json.dumps(e) + "\n" for e in events) + tail, encoding="utf-8")
    return path


def sample(name: str, ms: float, kind: str = "steady", label: str = "fwd+bwd", pid: int = 1,
           **more: object) -> dict[str, object]:  # fmt: skip
    """One sample event."""
    return {"event": "sample", "pid": pid, "name": name, "kind": kind, "label": label, "ms": ms,
            "start_s": 1.0, "device": "cpu", **more}  # fmt: skip


def steady(*values: float) -> list[Sample]:
    """Steady samples of one label."""
    return [Sample(f"step_steady_{i}", "steady", "x", ms, i) for i, ms in enumerate(values, 1)]


def test_absent_file_is_an_empty_record(tmp_path: Path) -> None:
    timings = read_timings(tmp_path / "timings.jsonl")
    assert timings.samples == ()
    assert timings.warnings == ()
    assert main_label(timings) is None


def test_statistics_are_of_the_steady_samples_only(tmp_path: Path) -> None:
    path = record(
        tmp_path / "t.jsonl",
        {"event": "load", "pid": 1, "file": "/shadow/train.py", "time": 1.0},
        sample("step_compile", 4000.0, "compile"),
        sample("step_warmup_1", 50.0, "warmup"),
        *(sample(f"step_steady_{i}", ms) for i, ms in enumerate((12.0, 10.0, 16.0, 11.0), 1)),
        {"event": "profiled", "pid": 1, "name": "step_profiled", "ms": 99.0, "device": "cpu"},
        {"event": "cancelled", "pid": 1, "name": "step_steady_5"},
        {"event": "complete", "pid": 1, "samples": 6},
    )
    timings = read_timings(path)
    wall = wall_clock(timings, "fwd+bwd")
    assert (wall.samples, wall.compile_ms, wall.warmup_ms) == (4, 4000.0, (50.0,))
    assert (wall.mean_ms, wall.median_ms, wall.min_ms, wall.max_ms) == (12.25, 11.5, 10.0, 16.0)
    assert wall.stdev_ms == statistics.stdev([12.0, 10.0, 16.0, 11.0])
    assert wall.samples_ms == (12.0, 10.0, 16.0, 11.0)
    assert timings.profiled is not None
    assert timings.profiled.ms == 99.0
    assert timings.cancelled == ("step_steady_5",)
    assert timings.complete
    assert timings.loaded == ("/shadow/train.py",)


def test_a_compile_step_alone_has_no_steady_figures(tmp_path: Path) -> None:
    timings = read_timings(record(tmp_path / "t.jsonl", sample("step_compile", 9.0, "compile")))
    wall = wall_clock(timings, "fwd+bwd")
    assert (wall.samples, wall.compile_ms, wall.mean_ms, wall.median_ms) == (0, 9.0, None, None)
    assert wall.to_json()["mean"] is None


def test_labels_are_never_pooled(tmp_path: Path) -> None:
    timings = read_timings(
        record(
            tmp_path / "t.jsonl",
            sample("step_compile", 9.0, "compile", "fwd+bwd"),
            sample("step_steady_1", 1.0, label="fwd+bwd"),
            sample("step_steady_2", 5.0, label="fwd+bwd+optimizer"),
            sample("step_steady_3", 7.0, label="fwd+bwd+optimizer"),
        )
    )
    assert main_label(timings) == "fwd+bwd+optimizer"
    assert wall_clock(timings, "fwd+bwd").mean_ms == 1.0
    assert wall_clock(timings, "fwd+bwd+optimizer").mean_ms == 6.0


def test_a_record_cut_short_is_read_up_to_there(tmp_path: Path) -> None:
    timings = read_timings(
        record(tmp_path / "t.jsonl", sample("step_steady_1", 1.0), tail='{"event":"sam')
    )
    assert len(timings.samples) == 1
    assert "cut short" in timings.warnings[0]


def test_foreign_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('nonsense\n[1]\n{"event":"sample","ms":"x"}\n' + json.dumps(sample("a", 2.0)))
    timings = read_timings(path)
    assert [s.name for s in timings.samples] == ["a"]
    assert "line 1" in timings.warnings[0]
    assert "line 2" in timings.warnings[1]


@pytest.mark.parametrize("ms", [-1.0, float("nan"), float("inf"), None, "7"])
def test_an_unusable_time_is_left_out_and_said(tmp_path: Path, ms: object) -> None:
    event = sample("a", 1.0) | {"ms": ms}
    timings = read_timings(record(tmp_path / "t.jsonl", event))
    assert timings.samples == ()
    assert "usable time" in timings.warnings[0]


def test_the_process_with_most_samples_counts(tmp_path: Path) -> None:
    timings = read_timings(
        record(
            tmp_path / "t.jsonl",
            sample("step_compile", 1.0, "compile", pid=7),
            sample("step_compile", 2.0, "compile", pid=8),
            sample("step_steady_1", 3.0, pid=8),
            {"event": "warning", "pid": 8, "text": "a step was left early"},
        )
    )
    assert [s.ms for s in timings.samples] == [2.0, 3.0]
    assert "2 processes recorded samples" in timings.warnings[0]
    assert "a step was left early" in timings.warnings


def test_a_recompile_among_three_steps_is_an_outlier() -> None:
    found = outliers(steady(10.0, 60.0, 10.2))
    assert [(o.name, o.ms) for o in found] == [("step_steady_2", 60.0)]
    assert found[0].times_median == pytest.approx(60 / 10.1)


@pytest.mark.parametrize("values", [(10.0, 60.0), (10.0, 11.0, 12.0, 13.0), (5.0,), ()])
def test_no_outlier_without_a_majority_against_it(values: tuple[float, ...]) -> None:
    assert outliers(steady(*values)) == ()


def test_trend_is_the_drift_over_all_samples() -> None:
    assert trend_percent([10.0, 11.0, 12.0, 13.0]) == pytest.approx(3.0 / 11.5 * 100)
    assert trend_percent([10.0, 11.0, 12.0]) is None
    assert trend_percent([10.0 + i / 1000 for i in range(5000)]) == pytest.approx(40.0, rel=0.01)


def test_the_interval_of_the_median_is_reproducible() -> None:
    values = [10.0, 11.0, 9.5, 10.5, 12.0, 10.2, 9.9]
    random.seed(1)
    first = bootstrap_median(values)
    random.seed(2)
    assert bootstrap_median(values) == first == Interval(9.9, 11.0)
    assert bootstrap_median([1.0, 2.0]) is None


@pytest.mark.parametrize("count", [3, 4, 5, 8, 12])
def test_the_interval_is_as_sure_as_it_says(count: int) -> None:
    draw = random.Random(count)
    held, said = 0, 0.0
    for _ in range(400):
        interval = bootstrap_median([draw.lognormvariate(0.0, 0.2) for _ in range(count)])
        assert interval is not None
        said = interval.confidence
        held += interval.low <= 1.0 <= interval.high
    assert said == pytest.approx({3: 0.75, 4: 0.875, 5: 0.9375}.get(count, 0.95))
    assert held / 400 == pytest.approx(said, abs=0.06)


def test_many_samples_take_no_time_and_say_the_same() -> None:
    draw = random.Random(5)
    values = [draw.gauss(10.0, 0.5) for _ in range(20_001)]
    few = bootstrap_median(values[:200])
    many = bootstrap_median(values)
    assert few is not None
    assert many is not None
    assert few.low < many.low < statistics.median(values) < many.high < few.high
    assert many.high - many.low == pytest.approx(2 * 1.96 * 1.2533 * 0.5 / 20_001**0.5, rel=0.15)
    values[7] = 900.0
    assert [o.name for o in outliers(steady(*values))] == ["step_steady_8"]


@given(st.lists(st.floats(0.001, 1e6), min_size=3, max_size=30))
def test_the_interval_holds_the_median(values: list[float]) -> None:
    interval = bootstrap_median(values)
    assert interval is not None
    assert min(values) <= interval.low <= interval.high <= max(values)
    assert interval.low <= statistics.median(values) <= interval.high
