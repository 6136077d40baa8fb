"""Figures of a run in the words of other tools: a dashboard, tt-xla's benchmarks.

They are made of the figures that :mod:`..summary.figure_table` declares. A figure that was not
measured is in none of them; a run without any is an error. Whoever reads only one of these files
learns there whether the figures are to be trusted, and what the run warned of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from instrumentor_analysis.model import Interval, Summary, WallClock
from instrumentor_analysis.shared import units
from instrumentor_analysis.shared.caveats import by_weight
from instrumentor_analysis.shared.errors import NothingMeasured
from instrumentor_analysis.summary.figure_table import CLOCK, FIGURES, UNTRACED, Figure, value_at

#: Ends of keys that say a unit, which the name of a metric says in its own way.
_SAID = re.compile(r"_(ms|us|percent|bytes|w|j|(samples|tokens)_per_s)(?=_|$)|(?<=_)tflops$")
#: tt-xla's benchmarks: what is measured there, and the figure that it is here.
_BENCHMARK = {
    "step_time_ms": f"{CLOCK}iteration.median_ms",
    "samples_per_sec": f"{CLOCK}iteration.samples_per_s",
    "tokens_per_sec": f"{CLOCK}iteration.tokens_per_s",
    "compile_time_ms": f"{CLOCK}compile",
    "device_time_ms": "device_time_ms",
    "mfu": f"{CLOCK}mfu.percent",
    "hfu": f"{CLOCK}mfu.hfu_percent",
}
#: What trackers of experiments show, by the keys of tt-blacksmith: the figure, and what its unit is
#: there: seconds; MFU and HFU in percent.
_TRACKED = {
    "perf/step_time": (f"{CLOCK}iteration.median_ms", 1e-3),
    "perf/samples_per_sec": (f"{CLOCK}iteration.samples_per_s", 1.0),
    "perf/tokens_per_sec": (f"{CLOCK}iteration.tokens_per_s", 1.0),
    "perf/tflops": (f"{CLOCK}mfu.tflops", 1.0),
    "perf/mfu": (f"{CLOCK}mfu.percent", 1.0),
    "perf/hfu": (f"{CLOCK}mfu.hfu_percent", 1.0),
}


def _measured(summary: Summary) -> Iterator[tuple[Figure, float]]:
    """Each declared figure once, with its value, where it was measured.

    FLOPs of the first sample alone are left out: no word stands beside a figure here.
    """
    mfu = None if summary.wall_clock is None else summary.wall_clock.mfu
    seen = {f"{CLOCK}mfu.flops_per_sample"} if mfu is not None and mfu.tflops is None else set()
    for figure in FIGURES:
        value = value_at(summary, figure.key)
        if value is not None and figure.key not in seen:
            seen.add(figure.key)
            yield figure, value


def _found(values: Mapping[str, float | None], what: str) -> dict[str, float]:
    """Those that were measured.

    Raises:
        NothingMeasured: there is none for `what`.
    """
    found = {name: value for name, value in values.items() if value is not None}
    if not found:
        raise NothingMeasured(f"nothing was measured that {what} could hold")
    return found


def openmetrics(summary: Summary) -> str:
    """OpenMetrics text, as a Prometheus server or a textfile collector reads it: gauges.

    Times are in seconds and shares are ratios, as the format asks for; what owns the iteration is
    one metric with a label for each owner. With the figures go the ends of their intervals, how
    many samples they are of, whether they are to be trusted, and the warnings by their codes.
    """
    labels = _labels(summary)
    lines: list[str] = []
    for figure, value in _measured(summary):
        unit, factor = units.BASE[figure.unit]
        name = _metric(figure.key, unit)
        about = ", ".join(filter(None, (figure.name.replace("{label}", "region"), figure.about)))
        lines += [*_head(name, unit, about), f"{name}{_braces(labels)} {value * factor:.12g}"]
    if summary.phases is not None and summary.phases.busy is None:
        name = "instrument_phase_seconds"
        lines += _head(name, "seconds", "time of each phase of an iteration")
        for each in summary.phases.phases:
            lines.append(f"{name}{_braces({**labels, 'phase': each.name})} {each.ms / 1e3:.12g}")
    if not lines:
        raise NothingMeasured("nothing was measured that OpenMetrics text could hold")
    lines += [*_certainty(summary, labels), *_trust(summary, labels)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _certainty(summary: Summary, labels: Mapping[str, str]) -> Iterator[str]:
    """The intervals of the medians, and how many samples each of them is of."""
    for key, count, interval in (
        *_medians(CLOCK, summary.wall_clock),
        *_medians(UNTRACED, summary.untraced),
    ):
        name = _metric(f"{key}.samples", "")
        yield from _head(name, "", "steady samples that the figures are of")
        yield f"{name}{_braces(labels)} {count}"
        if interval is not None:
            name = _metric(f"{key}.interval", "seconds")
            about = f"ends of the {interval.confidence:.0%} interval of the median"
            yield from _head(name, "seconds", about)
            for bound, ms in (("low", interval.low), ("high", interval.high)):
                yield f"{name}{_braces({**labels, 'bound': bound})} {ms / 1e3:.12g}"


def _medians(key: str, wall: WallClock | None) -> Iterator[tuple[str, int, Interval | None]]:
    """Of a clock: the timed region, the iteration and the update, as far as they have a median."""
    if wall is None:
        return
    yield key.rstrip("."), wall.samples, wall.median_interval_ms
    whole = wall.iteration
    if whole is not None:
        yield f"{key}iteration", whole.count, whole.median_interval_ms
        if whole.update is not None and whole.update.ms is not None:
            yield f"{key}iteration.update", whole.update.count, whole.update.interval_ms


def _trust(summary: Summary, labels: Mapping[str, str]) -> Iterator[str]:
    name = "instrument_trusted"
    yield from _head(name, "", "1, or 0 where a warning says that figures may be wrong")
    yield f"{name}{_braces(labels)} {int(_trusted(summary))}"
    warned = _warned(summary)
    if warned:
        name = "instrument_warning"
        yield from _head(name, "", "1 for each code of a warning; notes are left out")
        for code, level in warned.items():
            yield f"{name}{_braces({**labels, 'code': code, 'level': level})} 1"


def _trusted(summary: Summary) -> bool:
    """Whether no warning says that figures may be wrong."""
    return all(each.weight != "wrong" for each in summary.warnings)


def _warned(summary: Summary) -> dict[str, str]:
    """The codes of the warnings, the heaviest first, each with its level."""
    levels: dict[str, str] = {}
    for each in by_weight(summary.warnings, notes=False):
        if each.code:
            levels.setdefault(each.code, each.weight)
    return levels


def _head(name: str, unit: str, about: str) -> list[str]:
    unit_line = [f"# UNIT {name} {unit}"] if unit else []
    return [f"# TYPE {name} gauge", *unit_line, f"# HELP {name} {_escaped(about)}"]


def _metric(key: str, unit: str) -> str:
    words = _SAID.sub("", key.replace(".", "_").replace("wall_clock_ms_", "wall_clock_"))
    return "_".join(filter(None, ("instrument", words.strip("_"), unit)))


def _labels(summary: Summary) -> dict[str, str]:
    """What a run is told apart by: its script, variant, what was timed, the chip."""
    run = summary.run
    named = {
        "script": run.get("script"),
        "variant": run.get("label"),
        "scope": summary.scope,
        "architecture": summary.architecture,
    }
    return {name: str(value) for name, value in named.items() if value}


def _braces(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(text: str) -> str:
    """Text of a label or a help, as the format escapes it; without other control characters."""
    plain = "".join(each for each in text if each == "\n" or each.isprintable())
    return plain.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def benchmark(summary: Summary) -> str:
    """The JSON of tt-xla's benchmarks; ``device_power`` and the like are absent: not measured."""
    run = summary.run
    step = summary.scope or "step"
    values = _found(
        {name: value_at(summary, key) for name, key in _BENCHMARK.items()}, "tt-xla's JSON"
    )
    document = {
        "project": "instrumentor",
        "model_rawname": run.get("name") or run.get("script"),
        "run_type": step,
        "config": {
            **{key: run[key] for key in ("arguments", "batch_size", "label") if key in run},
            "trusted": _trusted(summary),
            "warnings": list(_warned(summary)),
        },
        "device_info": {"arch": summary.architecture} if summary.architecture else {},
        "measurements": [
            {"step_name": step, "measurement_name": name, "value": value, "target": -1}
            for name, value in values.items()
        ],
    }
    return _json(document)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


class Tracked(Struct, frozen=True):
    """A run as a tracker of experiments takes it.

    Attributes:
        name: of the run.
        figures: by key.
        series: seconds of each steady iteration, else of each steady step.
        facts: what the run was, as texts.
    """

    name: str
    figures: Mapping[str, float]
    series: tuple[float, ...]
    facts: Mapping[str, str]


def tracked(summary: Summary) -> Tracked:
    """The figures of tt-blacksmith by its own keys, all others under ``instrument/`` and their key.

    Raises:
        NothingMeasured: there is none.
    """
    named = {
        key: None if value is None else value * factor
        for key, (at, factor) in _TRACKED.items()
        for value in (value_at(summary, at),)
    }
    found = summary.phases
    phases = () if found is None or found.busy is not None else found.phases
    every: dict[str, float | None] = {
        **named,
        **{f"perf/phase/{each.name}": each.ms / 1e3 for each in phases},
        **{f"instrument/{figure.key}": value for figure, value in _measured(summary)},
    }
    wall = summary.wall_clock
    whole = None if wall is None else wall.iteration
    values = () if wall is None else wall.samples_ms if whole is None else whole.values_ms
    run = summary.run
    about = {
        "scope": summary.scope,
        "verdict": summary.verdict and summary.verdict.name,
        "warnings": " ".join(_warned(summary)) or None,
    }
    facts = {**about, **{key: run.get(key) for key in ("script", "label", "batch_size", "started")}}
    return Tracked(
        name=str(run.get("name") or run.get("script") or "instrument"),
        figures={
            **_found(every, "a tracker"),
            "instrument/trusted": float(_trusted(summary)),
        },
        series=tuple(ms / 1e3 for ms in values),
        facts={key: str(value) for key, value in facts.items() if value is not None},
    )


def blacksmith(summary: Summary) -> str:
    """``perf_summary.json`` of tt-blacksmith, of the step that is shown; only what was measured.

    Its own tool sums up the whole file; `inputs` names the step.
    """
    time, gaps = summary.device_time, summary.gaps
    totals = _found(
        {
            "ops": summary.op_count,
            "unique_op_codes": len(summary.slow_ops) or None,
            "wall_clock_ms": summary.step_wall_clock_ms,
            "device_kernel_ms": summary.device_time_ms,
            "device_fw_ms": None if time is None else time.firmware_ms,
            "op_to_op_gap_ms": None if gaps is None else gaps.total_us / 1e3,
            "device_utilization_pct": _utilisation(summary),
        },
        "perf_summary.json, of a step's ops,",
    )
    window = None if summary.window is None else summary.window.step or summary.window.how
    ops: dict[str, Any] = {
        "totals": totals,
        "top_ops_by_device_time": [
            {
                "OP CODE": each.op,
                "count": each.count,
                "device_kernel_ms_sum": each.device_time_ms,
                "device_kernel_us_mean": each.device_time_ms * 1e3 / each.count,
                "device_kernel_pct": each.percent,
            }
            for each in summary.slow_ops
            if each.device_time_ms is not None and each.count
        ],
        "op_code_counts": {each.op: each.count for each in summary.slow_ops},
    }
    if summary.program_cache_hit_percent is not None:
        ops["compilation"] = {"program_cache_hit_rate_pct": summary.program_cache_hit_percent}
    buckets = {e.name: {"total_ms": e.time_ms, "count": e.count} for e in summary.host_layers}
    host = {"host": {"buckets": buckets}} if buckets else {}
    return _json({"inputs": {"step": window or "all"}, "ops": ops, **host})


def _utilisation(summary: Summary) -> float | None:
    wall_ms, device_ms = summary.step_wall_clock_ms, summary.device_time_ms
    return device_ms / wall_ms * 100 if wall_ms and device_ms is not None else None
