"""The single ops of one analysed step, each with what tells it apart from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from instrumentor_analysis.compare.model import OpKind
from instrumentor_analysis.shared.units import shapes_in_words, types_in_words

if TYPE_CHECKING:
    from instrumentor_analysis.load.table import Floats, Table
    from instrumentor_analysis.summary.analysis import Analysis

#: What the times of ops are called that the host took.
HOST_TIME = "self time"
_TENSORS = ("input_0", "input_1", "output_0")
#: Axes in the CSV's column names, outermost first: INPUT_0_W, INPUT_0_Z and so on.
_AXES = ("w", "z", "y", "x")


class OpList(Struct, frozen=True):
    """The ops of one step in order.

    Attributes:
        kinds: the distinct ones.
        sequence: per op the position of its kind.
        times_us: per op its time, None where it was not timed.
        time: what that is: ``device time`` or ``self time``.
    """

    kinds: tuple[OpKind, ...]
    sequence: tuple[int, ...]
    times_us: tuple[float | None, ...]
    time: str


def op_list(analysis: Analysis) -> OpList | None:
    """The ops of the analysis's window; None when there are none."""
    if analysis.ops is None:
        return None
    if analysis.device is not None:
        return _device_ops(analysis)
    return _torch_ops(analysis.ops)


def _device_ops(analysis: Analysis) -> OpList | None:
    from instrumentor_analysis.load.table import number
    from instrumentor_analysis.ops.merge import merge_devices

    assert analysis.ops is not None and analysis.device is not None
    # Per-op figures have no tensors: those are in the raw rows that the figures are made of.
    rows, ops = merge_devices(analysis.device.rows)[0], analysis.ops
    if len(rows) != len(ops):
        return None
    columns = [c for c in _kind_columns() if c in rows]
    kept = ~ops["is_signpost"]
    which, first = number(*(rows[name] for name in columns))
    firsts = rows.take(first).records(columns)
    return OpList(
        tuple(
            _device_kind({name: "" if cell is None else cell for name, cell in cells.items()})
            for cells in firsts
        ),
        tuple(which[kept].tolist()),
        _times(ops["device_time_us"][kept]),
        "device time",
    )


def _kind_columns() -> list[str]:
    parts = [*_AXES, "datatype", "memory"]
    return ["op_code", *(f"{tensor}_{part}" for tensor in _TENSORS for part in parts)]


def _device_kind(cells: Mapping[str, Any]) -> OpKind:
    """The kind of one row; a tensor that is not there is left out."""
    from instrumentor_analysis.load.cells import clean

    here = [t for t in _TENSORS if any(cells.get(f"{t}_{axis}", "") != "" for axis in _AXES)]
    shapes = ["x".join(_logical(cells.get(f"{t}_{a}", "")) for a in _AXES) for t in here]
    return OpKind(
        op=clean(str(cells["op_code"])),
        shapes=_to_output(here, shapes),
        types=_to_output(here, [str(cells.get(f"{t}_datatype", "")) for t in here]),
        memory=_to_output(here, [_memory(cells.get(f"{t}_memory", "")) for t in here]),
    )


def _to_output(tensors: Sequence[str], texts: Sequence[str]) -> str:
    """``a, b -> out``; the output alone, or the inputs alone, where there is no more."""
    inputs = [x for t, x in zip(tensors, texts, strict=True) if t != "output_0" and x]
    outputs = [x for t, x in zip(tensors, texts, strict=True) if t == "output_0" and x]
    return " -> ".join(part for part in (", ".join(inputs), ", ".join(outputs)) if part)


def _logical(cell: Any) -> str:
    """The logical extent: ``19`` of ``32[19]`` (padded[logical] in format v2), or the number."""
    text = str(cell)
    inner = text[text.find("[") + 1 : -1] if text.endswith("]") else text
    return inner.removesuffix(".0")


def _memory(cell: Any) -> str:
    """``DRAM_INTERLEAVED`` of ``DEV_0_DRAM_INTERLEAVED``: which device it is tells no ops apart."""
    text = str(cell)
    head, _, rest = text.partition("_")
    number, _, place = rest.partition("_")
    return place if head == "DEV" and number.isdigit() and place else text


def _torch_ops(ops: Table) -> OpList:
    from instrumentor_analysis.load.table import any_known, number

    on_device = any_known(ops["device_time_us"])
    columns = [c for c in ("op", "input_shapes", "input_dtypes") if c in ops]
    which, first = number(*(ops[name] for name in columns))
    kinds = [
        OpKind(
            op=str(row["op"]),
            shapes=shapes_in_words(str(row.get("input_shapes") or "")),
            types=types_in_words(str(row.get("input_dtypes") or "")),
        )
        for row in ops.take(first).records(columns)
    ]
    return OpList(
        tuple(kinds),
        tuple(which.tolist()),
        _times(ops["device_time_us" if on_device else "self_time_us"]),
        "device time" if on_device else HOST_TIME,
    )


def _times(column: Floats) -> tuple[float | None, ...]:
    return tuple(None if value != value else value for value in column.tolist())
