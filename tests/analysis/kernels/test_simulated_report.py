"""A simulated run's folder as a report: its floor is a model, and no time is anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.kernels.report import report, report_of_log
from instrumentor_analysis.kernels.simulated_report import SimulatedReport, simulated_report
from instrumentor_analysis.reports import kernel
from instrumentor_analysis.shared.errors import BadOption, NothingMeasured
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.kernels.counted import changed, folder_with


def test_a_folder_is_read_for_what_it_is(tmp_path: Path) -> None:
    found = report(folder_with(tmp_path, changed()))
    assert isinstance(found, SimulatedReport)
    document = found.to_json()
    assert document["simulated"] and document["wall_time_us"] is None
    assert document["dram_bytes"] == 32768 and document["matrix_flops"] == 4 * 32**3


def test_the_floor_is_of_the_named_chip_and_of_whole_runs(tmp_path: Path) -> None:
    wormhole = simulated_report(folder_with(tmp_path, changed())).floor
    assert wormhole is not None and wormhole.bound == "memory"
    assert wormhole.dram_us == pytest.approx(32768 / 288e3)
    assert wormhole.compute_us == pytest.approx(4 * 32**3 / (2 * 74 / 72) / 1e6)
    blackhole = simulated_report(folder_with(tmp_path, changed(), arch="blackhole")).floor
    assert blackhole is not None and blackhole.dram_us < wormhole.dram_us
    assert simulated_report(folder_with(tmp_path, changed(complete=False))).floor is None
    with pytest.raises(BadOption):
        simulated_report(folder_with(tmp_path, changed(), arch="z80"))


def test_of_a_part_of_a_run_no_limit_is_told(tmp_path: Path) -> None:
    part = kernel.console(simulated_report(folder_with(tmp_path, changed(complete=False))))
    assert "not known: the run ended before the kernel did" in part and "none found" not in part


def test_devices_that_are_run_as_one_are_said(tmp_path: Path) -> None:
    document = changed()
    document["tensors"]["a"]["devices"] = 4
    assert "4 devices" in simulated_report(folder_with(tmp_path, document)).warnings[-1]


def test_text_and_page_show_counts_and_call_the_floor_a_model(tmp_path: Path) -> None:
    found = simulated_report(folder_with(tmp_path, changed()))
    text = kernel.console(found, width=140)
    assert "counts of tt-lang's simulator, no times" in text and "a model, no time" in text
    assert "a_dfb (line 6)  read -> compute" in text and "on the device" not in text
    page = kernel.html(found)
    assert "a model, no time" in page and "small-grid" not in page


@pytest.mark.parametrize(
    ("more", "run", "words"),
    [
        ({}, {}, "RESULT NOT CHECKED"),
        ({}, {"own_check": 67}, "right by the script's own check (line 67)"),
        ({}, {"own_check": 67, "script_exit_code": 1}, "RESULT NOT CHECKED"),
        ({}, {"validation": {"ok": True, "by": "pytest"}}, "right by pytest"),
        ({}, {"validation": {"ok": False, "by": "pytest"}}, "WRONG by pytest"),
        ({"complete": False}, {}, "not at its end"),
        ({"arithmetic": False}, {}, "result not computed"),
        ({"problem": {"kind": "deadlock"}}, {}, "DEADLOCK"),
    ],
)
def test_the_heading_says_whether_it_is_right(
    tmp_path: Path, more: dict[str, object], run: dict[str, object], words: str
) -> None:
    found = simulated_report(folder_with(tmp_path, changed(**more), **run))
    assert words in kernel.console(found).splitlines()[0]


def test_the_log_of_a_run_is_read_with_its_folder(tmp_path: Path) -> None:
    log = folder_with(tmp_path, changed()) / "run.log"
    log.write_text("what the script printed")
    found = report_of_log(log)
    assert isinstance(found, SimulatedReport) and found.folder == tmp_path
    other = tmp_path / "other.log"
    other.write_text("what the script printed")
    with pytest.raises(NothingMeasured):
        report_of_log(other)


def test_what_is_not_right_is_in_the_heading_and_before_the_counts(tmp_path: Path) -> None:
    document = changed(l1_bytes=2_932_736)
    found = simulated_report(folder_with(tmp_path, document, tensors=["a", "y", "z"]))
    text = kernel.console(found, width=80)
    assert "DOES NOT FIT" in text.splitlines()[0] and found.wrong is not None
    assert text.index("\nCorrectness\n  z is never") < text.index("\nTensors\n")
    assert max(map(len, text.splitlines())) <= 80


def test_of_one_node_that_works_there_is_no_least_busy(tmp_path: Path) -> None:
    document = changed(grid=[3, 1])
    document["copies"] = [row for row in document["copies"] if row[0] == 0]
    document["blocks"] = [row for row in document["blocks"] if row[0] == 0]
    text = kernel.console(simulated_report(folder_with(tmp_path, document)))
    assert "busiest" in text and "least busy" not in text and "2 nodes" in text


def test_the_report_of_training_names_that_of_kernels(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, changed(), schema="instrument-kernel-run/1")
    with pytest.raises(NothingMeasured) as caught:
        summarise(folder)
    assert f"instrument kernel report {folder}" in caught.value.hint


def test_a_result_that_nothing_checks_is_warned_of(tmp_path: Path) -> None:
    said = "nothing checks the result"
    assert said in simulated_report(folder_with(tmp_path, changed())).warnings[0]
    for checked in ({"own_check": 67}, {"validation": {"ok": False, "by": "pytest"}}):
        assert not simulated_report(folder_with(tmp_path, changed(), **checked)).warnings
