"""The per-op and the stacked report as CSV, with tt-perf-report's column names and order.

Figures in full precision (the stacked report with two decimals, as there). A text that a
spreadsheet would take for a formula gets an apostrophe before it, as there; where tt-perf-report
writes ``nan`` for a missing data type, the cell is empty.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from instrumentor_analysis.load.op_columns import COLUMNS, STACKED, in_order
from instrumentor_analysis.load.table import Categorical
from instrumentor_analysis.shared.documents import bounded

if TYPE_CHECKING:
    from instrumentor_analysis.ops.op_report import Report

#: tt-perf-report's columns in its order; further ones stand behind them.
_THEIRS = (
    *("id", "total_percent", "bound", "op", "device_id", "device_time_us", "gap_us", "cores"),
    *("dram_gb_s", "dram_percent", "tflops", "flops_percent", "math_fidelity"),
    *("output_datatype", "input_0_datatype", "input_1_datatype", "dram_sharded"),
    *("input_0_memory", "in0_block_w", "out_subblock_h", "out_subblock_w", "global_call_count"),
    *("sub_device_id", "available_cores", "tt_perf_report_category", "bound_analysis"),
)
_SHOWN = in_order(_THEIRS, [column for column in COLUMNS if column.csv])
#: Whole numbers that are float64 in the frame because some rows have none.
_WHOLE = frozenset(column.name for column in COLUMNS if column.whole)
#: Rows that are joined at once.
_AT_ONCE = 1 << 15
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render(report: Report, *, raw_op_codes: bool = False, advice: bool = True) -> str:
    """One row per op.

    Args:
        raw_op_codes: with a last column ``Raw OP Code``.
        advice: with a column ``Advice``.
    """
    ops = report.ops
    columns = {each.csv: _cells(each.name, ops[each.name]) for each in _SHOWN}
    if advice:
        told = {sentences: _quoted(" • ".join(sentences)) for sentences in report.advice.values()}
        columns["Advice"] = [told.get(report.advice.get(at, ()), "") for at in range(len(ops))]
    if raw_op_codes:
        columns["Raw OP Code"] = _cells("op_code", ops["op_code"])
    return _text(columns)


def render_stacked(report: Report) -> str:
    """One row per kind of op."""
    stacked = report.stacked
    shown = [each for each in STACKED if each.csv and each.name in stacked]
    return _text({each.csv: _cells(each.name, stacked[each.name], digits=2) for each in shown})


def _text(columns: dict[str, list[str]]) -> str:
    rows = map(",".join, zip(*columns.values(), strict=True))
    parts = [",".join(map(_quoted, columns))]
    # In pieces: half a million rows as single texts take more memory than all of their columns.
    while part := "\n".join(islice(rows, _AT_ONCE)):
        parts.append(part)
    return "\n".join([*parts, ""])


def _cells(name: str, values: Any, digits: int | None = None) -> list[str]:
    """Cells of a column: empty for blank, whole numbers whole, texts that nothing evaluates.

    Half a million rows have few distinct texts, and not many distinct figures.
    """
    if isinstance(values, Categorical):
        texts = ["" if value is None else _quoted(_literal(value)) for value in values.values]
        return values.each(texts, "")
    distinct, which = np.unique(values, return_inverse=True)
    shown: Callable[[Any], str] = str
    if name in _WHOLE:
        shown = _whole
    elif digits is not None and values.dtype.kind == "f":
        shown = f"{{:.{digits}f}}".format
    texts = ["" if value != value else shown(value) for value in distinct.tolist()]
    return [texts[at] for at in which.reshape(-1).tolist()]


def _whole(value: float) -> str:
    return str(int(value))


def _quoted(cell: str) -> str:
    """A cell as the csv module writes it."""
    out = io.StringIO()
    # With an empty cell behind it: a row of one empty cell alone is written as "".
    csv.writer(out, lineterminator="").writerow([cell, ""])
    return out.getvalue()[:-1]


def _literal(value: Any) -> str:
    text = bounded(str(value))
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
