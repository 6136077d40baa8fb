"""Data frames: their columns, their units, and the notebook that starts from them."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from instrumentor_analysis.load.op_columns import COLUMNS
from instrumentor_analysis.reports import frames
from tests.analysis.records import Event, event, run_folder, steady_events
from tests.conftest import ROOT

NOTEBOOK = ROOT / "docs" / "measured.ipynb"
OPS = ROOT / "fixtures" / "ops" / "training_v2_1.csv"


def between(name: str, ms: float) -> Event:
    return {"event": "iteration", "pid": 1, "name": name, "ms": ms, "data_ms": 4.0}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run under Tracy with two steps of 10 and 11 ms behind the first."""
    events = [event("step_compile_0", 90.0), *steady_events(10.0, 11.0)]
    return run_folder(
        tmp_path / "run", *events, between("step_steady_1", 16.0), ops=OPS, profiler="tracy"
    )


def test_steps_with_what_lies_between_them(run: Path) -> None:
    steps = frames.steps(run)
    assert [*steps.columns] == [*frames.STEPS] == [*steps.attrs["columns"]]
    assert [*steps.kind] == ["compile", "steady", "steady"]
    assert [*steps.wall_clock_ms] == [90.0, 10.0, 11.0]
    assert steps.iteration_ms.dtype == float
    assert [*steps.iteration_ms.fillna(-1)] == [-1, 16.0, -1]
    assert steps.data_ms[1] == 4.0


def test_phases_add_up_to_the_iteration(run: Path) -> None:
    phases = frames.phases(run).set_index("phase")
    assert phases.time_ms["data"] == 4.0 and phases.time_ms["fwd+bwd"] == 10.5
    assert phases.time_ms.sum() == pytest.approx(16.5)
    assert phases.iteration_percent.sum() == pytest.approx(100)


def test_ops_bear_the_names_of_the_table(run: Path) -> None:
    ops = frames.ops(run)
    assert {each.name for each in COLUMNS if each.always} <= {*ops.columns}
    assert ops.device_time_us.dtype == float
    assert ops.attrs["columns"]["device_time_us"] == "Device Time us"


def test_without_ops_the_frame_is_empty_and_can_be_asked_all_the_same(tmp_path: Path) -> None:
    ops = frames.ops(run_folder(tmp_path / "run", *steady_events(1.0), profiler="wallclock"))
    assert len(ops) == 0 and len(ops[ops.device_time_us > 1]) == 0


def test_a_change_has_its_interval(tmp_path: Path) -> None:
    """Not where the steps of a side count as few: each is a little slower than the one before."""
    scattered, drifting = ([10.0 + n * by % 20 / 100 for n in range(20)] for by in (7, 1))
    new = run_folder(tmp_path / "new", *steady_events(*[8.0] * 20), profiler="wallclock")
    sides = [
        run_folder(tmp_path / name, *steady_events(*times), profiler="wallclock")
        for name, times in (("scattered", scattered), ("drifting", drifting))
    ]
    assert isnan(frames.comparison(sides[1], new).iloc[0].low_percent)
    compared = frames.comparison(sides[0], new)
    assert [*compared.columns] == [*frames.COMPARISON]
    timing = compared.iloc[0]
    assert (timing.figure, timing.unit, timing.new) == ("fwd+bwd", "ms", 8.0)
    assert timing.low_percent <= timing.change_percent <= timing.high_percent < 0


def cells() -> list[dict[str, Any]]:
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells, in order, beside two runs as they are there for a user."""
    runs = tmp_path / "instrument-runs"
    runs.mkdir()
    for number, ms in ((1, 10.0), (2, 8.0)):
        times = [ms + n / 100 for n in range(10)]
        events = [*steady_events(*times), between("step_steady_1", 16.0)]
        run_folder(runs / f"train-{number}", *events, ops=OPS, profiler="tracy")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells():
        exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
    made = {key for key, value in names.items() if isinstance(value, pd.DataFrame)}
    assert made == {"steps", "steady", "phases", "ops", "by_op", "slow", "comparison"}
    assert all(len(names[key]) for key in made)


def test_the_notebook_shows_no_output_of_any_machine() -> None:
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells())
