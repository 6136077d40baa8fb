"""Figures as a reader sees them: one function from a value with its unit to text.

Three significant digits, in the unit that reads best: ``1.87 MFLOPs``, ``26,100 samples/s``,
``1.05 s``, ``5.1 us``. Documents keep the units that their names say; this is for people.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from instrumentor_analysis.shared.documents import parsed

NOT_MEASURED = "not measured"
#: The same in a cell of a table, under a heading that says what it is.
ABSENT = "-"

_DIGITS = 3
#: In seconds, the largest first; below 100 s there are no minutes.
_TIMES = {"min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_LEAST_MINUTES = 100.0
_PREFIXES = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0}
#: Units that take a prefix. Rates such as samples/s do not: their thousands are written out.
_PREFIXED = ("FLOPs", "FLOP/s", "B", "B/s")
_FAMILIES = (
    _TIMES,
    *({f"{prefix}{base}": factor for prefix, factor in _PREFIXES.items()} for base in _PREFIXED),
)
#: Units of figures as a dashboard wants them: the base unit, and what one is of it. A new unit of a
#: figure is a row here.
BASE = {
    "": ("", 1.0),
    "ms": ("seconds", 1e-3),
    "us": ("seconds", 1e-6),
    "%": ("ratio", 1e-2),
    "B": ("bytes", 1.0),
    "TFLOP/s": ("flops_per_second", 1e12),
    "FLOPs": ("flops", 1.0),
    "W": ("watts", 1.0),
    "J": ("joules", 1.0),
    "samples/s": ("samples_per_second", 1.0),
    "tokens/s": ("tokens_per_second", 1.0),
}
#: Of each unit all that may stand for it, with their factors.
_UNITS = {unit: family for family in _FAMILIES for unit in family}


def measured(value: float | None) -> bool:
    """There is a figure: neither None nor NaN nor infinite."""
    return value is not None and math.isfinite(value)


def quantity(
    value: float | None, unit: str = "", absent: str = NOT_MEASURED, *, signed: bool = False
) -> str:
    """``412 ms``: a value of that unit as text, in the larger or smaller unit that reads better.

    Args:
        unit: of the value: a time (``us``, ``ms``, ``s``), ``B``, ``FLOPs``, ``FLOP/s`` with any
            prefix, ``%``, anything else as it is; empty for a count.
        absent: what stands for no figure, which has no unit.
        signed: a change in percent, with its sign.
    """
    if value is None or not math.isfinite(value):
        return absent
    if unit == "%":
        return f"{value:{'+' if signed else ''},.1f} %"
    scaled, shown = _scaled(value, unit)
    text = f"{round(scaled):,}" if shown in ("", "B") else number(scaled)
    return f"{text} {shown}".rstrip()


def size(count: int) -> str:
    """Bytes as a reader sees them, in powers of ten: ``14.7 MB``."""
    return quantity(count, "B")


def number(value: float, digits: int = _DIGITS) -> str:
    """So many significant digits with thousands separators; zeros beyond the first decimal go."""
    return _short(f"{_rounded(value, digits):,.{_decimals(value, digits)}f}")


def column(
    values: Sequence[float | None], unit: str, like: Sequence[float | None] = ()
) -> list[str]:
    """Figures of one column: one unit and so many decimals as suit the largest of them.

    Args:
        like: further figures of that unit which decide with them.
    """
    texts, shown = alike(values, unit, like, _DIGITS + 1)
    return [text if text == ABSENT else f"{text} {shown}".rstrip() for text in texts]


def alike(
    values: Sequence[float | None],
    unit: str,
    like: Sequence[float | None] = (),
    digits: int = _DIGITS,
    of: float | None = None,
) -> tuple[list[str], str]:
    """Numbers that stand side by side, all with the same unit and decimals, and that unit.

    Args:
        digits: significant ones of the largest.
        of: the figure beside which they stand: unit and decimals are its own, not the largest's.
    """
    counting = [*values, *like] if of is None else [of]
    known = [value for value in counting if value is not None and math.isfinite(value)]
    largest = max(map(abs, known), default=0.0)
    scaled, shown = _scaled(largest, unit)
    factor = scaled / largest if largest else 1.0
    decimals = {"": 0, "%": 1}.get(unit, min(_decimals(scaled, digits), 3))
    return [
        ABSENT if v is None or not math.isfinite(v) else f"{v * factor:,.{decimals}f}"
        for v in values
    ], shown


def adding_up(
    values: Sequence[float],
    unit: str,
    whole: float,
    figure: Sequence[int] = (),
    rest: int | None = None,
) -> tuple[list[str], str]:
    """The parts of a whole with its unit and decimals, such that those shown add up to it as shown.

    Each is rounded by itself and the rest is what they leave; without one, or where they leave
    nothing, those are rounded up that lose most by rounding down. What does not add up by itself is
    rounded each by itself.

    Args:
        figure: positions of the parts that together are a figure of its own: they add up to that
            one as it is rounded by itself, since it stands elsewhere, too.
        rest: position of the part that is what the others leave.
    """
    texts, shown = alike([whole, *values], unit, of=whole)
    decimals = len(texts[0].partition(".")[2])
    factor = _scaled(whole, unit)[0] / whole if whole else 0.0
    total, *near = (_last_digits(value * factor, decimals) for value in (whole, *values))
    exact = [value * factor * 10**decimals for value in values]
    if not 0 <= total - sum(map(math.floor, exact)) <= len(exact):
        return [_short(each) for each in texts[1:]], shown
    its_own = _last_digits(sum(values[at] for at in figure) * factor, decimals)
    others = {at: near[at] for at in range(len(near)) if at not in figure}
    left = total - its_own - sum(others.values())
    if rest in others and others[rest] + left >= 0:
        others[rest] += left
    else:
        others = _shared(exact, others, total - its_own)
    digits = others | _shared(exact, figure, its_own)
    return [_short(f"{digits[at] / 10**decimals:,.{decimals}f}") for at in range(len(near))], shown


def _last_digits(value: float, decimals: int) -> int:
    """A value as it is shown, in units of its last digit."""
    return round(float(f"{value:.{decimals}f}") * 10.0**decimals)


def _shared(exact: Sequence[float], places: Collection[int], total: int) -> dict[int, int]:
    """A total shared among the numbers at these places: each is rounded down or up."""
    down = {at: math.floor(exact[at]) for at in places}
    missing = max(0, total - sum(down.values()))
    for at in sorted(places, key=lambda at: down[at] - exact[at])[:missing]:
        down[at] += 1
    return down


def _short(text: str) -> str:
    """A number without the zeros beyond its first decimal."""
    whole, point, fraction = text.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}" if point else whole


def _decimals(value: float, digits: int) -> int:
    """Digits behind the point that show so many significant ones, after rounding."""
    rounded = abs(_rounded(value, digits))
    return max(digits - 1 - math.floor(math.log10(rounded)), 0) if rounded else 0


def _rounded(value: float, digits: int = _DIGITS) -> float:
    return float(f"{value:.{digits}g}")


def _scaled(value: float, unit: str) -> tuple[float, str]:
    """The value in the unit that reads best, after rounding: 999.9 ms are 1.0 s."""
    units = _UNITS.get(unit)
    if units is None and "/" in unit:
        head, _, per = unit.partition("/")
        scaled, head = _scaled(value, head)
        return scaled, f"{head}/{per}"
    if units is None or not value:
        return value, unit
    plain = value * units[unit]
    size = abs(_rounded(plain))
    fitting = [name for name, factor in units.items() if size >= factor]
    shown = next(
        (name for name in fitting if name != "min" or size >= _LEAST_MINUTES),
        min(units, key=lambda name: units[name]),
    )
    return plain / units[shown], shown


def types_in_words(text: str) -> str:
    """``["float", "", "Scalar"]`` as ``float, none, Scalar``; what is no list of names stays."""
    try:
        return ", ".join(str(each) or "none" for each in parsed(text))
    except (ValueError, TypeError):
        return text


def shapes_in_words(text: str) -> str:
    """``[[64, 3, 32, 32], []]`` as ``64x3x32x32, scalar``; what is no list of shapes stays."""
    try:
        shapes = parsed(text)
        return ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)
    except (ValueError, TypeError):
        return text
