"""What each module's forward takes: the costliest as a table, and all of them as called."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.clock.modules import alike
from instrumentor_analysis.clock.phases import FORWARD
from instrumentor_analysis.model import ModuleTime, ModuleTree, Phases
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Column, Section, Table

TITLE = "Forward by module"
#: A module of less than this share is not worth a row of the tree, percent.
LEAST_PERCENT = 0.1


def section(
    found: ModuleTree | None, most: int, *, rows: int = 0, phases: Phases | None = None
) -> Section:
    """The modules of most time of their own; nothing where none were followed.

    Args:
        phases: the owners that stand above, one of which is a forward of other steps.
        rows: of the tree of calls, at most.
    """
    if found is None:
        return Section("")
    top = alike(found)
    more = (_tree(found, rows),) if rows else ()
    return Section(TITLE, (_table(top[:most], _note(found, len(top) - most, phases)), *more))


def _table(shown: Sequence[ModuleTime], note: str) -> Table:
    shares = [each.self_ms / each.ms * each.percent if each.ms else 0.0 for each in shown]
    columns = (
        *_names(shown),
        Column("calls", [formatting.count(each.calls) for each in shown]),
        Column("own time", formatting.column([each.self_ms for each in shown], "ms")),
        Column("share", [formatting.share(each) for each in shares]),
        Column("", shares=shares, right=False, colours="cyan", optional=True),
        Column("with inner", formatting.column([each.ms for each in shown], "ms"), optional=True),
        *_flops(shown),
    )
    return Table(columns, note)


def _names(shown: Sequence[ModuleTime]) -> tuple[Column, ...]:
    names, kinds = [each.name for each in shown], [each.kind for each in shown]
    return (
        Column("module", names, right=False, foreign=True, least=16),
        Column("class", kinds, right=False, foreign=True, optional=True),
    )


def _flops(shown: Sequence[ModuleTime]) -> tuple[Column, ...]:
    """FLOPs and their rate, where they were counted."""
    if not any(each.flops for each in shown):
        return ()
    texts = [
        formatting.ABSENT if each.flops is None else formatting.quantity(each.flops, "FLOPs")
        for each in shown
    ]
    rates = [
        None if not each.flops or not each.ms else each.flops / each.ms / 1e9 for each in shown
    ]
    return (
        Column("FLOPs", texts),
        Column("rate", formatting.column(rates, "TFLOP/s"), optional=True),
    )


def _tree(found: ModuleTree, most: int) -> Table:
    """The modules in the order in which they were called."""
    every = [each for each in found.modules if each.percent >= LEAST_PERCENT]
    shown = every[:most]
    columns = (
        *_names(shown),
        Column("calls", [formatting.count(each.calls) for each in shown]),
        Column("time", formatting.column([each.ms for each in shown], "ms")),
        Column("share", [formatting.share(each.percent) for each in shown]),
        Column("", shares=[each.percent for each in shown], right=False, colours="cyan"),
        Column("own time", formatting.column([each.self_ms for each in shown], "ms")),
        *_flops(shown),
    )
    left = len(found.modules) - len(shown)
    note = f"{formatting.plural(left, 'more module')} in summary.json." if left else ""
    return Table(columns, note, caption="As they are called, inner ones included", folded=True)


def _note(found: ModuleTree, left: int, phases: Phases | None) -> str:
    """How it was measured, and what is missing."""
    text = (
        f"Medians of {formatting.plural(found.steps, 'extra step')}: {formatting.ms(found.ms)} of "
        "forwards"
    )
    if phases is not None and phases.percent(FORWARD):
        text += f"; {FORWARD} above is a {phases.statistic} of other {phases.word}s, with the loss"
    text += ". *: layers that differ in their number alone."
    if found.uncounted:
        text += f" FLOPs without those of {', '.join(found.uncounted)}, which have no formula."
    return f"{text} {formatting.plural(left, 'more row')} in the JSON." if left > 0 else text
