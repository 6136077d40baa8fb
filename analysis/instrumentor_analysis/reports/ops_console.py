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

from instrumentor_analysis.load.table import Categorical, Floats, Groups, Table, any_known, total
from instrumentor_analysis.model import GAP_THRESHOLD_US
from instrumentor_analysis.reports import formatting
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
from instrumentor_analysis.shared.caveats import by_weight

if TYPE_CHECKING:
    from instrumentor_analysis.ops.op_report import Report

FEW_CORES = 10
_STDEV = "device_time_stdev_us"
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
        indented(formatting.visible(f"{report.window}, on {report.architecture.name}"), width),
        table(
            _columns(report, ops, narrow, raw_op_codes),
            width=width,
            paint=paint,
            gap=" " if narrow else "  ",
        ),
        [f"{formatting.plural(hidden, 'op')} below {hide_below:g} % not shown"] if hidden else [],
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
        return [figures(title, name, 0)] if len({*_figures(ops[name], 0)} - {""}) > 1 else []

    def summed(name: str) -> str:
        """The sum of the rows that are shown; blank, rather than 0, where none has a figure."""
        return f"{total(ops[name]):,.0f}" if any_known(ops[name]) else ""

    # A figure of all rows must not stand below some of them.
    dram_gb_s, dram_percent = (
        "" if value is None or len(ops) < len(report.ops) else f"{value:,.{digits}f}"
        for value, digits in ((report.dram_gb_s, 0), (report.dram_percent, 1))
    )
    colours = _colours(ops)
    hosts = int(ops["is_host"].sum())
    counts = formatting.plural(len(ops) - hosts - int(ops["is_signpost"].sum()), "device op")
    counts += f", {hosts:,} on host" if hosts else ""
    names = _texts(ops["op_code"] if raw else ops["op"], squeezed=narrow and not raw)
    fidelity, percent = _texts(ops["math_fidelity"]), "%" if narrow else " %"
    return [
        column("ID", [str(each) for each in ops["id"].tolist()]),
        figures(f"Total{percent}", "total_percent", 1),
        column("Bound", ops["bound"].tolist(), colours["bound"], right=False),
        column("Op", names, right=False, least=12, comfort=26 if narrow else 32, total=counts),
        *several("Device", "device_id"),
        figures("Time us", "device_time_us", 1, total=summed("device_time_us")),
        *([figures("±", _STDEV, 1)] if _STDEV in ops else []),
        figures("Gap us", "gap_us", 1, colours["gap"], total=summed("gap_us")),
        figures("Cores", "cores", 0, colours["cores"]),
        *several("Of", "available_cores"),
        figures("DRAM GB/s", "dram_gb_s", 0, colours["dram"], optional=True, total=dram_gb_s),
        figures(f"DRAM{percent}", "dram_percent", 1, colours["dram"], total=dram_percent),
        figures("TFLOPs", "tflops", 1, colours["flops"], optional=True),
        figures("FLOP%" if narrow else "FLOPs %", "flops_percent", 1, colours["flops"]),
        column("Math fidelity", fidelity, _fidelity_colours(ops), right=False, optional=True),
    ]


def _figures(values: Floats, digits: int) -> list[str]:
    """Numbers as text, blank where there is none."""
    return [f"{value:,.{digits}f}" if value == value else "" for value in values.tolist()]


def _texts(values: Categorical, squeezed: bool = False) -> list[str]:
    """Texts safe for a terminal, empty where blank; on demand without what most names share."""
    shown = ["" if text is None else formatting.visible(str(text)) for text in values.values]
    return values.each([formatting.squeezed(text) for text in shown] if squeezed else shown, "")


def _colours(ops: Table) -> dict[str, list[str]]:
    """Colours of the cells: bound, gap, cores, and the figures of DRAM and FLOPs."""
    bound, cores, grid = np.array(ops["bound"].tolist(), str), ops["cores"], ops["available_cores"]
    slow, by_dram = bound == "SLOW", ops["dram_percent"] > ops["flops_percent"]
    few = (cores < FEW_CORES) & (cores < grid / 2)
    found = {
        "gap": np.where(ops["gap_us"] > GAP_THRESHOLD_US, "red", ""),
        # A DRAM-sharded matmul uses one core per DRAM bank, never the whole grid.
        "cores": np.where(
            ops["dram_sharded"].astype(bool) | (cores == grid), "green", np.where(few, "red", "")
        ),
        # A slow op is coloured at its larger figure only: that is the bound it is nearest to.
        "dram": np.where(slow & by_dram, "yellow", ""),
        "flops": np.where(slow & ~by_dram, "yellow", ""),
    }
    for name, bounds in (("dram", ("DRAM", "BOTH")), ("flops", ("FLOP", "BOTH"))):
        found[name] = np.where(np.isin(bound, bounds), "green", found[name])
    tones = ops["bound"].each([*map(bound_tone, ops["bound"].values)], "")
    return {"bound": tones, **{name: each.tolist() for name, each in found.items()}}


def _fidelity_colours(ops: Table) -> list[str]:
    from instrumentor_analysis.ops.advice import fidelity

    names = ("op_code", "input_0_datatype", "input_1_datatype", "output_datatype", "math_fidelity")
    groups = Groups(*(ops[name] for name in names))
    told: list[str] = []
    for row in ops.take(groups.first).records(names):
        code, first, second, out, used = row.values()
        judged = used and ("Matmul" in str(code) or "OptimizedConvNew" in str(code))
        fit = fidelity(first, second, out, str(used).split()[0])[0] if judged else ""
        told.append(_FITS.get(fit, ""))
    return [told[group] for group in groups.which.tolist()]


def _stacked(stacked: Table, width: int, paint: Paint, narrow: bool) -> list[str]:
    if not len(stacked):
        return []
    # The sum is 0 where no time was measured: an op that ran took some.
    timed = stacked["device_time_us"] > 0
    columns = [
        Column("Share %", _figures(np.where(timed, stacked["percent"], np.nan), 2)),
        Column("Op", _texts(stacked["name"], narrow), right=False, least=20, comfort=44),
        *([Column("Device", _figures(stacked["device_id"], 0))] if "device_id" in stacked else []),
        Column("Time us", _figures(np.where(timed, stacked["device_time_us"], np.nan), 1)),
        Column("Ops", [f"{count:,}" for count in stacked["count"].tolist()]),
        Column("Category", _texts(stacked["category"]), right=False),
        Column("FLOPs %", _figures(stacked["flops_percent_weighted_mean"], 1)),
        *(
            Column(name, _figures(stacked[f"flops_percent_{name}"], 1), optional=True)
            for name in ("min", "max", "mean", "std")
        ),
    ]
    lines = table(columns, width=width, paint=paint)
    return [paint("Device time by kind of op", "bold"), *lines]
