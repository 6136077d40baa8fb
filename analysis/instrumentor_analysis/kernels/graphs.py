"""CB / DFB FLOW GRAPH and PIPE GRAPH: JSON below a heading, which a killed run cuts short."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from instrumentor_analysis.kernels.model import Buffer, BufferUse, Pipe

_LISTS = ("circular_buffers", "dataflow_buffers", "buffers")
_INDEX = ("cb_index", "dfb_index", "index")
_SOURCE = ("src", "source", "src_core", "src_node", "from", "sender")
_TARGET = ("dst", "dest", "destination", "dst_core", "dst_nodes", "dst_range", "to", "receivers")


class Document(Struct, frozen=True):
    """A JSON value in a log.

    Attributes:
        value: what was read; None of a cut one.
        lines: how many lines it takes.
        problem: why it is not whole; empty when it is.
    """

    value: Any
    lines: int
    problem: str = ""


def read_document(lines: Sequence[str]) -> Document | None:
    """The first JSON object or array of the lines; None when there is none."""
    text = "\n".join(lines)
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    if not starts:
        return None
    start = min(starts)
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    # Brackets nested deep in a damaged log exhaust the recursion of json.
    except (ValueError, RecursionError) as error:
        problem = f"the JSON is cut or damaged: {getattr(error, 'msg', error)}"
        return Document(None, len(lines), problem)
    return Document(value, text.count("\n", 0, end) + 1)


def read_buffers(value: Any) -> list[Buffer]:
    """The buffers of a flow graph, by index; anything of another shape is passed over."""
    found = [_buffer(entry) for entry in _entries(value, _LISTS)]
    return sorted((b for b in found if b is not None), key=lambda b: b.index)


def read_pipes(value: Any) -> list[Pipe]:
    """The pipes of a graph whose entries name two ends."""
    found = []
    for entry in _entries(value, ("pipes", "edges", "pipe_graph")):
        source, target = _first(entry, _SOURCE), _first(entry, _TARGET)
        if source is not None and target is not None:
            found.append(Pipe(_end(source), _end(target)))
    return found


def _entries(value: Any, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        value = next((value[n] for n in names if isinstance(value.get(n), list)), [value])
    if isinstance(value, list):
        yield from (entry for entry in value if isinstance(entry, Mapping))


def _buffer(entry: Mapping[str, Any]) -> Buffer | None:
    index = _first(entry, _INDEX)
    if not isinstance(index, int):
        return None
    ends = (_uses(entry.get(name)) for name in ("producers", "consumers", "dma_ops"))
    return Buffer(index, str(entry.get("name") or ""), *ends)


def _uses(value: Any) -> tuple[BufferUse, ...]:
    found = []
    for entry in _entries(value if isinstance(value, list) else [], ()):
        line = entry["line"] if isinstance(entry.get("line"), int) else 0
        words = (str(entry.get(name) or "") for name in ("kernel", "thread", "op", "direction"))
        function, thread, operation, direction = words
        found.append(BufferUse(function, thread, line, operation, direction))
    return tuple(found)


def _first(entry: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _end(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
