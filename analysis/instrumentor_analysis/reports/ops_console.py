"""The per-op table, the stacked report and the advice, as a terminal shows them.

Colours as tt-perf-report's users know them: red gaps above 6.5 us, red cores below 10 (of a grid
that had at least twice as many), green the whole grid and figures at a bound, yellow the larger
of two figures below their bounds; math fidelity green when it fits the data types, red when it
is higher than needed, cyan when lower. Ops below ``min_percentage`` are grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from instrumentor_analysis.caveats import by_weight
from instrumentor_analysis.model import GAP_THRESHOLD_US
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.advice_console import advice_lines
from instrumentor_analysis.reports.breakdown import bound_tone
from instrumentor_analysis.reports.document import Column
from instrumentor_analysis.reports.terminal import (
    NARROW,
    Paint,
    indented,
    painter,
    table,
    warning_lines,
)
from instrumentor_analysis.table import (
    Categorical,
    Floats,
    Groups,
    Table,
    any_known,
    distinct,
    total,
)

if TYPE_CHECKING:
    from instrumentor_analysis.report_options import Report

FEW_CORES = 10
_FITS = {"sufficient": "green", "too_high": "red", "too_low": "cyan"}


def render_ops(
    report: Report,
    *,
    width: int = 80,
    color: bool = False,
    advice: bool = True,
    stacked: bool = True,
    raw_op_codes: bool = False,
    hide_below: float | None = None,
) -> str:
    """Everything that a report says of single ops.

    Args:
        width: columns of the terminal; what does not fit is clipped or left out.
        advice: with the advice.
        stacked: with the stacked report.
        raw_op_codes: op codes as in the file, without shapes.
        hide_below: rows below this share of the total are left out, percent; host ops stay.
    """
    paint = painter(color)
    ops = report.ops
    narrow = width < NARROW
    hidden = 0
    if hide_below is not None:
        small = (ops["total_percent"] < hide_below) & ~ops["is_host"]
        hidden = int(small.sum())
        ops = ops.take(~small)
    blocks = [
        indented(words.visible(f"{report.window}, on {report.architecture.name}"), width),
        table(
            _columns(report, ops, narrow, raw_op_codes),
            width=width,
            paint=paint,
            gap=" " if narrow else "  ",
        ),
        [f"{words.plural(hidden, 'op')} below {hide_below:g} % not shown"] if hidden else [],
        _stacked(report.stacked, width, paint, narrow) if stacked else [],
        advice_lines(report, width, paint) if advice else [],
        warning_lines(by_weight(report.notes, notes=False), width, paint),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _columns(report: Report, ops: Table, narrow: bool, raw: bool) -> list[Column]:
    grey = ops["minor"].tolist()

    def column(title: str, texts: list[str], found: Sequence[str] = (), **more: Any) -> Column:
        """Grey wins over every other colour."""
        hows = found or [""] * len(ops)
        colours = ["dim" if minor else how for minor, how in zip(grey, hows, strict=True)]
        return Column(title, texts, colours=colours, **more)

    def figures(title: str, name: str, digits: int, *found: Sequence[str], **more: Any) -> Column:
        return column(title, _figures(ops[name], digits), *found, **more)

    def several(title: str, name: str) -> list[Column]:
        return [figures(title, name, 0)] if len(distinct(ops[name])) > 1 else []

    dram, flops = _utilisation_colours(ops)
    # As a spreadsheet would: the sum of what is shown; a figure of all rows is none of some.
    time, gap = (_sum(ops[name]) for name in ("device_time_us", "gap_us"))
    complete = len(ops) == len(report.ops)
    dram_gb_s, dram_percent = (report.dram_gb_s, report.dram_percent) if complete else (None, None)
    bounds = ops["bound"].each([*map(bound_tone, ops["bound"].values)], "")
    long = ["red" if gap_us > GAP_THRESHOLD_US else "" for gap_us in ops["gap_us"].tolist()]
    names = _names(ops["op_code"] if raw else ops["op"], squeezed=narrow and not raw)
    room: dict[str, Any] = {"least": 12, "comfort": 26 if narrow else 32, "total": _counts(ops)}
    percent = "%" if narrow else " %"
    steps = "device_time_stdev_us"
    return [
        column("ID", [str(each) for each in ops["id"].tolist()]),
        figures(f"Total{percent}", "total_percent", 1),
        column("Bound", ops["bound"].tolist(), bounds, right=False),
        column("Op", names, right=False, **room),
        *several("Device", "device_id"),
        figures("Time us", "device_time_us", 1, total=_total(time, 0)),
        *([figures("±", steps, 1)] if steps in ops else []),
        figures("Gap us", "gap_us", 1, long, total=_total(gap, 0)),
        figures("Cores", "cores", 0, _core_colours(ops)),
        *several("Of", "available_cores"),
        figures("DRAM GB/s", "dram_gb_s", 0, dram, optional=True, total=_total(dram_gb_s, 0)),
        figures(f"DRAM{percent}", "dram_percent", 1, dram, total=_total(dram_percent, 1)),
        figures("TFLOPs", "tflops", 1, flops, optional=True),
        figures("FLOP%" if narrow else "FLOPs %", "flops_percent", 1, flops),
        column(
            "Math fidelity",
            _texts(ops["math_fidelity"]),
            _fidelity_colours(ops),
            right=False,
            optional=True,
        ),
    ]


def _counts(ops: Table) -> str:
    hosts = int(ops["is_host"].sum())
    devices = len(ops) - hosts - int(ops["is_signpost"].sum())
    counts = words.plural(devices, "device op")
    return f"{counts}, {hosts:,} on host" if hosts else counts


def _sum(values: Floats) -> float | None:
    """None where there is nothing to add up, rather than 0."""
    return total(values) if any_known(values) else None


def _figures(values: Floats, digits: int) -> list[str]:
    """Numbers as text, blank where there is none."""
    return [f"{value:,.{digits}f}" if value == value else "" for value in values.tolist()]


def _total(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _names(names: Categorical, squeezed: bool) -> list[str]:
    """Names safe for a terminal; where room is short, without what most of them share."""
    shown = [words.visible(str(name)) for name in names.values]
    if squeezed:
        shown = [words.squeezed(text) for text in shown]
    return names.map(shown).tolist()


def _texts(values: Categorical) -> list[str]:
    """Texts safe for a terminal, empty where blank."""
    shown = ["" if text is None else words.visible(str(text)) for text in values.values]
    return values.each(shown, "")


def _core_colours(ops: Table) -> list[str]:
    colours: list[str] = []
    for cores, budget, sharded in zip(
        ops["cores"].tolist(),
        ops["available_cores"].tolist(),
        ops["dram_sharded"].tolist(),
        strict=True,
    ):
        few = cores < FEW_CORES and cores < budget / 2
        whole = sharded or cores == budget
        colours.append("green" if whole else "red" if few else "")
    return colours


def _utilisation_colours(ops: Table) -> tuple[list[str], list[str]]:
    """Of the DRAM and the FLOPs figures."""
    dram: list[str] = []
    flops: list[str] = []
    for bound, by_dram, by_flops in zip(
        ops["bound"].tolist(),
        ops["dram_percent"].tolist(),
        ops["flops_percent"].tolist(),
        strict=True,
    ):
        slow = "yellow" if bound == "SLOW" else ""
        dram.append("green" if bound in ("DRAM", "BOTH") else slow if by_dram > by_flops else "")
        flops.append("green" if bound in ("FLOP", "BOTH") else "" if by_dram > by_flops else slow)
    return dram, flops


def _fidelity_colours(ops: Table) -> list[str]:
    from instrumentor_analysis.advice import fidelity

    names = ("op_code", "input_0_datatype", "input_1_datatype", "output_datatype", "math_fidelity")
    groups = Groups(*(ops[name] for name in names))
    told: list[str] = []
    for code, first, second, out, used in (
        row.values() for row in ops.take(groups.first).records(names)
    ):
        if not used or ("Matmul" not in str(code) and "OptimizedConvNew" not in str(code)):
            told.append("")
            continue
        fit, _ = fidelity(first, second, out, str(used).split()[0])
        told.append(_FITS.get(fit, ""))
    return [told[group] for group in groups.which.tolist()]


def _stacked(stacked: Table, width: int, paint: Paint, narrow: bool) -> list[str]:
    if not len(stacked):
        return []
    per_device = "device_id" in stacked
    # A sum of no measured time is 0 there; an op that ran took some.
    timed = stacked["device_time_us"] > 0

    def share(column: str) -> list[str]:
        return _figures(stacked[column], 1)

    columns = [
        Column("Share %", _figures(np.where(timed, stacked["percent"], np.nan), 2)),
        Column("Op", _names(stacked["name"], squeezed=narrow), right=False, least=20, comfort=44),
        *([Column("Device", _figures(stacked["device_id"], 0))] if per_device else []),
        Column("Time us", _figures(np.where(timed, stacked["device_time_us"], np.nan), 1)),
        Column("Ops", [f"{count:,}" for count in stacked["count"].tolist()]),
        Column("Category", _texts(stacked["category"]), right=False),
        Column("FLOPs %", share("flops_percent_weighted_mean")),
        Column("min", share("flops_percent_min"), optional=True),
        Column("max", share("flops_percent_max"), optional=True),
        Column("mean", share("flops_percent_mean"), optional=True),
        Column("std", share("flops_percent_std"), optional=True),
    ]
    lines = table(columns, width=width, paint=paint)
    return [paint("Device time by kind of op", "bold"), *lines]
