"""The ops of a step as columns for the table of report.html and for its script."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict

from instrumentor_analysis.reports.detail import Detail

if TYPE_CHECKING:
    from instrumentor_analysis.roofline import Architecture
    from instrumentor_analysis.table import Categorical, Table

#: More rows than this make a page that no browser likes; the slowest are kept.
MOST_ROWS = 50_000
_UNSAFE = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class TableColumn(Struct, frozen=True):
    """One column of the table.

    Attributes:
        key: of the data, and in the page's address.
        title, unit: of the heading.
        digits: decimals of a figure; None for text.
        rule: how the script colours it: ``gap``, ``cores``, ``bound``, ``share`` or nothing.
        values: one per row; with ``names``, positions in there.
        names: distinct texts.
    """

    key: str
    title: str
    values: Sequence[Any]
    unit: str = ""
    digits: int | None = None
    rule: str = ""
    names: tuple[str, ...] | None = None


class OpsTable(Struct, frozen=True):
    """All columns, and how many rows were left out."""

    columns: tuple[TableColumn, ...] = ()
    rows: int = 0
    left_out: int = 0
    sort: str = ""
    filters: tuple[str, ...] = field(default=())

    def for_script(self) -> dict[str, Any]:
        """What the page's script reads; not by :func:`.model.plain`, which looks at each cell."""
        return {**asdict(self), "columns": [asdict(column) for column in self.columns]}


def script_safe(document: Mapping[str, Any]) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


def ops_table(detail: Detail) -> OpsTable:
    """The table of a step's ops; without columns when there are none."""
    if detail.device_ops is not None:
        return _device(detail.device_ops, detail.architecture)
    if detail.torch_ops is not None:
        return _torch(detail.torch_ops)
    return OpsTable()


def _device(every: Table, arch: Architecture | None) -> OpsTable:
    rows = _most(every, "device_time_us")
    ops, left_out = every.take(rows), len(every) - len(rows)
    columns = [
        TableColumn("id", "ID", _numbers(ops["id"], 0), digits=0),
        _text("op", "Op", ops["op"]),
        _text("category", "Category", ops["category"]),
        _text("bound", "Bound", ops["bound"], rule="bound"),
        TableColumn("share", "Total", _numbers(ops["total_percent"]), "%", 2, "share"),
        TableColumn("time", "Device time", _numbers(ops["device_time_us"]), "us", 1),
        TableColumn("gap", "Gap before", _numbers(ops["gap_us"]), "us", 1, "gap"),
        TableColumn("cores", "Cores", _numbers(ops["cores"], 0), "", 0, "cores"),
        TableColumn("dram", "DRAM", _numbers(ops["dram_percent"]), "%", 1, "use"),
        TableColumn("flops", "FLOPs", _numbers(ops["flops_percent"]), "%", 1, "use"),
        *([] if arch is None else [_saves(ops, arch)]),
        TableColumn("dram_gbs", "DRAM", _numbers(ops["dram_gb_s"]), "GB/s", 0),
        _text("fidelity", "Math fidelity", ops["math_fidelity"]),
        TableColumn("grid", "Grid", _numbers(ops["available_cores"], 0), "", 0),
    ]
    if len({*_numbers(ops["device_id"], 0)} - {None}) > 1:
        columns.insert(1, TableColumn("device", "Device", _numbers(ops["device_id"], 0), "", 0))
    if "location" in ops:
        columns.append(_text("location", "Location", ops["location"]))
    return OpsTable(tuple(columns), len(ops), left_out, "time", ("category", "bound"))


def _saves(ops: Table, arch: Architecture) -> TableColumn:
    from instrumentor_analysis.savings import above_bound_us

    return TableColumn("saves", "Saves", _numbers(above_bound_us(ops, arch)), "us", 1)


def _torch(every: Table) -> OpsTable:
    on_device = bool((every["device_time_us"] == every["device_time_us"]).any())
    basis = "device_time_us" if on_device else "self_time_us"
    rows = _most(every, basis)
    ops, left_out = every.take(rows), len(every) - len(rows)
    columns = [
        TableColumn("id", "No.", [at + 1 for at in rows], digits=0),
        _text("op", "Op", ops["op"]),
        _text("category", "Category", ops["torch_category"]),
        TableColumn("start", "Start", _numbers(ops["start_us"]), "us", 1),
        TableColumn("duration", "Duration", _numbers(ops["duration_us"]), "us", 1),
        TableColumn("self", "Self time", _numbers(ops["self_time_us"]), "us", 1),
    ]
    if on_device:
        columns.append(TableColumn("time", "Device time", _numbers(ops["device_time_us"]), "us", 1))
    for key, name, title in (
        ("shapes", "input_shapes", "Input shapes"),
        ("source", "source", "Source"),
    ):
        if name in ops and ops[name].known().any():
            columns.append(_text(key, title, ops[name]))
    sort = "time" if on_device else "self"
    return OpsTable(tuple(columns), len(ops), left_out, sort, ("category",))


def _most(ops: Table, basis: str) -> list[int]:
    """The rows that a page can bear, in their order."""
    import numpy as np

    if len(ops) <= MOST_ROWS:
        return list(range(len(ops)))
    # NaN sorts behind every figure, so the largest stand first of what is negated.
    most = np.argsort(-ops[basis], kind="stable")[:MOST_ROWS]
    return sorted(most.tolist())


def _numbers(values: Iterable[Any], digits: int = 4) -> list[float | int | None]:
    """Figures rounded to what the page can show; None for what is none."""
    found: list[float | int | None] = []
    for value in values.tolist() if hasattr(values, "tolist") else values:
        if value is None or not math.isfinite(value):
            found.append(None)
        else:
            found.append(int(value) if digits == 0 else round(float(value), digits))
    return found


def _text(key: str, title: str, values: Categorical, rule: str = "") -> TableColumn:
    names = tuple(str(name) for name in values.distinct())
    at = {name: number for number, name in enumerate(names)}
    codes = values.spread([at.get(str(value), -1) for value in values.values], -1).tolist()
    return TableColumn(key, title, [None if c < 0 else c for c in codes], rule=rule, names=names)
