"""What was taken once on each side: figures, and device time by category, line and module.

Where the batch sizes differ, times that grow with the batch are divided by it (``per``).
"""

from __future__ import annotations

from typing import Any

from instrumentor_analysis.comparison.model import Better, Figure, Share
from instrumentor_analysis.comparison.side import Side, as_number, objects

#: Key in summary.json, name, unit, which way is better, and whether it grows with the batch.
_FIGURES: tuple[tuple[str, str, str, Better, bool], ...] = (
    ("device_time_ms", "device time", "ms", "lower", True),
    ("device_time.firmware_ms", "device time by firmware", "ms", "lower", True),
    ("op_self_time_ms", "op self time", "ms", "lower", True),
    ("overhead_percent", "overhead", "%", "lower", False),
    ("dispatch_ms_per_op", "dispatch per op", "ms", "lower", False),
    ("op_count", "ops", "", "lower", False),
    ("host_op_count", "ops on the host", "", "lower", False),
    ("gaps.median_us", "op-to-op gap, median", "us", "lower", False),
    ("matmul_flops_percent", "matmul FLOPs", "%", "higher", False),
    ("dram_percent", "DRAM", "%", "higher", False),
    ("program_cache_hit_percent", "program cache", "%", "higher", False),
    ("wall_clock_ms.compile", "compile step", "ms", "lower", False),
)


def figures(base: Side, new: Side, basis: str, per: tuple[int, int]) -> tuple[Figure, ...]:
    """Figures that one of the sides has at least."""
    found: list[Figure] = []
    for key, name, unit, better, grows in _FIGURES:
        values = [side.number(*key.split(".")) for side in (base, new)]
        if values == [None, None]:
            continue
        if grows and basis == "sample":
            unit = f"{unit}/sample"
            values = [None if v is None else v / n for v, n in zip(values, per, strict=True)]
        found.append(Figure(key, name, unit, values[0], values[1], better))
    return tuple(found)


def categories(base: Side, new: Side, per: tuple[int, int]) -> tuple[Share, ...]:
    old, now = base.mapping("categories"), new.mapping("categories")
    if not old or not now:
        return ()
    names = list(dict.fromkeys((*old, *now)))
    return tuple(_share(name, old.get(name), now.get(name), per) for name in names)


def located(base: Side, new: Side, key: str, per: tuple[int, int]) -> tuple[Share, ...]:
    """Source lines or modules, most difference first; empty without them on both sides."""
    old, now = (_by_place(side.mapping("locations").get(key)) for side in (base, new))
    if not old or not now:
        return ()
    names = dict.fromkeys((*old, *now))
    shares = [_share(name, old.get(name), now.get(name), per) for name in names]
    return tuple(sorted(shares, key=lambda share: (-abs(share.change_ms), share.name)))


def _by_place(entries: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in objects(entries):
        once = " (once)" if entry.get("const_eval") is True else ""
        name = f"{entry['file']}:{entry.get('line')}" if "file" in entry else entry.get("name")
        found[f"{name}{once}"] = entry
    return found


def _share(name: str, old: Any, now: Any, per: tuple[int, int]) -> Share:
    def time(entry: Any, size: int) -> float | None:
        value = as_number(entry.get("device_time_ms")) if isinstance(entry, dict) else None
        return None if value is None else value / size

    def count(entry: Any) -> int | None:
        value = as_number(entry.get("op_count")) if isinstance(entry, dict) else None
        return None if value is None else int(value)

    return Share(name, time(old, per[0]), time(now, per[1]), count(old), count(now))
