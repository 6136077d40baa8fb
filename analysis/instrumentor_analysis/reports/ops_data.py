"""The ops of a step as columns for the table of a page and for its script."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from instrumentor_analysis.load.op_columns import COLUMNS, in_order
from instrumentor_analysis.model import GAP_THRESHOLD_US
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.shared.units import shapes_in_words

#: More rows than this make a page that no browser likes; the slowest are kept.
MOST_ROWS = 50_000
#: < could end the script element; U+2028 and U+2029 end a string in JavaScript before ES2019.
_UNSAFE = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
#: Column of op names, pixels: width of a character, narrowest and widest column.
_NAME_WIDTH, _NARROWEST, _WIDEST = 7.3, 200, 420
#: Key of a column that is not shown: the page's script colours the cores by it.
_HIDDEN = "grid"
#: Columns that are made here.
_SAVES, _NUMBER = "saves_us", "number"
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


class _Source(Struct, frozen=True):
    """Where a column is from; ``width`` None is that of its longest text, which is not cut.

    Attributes:
        name: of the column of the ops.
        optional: left out where nothing is known.
        form: how a text is shown.
    """

    key: str
    title: str
    name: str
    width: int | None = None
    digits: int | None = None
    unit: str = ""
    rule: str = ""
    optional: bool = False
    form: Callable[[str], str] = str

    def read(self, values: Any) -> TableColumn:
        """The column; figures are rounded to what the page can show, and more, to sort by."""
        if self.digits is None:
            names = tuple(str(name) for name in values.distinct())
            at = {name: number for number, name in enumerate(names)}
            codes = values.spread([at.get(str(value), -1) for value in values.values], -1)
            found = [None if code < 0 else code for code in codes.tolist()]
            names = tuple(map(self.form, names))
            longest = max(map(formatting.width, names), default=0)
            fitting = min(max(round(longest * _NAME_WIDTH) + 20, _NARROWEST), _WIDEST)
            width = fitting if self.width is None else self.width
            return TableColumn(self.key, self.title, found, width, rule=self.rule, names=names)
        figures = [
            None if not math.isfinite(value) else round(value, 4) if self.digits else int(value)
            for value in values.tolist()
        ]
        shown = self.unit, self.digits, self.rule
        return TableColumn(self.key, self.title, figures, self.width or 0, *shown)


#: An op and what it takes come first, so that a narrow page shows both; then what it is.
_FIRST = (
    *("id", "device_id", "op", "device_time_us", "total_percent", "category", "bound", "gap_us"),
    *("cores", "dram_percent", "flops_percent", "limits", _SAVES, "reader_us", "compute_us"),
    *("writer_us", "dram_gb_s", "math_fidelity"),
    *("available_cores", "location"),
)
_DEVICE = tuple(
    _Source(
        each.page.key or each.name,
        each.page.title,
        each.name,
        each.page.width,
        each.digits,
        each.unit,
        each.page.rule,
        each.known,
    )
    for each in in_order(_FIRST, COLUMNS)
    if each.page is not None
)
_TORCH = (
    _Source("id", "No.", _NUMBER, 60, 0),
    _Source("op", "Op", "op"),
    _Source("time", "Device time", "device_time_us", 122, 1, "us", optional=True),
    _Source("self", "Self time", "self_time_us", 116, 1, "us"),
    _Source("duration", "Duration", "duration_us", 112, 1, "us"),
    _Source("start", "Start", "start_us", 100, 1, "us"),
    _Source("category", "Category", "torch_category", 92),
    _Source("module", "Module", "module", 200, optional=True),
    _Source("pass", "Pass", "pass", 92, optional=True),
    _Source("shapes", "Input shapes", "input_shapes", 240, optional=True, form=shapes_in_words),
    _Source("source", "Source", "source", 260, optional=True),
)


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
    import numpy as np

    from instrumentor_analysis.load.table import any_known

    device, arch = detail.device_ops, detail.architecture
    every = detail.torch_ops if device is None else device
    if every is None:
        return None
    on_device = device is not None or any_known(every["device_time_us"])
    sort, basis = ("time", "device_time_us") if on_device else ("self", "self_time_us")
    rows = np.arange(len(every))
    if len(every) > MOST_ROWS:
        # NaN sorts behind every figure, so the largest stand first of what is negated.
        rows = np.sort(np.argsort(-every[basis], kind="stable")[:MOST_ROWS])
    ops = every.take(rows)
    made: dict[str, Any] = {_NUMBER: rows + 1}
    if device is not None and arch is not None:
        from instrumentor_analysis.ops.savings import above_bound_us

        made[_SAVES] = above_bound_us(ops, arch)
    columns: list[TableColumn] = []
    for source in _TORCH if device is None else _DEVICE:
        if source.name in made or source.name in ops:
            column = source.read(made[source.name] if source.name in made else ops[source.name])
            known = len({*column.values} - {None})
            # A single device needs no column.
            if known >= (2 if source.key == "device" else source.optional):
                columns.append(column)
    filters, legend = (
        (("category",), "") if device is None else (("category", "bound", "limits"), _COLOURS)
    )
    left_out = len(every) - len(rows)
    return OpsTable(tuple(columns), len(ops), left_out, sort, filters, legend)
