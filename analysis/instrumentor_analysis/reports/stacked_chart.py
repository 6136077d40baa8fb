"""The picture of the stacked report: device time by kind of op, of each device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.charts import Part, colour_of, stacks
from instrumentor_analysis.reports.drawing import WIDTH, Drawing

if TYPE_CHECKING:
    from instrumentor_analysis.load.table import Table

#: Kinds of ops before the rest is one part.
MOST_KINDS = 16
_TITLE = "Device time by kind of op"
_REST = "all others"


def stacked(frame: Table, *, classic: bool = False) -> Drawing:
    """A bar of all device time, or one per device against the longest.

    Args:
        frame: rows of :mod:`instrumentor_analysis.ops.stacked`.
        classic: a colour per op instead of its category's.
    """
    rows = list(frame.records())
    whole = _sums_ms(rows)
    order = sorted(whole, key=lambda name: -whole[name])[:MOST_KINDS]
    looks = {**_looks(order, rows, classic), _REST: ("rest", 1.0)}

    def parts(some: Sequence[Mapping[str, Any]], longest_ms: float) -> tuple[Part, ...]:
        times, rest = dict.fromkeys(order, 0.0), 0.0
        for name, ms in _sums_ms(some).items():
            if name in times:
                times[name] = ms
            else:
                rest += ms
        return tuple(
            Part(name, ms / (longest_ms or 1.0) * 100, f"{name}: {formatting.ms(ms)}", *looks[name])
            for name, ms in {**times, _REST: rest}.items()
            if ms
        )

    devices: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        devices[row.get("device_id")].append(row)
    totals = {device: sum(_sums_ms(mine).values()) for device, mine in sorted(devices.items())}
    bars = {
        ("" if device is None else f"device {device:.0f}: ") + formatting.ms(total): parts(
            devices[device], max(totals.values())
        )
        for device, total in totals.items()
    }
    drawing = stacks(_TITLE, bars, parts(rows, sum(whole.values())))
    return drawing or Drawing(_TITLE, "", (0, 0, WIDTH, 20), ())


def _sums_ms(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        found[str(row["name"])] += row["device_time_us"] / 1000
    return found


def _looks(
    names: Sequence[str], rows: Sequence[dict[str, Any]], classic: bool
) -> dict[str, tuple[str, float]]:
    """Colour and opacity of each kind of op: of one category ever paler, or all different."""
    if classic:
        # --classic-colors, which tt-perf-report has too.
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        return {name: (to_hex(colormaps["tab20"](at)), 1.0) for at, name in enumerate(names)}
    category = {str(row["name"]): str(row["category"] or "Other").lower() for row in rows}
    kinds = [category[name] for name in names]
    return {
        name: (colour_of(kind), max(1 - 0.14 * kinds[:at].count(kind), 0.35))
        for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
