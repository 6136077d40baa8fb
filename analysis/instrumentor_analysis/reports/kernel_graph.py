"""Dataflow buffers as a drawing: who fills each, who empties it, what goes to DRAM."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.kernels.model import Buffer, BufferUse
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.drawing import Bar, Drawing, Label, Line, Shape

_COLUMNS = (10, 300, 590)
_WIDTH, _HEIGHT, _GAP = 200, 34, 16


def graph(buffers: Sequence[Buffer]) -> Drawing | None:
    """Producers on the left, consumers on the right; None without buffers."""
    shapes: list[Shape] = []
    top = 10.0
    for buffer in buffers:
        left = _ends(buffer, "read", buffer.producers)
        right = _ends(buffer, "write", buffer.consumers)
        rows = max(len(left), len(right), 1)
        middle = top + (rows * (_HEIGHT + _GAP) - _GAP) / 2
        shapes += _side(left, _COLUMNS[0], top, middle, to_right=True)
        shapes += _side(right, _COLUMNS[2], top, middle, to_right=False)
        name = buffer.name or f"buffer {buffer.index}"
        shapes += _box(_COLUMNS[1], middle - _HEIGHT / 2, name, "compute", 2)
        top += rows * (_HEIGHT + _GAP) + _GAP
    says = "Dataflow buffers with their producers and consumers"
    return Drawing("Dataflow buffers", says, (0, 0, 800, top), tuple(shapes)) if buffers else None


def _ends(buffer: Buffer, direction: str, uses: Sequence[BufferUse]) -> list[str]:
    copies = [copy for copy in buffer.copies if copy.direction == direction]
    texts = [f"DRAM · {copy.function}:{copy.line}" for copy in copies]
    copied = {copy.function for copy in copies}
    texts += [f"{use.function}:{use.line}" for use in uses if use.function not in copied]
    return list(dict.fromkeys(texts))


def _side(
    texts: Sequence[str], x: float, top: float, middle: float, *, to_right: bool
) -> list[Shape]:
    """Boxes in a column, each with an arrow to the buffer or from it."""
    shapes: list[Shape] = []
    for number, text in enumerate(texts):
        y = top + number * (_HEIGHT + _GAP)
        shapes += _box(x, y, text, "line", 1)
        center = y + _HEIGHT / 2
        start = (x + _WIDTH, center) if to_right else (_COLUMNS[1] + _WIDTH, middle)
        end = (_COLUMNS[1], middle) if to_right else (x, center)
        back = end[0] - 7
        shapes.append(Line((start, end), "muted"))
        shapes.append(Line(((back, end[1] - 4), end, (back, end[1] + 4)), "muted", 1.5))
    return shapes


def _box(x: float, y: float, text: str, colour: str, width: float) -> list[Shape]:
    corners = (x, y), (x + _WIDTH, y), (x + _WIDTH, y + _HEIGHT), (x, y + _HEIGHT), (x, y)
    middle = x + _WIDTH / 2, y + _HEIGHT / 2 + 4
    return [
        Bar(x, y, _WIDTH, _HEIGHT, "card", text),
        Line(corners, colour, width),
        Label(*middle, words.clip(text, 28), "text", "middle"),
    ]
