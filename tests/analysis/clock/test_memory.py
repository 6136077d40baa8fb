"""What devices hold from step to step: its most, its growth, and how it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor_analysis.clock.memory import growing, memory
from instrumentor_analysis.model import Sample
from instrumentor_analysis.reports import brief
from instrumentor_analysis.reports.perfetto import render
from instrumentor_analysis.reports.summary import console
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.records import event, run_folder, steady_events

MB, GB = 10**6, 10**9


def held(*sizes: int, **more: int) -> list[Sample]:
    return [
        Sample(f"step_{at}", "steady", "fwd+bwd", 1.0, memory={"held": size, "room": GB, **more})
        for at, size in enumerate(sizes)
    ]


def test_the_most_at_the_end_of_a_step_and_the_peaks_that_were_read() -> None:
    found = memory([{"event": "resident", "bytes": 5}], held(MB, 3 * MB, 2 * MB, resident=4))
    assert found is not None
    assert (found.device_bytes, found.device_room_bytes, found.resident_bytes) == (3 * MB, GB, 5)
    assert [each.resident_bytes for each in found.samples] == [4, 4, 4]
    assert (found.l1_bytes, found.l1_room_bytes) == (None, None)  # nobody told
    beside = memory([], held(MB, 2 * MB, held_l1=7, room_l1=MB))
    assert beside is not None and (beside.l1_bytes, beside.l1_room_bytes) == (7, MB)
    assert memory([], [Sample("step_1", "steady", "step", 1.0)]) is None


@pytest.mark.parametrize(
    ("profiler", "more", "shown"),
    [
        (
            "torch",
            {"before_profiled": 380 * MB},
            "380 MB, of the process, up to the first profiled step",
        ),
        ("torch", {}, "424 MB, of the process, with torch.profiler"),  # an older record
        ("wallclock", {}, "424 MB, of the process"),
        ("tracy", {}, "424 MB, of the process, with Tracy"),
    ],
)
def test_the_peak_is_not_the_profiler_s_or_says_so(
    tmp_path: Path, profiler: str, more: dict[str, int], shown: str
) -> None:
    profiled = [event("step_profiled", 5.0) | {"event": "profiled"}] * (profiler == "torch")
    resident = {"event": "resident", "pid": 1, "bytes": 424 * MB, **more}
    events = *steady_events(*[100.0] * 7), *profiled, resident
    summary = summarise(run_folder(tmp_path / "run", *events, profiler=profiler))
    (line,) = [x for x in brief.console(summary).splitlines() if x.startswith("peak memory")]
    assert " ".join(line.split()) == f"peak memory {shown}"
    found = shown.replace(", of the process", " of the script's process")
    assert f"peak memory {found}" in " ".join(console(summary, width=120).split())


@pytest.mark.parametrize(
    ("sizes", "grows"),
    [
        ([MB * at for at in range(1, 8)], MB),
        ([MB * at for at in range(1, 6)], None),  # too few to tell
        ([1 * MB, 2 * MB, 3 * MB, 3 * MB, 4 * MB, 5 * MB, 6 * MB], None),  # not with each
    ],
)
def test_it_grows_where_each_step_leaves_more(sizes: list[int], grows: int | None) -> None:
    found = memory([], held(*sizes))
    assert found is not None and found.growth_bytes == grows
    assert bool(growing(found)) is bool(grows)


def test_the_first_steps_do_not_count() -> None:
    """Allocators settle in them."""
    settled = [replace(each, kind="warmup") for each in held(9 * MB, 9 * MB)]
    found = memory([], [*settled, *held(*(MB * at for at in range(1, 8)))])
    assert found is not None and found.growth_bytes == MB


def test_full_devices_take_no_more_steps() -> None:
    found = memory([], held(*(GB + at for at in range(7))))
    (caveat,) = growing(found)
    assert caveat.message.endswith("it is full after 0 more.")


def test_a_growth_is_told_with_when_the_devices_are_full(tmp_path: Path) -> None:
    events = steady_events(*[100.0] * 7)
    for at, each in enumerate(events):
        each["memory"] = {"resident": 9 * MB, "held": (at + 1) * MB, "room": 64 * MB, "held_l1": at}
    summary = summarise(run_folder(tmp_path / "run", *events, profiler="wallclock"))
    (caveat,) = [each for each in summary.warnings if each.code == "W221"]
    assert "by 1.0 MB with each step: it is full after 57 more" in caveat.message
    text = " ".join(console(summary, width=120).split())
    assert "device memory 7.0 MB the most at the end of a step" in text
    assert "total device memory 64.0 MB" in text
    counters = [e for e in json.loads(render(summary))["traceEvents"] if e["ph"] == "C"]
    told = [e["args"]["B"] for e in counters if e["name"] == "memory of the devices"]
    assert told == [at * MB for at in range(1, 8)]
    assert [e["args"]["B"] for e in counters if e["name"].endswith("L1")] == [*range(7)]
    # Each at the end of its step.
    assert [e["ts"] for e in counters[:2]] == [100_000.0, 100_000.0]
