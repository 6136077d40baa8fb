"""Who owns the time of an iteration, as a table (the largest owner first) and as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.clock import phases as names
from instrumentor_analysis.clock.intervals import ASSUMED
from instrumentor_analysis.clock.neighbours import said
from instrumentor_analysis.model import Cause, Phase, Phases, Ranks, WhatIf
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Column, Section, Table
from instrumentor_analysis.reports.drawing import Bar, Drawing, Label, Scale, Shape, grid, in_unit
from instrumentor_analysis.summary.what_if import REPLAY_MOST_MS, REPLAY_MS, TRACE

#: What each owner is, in the words of its row.
SAID = {
    names.DATA: "waiting for the next batch",
    names.PREPARE: "ahead of the forward: moving the batch, clearing gradients",
    names.FORWARD: "forward and loss",
    names.BACKWARD: "backward",
    names.OPTIMIZER: "optimizer steps",
    names.OTHER: "the rest of the loop: clipping, logging, callbacks",
}
#: What belongs to none of them.
_UNOWNED = "unaccounted"
_COLOURS = {
    names.DATA: "host",
    names.PREPARE: "tm",
    names.FORWARD: "compute",
    names.BACKWARD: "dm",
    names.OPTIMIZER: "ccl",
    _UNOWNED: "wait",
}
_WIDTH, _LEFT, _PITCH, _BAR = 1000.0, 150.0, 30.0, 20.0
#: What each kind of prediction rests on.
_BASIS = {
    "measured": "measured: extra iterations that reuse the batch of the one before; the interval "
    f"allows for the {100 * ASSUMED:.0f} % by which runs are assumed to differ.",
    "at most": "at most: the iteration without its wait for data; a host is slow for a while after "
    "a wait, so the true time is probably lower.",
    "model": "model, not measured: the iteration without this part, all else unchanged.",
}
#: Excess over iterations without barriers from which other programs may be its cause, percent.
_EXCESS_PERCENT = 50.0
#: Share from which what has no owner is drawn, percent.
_DRAWN_PERCENT = 0.1
#: Sizes of memory that differ by less are not worth a column, as a share.
_ALIKE = 0.01


def title(word: str) -> str:
    """What the table is called; ``word``: what an iteration is to the training."""
    return f"Where the {word} goes"


def section(found: Phases | None, *, drawn: bool = False) -> Section:
    """The owners of the iteration's time; a section without anything where none were measured.

    Args:
        drawn: with the waterfall.
    """
    if found is None:
        return Section("")
    charts = (waterfall(found),) if drawn else ()
    shown = table(found, bars=not drawn)
    busy = "" if found.busy is None else " (machine busy)"
    return Section(f"{title(found.word)}{busy}", (shown,), charts=charts, beside=drawn)


def what_if(found: Sequence[WhatIf]) -> Section:
    """Predictions, each with what it rests on."""
    intervals = [each.interval_ms for each in found]
    between = [
        formatting.ABSENT
        if each is None
        else f"{formatting.number(each.low)} to {formatting.number(each.high)}"
        for each in intervals
    ]
    columns = (
        Column("if", [each.change for each in found], right=False),
        Column("iteration", formatting.column([each.ms for each in found], "ms")),
        Column("saves", [formatting.share(each.saving_percent) for each in found]),
        Column("how", [each.basis for each in found], right=False),
        Column("95 % interval, ms", between, optional=True),
    )
    told = [_BASIS[basis] for basis in _BASIS if any(each.basis == basis for each in found)]
    if any(each.change == TRACE for each in found):
        told.append(f"{TRACE}: {REPLAY_MS:.0f} to {REPLAY_MOST_MS:.0f} ms a replay on the host.")
    return Section("What if", (Table(columns, " ".join(told)),))


def ranks(found: Ranks | None) -> Section:
    """A row for each of several processes that train together."""
    if found is None:
        return Section("")
    rows = found.rows
    title = f"Ranks: {found.world} processes train together"
    if found.slowest is not None:
        title = f"Ranks: the others wait for rank {found.slowest}"
    columns = (
        Column("rank", [str(each.rank) for each in rows]),
        Column("steps", [formatting.count(each.samples) for each in rows]),
        Column("step", formatting.column([each.median_ms for each in rows], "ms")),
        Column("iteration", formatting.column([each.iteration_ms for each in rows], "ms")),
        Column("waited a step", formatting.column([each.waited_ms for each in rows], "ms")),
        Column("throughput", formatting.column([x.samples_per_s for x in rows], "samples/s")),
        Column("arrived last", [formatting.count(each.arrived_last) for each in rows]),
    )
    return Section(title, (Table(columns, _of_ranks(found)),))


def _of_ranks(found: Ranks) -> str:
    """What the waits are from, and whose the other figures are."""
    whose = "All other figures are those of rank 0."
    if not found.calls:
        return f"How long ranks wait for each other is unknown: no collective was timed. {whose}"
    share = "" if found.waited_percent is None else f", {found.waited_percent:.0f} % of a step"
    return (
        f"Waited: for the rank that arrived last, in {formatting.plural(found.calls, 'collective')}"
        f" of {formatting.plural(found.steps, 'extra step')} under torch.profiler: "
        f"{formatting.ms(found.waited_ms or 0.0)} by each of the others{share}. {whose}"
    )


def causes(found: Sequence[Cause], most: int) -> Section:
    """What kept compilers from making one program of a step, the costliest first."""
    shown = found[:most]
    columns = (
        Column("kind", [each.kind for each in shown], right=False),
        Column("where", [each.place or "a library" for each in shown], right=False, foreign=True),
        Column("count", [formatting.count(each.count) for each in shown]),
        Column("compiling", formatting.column([each.ms or None for each in shown], "ms")),
        Column("why", [each.what for each in shown], right=False, foreign=True, least=20),
    )
    return Section("What interrupts the compiler", (Table(columns),))


def table(found: Phases, *, bars: bool = True) -> Table:
    """A row for each owner, the largest first; without bars where the waterfall shows them."""
    rows = sorted(found.phases, key=lambda each: -each.ms)
    columns = [
        Column("phase", [each.name for each in rows], right=False),
        Column("time", formatting.column([each.ms for each in rows], "ms")),
        Column("share", [formatting.share(each.percent) for each in rows]),
        *([_bars(rows)] if bars else []),
        *_memory(rows),
        Column("", [SAID.get(each.name, "") for each in rows], False, "absent", optional=True),
    ]
    return Table(tuple(columns), note(found))


def _bars(rows: list[Phase]) -> Column:
    return Column("", shares=[each.percent for each in rows], right=False, colours="cyan")


def _memory(rows: list[Phase]) -> list[Column]:
    """Memory by phase where it is not the same in all of them."""
    for title, sizes in (
        ("on the device", [each.allocated_bytes for each in rows]),
        ("on the host", [each.resident_bytes for each in rows]),
    ):
        known = [size for size in sizes if size is not None]
        if known and max(known) - min(known) > _ALIKE * max(known):
            texts = [formatting.ABSENT if s is None else formatting.size(s) for s in sizes]
            return [Column(title, texts, optional=True)]
    return []


def note(found: Phases) -> str:
    """How it was measured, and what that cost."""
    extra = formatting.plural(found.count, f"extra {found.word}")
    text = (
        f"{found.statistic.capitalize()} of {extra} after the samples, timed at each border "
        f"(of a device behind a barrier): {formatting.ms(found.ms)}"
    )
    if found.busy is not None:
        # How much longer they are would be put down to the barriers.
        text = f"{said(found.busy)}. {text}"
    elif found.longer_percent is not None:
        text += f", {_against(found.longer_percent)}"
        # Borders take time: a gain is the difference between two steps of the script.
        text += " (noise: timing the borders saves no time)" if found.longer_percent < 0 else ""
        if found.longer_percent >= _EXCESS_PERCENT:
            text += " (by that, other programs or chance: the figures to quote are the samples')"
    if found.unowned_percent < _DRAWN_PERCENT:
        return f"{text}."
    return f"{text}. {formatting.percent(found.unowned_percent)} of it is in none of the phases."


def _against(longer_percent: float) -> str:
    """``2.5 % longer than in the samples``, ``4.5 times as long as in the samples``."""
    if longer_percent >= 100:
        return f"{1 + longer_percent / 100:.1f} times as long as in the samples"
    word = "longer" if longer_percent >= 0 else "shorter"
    return f"{abs(longer_percent):.1f} % {word} than in the samples"


def waterfall(found: Phases) -> Drawing:
    """A bar for each phase, in the order in which they come, each from where the last one ends.

    What has no owner is the last one.
    """
    rest = found.unowned_percent
    parts = [(each.name, each.ms, each.percent) for each in found.phases]
    parts += [(_UNOWNED, found.ms * rest / 100, rest)] if rest >= _DRAWN_PERCENT else []
    count = len(parts)
    _, unit = formatting.alike([found.ms], "ms")
    x = Scale(0, found.ms or 1.0, _WIDTH - _LEFT)
    height = count * _PITCH
    shapes: list[Shape] = [
        *grid(x, None, (_WIDTH - _LEFT, height), in_unit(unit)),
        Label(-20, height + 18, unit, anchor="end"),
    ]
    start_ms = 0.0
    for at, (name, ms, percent) in enumerate(parts):
        left, width = x.at(start_ms), max(x.at(ms), 1.0)
        said = f"{name}: {formatting.ms(ms)}, {formatting.percent(percent)}"
        shapes.append(Label(-10, at * _PITCH + 19, name, "text", "end"))
        shapes.append(Bar(left, at * _PITCH + 5, width, _BAR, _COLOURS.get(name, "other"), said))
        start_ms += ms
    says = "; ".join(f"{name} {formatting.ms(ms)}" for name, ms, _ in parts)
    # The last value of the axis may stand right at its end, and reaches half its width beyond.
    return Drawing(
        title(found.word), says, (-_LEFT, -8, _WIDTH + 24, height + 40), tuple(shapes), fits=True
    )
