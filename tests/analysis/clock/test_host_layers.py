"""tt-crank's zones as layers of a step's host time."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor_analysis.clock.host_layers import (
    ZONES,
    Zone,
    host_layers,
    layers_of_steps,
    read_zones,
)
from instrumentor_analysis.load.scan import Signpost
from instrumentor_analysis.model import HostLayer
from instrumentor_analysis.ops.window import StepMarks
from instrumentor_analysis.reports.summary import markdown
from instrumentor_analysis.shared.errors import DamagedFile
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.ops_rows import op, step, text
from tests.analysis.records import run_folder

EXPORT = """\
name,src_file,src_line,zone_name,zone_text,ns_since_start,exec_time_ns,thread,value,special_parent_text
TT_DNN_DEVICE_OP,a.cpp,1,,"Add, {""x"": 1}",1000,50,7,,
tt_crank::ttir_to_ttnn_pipeline,compile.cpp,2,,,1000,400,7,,
tt_kurbla::ExecutionPayload::run,execution_payload.cpp,3,,,2000,300,8,,
tt_crank::cut short
"""


def zone(name: str, start_ns: int, end_ns: int, thread: str = "7") -> Zone:
    return Zone(name, thread, start_ns, end_ns)


def test_the_zones_of_an_export(tmp_path: Path) -> None:
    path = tmp_path / "tracy_ops_times.csv"
    path.write_text(EXPORT)
    assert read_zones(path) == (
        zone("ttir_to_ttnn_pipeline", 1000, 1400),
        zone("ExecutionPayload::run", 2000, 2300, "8"),
    )
    path.write_text(
        f"{EXPORT}tt_crank::run,a,1,,,x,5,7,,\ntt_crank::run,a,1,,,5,{'9' * 5000},7,,\n"
    )
    assert len(read_zones(path)) == 2
    path.write_text(f"{EXPORT}tt_crank::run{'x' * 200_000},a,1,,,1,5,7,,\n")
    with pytest.raises(DamagedFile, match="field larger than"):
        read_zones(path)
    path.write_text("name,ns\ntt_crank::run,5\n")
    assert read_zones(path) == ()
    path.write_text("")
    assert read_zones(path) == ()


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("ttir_to_ttnn_pipeline", "compile"),
        ("ttnn_to_flatbuffer", "compile"),
        ("ExecutionPayload::run", "run"),
        ("to_host", "other"),
    ],
)
def test_the_layer_of_a_zone(name: str, layer: str) -> None:
    assert zone(name, 0, 1).layer == layer


def test_time_is_each_layers_own_and_of_the_window_alone() -> None:
    zones = [
        zone("run", 100, 1100),
        zone("compile", 200, 500),
        zone("run", 250, 300),  # within the compilation
        zone("run", 100, 400, thread="8"),
        zone("to_host", 1100, 1150),
        zone("run", 5000, 9000),  # of another step
    ]
    layers = {layer.name: layer for layer in host_layers(zones, [(0, 2000)])}
    assert layers["compile"] == HostLayer("compile", 250e-6, 1, ("compile",))
    assert layers["run"] == HostLayer("run", (700 + 50 + 300) / 1e6, 3, ("run",))
    assert layers["other"].time_ms == 50e-6
    whole = 1000 + 300 + 50
    assert sum(layer.time_ms for layer in layers.values()) == pytest.approx(whole / 1e6)


def test_zones_of_tt_metal_are_sorted_into_buckets(tmp_path: Path) -> None:
    names = {
        "JitBuildState::build": "compile",
        "BuildKernel": "compile",
        "EnqueueProgramImpl": "dispatch_host",
        "tt::tt_metal::HWCommandQueue::finish": None,
        "CommandQueue::enqueue_write_buffer": "dispatch_host",
        "ReplayTrace": "trace",
        "TT_DNN_DEVICE_OP": None,
    }
    head = EXPORT.splitlines()[0]
    rows = (f"{name},a.cpp,1,,,{at * 100},50,7,," for at, name in enumerate(names))
    (tmp_path / ZONES).write_text("\n".join([head, *rows]) + "\n")
    found = read_zones(tmp_path / ZONES)
    assert {each.name: each.layer for each in found} == {k: v for k, v in names.items() if v}
    layers = host_layers(found, [(0, 1000)])
    assert [(each.of, each.name, each.count) for each in layers] == [
        ("tt-metal", "compile", 2),
        ("tt-metal", "dispatch_host", 2),
        ("tt-metal", "trace", 1),
    ]


def test_a_zone_of_tt_metal_within_one_of_tt_crank_counts_once() -> None:
    inner = Zone("EnqueueProgram", "7", 200, 500, "tt-metal")
    crank, metal = host_layers([zone("run", 100, 1100), inner], [(0, 2000)])
    assert (crank.time_ms, metal.time_ms) == (700e-6, 300e-6)


def test_several_steps_are_their_mean_and_what_is_not_there_is_absent() -> None:
    zones = [zone("run", 0, 100), zone("run", 1000, 1300)]
    assert host_layers(zones, [(0, 500), (1000, 1500)]) == (HostLayer("run", 2e-4, 1, ("run",)),)
    assert host_layers([], [(0, 1)]) == ()


def test_steps_whose_end_nobody_timed_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / ZONES
    path.write_text(EXPORT)

    def marks(start_ns: int | None, end_ns: int | None) -> StepMarks:
        start, end = (Signpost("s", 1, 0, 1, host_ns) for host_ns in (start_ns, end_ns))
        return StepMarks("s", start, end)

    odd = [marks(900, None), marks(None, 2400), replace(marks(900, 2400), end=None)]
    assert layers_of_steps(path, odd) == ()
    (compile_layer, run) = layers_of_steps(path, [*odd, marks(900, 2400)])
    assert (compile_layer.count, run.count) == (1, 1)
    assert layers_of_steps(None, [marks(900, 2400)]) == ()


def test_steps_that_overlap_hold_a_zone_once() -> None:
    zones = [zone("pipeline::a", at, at + 1) for at in (5, 15, 25, 35)]
    (found,) = host_layers(zones, [(20, 30), (0, 10), (8, 20), (22, 24)])
    assert found.count == 3 / 4


@pytest.mark.usefixtures("no_hang")
def test_many_zones_of_many_steps() -> None:
    many = 60_000
    zones = [zone("pipeline::a", at, at + 1) for at in range(many)]
    (found,) = host_layers(zones, [(2 * at, 2 * at + 1) for at in range(many)])
    assert found.count == 0.5


def test_a_report_shows_them(tmp_path: Path) -> None:
    rows = text(step("step_steady_1", [op(us=5.0), op(us=6.0)]))
    folder = run_folder(tmp_path, ops=rows)
    without = analyse(folder)
    assert without.summary.host_layers == ()
    start = without.device.marks[0].start.host_ns
    logs = folder / "tracy_profile" / ".logs"
    logs.mkdir(parents=True)
    head = EXPORT.splitlines()[0]
    zones = f"tt_crank::ExecutionPayload::run,x.cpp,3,,,{start},2500000,8,,"
    (logs / ZONES).write_text(f"{head}\n{zones}\n")
    summary = analyse(tmp_path).summary
    assert summary.host_layers == (HostLayer("run", 2.5, 1, ("ExecutionPayload::run",)),)
    assert summary.to_json()["host_layers"][0]["time_ms"] == 2.5
    shown = markdown(summary)
    assert "host run" in shown and "2.5" in shown and "in tt-crank, once" in shown
