"""The ops of a step as columns for the table of a page and for its script."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from instrumentor_analysis.model import GAP_THRESHOLD_US
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.detail import Detail

if TYPE_CHECKING:
    from instrumentor_analysis.roofline import Architecture
    from instrumentor_analysis.table import Categorical, Table

#: More rows than this make a page that no browser likes; the slowest are kept.
MOST_ROWS = 50_000
_UNSAFE = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
#: Of the names of ops: pixels of a character, and of the column at least and at most.
_NAME_WIDTH, _NARROWEST, _WIDEST = 7.3, 200, 560
#: Only for the colour of the cores.
_HIDDEN = "grid"
_COLOURS = (
    f"Red: a gap above {GAP_THRESHOLD_US} us, or fewer than 10 cores of a grid at least twice as "
    "large. Green: the whole grid, or 65 % and more of a peak. Saves: device time beyond the op's "
    "bound on the cores that it used."
)


class TableColumn(Struct, frozen=True):
    """One column of the table.

    Attributes:
        key: of the data, and in the page's address.
        title, unit: of the heading.
        width: pixels.
        digits: decimals of a figure; None for text.
        rule: how the script colours it: ``gap``, ``cores``, ``bound``, ``use`` or nothing.
        values: one per row; with ``names``, positions in there.
        names: distinct texts.
    """

    key: str
    title: str
    values: Sequence[Any]
    width: int
    unit: str = ""
    digits: int | None = None
    rule: str = ""
    names: tuple[str, ...] | None = None


class OpsTable(Struct, frozen=True):
    """All columns, and how many rows were left out."""

    columns: tuple[TableColumn, ...]
    rows: int
    left_out: int
    sort: str
    filters: tuple[str, ...]
    legend: str = ""

    @property
    def shown(self) -> list[TableColumn]:
        """Columns that a reader sees."""
        return [column for column in self.columns if column.key != _HIDDEN]

    @property
    def note(self) -> str:
        """What the colours mean, and what is not there."""
        left_out = f"{self.left_out:,} shorter ops are left out of this table."
        return " ".join([self.legend, *([left_out] if self.left_out else [])]).strip()

    def for_script(self) -> str:
        """What the page's script reads; not by :func:`.model.plain`, which looks at each cell."""
        columns = [asdict(column) for column in self.columns]
        return script_safe({**asdict(self), "columns": columns, "gap": GAP_THRESHOLD_US})


def script_safe(document: Mapping[str, Any]) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


def ops_table(detail: Detail) -> OpsTable | None:
    """The table of a step's ops; None when there are none."""
    if detail.device_ops is not None:
        return _device(detail.device_ops, detail.architecture)
    if detail.torch_ops is not None:
        return _torch(detail.torch_ops)
    return None


def _device(every: Table, arch: Architecture | None) -> OpsTable:
    rows = _most(every, "device_time_us")
    ops, left_out = every.take(rows), len(every) - len(rows)

    def figures(
        key: str, title: str, name: str, width: int, digits: int, unit: str = "", rule: str = ""
    ) -> TableColumn:
        return _figures(key, title, ops[name], width, digits, unit, rule)

    columns = [
        figures("id", "ID", "id", 70, 0),
        figures("device", "Device", "device_id", 78, 0),
        _text("op", "Op", ops["op"]),
        _text("category", "Category", ops["category"], 92),
        _text("bound", "Bound", ops["bound"], 72, "bound"),
        figures("share", "Total", "total_percent", 74, 2, "%"),
        figures("time", "Device time", "device_time_us", 122, 1, "us"),
        figures("gap", "Gap before", "gap_us", 122, 1, "us", "gap"),
        figures("cores", "Cores", "cores", 68, 0, "", "cores"),
        figures("dram", "DRAM", "dram_percent", 78, 1, "%", "use"),
        figures("flops", "FLOPs", "flops_percent", 82, 1, "%", "use"),
        *([] if arch is None else [_saves(ops, arch)]),
        figures("dram_gbs", "DRAM", "dram_gb_s", 96, 0, "GB/s"),
        _text("fidelity", "Math fidelity", ops["math_fidelity"], 190),
        figures(_HIDDEN, "Grid", "available_cores", 0, 0),
    ]
    if len({*columns[1].values} - {None}) < 2:
        del columns[1]
    if "location" in ops:
        columns.append(_text("location", "Location", ops["location"], 320))
    return OpsTable(tuple(columns), len(ops), left_out, "time", ("category", "bound"), _COLOURS)


def _saves(ops: Table, arch: Architecture) -> TableColumn:
    from instrumentor_analysis.savings import above_bound_us

    return _figures("saves", "Saves", above_bound_us(ops, arch), 94, 1, "us")


def _torch(every: Table) -> OpsTable:
    on_device = bool((every["device_time_us"] == every["device_time_us"]).any())
    sort, basis = ("time", "device_time_us") if on_device else ("self", "self_time_us")
    rows = _most(every, basis)
    ops, left_out = every.take(rows), len(every) - len(rows)
    times = (
        ("start", "Start", "start_us"),
        ("duration", "Duration", "duration_us"),
        ("self", "Self time", "self_time_us"),
        *([("time", "Device time", "device_time_us")] if on_device else []),
    )
    texts = (
        ("shapes", "input_shapes", "Input shapes", 220),
        ("source", "source", "Source", 260),
    )
    columns = (
        _figures("id", "No.", [at + 1 for at in rows], 70, 0),
        _text("op", "Op", ops["op"]),
        _text("category", "Category", ops["torch_category"], 92),
        *(_figures(key, title, ops[name], 122, 1, "us") for key, title, name in times),
        *(
            _text(key, title, ops[name], width)
            for key, name, title, width in texts
            if name in ops and ops[name].known().any()
        ),
    )
    return OpsTable(columns, len(ops), left_out, sort, ("category",))


def _most(ops: Table, basis: str) -> list[int]:
    """The rows that a page can bear, in their order."""
    import numpy as np

    if len(ops) <= MOST_ROWS:
        return list(range(len(ops)))
    # NaN sorts behind every figure, so the largest stand first of what is negated.
    most = np.argsort(-ops[basis], kind="stable")[:MOST_ROWS]
    return sorted(most.tolist())


def _figures(
    key: str,
    title: str,
    values: Iterable[Any],
    width: int,
    digits: int,
    unit: str = "",
    rule: str = "",
) -> TableColumn:
    """Figures rounded to what the page can show (more, to sort by); None for what is none."""
    found = [
        None
        if value is None or not math.isfinite(value)
        else round(float(value), 4)
        if digits
        else int(value)
        for value in (values.tolist() if hasattr(values, "tolist") else values)
    ]
    return TableColumn(key, title, found, width, unit, digits, rule)


def _text(
    key: str, title: str, values: Categorical, width: int | None = None, rule: str = ""
) -> TableColumn:
    """Texts; a column without a width has that of its longest text, which is not cut."""
    names = tuple(str(name) for name in values.distinct())
    at = {name: number for number, name in enumerate(names)}
    codes = values.spread([at.get(str(value), -1) for value in values.values], -1).tolist()
    if width is None:
        longest = max(map(words.width, names), default=0)
        width = min(max(round(longest * _NAME_WIDTH) + 20, _NARROWEST), _WIDEST)
    return TableColumn(
        key, title, [None if c < 0 else c for c in codes], width, rule=rule, names=names
    )
