"""Samples and tokens a second, latency percentiles, MFU: exact values, and when there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor_analysis.clock.throughput import PERCENTILES, percentile, rate
from instrumentor_analysis.clock.timings import read_timings, wall_clock
from instrumentor_analysis.model import WallClock
from instrumentor_analysis.shared.errors import BadOption
from instrumentor_analysis.summary.mfu import with_mfu
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.ops_rows import FIXTURES
from tests.analysis.records import Event, batch, event, record, run_folder, steady_events
from tests.warned import texts


def read(path: Path, *events: Event, label: str = "fwd+bwd") -> WallClock:
    """Statistics of a record of these events."""
    return wall_clock(read_timings(record(path, *events)), label)


def test_work_over_time(tmp_path: Path) -> None:
    first = event("step_compile", 9000.0, **batch(32, 784))
    wall = read(tmp_path / "t.jsonl", first, *steady_events(10.0, 30.0, **batch(32, 784)))
    assert wall.samples_per_s == 64 / 0.040
    assert wall.tokens_per_s is None
    assert wall.batch_shape == (32, 784)


def test_steps_that_took_no_time_have_no_rate() -> None:
    assert rate([8, 8], 0.0) is None
    assert rate([8, 8], 4.0) == 2000.0


def test_batches_of_different_sizes_count_as_what_they_are(tmp_path: Path) -> None:
    wall = read(
        tmp_path / "t.jsonl",
        event("step_steady_1", 10.0, **batch(8, 128, tokens=1024)),
        event("step_steady_2", 40.0, **batch(4, 512, tokens=2048)),
    )
    assert wall.samples_per_s == pytest.approx(12 / 0.050, rel=1e-15)
    assert wall.tokens_per_s == pytest.approx(3072 / 0.050, rel=1e-15)
    assert wall.batch_shape is None


@pytest.mark.parametrize(
    ("more", "axis", "samples"),
    [({}, 1, 20), ({"batch_shapes": [[35, 20], [35, 12]]}, 1, 32), ({}, 2, None)],
)
def test_sequence_first_batches_lie_along_their_second_axis(
    tmp_path: Path, more: dict[str, object], axis: int, samples: int | None
) -> None:
    path = record(tmp_path / "t.jsonl", event("step_steady_1", 10.0, **batch(35, 20), **more))
    assert [s.samples for s in read_timings(path, axis).samples] == [samples]


@pytest.mark.parametrize("odd", [{}, {"batch_samples": None}, {"batch_samples": 0},
                                 {"batch_samples": "8"}, {"batch_shape": [8, "x"]},
                                 {"batch_samples": True}])  # fmt: skip
def test_one_step_without_its_batch_and_there_is_no_rate(
    tmp_path: Path, odd: dict[str, object]
) -> None:
    events = event("step_steady_1", 10.0, **batch(8, 2)), event("step_steady_2", 10.0, **odd)
    wall = read(tmp_path / "t.jsonl", *events)
    assert (wall.samples_per_s, wall.tokens_per_s, wall.batch_shape) == (None, None, None)


def test_percentiles_are_told_from_enough_samples_on(tmp_path: Path) -> None:
    events, path = steady_events(*map(float, range(1, 101))), tmp_path / "t.jsonl"
    wall = read(path, *events)
    assert (wall.p50_ms, wall.p90_ms, wall.p95_ms, wall.p99_ms) == (50.5, 90.1, 95.05, 99.01)
    assert wall.p50_ms == wall.median_ms
    few = read(path, *events[:19])
    assert (few.p50_ms, few.p90_ms, few.p95_ms, few.p99_ms) == (10.0, 17.2, None, None)
    assert read(path, event("step_compile", 1.0)).p50_ms is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.sampled_from(list(PERCENTILES)))
def test_percentiles_are_those_of_numpy(values: list[float], percent: int) -> None:
    found = percentile(values, percent)
    if len(values) < PERCENTILES[percent]:
        assert found is None
    else:
        assert found == pytest.approx(float(np.percentile(values, percent)), rel=1e-12, abs=1e-300)


# -- MFU ---------------------------------------------------------------------------------------


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A Tracy run whose steps took 8 samples in 2 and 3 ms: 16 / 5 ms = 3200 a second."""
    steps, ops = steady_events(2.0, 3.0, **batch(8)), FIXTURES / "training_v2_1.csv"
    return run_folder(tmp_path / "run", *steps, ops=ops, profiler="tracy")


def test_mfu_against_a_given_peak(measured: Path) -> None:
    summary = with_mfu(analyse(measured), 1e9, peak_tflops=10.0).summary
    assert summary.wall_clock.mfu.percent == pytest.approx(1e9 * 3200 / 10e12 * 100)
    assert summary.wall_clock.mfu.peak_source == "as given"
    assert summary.wall_clock_by_label["fwd+bwd"] == summary.wall_clock
    document = summary.to_json()["wall_clock_ms"]["mfu"]
    assert document["percent"] == pytest.approx(32.0)


def test_mfu_against_the_architecture_at_the_fidelity_of_the_matmuls(measured: Path) -> None:
    mfu = with_mfu(analyse(measured), 1e9).summary.wall_clock.mfu  # type: ignore[union-attr]
    assert mfu.peak_source == "wormhole, 64 cores at HiFi4"
    assert mfu.peak_tflops == pytest.approx(74 / 72 * 64)
    assert mfu.percent == pytest.approx(1e9 * 3200 / (74 / 72 * 64 * 1e12) * 100)


def test_no_peak_no_mfu(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", event("step_steady_1", 2.0, **batch(8)))
    with pytest.raises(BadOption, match="needs a peak"):
        with_mfu(analyse(folder), 1e9)
    named = with_mfu(analyse(folder), 1e9, arch="P150").summary
    assert named.wall_clock.mfu.peak_source == "blackhole, 110 cores at HiFi4 (assumed)"


def test_no_batch_no_mfu_but_a_warning(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", event("step_steady_1", 2.0))
    summary = with_mfu(analyse(folder), 1e9, peak_tflops=1.0).summary
    assert summary.wall_clock.mfu is None
    assert any(warning.startswith("There is no MFU") for warning in texts(summary.warnings))


@pytest.mark.parametrize(("flops", "peak"), [(0.0, 1.0), (-1.0, 1.0), (float("nan"), 1.0),
                                             (1.0, 0.0), (1.0, float("inf"))])  # fmt: skip
def test_figures_out_of_range(measured: Path, flops: float, peak: float) -> None:
    with pytest.raises(BadOption, match="must be above 0"):
        with_mfu(analyse(measured), flops, peak_tflops=peak)
