"""The columns of a frame of ops: where each is from, and how every format shows it.

A new column is a row of :data:`COLUMNS`: with it alone it is read from the file, stands in the
frame, and is shown wherever the row has something to say of it. The table is here, below the
figures, because the reader of files asks which cells are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct


class OnPage(Struct, frozen=True):
    """A column of the page's table of ops.

    Attributes:
        width: pixels; None is that of its longest text, which is not cut.
        key: in the page's address and script; '' is the column's name.
        rule: how the script colours it: ``gap``, ``cores``, ``bound``, ``use`` or nothing.
    """

    title: str
    width: int | None = None
    key: str = ""
    rule: str = ""


class OnTerminal(Struct, frozen=True):
    """A column of the terminal's table of ops.

    Attributes:
        digits: where there are fewer than elsewhere.
        narrow: a shorter title for a narrow terminal.
        optional: left out where the terminal is narrow.
    """

    title: str
    digits: int | None = None
    narrow: str = ""
    optional: bool = False

    def heading(self, unit: str, narrow: bool) -> str:
        """The title with its unit."""
        title = self.narrow if narrow and self.narrow else self.title
        return title + (unit if narrow and unit == "%" else f" {unit}" if unit else "")


class OpColumn(Struct, frozen=True):
    """One column.

    Attributes:
        name: in the frame, with its unit.
        source: column of the ops CSV that it is a copy of; '' where it is worked out.
        per: cells of ``source`` in one unit of ``name``.
        digits: decimals of a figure; None for a text.
        csv: title in the CSV; '' leaves it out.
        whole: in the CSV a whole number, or blank.
        differing: shown to readers only where the rows differ in it.
        known: shown to readers only where some row has it.
        always: in every frame of :func:`.per_op.per_op`.
    """

    name: str
    source: str = ""
    per: int = 1
    unit: str = ""
    digits: int | None = None
    csv: str = ""
    whole: bool = False
    terminal: OnTerminal | None = None
    page: OnPage | None = None
    differing: bool = False
    known: bool = False
    always: bool = True

    @property
    def cells(self) -> str:
        """What the reader calls the cells of ``source``, where no other name is known."""
        return "_".join(re.findall(r"\w+", self.source.lower()))


C, T, P = OpColumn, OnTerminal, OnPage
#: In the order of a frame, which is that of the terminal.
COLUMNS = (
    C("id", digits=0, csv="ID", terminal=T("ID"), page=P("ID", 70)),
    C(
        *("total_percent", "", 1, "%", 2, "Total %"),
        terminal=T("Total", digits=1),
        page=P("Total", 74, "share"),
    ),
    C("bound", csv="Bound", terminal=T("Bound"), page=P("Bound", 72, rule="bound")),
    C("op", csv="OP Code", terminal=T("Op"), page=P("Op")),
    C("op_code"),
    C(
        *("device_id", "", 1, "", 0, "Device", True),
        terminal=T("Device"),
        page=P("Device", 78, "device"),
        differing=True,
    ),
    C(
        *("device_time_us", "", 1, "us", 1, "Device Time"),
        terminal=T("Time"),
        page=P("Device time", 122, "time"),
    ),
    C("device_time_stdev_us", digits=1, terminal=T("±"), always=False),
    C(
        *("gap_us", "", 1, "us", 1, "Op-to-Op Gap"),
        terminal=T("Gap"),
        page=P("Gap before", 122, "gap", "gap"),
    ),
    C(
        *("cores", "", 1, "", 0, "Cores", True),
        terminal=T("Cores"),
        page=P("Cores", 68, rule="cores"),
    ),
    C("sub_device_id", csv="Sub Device ID"),
    # Hidden on the page, whose script colours the cores by it.
    C(
        *("available_cores", "", 1, "", 0, "Available Cores"),
        terminal=T("Of"),
        page=P("Grid", 0, "grid"),
        differing=True,
    ),
    C(
        *("dram_gb_s", "", 1, "GB/s", 0, "DRAM"),
        terminal=T("DRAM", optional=True),
        page=P("DRAM", 96, "dram_gbs"),
    ),
    C(
        *("dram_percent", "", 1, "%", 1, "DRAM %"),
        terminal=T("DRAM"),
        page=P("DRAM", 78, "dram", "use"),
    ),
    C("tflops", digits=1, csv="FLOPs", terminal=T("TFLOPs", optional=True)),
    C(
        *("flops_percent", "", 1, "%", 1, "FLOPs %"),
        terminal=T("FLOPs", narrow="FLOP"),
        page=P("FLOPs", 82, "flops", "use"),
    ),
    C(
        *("math_fidelity", "", 1, "", None, "Math Fidelity"),
        terminal=T("Math fidelity", optional=True),
        page=P("Math fidelity", 190, "fidelity"),
    ),
    C("output_datatype", "OUTPUT_0_DATATYPE", csv="Output Datatype"),
    C("input_0_datatype", "INPUT_0_DATATYPE", csv="Input 0 Datatype"),
    C("input_1_datatype", "INPUT_1_DATATYPE", csv="Input 1 Datatype"),
    C("dram_sharded", csv="DRAM Sharded"),
    C("input_0_memory", "INPUT_0_MEMORY", csv="Input 0 Memory"),
    C("in0_block_w", digits=0, csv="Inner Dim Block Size", whole=True),
    C("out_subblock_h", digits=0, csv="Output Subblock H", whole=True),
    C("out_subblock_w", digits=0, csv="Output Subblock W", whole=True),
    C("global_call_count", "GLOBAL CALL COUNT", digits=0, csv="Global Call Count", whole=True),
    C("tt_perf_report_category", csv="Op Category"),
    C("category", page=P("Category", 92)),
    C("bound_analysis", csv="Bound Analysis"),
    C("dram_bytes", digits=0),
    C("flops", digits=0),
    C("peak_flops", digits=0),
    C("sparse"),
    C("sparse_batches_missing"),
    C("sparse_source"),
    C("invalid_duration"),
    C("is_host"),
    C("is_signpost"),
    C("firmware_time_us", "DEVICE FW DURATION [ns]", 1000, "us", 1),
    C("host_start_ns", "HOST START TS", digits=0),
    C("host_duration_us", "HOST DURATION [ns]", 1000, "us", 1),
    C("program_cache_hit", "PROGRAM CACHE HIT"),
    # What kept an op's parts busy: :mod:`..ops.limits` reads it.
    C("limits", terminal=T("Limited by", optional=True), page=P("Limited by", 150), known=True),
    C(
        *("reader_us", "DEVICE NCRISC KERNEL DURATION [ns]", 1000, "us", 1),
        page=P("Reader", 92, "reader"),
        known=True,
    ),
    C("compute_us", unit="us", digits=1, page=P("Compute", 96, "compute"), known=True),
    C(
        *("writer_us", "DEVICE BRISC KERNEL DURATION [ns]", 1000, "us", 1),
        page=P("Writer", 92, "writer"),
        known=True,
    ),
    C("unpack_us", "DEVICE TRISC0 KERNEL DURATION [ns]", 1000, "us", 1),
    C("math_us", "DEVICE TRISC1 KERNEL DURATION [ns]", 1000, "us", 1),
    C("pack_us", "DEVICE TRISC2 KERNEL DURATION [ns]", 1000, "us", 1),
    C("input_wait_percent", unit="%", digits=1, page=P("Waits for input", 110), known=True),
    C("output_wait_percent", unit="%", digits=1, page=P("Waits for room", 110), known=True),
    C("noc_percent", "NOC UTIL (%)", 1, "%", 1, page=P("NoC", 78), known=True),
    C("congestion_percent", "NPE CONG IMPACT (%)", 1, "%", 1, page=P("Congestion", 92), known=True),
    C(
        "dram_measured_percent",
        "DRAM BW UTIL (%)",
        1,
        "%",
        1,
        page=P("DRAM (trace)", 92),
        known=True,
    ),
    C("fpu_percent", "FPU Util Median (%)", 1, "%", 1, page=P("FPU", 78), known=True),
    C("tiles", digits=0),
    C("roles"),
    C("grid_reported"),
    C("saves_us", unit="us", digits=1, page=P("Saves", 94, "saves"), always=False),
    C("location", page=P("Location", 320), always=False),
)

#: Of the stacked report, in tt-perf-report's order.
STACKED = (
    C("percent", unit="%", digits=2, csv="Total % [%]", terminal=T("Share")),
    C("name", csv="Op Code", terminal=T("Op")),
    C("device_id", digits=0, csv="Device", whole=True, terminal=T("Device"), always=False),
    C("device_time_us", unit="us", digits=1, csv="Device Time Sum [μs]", terminal=T("Time")),
    C("count", digits=0, csv="Op Count", terminal=T("Ops")),
    C("tt_perf_report_category", csv="Op Category"),
    C("category", terminal=T("Category")),
    C("flops_percent_min", digits=1, csv="Min FLOPs [%]", terminal=T("min", optional=True)),
    C("flops_percent_max", digits=1, csv="Max FLOPs [%]", terminal=T("max", optional=True)),
    C("flops_percent_mean", digits=1, csv="Mean FLOPs [%]", terminal=T("mean", optional=True)),
    C("flops_percent_std", digits=1, csv="Std FLOPs [%]", terminal=T("std", optional=True)),
    C(
        *("flops_percent_weighted_mean", "", 1, "%", 1, "Weighted Mean FLOPs [%]"),
        terminal=T("FLOPs"),
    ),
)


def in_order(names: Sequence[str], shown: Sequence[OpColumn]) -> tuple[OpColumn, ...]:
    """Columns in an order of their names; those that it does not name stand behind the others."""
    places = {name: at for at, name in enumerate(names)}
    return tuple(sorted(shown, key=lambda column: places.get(column.name, len(places))))
