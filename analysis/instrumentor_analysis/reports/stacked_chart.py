"""The picture of the stacked report: device time by kind of op, of each device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.charts import WIDTH, Part, colour_of, stacks
from instrumentor_analysis.reports.drawing import Drawing

if TYPE_CHECKING:
    from instrumentor_analysis.table import Table

#: Kinds of ops before the rest is one part.
MOST_KINDS = 16
_TITLE = "Device time by kind of op"
_REST = "all others"


def stacked(frame: Table, *, classic: bool = False) -> Drawing:
    """A bar of all device time, or one per device against the longest.

    Args:
        frame: rows of :mod:`instrumentor_analysis.stacked`.
        classic: a colour per op instead of its category's.
    """
    rows = list(frame.records())
    whole = _sums(rows)
    order = sorted(whole, key=lambda name: -whole[name])[:MOST_KINDS]
    looks = {**_looks(order, rows, classic), _REST: ("rest", 1.0)}
    by_device: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        by_device.setdefault(row.get("device_id"), []).append(row)
    devices = {device: _sums(mine, order) for device, mine in sorted(by_device.items())}
    longest = max((sum(times.values()) for times in devices.values()), default=0.0)
    bars: dict[str, tuple[Part, ...]] = {}
    for device, times in devices.items():
        where = "" if device is None else f"device {device:.0f}: "
        bars[where + words.ms(sum(times.values()))] = _parts(times, longest, looks)
    every = _sums(rows, order)
    drawing = stacks(_TITLE, bars, _parts(every, sum(every.values()), looks))
    return drawing or Drawing(_TITLE, "", (0, 0, WIDTH, 20), ())


def _sums(
    rows: Sequence[Mapping[str, Any]], apart: Sequence[str] | None = None
) -> dict[str, float]:
    """Milliseconds by name; of names that do not stand apart together, and last."""
    found = dict.fromkeys(apart or (), 0.0)
    for row in rows:
        name = str(row["name"])
        name = name if apart is None or name in found else _REST
        found[name] = found.get(name, 0.0) + row["device_time_us"] / 1000
    return found


def _parts(
    times: Mapping[str, float], whole: float, looks: Mapping[str, tuple[str, float]]
) -> tuple[Part, ...]:
    return tuple(
        Part(name, time / (whole or 1.0) * 100, f"{name}: {words.ms(time)}", *looks[name])
        for name, time in times.items()
        if time
    )


def _looks(
    names: Sequence[str], rows: Sequence[dict[str, Any]], classic: bool
) -> dict[str, tuple[str, float]]:
    """Colour and opacity of each kind of op: of one category ever paler, or all different."""
    if classic:
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        return {name: (to_hex(colormaps["tab20"](at)), 1.0) for at, name in enumerate(names)}
    category = {str(row["name"]): str(row["category"] or "Other").lower() for row in rows}
    seen: dict[str, int] = {}
    looks: dict[str, tuple[str, float]] = {}
    for name in names:
        kind = category[name]
        looks[name] = colour_of(kind), max(1 - 0.14 * seen.get(kind, 0), 0.35)
        seen[kind] = seen.get(kind, 0) + 1
    return looks
