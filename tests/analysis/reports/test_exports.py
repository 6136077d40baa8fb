"""Figures in the words of other tools: what was measured, in their units, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import Phase, Phases, Summary
from instrumentor_analysis.reports.exports import benchmark, blacksmith, openmetrics, tracked
from instrumentor_analysis.shared.errors import NothingMeasured
from instrumentor_analysis.summary.figure_table import FIGURES, value_at
from tests.analysis.reports.summaries import HOSTILE, tracy, wallclock_only

_LABELS = r'\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\}'
_SAMPLE = re.compile(rf"([a-z_:][a-z0-9_:]*)(?:{_LABELS})? (\S+)")


def samples(text: str) -> dict[str, float]:
    """Metric, with the phase where it has one, to value; a foreign line fails."""
    *lines, end = text.removesuffix("\n").split("\n")
    assert end == "# EOF"
    found: dict[str, float] = {}
    typed: set[str] = set()
    for line in lines:
        if line.startswith("# "):
            word, name, _ = line[2:].split(" ", 2)
            assert word in ("TYPE", "UNIT", "HELP")
            assert (word == "TYPE") == (name not in typed), "described once, its type first"
            typed.add(name)
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        assert name in typed
        phase = re.search(r'phase="([^"]*)"', labels or "")
        key = f"{name} {phase[1]}" if phase else name
        assert key not in found
        found[key] = float(value)
    return found


def test_every_measured_figure_is_a_metric_in_base_units() -> None:
    summary = tracy()
    found = samples(openmetrics(summary))
    measured = {each.key for each in FIGURES if value_at(summary, each.key) is not None}
    assert len(found) == len(measured) > 10
    wall = summary.wall_clock
    assert wall is not None and wall.median_ms is not None
    assert found["instrument_wall_clock_median_seconds"] == pytest.approx(wall.median_ms / 1000)
    assert summary.overhead_percent is not None
    assert found["instrument_overhead_ratio"] == pytest.approx(summary.overhead_percent / 100)
    assert found["instrument_op_count"] == summary.op_count
    assert not [name for name in found if re.search(r"_(ms|us|percent)(_|$)", name)]


def test_what_was_not_measured_is_in_none() -> None:
    text = openmetrics(wallclock_only())
    assert "device_time" not in text and "nan" not in text.lower() and "None" not in text
    names = [
        each["measurement_name"] for each in json.loads(benchmark(wallclock_only()))["measurements"]
    ]
    assert "device_time_ms" not in names and "mfu" not in names


def test_owners_are_labels_of_one_metric() -> None:
    phases = Phases(5, 10.0, (Phase("data", 4.0, 40.0), Phase("forward", 6.0, 60.0)), 0.0)
    found = samples(openmetrics(replace(wallclock_only(), phases=phases)))
    assert found["instrument_phase_seconds data"] == 0.004
    assert found["instrument_phase_seconds forward"] == 0.006


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_can_end_a_line_or_a_label(name: str) -> None:
    summary = replace(wallclock_only(), run={"script": f'{name}\n"}} 1\n# EOF', "label": name})
    assert samples(openmetrics(summary)) == samples(openmetrics(wallclock_only()))


def test_a_benchmark_of_tt_xla() -> None:
    summary = tracy()
    document = json.loads(benchmark(summary))
    assert {"project", "model_rawname", "run_type", "config", "device_info"} <= {*document}
    values = {each["measurement_name"]: each["value"] for each in document["measurements"]}
    assert values["device_time_ms"] == summary.device_time_ms
    assert all(each["step_name"] == summary.scope for each in document["measurements"])


@pytest.mark.parametrize(
    ("export", "what"),
    [
        (benchmark, "tt-xla's JSON"),
        (openmetrics, "OpenMetrics"),
        (tracked, "a tracker"),
        (blacksmith, "perf_summary.json, of a step's ops,"),
    ],
)
def test_a_run_without_figures_is_no_export(export: Callable[[Summary], object], what: str) -> None:
    with pytest.raises(NothingMeasured, match=what):
        export(Summary(profiler="wallclock"))


def test_trackers_get_seconds_by_tt_blacksmith_s_keys() -> None:
    summary = tracy()
    phases = Phases(3, 10.0, (Phase("forward", 4.0, 40.0),), 0.0)
    found = tracked(replace(summary, phases=phases))
    step_ms = value_at(summary, "wall_clock_ms.median")
    assert step_ms is not None and found.figures["instrument/wall_clock_ms.median"] == step_ms
    assert found.figures["perf/phase/forward"] == pytest.approx(0.004)
    wall = summary.wall_clock
    assert wall is not None and len(found.series) == wall.samples


def test_perf_summary_has_tt_blacksmith_s_keys_and_only_what_was_measured() -> None:
    summary = tracy()
    found = json.loads(blacksmith(summary))
    totals = found["ops"]["totals"]
    assert totals["device_kernel_ms"] == summary.device_time_ms
    assert totals["ops"] == summary.op_count and "dispatch_cq_cmd_ms" not in totals
    first = found["ops"]["top_ops_by_device_time"][0]
    assert set(first) == {
        "OP CODE", "count", "device_kernel_ms_sum", "device_kernel_us_mean", "device_kernel_pct",
    }  # fmt: skip
