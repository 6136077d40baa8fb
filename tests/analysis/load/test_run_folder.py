"""What a path holds: a run, Tracy's reports, or a lone ops CSV."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instrumentor_analysis.load.run_folder import open_run
from instrumentor_analysis.shared.errors import NothingMeasured
from tests.attackers import shared_tmp, without_rights
from tests.warned import texts

__all__ = ["shared_tmp"]

STAMPS = ("2026_01_05_10_20_30", "2026_01_06_10_20_30")


def put(path: Path) -> Path:
    """An ops CSV that nobody reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("OP CODE\n", encoding="utf-8")
    return path


def test_a_lone_csv_is_what_was_read(tmp_path: Path) -> None:
    path = put(tmp_path / "trace.csv")
    # A run that bears its name is none of its own.
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "timings.jsonl").write_text("")
    found = open_run(path)
    assert (found.is_run, found.ops_csv, found.profiler) == (False, path, "tracy")
    assert not found.timings.is_file()
    assert found.run == {"ops": str(path)}


def test_several_hosts_are_named_one_by_one(tmp_path: Path) -> None:
    paths = [put(tmp_path / name) for name in ("a.csv", "b.csv")]
    assert open_run(*paths).run == {"ops": [str(path) for path in paths]}


def test_a_run_says_of_itself_what_it_is(tmp_path: Path) -> None:
    picked = put(tmp_path / "tracy_perf" / "ops_perf_results.csv")
    put(tmp_path / "ops_perf_results.csv")
    told = {"label": "bf16", "chosen": ["--region", "train.py:3-9"]}
    (tmp_path / "run.json").write_text(json.dumps({**told, "nonsense": 1}))
    found = open_run(tmp_path)
    expected = {**told, "name": tmp_path.name}
    assert (found.is_run, found.run, found.warnings) == (True, expected, ())
    assert found.ops_csv == picked


def test_of_several_csvs_of_a_report_the_last_is_taken_and_said(tmp_path: Path) -> None:
    put(tmp_path / "ops_perf_results_a.csv")
    last = put(tmp_path / "ops_perf_results_b.csv")
    found = open_run(tmp_path)
    assert found.run == {"ops": str(last)}
    assert texts(found.warnings) == [f"2 ops CSVs in {tmp_path}: read {last.name}"]


@pytest.mark.parametrize("name", ["", "resnet/"])
def test_the_newest_report_below_is_taken_and_said(tmp_path: Path, name: str) -> None:
    # By the time in their names: that of the file is lost when it is copied.
    new, old = (
        put(tmp_path / "out" / "reports" / f"{name}{stamp}" / "ops_perf_results.csv")
        for stamp in reversed(STAMPS)
    )
    for source in (tmp_path / "out", tmp_path / "out" / "reports", old.parent.parent):
        found = open_run(source)
        assert (found.path, found.ops_csv) == (new.parent, new)
        said = f"2 reports below {source}: read the newest, {new.parent}"
        assert texts(found.warnings) == [said]
    assert texts(open_run(old.parent).warnings) == []


def test_one_report_below_is_nothing_to_warn_of(tmp_path: Path) -> None:
    path = put(tmp_path / "reports" / STAMPS[0] / "ops_perf_results.csv")
    (tmp_path / "reports" / STAMPS[1]).mkdir()
    found = open_run(tmp_path / "reports")
    assert (found.ops_csv, found.warnings) == (path, ())


def test_any_other_folder_of_csvs_is_no_trace(tmp_path: Path) -> None:
    put(tmp_path / "visualizer" / "ops_perf_results.csv")
    with pytest.raises(NothingMeasured, match="not the folder of a run"):
        open_run(tmp_path)


def test_a_link_that_leads_nowhere_or_around_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "around").symlink_to("around")
    for name in ("gone", "around"):
        with pytest.raises(NothingMeasured, match=r"is a broken link to \w+"):
            open_run(tmp_path / name)


def test_a_run_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    missing = tmp_path / "train_baseline"
    with pytest.raises(NothingMeasured) as nothing:
        open_run(missing)
    assert nothing.value.hint == "Give the folder of an earlier run."
    nothing_timed = {"samples": 0, "compile": None}
    for name, summary in {
        "mnist_bf16": {"wall_clock_ms": {"samples": 2, "compile": None}},
        "instrument-runs/fresh_baseline": {"op_count": 3},
        "train_failed": {"wall_clock_ms": nothing_timed, "op_count": None},
        "train_crashed": {"wall_clock_ms": None, "op_count": None},
        "train_killed": None,
        "other": {"op_count": 3},
    }.items():
        (tmp_path / name).mkdir(parents=True)
        if name != "other":
            (tmp_path / name / "run.json").write_text("{}")
        if summary is not None:
            (tmp_path / name / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(NothingMeasured) as known:
        open_run(missing)
    found = f"{tmp_path / 'instrument-runs/fresh_baseline'}, {tmp_path / 'mnist_bf16'}"
    assert known.value.hint == f"Give the folder of an earlier run: {found}."


def test_facts_that_may_not_be_read_are_not_passed_over(shared_tmp: Path) -> None:
    """They may say that what was timed is not the step."""
    (shared_tmp / "timings.jsonl").write_text("")
    facts = shared_tmp / "run.json"
    facts.write_text("{}")
    facts.chmod(0)

    def read() -> None:
        with pytest.raises(NothingMeasured, match=r"run\.json: cannot be read: Permission") as no:
            open_run(shared_tmp)
        assert "ls -l" in no.value.hint

    without_rights(read)
