"""Wall-clock statistics: exact values, broken records, several processes."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

import pytest

from instrumentor_analysis.documents import plain
from instrumentor_analysis.model import Compilation
from instrumentor_analysis.timings import (
    Sample,
    Timings,
    main_label,
    outliers,
    read_timings,
    unfit_steps,
    wall_clock,
)
from tests.warned import texts


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
    assert texts(timings.warnings) == []
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
    assert timings.profiled.ms == 99.0
    assert timings.cancelled == ("step_steady_5",)


def test_a_compile_step_alone_has_no_steady_figures(tmp_path: Path) -> None:
    timings = read_timings(record(tmp_path / "t.jsonl", sample("step_compile", 9.0, "compile")))
    wall = wall_clock(timings, "fwd+bwd")
    assert (wall.samples, wall.compile_ms, wall.mean_ms, wall.median_ms) == (0, 9.0, None, None)
    assert plain(wall)["mean"] is None


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
    assert "cut short" in texts(timings.warnings)[0]


def test_foreign_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('nonsense\n[1]\n{"event":"sample","ms":"x"}\n' + json.dumps(sample("a", 2.0)))
    timings = read_timings(path)
    assert [s.name for s in timings.samples] == ["a"]
    assert "line 1" in texts(timings.warnings)[0]
    assert "line 2" in texts(timings.warnings)[1]


@pytest.mark.parametrize("ms", [-1.0, float("nan"), float("inf"), None, "7"])
def test_an_unusable_time_is_left_out_and_said(tmp_path: Path, ms: object) -> None:
    event = sample("a", 1.0) | {"ms": ms}
    timings = read_timings(record(tmp_path / "t.jsonl", event))
    assert timings.samples == ()
    assert "usable time" in texts(timings.warnings)[0]


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
    assert "2 processes recorded samples" in texts(timings.warnings)[0]
    assert "a step was left early" in texts(timings.warnings)


def test_a_recompile_among_three_steps_is_an_outlier() -> None:
    found = outliers(steady(10.0, 60.0, 10.2))
    assert [(o.name, o.ms) for o in found] == [("step_steady_2", 60.0)]
    assert found[0].times_median == pytest.approx(60 / 10.1)


@pytest.mark.parametrize("values", [(10.0, 60.0), (10.0, 11.0, 12.0, 13.0), (5.0,), ()])
def test_no_outlier_without_a_majority_against_it(values: tuple[float, ...]) -> None:
    assert outliers(steady(*values)) == ()


def test_one_outlier_of_many_is_found() -> None:
    draw = random.Random(5)
    values = [draw.gauss(10.0, 0.5) for _ in range(20_001)]
    values[7] = 900.0
    assert [o.name for o in outliers(steady(*values))] == ["step_steady_8"]


def test_what_turned_out_to_compile_is_no_steady_step(tmp_path: Path) -> None:
    timings = read_timings(
        record(
            tmp_path / "t.jsonl",
            sample("step_compile", 90_000.0, "compile"),
            sample("step_steady_1", 70_000.0),
            *(sample(f"step_steady_{at}", 12.0 + at / 10) for at in range(2, 6)),
            {"event": "compiled", "pid": 1, "name": "step_steady_1", "why": "2 graphs"},
        )
    )
    wall = wall_clock(timings, "fwd+bwd")
    assert wall.samples_ms == (12.2, 12.3, 12.4, 12.5)
    assert wall.compile_ms == 90_000.0
    assert wall.compilations == (Compilation("step_steady_1", 70_000.0),)
    assert wall.outliers == ()
    assert wall.mean_ms == pytest.approx(12.35)
    assert unfit_steps(timings)["step_steady_1"] == "a compile step by the record"


def test_steps_that_drift_widen_the_interval_of_their_median() -> None:
    values = [100.0 * 0.9**at for at in range(8)]
    wall = wall_clock(Timings(samples=tuple(steady(*values))), "x")
    assert wall.drifts
    assert wall.trend_percent == pytest.approx((0.9**7 - 1) * 100)
    assert wall.median_interval_ms.low <= values[-1] * 1.0001
    assert wall.median_interval_ms.high >= values[0] * 0.9999
