"""The per-op report: windows, IDs, counts, what it remarks on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instrumentor_analysis.load.table import Groups
from instrumentor_analysis.ops import steps as module
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.shared.errors import (
    BadOption,
    EmptyWindow,
    NoSuchStep,
    NotAnOpsFile,
    NothingMeasured,
)
from tests.analysis.ops_rows import FIXTURES, host_op, matmul, op, signpost, step, text
from tests.warned import texts

TRAINING = FIXTURES / "training_v2_1.csv"


def write(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text(text(rows), encoding="utf-8", newline="")
    return path


def test_the_last_complete_steady_step_is_the_default() -> None:
    report = per_op_report(TRAINING)
    assert report.window == "step step_steady_2"
    assert report.ops["id"].tolist() == list(range(26, 35))
    assert not (report.ops["is_host"] | report.ops["is_signpost"]).any()
    assert report.architecture.name == "wormhole"
    assert report.notes == ()


def test_all_steady_steps_are_one_row_per_op_their_mean() -> None:
    report = per_op_report(TRAINING, ReportOptions(step="all"))
    first, last = (per_op_report(TRAINING, ReportOptions(step=step)).ops for step in (1, 2))
    assert report.window == "mean of 2 steps, step_steady_1 .. step_steady_2"
    assert len(report.ops) == 9
    both = (first["device_time_us"] + last["device_time_us"]) / 2
    assert report.ops["device_time_us"].tolist() == pytest.approx(both.tolist())
    assert report.ops["id"].tolist() == last["id"].tolist()
    assert report.ops["steps"].tolist() == [2] * 9
    # The first op of a step has no gap before it, in none of them.
    assert np.isnan(report.ops["gap_us"]).tolist() == [True] + [False] * 8
    assert report.ops["total_percent"].sum() == pytest.approx(100.0)


def test_a_step_of_several_hosts_is_the_same_step_on_each(tmp_path: Path) -> None:
    """Clocks of hosts differ: a step is taken by its signposts in each host's own file."""
    hosts = [
        write(tmp_path / f"{host}.csv",
              *step("step_compile", [op(us=50.0)]), *step("step_steady_1", [op(us=us), op(us=7.0)]),
              *step("step_steady_2", [op(us=us + 1), op(us=9.0)]), signpost("benchmark_complete"))
        for host, us in (("a", 10.0), ("b", 12.0))
    ]  # fmt: skip
    report = per_op_report(hosts)
    assert report.window == "step step_steady_2"
    # The slower of two devices, host b's: 13; the second op takes 9 on both.
    assert report.ops["device_time_us"].tolist() == [13.0, 9.0]
    apart = per_op_report(hosts, ReportOptions(step=1, no_merge_devices=True))
    assert apart.ops["device_id"].tolist() == [0, 0, 1, 1]
    assert apart.ops["device_time_us"].tolist() == [10.0, 7.0, 12.0, 7.0]
    pooled = per_op_report(hosts, ReportOptions(step="all"))
    assert pooled.ops["device_time_us"].tolist() == [12.5, 8.0]
    both = per_op_report(hosts, ReportOptions(step="all", no_merge_devices=True))
    assert both.ops["device_time_us"].tolist() == [10.5, 8.0, 12.5, 8.0]


def test_a_step_that_one_host_lacks_is_not_complete(tmp_path: Path) -> None:
    whole = write(
        tmp_path / "a.csv", *step("step_steady_1", [op()]), *step("step_steady_2", [op()])
    )
    cut = write(tmp_path / "b.csv", *step("step_steady_1", [op()]), signpost("step_steady_2_start"))
    assert per_op_report([whole, cut]).window == "step step_steady_1"
    with pytest.raises(NoSuchStep, match="step 2 is not complete"):
        per_op_report([whole, cut], ReportOptions(step=2))


def test_a_cut_window_is_the_same_as_one_out_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ReportOptions(
        start_signpost="step_compile_end", end_signpost="step_steady_2_end", print_signposts=True
    )
    whole = per_op_report(TRAINING, options)
    loaded: list[object] = []
    monkeypatch.setattr(module, "WHOLE_FILE_BYTES", 0)
    monkeypatch.setattr(module.Files, "everything", loaded.append)
    cut = per_op_report(TRAINING, options)
    assert loaded == []
    np.testing.assert_equal(list(cut.ops.records()), list(whole.ops.records()))
    assert cut.window == whole.window
    assert cut.ops["is_signpost"].sum() == 3


def test_ids_survive_filters_and_the_first_gap_goes() -> None:
    report = per_op_report(TRAINING, ReportOptions(id_range="28-30"))
    assert report.ops["id"].tolist() == [28, 29, 30]
    assert np.isnan(report.ops["gap_us"]).tolist() == [True, False, False]
    assert report.ops["total_percent"].sum() == pytest.approx(100.0)


def test_an_id_range_without_an_op_names_the_ids() -> None:
    with pytest.raises(BadOption, match="the IDs run from 26 to 34"):
        per_op_report(TRAINING, ReportOptions(id_range="900-"))


def test_minor_ops_are_marked_not_hidden() -> None:
    report = per_op_report(TRAINING, ReportOptions(min_percentage=5.0))
    assert len(report.ops) == 9
    assert report.ops["minor"].tolist() == (report.ops["total_percent"] < 5.0).tolist()
    assert report.ops["minor"].any()


def test_gap_advice() -> None:
    gaps = per_op_report(TRAINING).gaps
    assert gaps.ids == (30, 33)
    assert gaps.saving_us == 7.5


def test_what_the_reader_must_know(tmp_path: Path) -> None:
    notes = texts(per_op_report(FIXTURES / "sub_devices.csv").notes)
    assert any("different worker grids (64, 40, 24 cores)" in note for note in notes)
    assert any("--active-experts" in note for note in notes)
    (note,) = per_op_report(write(tmp_path / "x.csv", op(), op(us=None))).notes
    assert "1 op has no valid device duration" in note.message


def test_bad_options_are_refused() -> None:
    for options in (ReportOptions(active_experts=0), ReportOptions(arch="quasar")):
        with pytest.raises(BadOption):
            per_op_report(TRAINING, options)


def test_an_empty_window_is_an_error(tmp_path: Path) -> None:
    rows = [signpost("pass"), op(), signpost("done")]
    with pytest.raises(EmptyWindow, match="1 ops and 2 signposts"):
        per_op_report(write(tmp_path / "x.csv", *rows))
    options = ReportOptions(start_signpost="step_steady_1_end", end_signpost="step_compile_start")
    with pytest.raises(EmptyWindow, match="after 'step_steady_1_end', before 'step_compile"):
        per_op_report(TRAINING, options)


def test_a_file_with_quotes_is_read_as_a_whole() -> None:
    report = per_op_report(FIXTURES / "locations.csv")
    assert report.window == "step step_steady_1"
    assert report.ops["location"].tolist()[0] == 'loc("train.py":14:5)'


def test_host_ops_and_devices(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", op(), host_op(), matmul(64, 64, 64, 5.0))
    assert per_op_report(path).ops["is_host"].sum() == 1
    assert len(per_op_report(path, ReportOptions(no_host_ops=True)).ops) == 2
    devices = FIXTURES / "two_devices_v1.csv"
    assert len(per_op_report(devices).ops) == 5
    report = per_op_report(devices, ReportOptions(no_merge_devices=True))
    assert len(report.ops) == 10
    devices = Groups(report.stacked["device_id"])
    assert devices.sums(report.stacked["percent"]).tolist() == pytest.approx([100] * 2)


def test_a_folder_is_what_it_is_to_a_summary(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="not the folder of a run"):
        per_op_report(tmp_path)
    (tmp_path / "run.json").write_text('{"profiler": "torch"}')
    with pytest.raises(NotAnOpsFile, match="holds no ops_perf_results"):
        per_op_report(tmp_path)
    (tmp_path / "tracy_perf").mkdir()
    picked = write(tmp_path / "tracy_perf" / "ops_perf_results.csv", op())
    assert len(per_op_report(tmp_path).ops) == 1
    older, newer = (tmp_path / f"ops_perf_results_{n}.csv" for n in (1, 2))
    write(older, op(), op())
    write(newer, op(), op(), op())
    assert len(per_op_report(tmp_path).ops) == 1, "that by which the run was analysed"
    picked.unlink()
    report = per_op_report(tmp_path)
    assert len(report.ops) == 3 and f"read {newer.name}" in texts(report.notes)[-1]
