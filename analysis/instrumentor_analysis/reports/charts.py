"""The figures of a run: step times, where the time goes, gaps."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from instrumentor_analysis.model import GAP_THRESHOLD_US, Gaps, Step, Summary
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.breakdown import on_device
from instrumentor_analysis.reports.document import Column, Table
from instrumentor_analysis.reports.drawing import (
    CHARACTER,
    COLOURS,
    PARTS,
    WIDTH,
    Bar,
    Drawing,
    Key,
    Label,
    Line,
    Scale,
    Shape,
    at_every_width,
    grid,
    in_unit,
)
from instrumentor_analysis.reports.headline import parts_in_figures, step_word, title

#: Ops of their own in a stacked bar before the rest is one part.
MOST_PARTS = 8
#: Kinds of steps whose times say nothing about the others, and what the key calls them: the first
#: step may compile, and need not.
APART = {"compile": "first step", "warmup": "warm-up", "profiled": "profiled"}
#: Steps drawn; of more, the last ones.
MOST_STEPS = 200
#: Height of the chart of steps; height of a stacked bar and distance of two of them; units.
_HEIGHT, _BAR, _PITCH = 180.0, 28.0, 62.0
#: Characters of a name in the keys.
_LONGEST_NAME = 40
#: Share from which a part is named within its bar, where the name has room, percent.
_NAMED_PERCENT = 6.0
#: Width of a character of such a name, where many of them may be wide ones, units.
_WIDE = 7.5
#: Room for a step's name below its bar, units; with less, round numbers.
_NAME_ROOM = 25.0
#: Room for a number below the bars, units.
_NUMBER_ROOM = 60.0


class Part(Struct, frozen=True):
    """One part of a stacked bar: its share of the whole and what a pointer on it says.

    Attributes:
        figure: behind the name, where both have room.
    """

    name: str
    percent: float
    text: str
    kind: str = ""
    opacity: float = 1.0
    figure: str = ""


def steps(summary: Summary) -> Drawing | None:
    """Wall clock of each step and, in it, its device time; None when fewer than two were timed.

    A compile step that dwarfs the others is cut off and says how long it was.
    """
    timed = [step for step in summary.steps if formatting.measured(step.wall_clock_ms)]
    if len(timed) < 2:
        return None
    return at_every_width(lambda width: _steps(summary, timed, width))


def _steps(summary: Summary, timed: Sequence[Step], width: float) -> Drawing:
    shown = timed[-MOST_STEPS:]
    every = [(step.kind in APART, step.wall_clock_ms or 0.0) for step in shown]
    # Those that can be compared: steady ones, not under a profiler.
    longest = max([ms for apart, ms in every if not apart] or [ms for _, ms in every])
    y = Scale(0, longest * 1.08 or 1.0, _HEIGHT, flipped=True)
    _, unit = formatting.alike([longest], "ms")
    form = in_unit(unit)
    shapes: list[Shape] = [
        *grid(None, y, (width, _HEIGHT), form),
        Label(-8, -6, unit, anchor="end"),
        *_numbers(shown, width),
    ]
    on_device = any(formatting.measured(step.device_time_ms) for step in shown)
    for at, step in enumerate(shown):
        shapes += _step(step, at, width / len(shown), y, on_device)
    keys = [Key("device", "device time" if on_device else "wall clock")]
    keys += [Key("wait", "rest of the wall clock")] if on_device else []
    kinds = {step.kind for step in shown if not step.outlier}
    apart = [name for kind, name in APART.items() if kind in kinds]
    if apart:
        keys.append(Key("compile", f"{', '.join(apart)} (cut off where it is longer)", 0.7))
    keys += [Key("outlier", "outlier")] if any(step.outlier for step in shown) else []
    median = None if summary.wall_clock is None else summary.wall_clock.median_ms
    if median is not None and formatting.measured(median) and median <= y.high:
        shapes.append(Line(((0, y.at(median)), (width, y.at(median))), "text", dashed=True))
        keys.append(Key("", f"dashed: median {formatting.ms(median)}"))
    left_out = len(timed) - len(shown)
    return Drawing(
        f"Step times: {title(summary)}",
        "Wall clock of each step, milliseconds; the table below has the figures",
        (-56, -20, width + 66, _HEIGHT + 46),
        tuple(shapes),
        tuple(keys),
        f"The first {left_out} steps are not drawn." if left_out else "",
    )


def _numbers(shown: Sequence[Step], width: float) -> list[Label]:
    """Numbers below the bars of more steps than have room for their names: round ones."""
    pitch = width / len(shown)
    if pitch >= _NAME_ROOM:
        return []
    every = next(n for n in (5, 10, 20, 25, 50) if n * pitch >= _NUMBER_ROOM)
    numbers = [(at, step.name.rpartition("_")[2]) for at, step in enumerate(shown)]
    return [
        Label((at + 0.5) * pitch, _HEIGHT + 18, number, "text", "middle")
        for at, number in numbers
        if number.isdigit() and int(number) % every == 0
    ]


def _step(step: Step, at: int, pitch: float, y: Scale, with_device: bool) -> list[Shape]:
    """A step's bars and, where there is room, its name; a bar that is cut off gets its time."""
    width = min(pitch * 0.72, 72.0)
    x, middle = at * pitch + (pitch - width) / 2, (at + 0.5) * pitch
    wall, plain = step.wall_clock_ms or 0.0, "wait" if with_device else "device"
    colour = "outlier" if step.outlier else "compile" if step.kind in APART else plain
    bars = [(wall, colour, 0.7 if colour == "compile" else 1.0)]
    if step.device_time_ms is not None and formatting.measured(step.device_time_ms):
        bars.append((step.device_time_ms, "device", 1.0))
    found: list[Shape] = []
    for ms, colour, opacity in bars:
        top = y.at(min(ms, y.high))
        found.append(Bar(x, top, width, y.length - top, colour, _told(step), opacity))
    if wall > y.high:
        zigzag = (x - 4, 10), (middle, 4), (middle, 10), (x + width + 4, 4)
        found.append(Line(zigzag, "card", 3))
        # Of several cut bars side by side the values would stand in each other.
        if pitch >= 10 * CHARACTER:
            found.append(Label(middle, -6, formatting.ms(wall), anchor="middle"))
        elif at == 0:  # to the right: the unit of the axis is on the left
            found.append(Label(x, -6, formatting.ms(wall)))
    if pitch >= _NAME_ROOM:
        name = _short(step.name, pitch)
        found.append(Label(middle, y.length + 18, name, "text", "middle"))
    return found


def _told(step: Step) -> str:
    parts = [f"{step.name}: {formatting.ms(step.wall_clock_ms)}"]
    if formatting.measured(step.device_time_ms):
        parts.append(f"device {formatting.ms(step.device_time_ms)}")
    if formatting.measured(step.overhead_percent):
        parts.append(f"overhead {formatting.percent(step.overhead_percent)}")
    return ", ".join([*parts, *(["outlier"] if step.outlier else [])])


def _short(name: str, room: float) -> str:
    """A step's name, cut to a letter and its number where there is no room."""
    if name == "step_compile":  # it need not
        return "first" if len("first") * CHARACTER <= room else "1st"
    name = name.removeprefix("step_").removeprefix("steady_")
    head, _, number = name.partition("_")
    return head[:1] + number if len(name) * CHARACTER > room else name


def category_parts(summary: Summary) -> tuple[Part, ...]:
    """The device time by category."""
    return tuple(
        Part(
            each.name,
            each.percent,
            f"{each.name}: {formatting.percent(each.percent)}, "
            f"{formatting.ms(each.device_time_ms)}, "
            f"{formatting.plural(each.op_count, 'op')}",
            each.name.lower(),
        )
        for each in summary.categories
        if each.percent and formatting.measured(each.percent)
    )


def op_parts(summary: Summary) -> tuple[Part, ...]:
    """The device time (the self time, without a device) by op name, the rest as one part."""
    timed = on_device(summary)
    parts: list[Part] = []
    for op in summary.slow_ops[:MOST_PARTS]:
        if op.percent and formatting.measured(op.percent):
            time = formatting.ms(op.device_time_ms if timed else op.op_self_time_ms)
            text = f"{op.op}: {formatting.percent(op.percent)}, {time}, {op.count:,} x"
            parts.append(Part(op.op, op.percent, text, f"part{len(parts) % PARTS + 1}"))
    rest = 100 - sum(part.percent for part in parts)
    # Less would be shown as 0.0 %.
    if parts and rest > 0.05:
        parts.append(Part("all others", rest, f"all others: {formatting.percent(rest)}", "rest"))
    return tuple(parts)


def step_parts(summary: Summary) -> tuple[Part, ...]:
    """The wall clock of the window's step: the device's part, and what it waited."""
    overhead, wall = summary.overhead_percent, summary.step_wall_clock_ms
    # Beyond 0 to 100 the device worked longer than the step took: two parts cannot show that.
    if overhead is None or wall is None or not 0 <= overhead <= 100:
        return ()
    parts = ("device", "device", 100 - overhead), ("host, and waiting for it", "rest", overhead)
    return tuple(
        Part(name, percent, f"{said}: {formatting.ms(wall * percent / 100)}", kind)
        for (name, said, percent), kind in zip(parts, ("device", "wait"), strict=True)
    )


def breakdown(summary: Summary) -> Drawing | None:
    """Stacked bars: the wall clock, and the device (or self) time by category and by op."""
    time = "device time" if on_device(summary) else "self time"
    by_op, of_step = op_parts(summary), step_parts(summary)
    whole = ", ".join(f"{part.name} {formatting.percent(part.percent)}" for part in of_step)
    bars = {
        f"wall clock of the step: {whole}": of_step,
        "device time by category": category_parts(summary),
        f"{time} by op": by_op,
    }
    return stacks(f"{time.capitalize()}: {title(summary)}", bars, by_op) if by_op else None


def stacks(
    title: str, bars: dict[str, tuple[Part, ...]], named: Sequence[Part] = ()
) -> Drawing | None:
    """A stacked bar of each kind that has parts, percent of the whole width.

    Args:
        named: parts in the keys.
    """
    given = {name: parts for name, parts in bars.items() if parts}
    return at_every_width(lambda width: _stacks(title, given, named, width)) if given else None


def _stacks(
    title: str, given: dict[str, tuple[Part, ...]], named: Sequence[Part], whole: float
) -> Drawing:
    shapes: list[Shape] = []
    for at, (name, parts) in enumerate(given.items()):
        shapes.append(Label(0, at * _PITCH + 14, name))
        x = 0.0
        for part in parts:
            # At least one unit wide, so that it can be seen and pointed at.
            width = max(part.percent / 100 * whole, 1.0)
            # A unit of background between them tells parts of one colour apart.
            place = x, at * _PITCH + 22, max(width - 1, 1.0), _BAR
            shapes.append(Bar(*place, colour_of(part.kind), part.text, part.opacity))
            shapes += _within(part, x, at * _PITCH + 22 + _BAR / 2 + 4, width)
            x += part.percent / 100 * whole
    keys = [
        Key(
            colour_of(part.kind),
            _words(
                formatting.clip(part.name, _LONGEST_NAME),
                part.figure,
                formatting.percent(part.percent),
            ),
            part.opacity,
        )
        for part in named
    ]
    says = "; ".join(part.text for parts in given.values() for part in parts)
    box = (0.0, 0.0, whole, len(given) * _PITCH - 6)
    return Drawing(title, says, box, tuple(shapes), tuple(keys))


def _words(*words: str) -> str:
    return " ".join(filter(None, words))


def _within(part: Part, x: float, y: float, width: float) -> list[Label]:
    """What a part is called inside of it: as much as has room, and nothing that is cut.

    Cut in its middle, ``44.0 ms`` reads as ``0 ms``.
    """
    if part.percent < _NAMED_PERCENT:
        return []
    name, room = formatting.visible(formatting.plain_op(part.name)), int((width - 12) / _WIDE)
    texts = _words(name, part.figure), name, formatting.squeezed(name)
    whole = next((text for text in texts if formatting.width(text) <= room), "")
    colour = "text" if part.kind in ("rest", "wait") else "card"
    return [Label(x + 6, y, whole, colour)] if whole else []


def iteration(summary: Summary) -> Drawing | None:
    """What an iteration is made of, as a bar; None where no parts were seen."""
    wall = summary.wall_clock
    if wall is None or wall.iteration is None or len(wall.iteration.parts) < 2:
        return None
    found = wall.iteration
    shown, figures, unit = parts_in_figures(found, wall.label)
    parts = tuple(
        Part(
            part.name,
            part.percent,
            f"{part.name}: {figure} {unit}, {formatting.percent(part.percent)}",
            f"part{at % PARTS + 1}",
            figure=f"{figure} {unit}",
        )
        for at, (part, figure) in enumerate(zip(shown, figures, strict=True))
    )
    step = step_word(wall)
    whole = f"from the start of one {step} to that of the next: {formatting.ms(found.median_ms)}"
    return stacks(f"{found.word.capitalize()}: {title(summary)}", {whole: parts}, parts)


def colour_of(kind: str) -> str:
    """The colour of a category, or of what a trace names as one."""
    return kind if kind in COLOURS or kind.startswith("#") else "other"


def gaps(summary: Summary) -> Drawing | None:
    """The histogram of the op-to-op gaps; those above 6.5 us in red."""
    table = gap_table(summary.gaps)
    if not table.rows:
        return None
    names, counts, bars = table.columns
    shapes: list[Shape] = []
    for at in range(table.rows):
        length = (bars.shares[at] or 0.0) / 100 * WIDTH * 0.75
        tone = "host" if counts.colour(at) == "bad" else "compute"
        shapes += [
            Label(-8, at * 24 + 14, names.texts[at], "text", "end"),
            Bar(0, at * 24, length, 18, tone),
            Label(length + 6, at * 24 + 14, counts.texts[at], "text"),
        ]
    red = Key("host", f"above {GAP_THRESHOLD_US} us: the device waited for the host")
    box = (-160, -6, WIDTH, table.rows * 24 + 12)
    return Drawing(f"Ops by the gap before them: {title(summary)}", "", box, tuple(shapes), (red,))


def gap_table(gaps: Gaps | None) -> Table:
    """The histogram of the gaps, empty bins at both ends left out; long ones are bad."""
    histogram = () if gaps is None else gaps.histogram
    edges = [0.0, *(edge or 0.0 for edge, _ in histogram)]
    filled = [at for at, (_, count) in enumerate(histogram) if count]
    bins = range(filled[0], filled[-1] + 1) if filled else range(0)
    counts = [histogram[at][1] for at in bins]
    tones = ["bad" if edges[at] >= GAP_THRESHOLD_US else "plain" for at in bins]
    shares = [count / max(counts) * 100 for count in counts]
    columns = (
        Column("gap", [_between(edges[at], histogram[at][0]) for at in bins], right=False),
        Column("ops", [f"{count:,}" for count in counts], colours=tones),
        Column("", shares=shares, right=False, colours=tones),
    )
    return Table(columns)


def _between(low: float, high: float | None) -> str:
    if high is None:
        return f"above {_short_us(low)}"
    return f"{_short_us(low)} to {_short_us(high)}" if low else f"up to {_short_us(high)}"


def _short_us(value: float) -> str:
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} us"
