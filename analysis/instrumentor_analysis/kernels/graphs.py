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
        value: what was read; of a cut one, the objects that are whole.
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
    except (ValueError, RecursionError) as error:
        whole = list(_whole_objects(text, start))
        problem = f"the JSON is cut or damaged: {getattr(error, 'msg', error)}"
        return Document(whole, len(lines), problem)
    return Document(value, text.count("\n", 0, end) + 1)


def _whole_objects(text: str, start: int) -> Iterator[Any]:
    """The elements of the first array that can still be read."""
    decoder = json.JSONDecoder()
    at = text.find("[", start)
    while at >= 0:
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


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
    return Buffer(
        index=index,
        name=str(entry.get("name") or ""),
        producers=_uses(entry.get("producers")),
        consumers=_uses(entry.get("consumers")),
        copies=_uses(entry.get("dma_ops")),
    )


def _uses(value: Any) -> tuple[BufferUse, ...]:
    entries = value if isinstance(value, list) else []
    return tuple(
        BufferUse(
            function=str(entry.get("kernel") or ""),
            thread=str(entry.get("thread") or ""),
            line=entry["line"] if isinstance(entry.get("line"), int) else 0,
            operation=str(entry.get("op") or ""),
            direction=str(entry.get("direction") or ""),
        )
        for entry in entries
        if isinstance(entry, Mapping)
    )


def _first(entry: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _end(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
