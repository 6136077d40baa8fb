"""Dataflow buffers as a drawing: who fills each, who empties it, what goes to DRAM."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.kernels.model import Buffer, BufferUse
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.drawing import Bar, Drawing, Label, Line, Shape

#: Left edges of what fills a buffer, of buffers, and of what empties one.
_FROM, _BUFFER, _TO = 10, 300, 590
#: Size of a box and distance of two, units.
_WIDTH, _HEIGHT, _GAP = 200, 34, 16


def graph(buffers: Sequence[Buffer]) -> Drawing | None:
    """Producers on the left, consumers on the right; None without buffers."""
    shapes: list[Shape] = []
    top = 10.0
    for buffer in buffers:
        name, filled, emptied = flow(buffer)
        sides = (_FROM, filled), (_TO, emptied)
        rows = max(1, len(filled), len(emptied))
        middle = top + (rows * (_HEIGHT + _GAP) - _GAP) / 2
        for x, texts in sides:
            for number, text in enumerate(texts):
                y = top + number * (_HEIGHT + _GAP)
                shapes += _box(x, y, text, "line", 1)
                here, there = (x, y + _HEIGHT / 2), (_BUFFER, middle)
                shapes += _arrow(here, there) if x == _FROM else _arrow(there, here)
        shapes += _box(_BUFFER, middle - _HEIGHT / 2, name, "compute", 2)
        top += rows * (_HEIGHT + _GAP) + _GAP
    says = "Dataflow buffers with their producers and consumers"
    return Drawing("Dataflow buffers", says, (0, 0, 800, top), tuple(shapes)) if buffers else None


def flow(buffer: Buffer) -> tuple[str, list[str], list[str]]:
    """A buffer's name, what fills it, and what empties it."""
    name = buffer.name or f"buffer {buffer.index}"
    filled, emptied = ("read", buffer.producers), ("write", buffer.consumers)
    return name, _ends(buffer, *filled), _ends(buffer, *emptied)


def _ends(buffer: Buffer, direction: str, uses: Sequence[BufferUse]) -> list[str]:
    copies = [copy for copy in buffer.copies if copy.direction == direction]
    copied = {copy.function for copy in copies}
    texts = [f"DRAM · {copy.function}:{copy.line}" for copy in copies]
    # A thread that copies is shown once, as the copy.
    texts += [f"{use.function}:{use.line}" for use in uses if use.function not in copied]
    return list(dict.fromkeys(texts))


def _arrow(box: tuple[float, float], end: tuple[float, float]) -> list[Shape]:
    """From the right edge of a box to a point."""
    (x, y), back = end, end[0] - 7
    head = (back, y - 4), end, (back, y + 4)
    return [Line(((box[0] + _WIDTH, box[1]), (x, y)), "muted"), Line(head, "muted", 1.5)]


def _box(x: float, y: float, text: str, colour: str, width: float) -> list[Shape]:
    corners = (x, y), (x + _WIDTH, y), (x + _WIDTH, y + _HEIGHT), (x, y + _HEIGHT), (x, y)
    label = Label(x + _WIDTH / 2, y + _HEIGHT / 2 + 4, formatting.clip(text, 28), "text", "middle")
    return [Bar(x, y, _WIDTH, _HEIGHT, "card", text), Line(corners, colour, width), label]
