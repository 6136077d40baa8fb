"""The Chrome trace: valid events, exact times, nothing invented."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import Phase, Phases
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports import perfetto
from instrumentor_analysis.reports.perfetto import DEVICE, HOST, OWNERS, STEPS, TORCH, render
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.ops_rows import FIXTURES
from tests.analysis.reports.summaries import ALL, run_folder, torch_folder, wallclock_only


def events_of(folder: Path) -> list[dict[str, Any]]:
    analysis = analyse(folder)
    document = json.loads(perfetto.render(analysis.summary, details.of(analysis)))
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def slices(events: list[dict[str, Any]], pid: int, tid: int = 1) -> list[tuple[str, float, float]]:
    return [
        (event["name"], event["ts"], event["dur"])
        for event in events
        if event["ph"] == "X" and (event["pid"], event["tid"]) == (pid, tid)
    ]


@pytest.fixture
def events(tmp_path: Path) -> list[dict[str, Any]]:
    return events_of(run_folder(tmp_path / "run"))


def test_events_are_what_the_format_asks_for(events: list[dict[str, Any]]) -> None:
    assert {event["ph"] for event in events} == {"M", "X", "i"}
    for event in events:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] >= 0
    named = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"}
    assert named == {(STEPS, "Wall clock"), (DEVICE, "Device"), (HOST, "Host dispatch")}


def test_steps_are_where_they_were_timed(events: list[dict[str, Any]]) -> None:
    assert slices(events, STEPS) == [
        ("step_compile", 0.0, 900_000.0),
        ("step_steady_1", 1_000_000.0, 5_000.0),
        ("step_steady_2", 2_000_000.0, 5_000.0),
    ]


def test_ops_and_gaps_follow_each_other(events: list[dict[str, Any]]) -> None:
    start = 2_000_000.0
    ops = slices(events, DEVICE)
    assert ops[:3] == [
        ("Matmul 32 x 1280 x 5120", start, 187.0),
        ("Matmul 512 x 1024 x 1024", start + 187.6, 60.0),
        ("LayerNormDeviceOperation", start + 487.6, 53.5),
    ]
    assert slices(events, DEVICE, 2)[:2] == [
        ("gap", start + 187.0, 0.6),
        ("gap > 6.5 us", start + 247.6, 240.0),
    ]
    # Neither an op without a time nor one on the host took any on the device.
    names = {name for name, _, _ in ops}
    assert "Unary" not in names and "(torch) aten::add" not in names
    assert len(slices(events, HOST)) == 7


def test_signposts_stand_at_both_ends(events: list[dict[str, Any]]) -> None:
    posts = [e["name"] for e in events if e["ph"] == "i" and e["pid"] == DEVICE]
    assert posts == ["step_steady_2_start", "step_steady_2_end"]
    assert [e["name"] for e in events if e["ph"] == "i" and e["pid"] == STEPS][:2] == [
        "step_compile_start",
        "step_compile_end",
    ]


def test_torch_ops_have_a_track_per_thread(tmp_path: Path) -> None:
    events = events_of(torch_folder(tmp_path / "run"))
    start = 3_000_000.0
    assert slices(events, TORCH, 1) == [
        ("aten::linear", start, 100.0),
        ("aten::addmm", start + 2.0, 90.0),
    ]
    assert slices(events, TORCH, 2) == [("AddmmBackward0", start + 190.0, 50.0)]
    assert [name for name, _, _ in slices(events, STEPS)][-1] == "step_profiled"


def test_torch_ops_have_their_module(tmp_path: Path) -> None:
    folder = torch_folder(tmp_path / "run")
    path = folder / "torch_profile" / "ops.csv"
    head, *rows = path.read_text(encoding="utf-8").splitlines()
    told = [f"{row},layers.{at},forward" for at, row in enumerate(rows[:-1])]
    path.write_text("\n".join([f"{head},module,pass", *told, f"{rows[-1]},,backward"]), "utf-8")
    found = {e["name"]: e["args"] for e in events_of(folder) if e["pid"] == TORCH and "dur" in e}
    assert found["aten::addmm"]["module"].startswith("layers.")
    assert "module" not in found["AddmmBackward0"]
    assert found["AddmmBackward0"]["pass"] == "backward"


@pytest.mark.parametrize("name", ALL)
def test_a_summary_alone_gives_its_steps(name: str) -> None:
    summary = ALL[name]()
    events = json.loads(perfetto.render(summary))["traceEvents"]
    assert len(slices(events, STEPS)) == len(summary.steps)
    assert {event["pid"] for event in events} == {STEPS}


def test_pooled_steps_stand_each_under_its_own_time(tmp_path: Path) -> None:
    analysis = analyse(run_folder(tmp_path / "run"), step="all")
    document = json.loads(perfetto.render(analysis.summary, details.of(analysis)))
    events: list[dict[str, Any]] = document["traceEvents"]
    posts = [(e["name"], e["ts"]) for e in events if e["ph"] == "i" and e["pid"] == DEVICE]
    starts = [(name, at) for name, at in posts if name.endswith("_start")]
    assert starts == [("step_steady_1_start", 1_000_000.0), ("step_steady_2_start", 2_000_000.0)]
    ops = slices(events, DEVICE)
    first = [op for op in ops if op[1] < 2_000_000.0]
    assert min(at for _, at, _ in first) == 1_000_000.0
    assert [name for name, _, _ in first] == [name for name, _, _ in ops[len(first) :]]


def test_rows_of_several_devices_are_one_track(tmp_path: Path) -> None:
    source = FIXTURES / "two_devices_v1.csv"
    analysis = analyse(source)
    merged = json.loads(perfetto.render(analysis.summary, details.of(analysis)))["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in merged
              if e["name"] == "thread_name" and e["pid"] == DEVICE}  # fmt: skip
    assert tracks == {
        1: "ops, the slowest of 2 devices", 2: "gaps, the slowest of 2 devices",
    }  # fmt: skip
    found = slices(merged, DEVICE)
    assert all(at + dur <= after for (_, at, dur), (_, after, _) in itertools.pairwise(found))
    report = per_op_report(source, ReportOptions(no_merge_devices=True))
    apart = json.loads(perfetto.render(analysis.summary, details.of(analysis, report)))
    names = [e["args"]["name"] for e in apart["traceEvents"]
             if e["name"] == "thread_name" and e["pid"] == DEVICE]  # fmt: skip
    assert names == ["ops 0", "gaps 0", "ops 1", "gaps 1"]


def test_owners_of_the_iteration_are_a_track_of_their_own() -> None:
    phases = Phases(3, 10.0, (Phase("data", 4.0, 40.0), Phase("forward", 6.0, 60.0)), 0.0)
    made = json.loads(render(replace(wallclock_only(), phases=phases)))["traceEvents"]
    assert slices(made, OWNERS) == [("data", 0.0, 4000.0), ("forward", 4000.0, 6000.0)]
    assert not slices(json.loads(render(wallclock_only()))["traceEvents"], OWNERS)
