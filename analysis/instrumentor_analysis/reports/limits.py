"""What limits the ops, as a table: each cause with its time, what shows it, and what helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instrumentor_analysis.model import Limit
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Column, Section, Table

#: Figures in words; ``{}`` is the value.
_SAID: Mapping[str, str] = {
    "input_wait_percent": "waits {} for input",
    "output_wait_percent": "{} for room",
    "reader_percent": "reader {}",
    "compute_percent": "compute {}",
    "writer_percent": "writer {}",
    "noc_percent": "NoC {}",
    "congestion_percent": "congestion {}",
    "dram_measured_percent": "DRAM {} (trace)",
    "dram_percent": "DRAM {}",
    "fpu_percent": "FPU {}",
    "flops_percent": "FLOPs {}",
}
_NOTE = (
    "An op with several causes counts for each of them. Shares are of the kernel's time, waits of "
    "the time of its compute part. A part that ends early was not waited for; where all parts end "
    "together, it is unclear which one was."
)


def section(found: Sequence[Limit]) -> Section:
    """The causes, most time first; a section without anything where the trace tells none."""
    if not any(each.name != "unclear" for each in found):
        return Section("")
    columns = (
        Column("limited by", [each.name for each in found], right=False),
        Column("device time", formatting.column([each.device_time_ms for each in found], "ms")),
        Column("share", [formatting.share(each.percent) for each in found]),
        Column("ops", [formatting.count(each.op_count) for each in found], optional=True),
        Column("because", [because(each) for each in found], right=False, least=36),
        Column("mainly", [_first(each) for each in found], False, foreign=True, least=16,
               optional=True),
        Column("try", [each.helps for each in found], False, "absent", optional=True),
    )  # fmt: skip
    return Section("What limits the ops", (Table(columns, _NOTE),))


def because(limit: Limit) -> str:
    """The figures of a cause in words."""
    figures = limit.figures
    if limit.name == "host":
        return f"gaps of {formatting.ms(limit.gap_ms)} before them"
    if limit.name == "few cores":
        return f"{figures['cores']:.0f} of {figures['available_cores']:.0f} cores"
    told = [said.format(f"{figures[key]:.0f} %") for key, said in _SAID.items() if key in figures]
    return ", ".join(told)


def _first(limit: Limit) -> str:
    return limit.ops[0] if limit.ops else ""
