"""Dataflow buffers as a drawing: who fills each, who empties it, what goes to DRAM."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from instrumentor_analysis.kernels.model import Buffer, BufferUse

_COLUMNS = (10, 300, 590)
_WIDTH, _HEIGHT, _GAP = 200, 34, 16


def render(buffers: Sequence[Buffer]) -> str:
    """An SVG element; an empty string without buffers."""
    if not buffers:
        return ""
    parts: list[str] = []
    top = 10
    for buffer in buffers:
        left = _ends(buffer, "read", buffer.producers)
        right = _ends(buffer, "write", buffer.consumers)
        rows = max(len(left), len(right), 1)
        middle = top + (rows * (_HEIGHT + _GAP) - _GAP) / 2
        parts += _side(left, _COLUMNS[0], top, middle, to_right=True)
        parts += _side(right, _COLUMNS[2], top, middle, to_right=False)
        name = buffer.name or f"buffer {buffer.index}"
        parts.append(_box(_COLUMNS[1], middle - _HEIGHT / 2, name, "buffer"))
        top += rows * (_HEIGHT + _GAP) + _GAP
    return (
        f'<svg class="flow" viewBox="0 0 800 {top:.0f}" role="img" '
        'aria-label="Dataflow buffers with their producers and consumers">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>'
        + "".join(parts)
        + "</svg>"
    )


def _ends(buffer: Buffer, direction: str, uses: Sequence[BufferUse]) -> list[str]:
    copies = [copy for copy in buffer.copies if copy.direction == direction]
    words = [f"DRAM · {copy.function}:{copy.line}" for copy in copies]
    copied = {copy.function for copy in copies}
    words += [f"{use.function}:{use.line}" for use in uses if use.function not in copied]
    return list(dict.fromkeys(words))


def _side(
    words: Sequence[str], x: float, top: float, middle: float, *, to_right: bool
) -> list[str]:
    parts = []
    for number, word in enumerate(words):
        y = top + number * (_HEIGHT + _GAP)
        parts.append(_box(x, y, word, "end"))
        center = y + _HEIGHT / 2
        start = (x + _WIDTH, center) if to_right else (_COLUMNS[1] + _WIDTH, middle)
        end = (_COLUMNS[1], middle) if to_right else (x, center)
        parts.append(
            f'<path class="edge" marker-end="url(#tip)" '
            f'd="M{start[0]:.0f} {start[1]:.1f} L{end[0]:.0f} {end[1]:.1f}"/>'
        )
    return parts


def _box(x: float, y: float, text: str, kind: str) -> str:
    shown = text if len(text) <= 28 else text[:27] + "…"
    return (
        f'<g class="{kind}"><title>{escape(text)}</title>'
        f'<rect x="{x:.0f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"/>'
        f'<text x="{x + _WIDTH / 2:.0f}" y="{y + _HEIGHT / 2 + 4:.1f}">{escape(shown)}</text></g>'
    )
