"""A run folder, or a bare log, as a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instrumentor_analysis.kernels.report import SCHEMA, read_records, report, report_of_log
from instrumentor_analysis.shared.errors import DamagedFile, NothingMeasured
from tests.analysis.kernels.printed import AUTO, DEVICE_LOG, PERF


def folder(path: Path, log: str = PERF, run: dict[str, object] | None = None) -> Path:
    path.mkdir(exist_ok=True)
    (path / "run.log").write_text(log, encoding="utf-8")
    (path / "run.json").write_text(json.dumps(run or {"kernel": "__demo_kernel"}), encoding="utf-8")
    return path


def test_the_document(tmp_path: Path) -> None:
    document = report(folder(tmp_path / "r")).to_json()
    assert document["schema"] == SCHEMA
    assert document["wall_time_us"] == pytest.approx(2225436 / 1350)
    assert (document["cores_used"], document["cores_available"]) == (56, 64)
    assert document["core_utilization"] == pytest.approx(56 / 64)
    assert document["bottleneck"]["kind"] == "unused-cores"
    assert document["bottleneck"]["goal_text"] == "use all cores"
    assert json.loads(json.dumps(document)) == document


def test_the_device_log_stands_in_for_a_summary(tmp_path: Path) -> None:
    place = folder(tmp_path / "r", "the script's own words")
    (place / "profile_log_device.csv").write_text(DEVICE_LOG, encoding="utf-8")
    found = report(place)
    assert found.wall_us == 0.5


def test_a_bare_log(tmp_path: Path) -> None:
    path = tmp_path / "mine.log"
    path.write_text(AUTO, encoding="utf-8")
    assert len(report_of_log(path).facts.log.threads) == 2


@pytest.mark.parametrize(
    ("words", "remedy"),
    [("[Auto-profile] TT_METAL_HOME not set, cannot", "TT_METAL_HOME"), ("hello", "run.log")],
)
def test_nothing_printed_says_why(tmp_path: Path, words: str, remedy: str) -> None:
    with pytest.raises(NothingMeasured) as caught:
        report(folder(tmp_path / "r", words))
    assert remedy in caught.value.hint


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match=r"no run\.log"):
        report(tmp_path)
    with pytest.raises(NothingMeasured, match="cannot be read"):
        report_of_log(tmp_path / "absent.log")


def test_a_damaged_device_log_is_a_typed_error(tmp_path: Path) -> None:
    place = folder(tmp_path / "r")
    (place / "profile_log_device.csv").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(DamagedFile):
        report(place)


def test_broken_facts_and_records_are_survived(tmp_path: Path) -> None:
    place = folder(tmp_path / "r")
    (place / "run.json").write_text("{", encoding="utf-8")
    (place / "kernel.jsonl").write_text('{"event": "load"}\n[1]\n{"eve', encoding="utf-8")
    assert report(place).facts.kernel == ""
    assert read_records(place / "kernel.jsonl") == [{"event": "load"}]
