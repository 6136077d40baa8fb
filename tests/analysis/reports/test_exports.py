"""Figures in the words of other tools: what was measured, in their units, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import Interval, Iteration, Phase, Phases, Summary, Update
from instrumentor_analysis.reports.exports import benchmark, blacksmith, openmetrics, tracked
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.errors import NothingMeasured
from instrumentor_analysis.summary.figure_table import FIGURES, value_at
from tests.analysis.reports.summaries import HOSTILE, tracy, wall, wallclock_only

_LABELS = r'\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\}'
_SAMPLE = re.compile(rf"([a-z_:][a-z0-9_:]*)(?:{_LABELS})? (\S+)")


def samples(text: str) -> dict[str, float]:
    """Metric, with what tells its samples apart, to value; a foreign line fails."""
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
        apart = re.search(r'(?:phase|bound|code)="([^"]*)"', labels or "")
        key = f"{name} {apart[1]}" if apart else name
        assert key not in found
        found[key] = float(value)
    return found


def test_every_measured_figure_is_a_metric_in_base_units() -> None:
    summary = tracy()
    found = samples(openmetrics(summary))
    measured = {each.key for each in FIGURES if value_at(summary, each.key) is not None}
    told = re.compile(r"_(interval_seconds (low|high)|samples)$|^instrument_(trusted|warning)\b")
    assert len([name for name in found if not told.search(name)]) == len(measured) > 10
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


def test_the_figure_goes_with_its_interval_and_the_number_of_its_samples() -> None:
    update = Update(4, 9, 88.0, Interval(80.0, 90.0))
    whole = Iteration(36, 22.0, 20.0, 25.0, Interval(21.0, 24.0), update=update)
    main = replace(wall(), iteration=whole)
    found = samples(openmetrics(replace(wallclock_only(), wall_clock=main, untraced=wall())))
    clock = "instrument_wall_clock"
    assert main.median_interval_ms is not None
    assert found[f"{clock}_interval_seconds low"] == main.median_interval_ms.low / 1e3
    assert found[f"{clock}_interval_seconds high"] == main.median_interval_ms.high / 1e3
    assert found[f"{clock}_iteration_interval_seconds high"] == 0.024
    assert found[f"{clock}_iteration_update_interval_seconds low"] == 0.08
    counts = {name: n for name, n in found.items() if name.endswith("_samples")}
    assert counts == {
        f"{clock}_samples": main.samples,
        f"{clock}_iteration_samples": 36,
        f"{clock}_iteration_update_samples": 9,
        "instrument_untraced_wall_clock_samples": main.samples,
    }


def test_a_median_without_an_interval_has_none() -> None:
    few = replace(wallclock_only(), wall_clock=replace(wall(), median_interval_ms=None))
    assert not [name for name in samples(openmetrics(few)) if "interval" in name]


def test_every_export_says_whether_its_figures_are_to_be_trusted() -> None:
    quiet = wallclock_only()
    note, caution = Caveat("no-split", "it does not", "note"), Caveat("outlier", "one step")
    busy = Caveat("busy-machine", "others", "wrong")
    found = samples(openmetrics(quiet))
    assert found["instrument_trusted"] == 1
    assert not [name for name in found if name.startswith("instrument_warning")]
    doubtful = samples(openmetrics(replace(quiet, warnings=(note, caution, caution))))
    assert doubtful["instrument_trusted"] == 1, "the figures mean less, and are right"
    assert [name for name in doubtful if "warning" in name] == ["instrument_warning W205"]
    wrong = replace(quiet, warnings=(caution, note, busy))
    text = openmetrics(wrong)
    assert samples(text)["instrument_trusted"] == 0
    assert samples(text)["instrument_warning W201"] == 1
    assert 'code="W201",level="wrong"} 1' in text
    config = json.loads(benchmark(wrong))["config"]
    assert (config["trusted"], config["warnings"]) == (False, ["W201", "W205"])
    assert tracked(wrong).figures["instrument/trusted"] == 0
    assert tracked(wrong).facts["warnings"] == "W201 W205"
    assert tracked(quiet).figures["instrument/trusted"] == 1
    assert "warnings" not in tracked(quiet).facts


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
