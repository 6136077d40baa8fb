"""The per-op table, the stacked report and the advice, as a terminal shows them.

Colours as tt-perf-report's users know them: red gaps above 6.5 us, red cores below 10 (of a grid
that had at least twice as many), green the whole grid and figures at a bound, yellow the larger
of two figures below their bounds; math fidelity green when it fits the data types, red when it
is higher than needed, cyan when lower. Ops below ``min_percentage`` are grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from instrumentor_analysis.load.op_columns import COLUMNS, STACKED, in_order
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
from instrumentor_analysis.shared.units import shapes_in_words

if TYPE_CHECKING:
    from instrumentor_analysis.ops.op_report import Report

FEW_CORES = 10
_STACKED_FIRST = (
    *("percent", "name", "device_id", "device_time_us", "count", "category"),
    "flops_percent_weighted_mean",
)
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
    notes: bool = False,
) -> str:
    """Everything that a report says of single ops.

    Args:
        width: columns of the terminal; what does not fit is clipped or left out.
        advice: with the advice.
        stacked: with the stacked report.
        raw_op_codes: op codes as in the file, without shapes.
        hide_below: rows below this share of the total are left out, percent; host ops stay.
        notes: with warnings of weight ``note``.
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
        _hidden(hidden, hide_below),
        _stacked(report.stacked, width, paint, narrow) if stacked else [],
        advice_lines(report, width, paint) if advice else [],
        warning_lines(by_weight(report.notes, notes=notes), width, paint),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def render_torch_ops(
    ops: Table, *, width: int = 80, color: bool = False, hide_below: float | None = None
) -> str:
    """The ops of the step under torch.profiler, in the order in which they started.

    Args:
        ops: as :func:`.torch_ops.read_torch_ops` has them.
        hide_below: rows below this share of the total are left out, percent.
    """
    title = "device time" if any_known(ops["device_time_us"]) else "self time"
    ops = ops.take(np.argsort(ops["start_us"], kind="stable"))
    times = ops[f"{title.replace(' ', '_')}_us"]
    shares = times / (total(times) or 1.0) * 100
    rows = np.arange(len(ops)) if hide_below is None else np.flatnonzero(~(shares < hide_below))
    shown = ops.take(rows)

    def known(values: Floats) -> list[float | None]:
        return [None if value != value else value for value in values[rows].tolist()]

    columns = [
        Column("No.", [str(row + 1) for row in rows.tolist()]),
        Column("op", _texts(shown["op"]), right=False, least=32),
        Column(title, [formatting.us(each) for each in known(times)]),
        Column("share", [formatting.share(each) for each in known(shares)]),
        Column("category", _texts(shown["torch_category"]), right=False, optional=True),
    ]
    if "input_shapes" in shown:
        words = map(shapes_in_words, _texts(shown["input_shapes"]))
        shapes = [formatting.tensors(each) for each in words]
        columns.append(Column("input shapes", shapes, right=False, least=12, optional=True))
    lines = table(columns, width=width, paint=painter(color))
    lines += ["", *found] if (found := _hidden(len(ops) - len(shown), hide_below)) else []
    return "\n".join(lines) + "\n"


def _hidden(count: int, below: float | None) -> list[str]:
    """How many ops are left out, and why; nothing where none is."""
    if not count:
        return []
    text = f"{formatting.plural(count, 'op')} below {below:g} %"
    return [f"{text} {'is' if count == 1 else 'are'} not shown"]


def _columns(report: Report, ops: Table, narrow: bool, raw: bool) -> list[Column]:
    grey = ops["minor"].tolist()

    def texts(name: str) -> list[str]:
        if name == "id":
            return [str(each) for each in ops[name].tolist()]
        if name == "op":
            return _texts(ops["op_code"] if raw else ops["op"], squeezed=narrow and not raw)
        return _texts(ops[name])

    colours, totals = _colours(ops), _totals(report, ops)
    shown: list[Column] = []
    for each in COLUMNS:
        if each.terminal is None or each.name not in ops:
            continue
        is_text = each.digits is None
        digits = each.digits if each.terminal.digits is None else each.terminal.digits
        plain = is_text or each.name == "id"
        cells = texts(each.name) if plain else _figures(ops[each.name], digits or 0)
        if each.differing and len({*cells} - {""}) < 2:
            continue
        if each.known and not any(cells):
            continue
        # Grey wins over every other colour.
        hows = colours.get(each.name, [""] * len(ops))
        column = Column(
            each.terminal.heading(each.unit, narrow),
            cells,
            colours=["dim" if minor else how for minor, how in zip(grey, hows, strict=True)],
            right=not is_text,
            optional=each.terminal.optional,
            total=totals.get(each.name, ""),
        )
        if each.name == "op":
            column = replace(column, least=12, comfort=26 if narrow else 32)
        shown.append(column)
    return shown


def _totals(report: Report, ops: Table) -> dict[str, str]:
    """What stands below the columns that are shown, by their names."""
    hosts = int(ops["is_host"].sum())
    counts = formatting.plural(len(ops) - hosts - int(ops["is_signpost"].sum()), "device op")
    totals = {"op": counts + (f", {hosts:,} on host" if hosts else "")}
    for name in ("device_time_us", "gap_us"):
        # Blank, rather than 0, where none has a figure.
        totals[name] = f"{total(ops[name]):,.0f}" if any_known(ops[name]) else ""
    # A figure of all rows must not stand below some of them.
    for name, value, digits in (
        ("dram_gb_s", report.dram_gb_s, 0),
        ("dram_percent", report.dram_percent, 1),
    ):
        if value is not None and len(ops) == len(report.ops):
            totals[name] = f"{value:,.{digits}f}"
    return totals


def _figures(values: Floats, digits: int) -> list[str]:
    """Numbers as text, blank where there is none."""
    return [f"{value:,.{digits}f}" if value == value else "" for value in values.tolist()]


def _texts(values: Categorical, squeezed: bool = False) -> list[str]:
    """Texts safe for a terminal, empty where blank; on demand without what most names share."""
    shown = ["" if text is None else formatting.visible(str(text)) for text in values.values]
    return values.each([formatting.squeezed(text) for text in shown] if squeezed else shown, "")


def _colours(ops: Table) -> dict[str, list[str]]:
    """Colours of the cells by their column: bound, gap, cores, DRAM, FLOPs, fidelity."""
    bound, cores, grid = np.array(ops["bound"].tolist(), str), ops["cores"], ops["available_cores"]
    slow, by_dram = bound == "SLOW", ops["dram_percent"] > ops["flops_percent"]
    few = (cores < FEW_CORES) & (cores < grid / 2)
    use = {
        # A slow op is coloured at its larger figure only: that is the bound it is nearest to.
        "dram": np.where(slow & by_dram, "yellow", ""),
        "flops": np.where(slow & ~by_dram, "yellow", ""),
    }
    for name, bounds in (("dram", ("DRAM", "BOTH")), ("flops", ("FLOP", "BOTH"))):
        use[name] = np.where(np.isin(bound, bounds), "green", use[name])
    # A DRAM-sharded matmul uses one core per DRAM bank, never the whole grid.
    whole = ops["dram_sharded"].astype(bool) | (cores == grid)
    found = {
        "gap_us": np.where(ops["gap_us"] > GAP_THRESHOLD_US, "red", ""),
        "cores": np.where(whole, "green", np.where(few, "red", "")),
        **dict.fromkeys(("dram_gb_s", "dram_percent"), use["dram"]),
        **dict.fromkeys(("tflops", "flops_percent"), use["flops"]),
    }
    return {
        **{name: each.tolist() for name, each in found.items()},
        "bound": ops["bound"].each([*map(bound_tone, ops["bound"].values)], ""),
        "math_fidelity": _fidelity_colours(ops),
    }


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
    measured = {
        name: np.where(timed, stacked[name], np.nan) for name in ("percent", "device_time_us")
    }
    columns: list[Column] = []
    for each in in_order(_STACKED_FIRST, STACKED):
        if each.terminal is None or each.name not in stacked:
            continue
        is_text = each.digits is None
        values: Any = measured.get(each.name, stacked[each.name])
        squeezed = narrow and each.name == "name"
        column = Column(
            each.terminal.heading(each.unit, narrow=False),
            _texts(values, squeezed) if is_text else _figures(values, each.digits or 0),
            right=not is_text,
            optional=each.terminal.optional,
        )
        columns.append(replace(column, least=20, comfort=44) if each.name == "name" else column)
    lines = table(columns, width=width, paint=paint)
    return [paint("Device time by kind of op", "bold"), *lines]
