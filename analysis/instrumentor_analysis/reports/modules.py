"""What each module's forward takes: the costliest as a table, and all of them as called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from instrumentor_analysis.clock.modules import alike, common, pattern
from instrumentor_analysis.clock.neighbours import said
from instrumentor_analysis.clock.phases import FORWARD
from instrumentor_analysis.model import ModuleOps, ModuleTime, ModuleTree, OpsByModule, Phases
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import Column, Section, Table

TITLE, OPS_TITLE = "Forward by module", "Ops by module"
#: Ops that belong to none.
NO_MODULE = "no module"
_MERGED = "*: several layers of one class and size."
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
    shown = top[:most]
    more = (_tree(found, rows),) if rows else ()
    return Section(TITLE, (_table(shown, _note(found, shown, len(top) - most, phases)), *more))


def ops(found: OpsByModule | None, most: int) -> Section:
    """The modules whose ops take most time, forward and backward; nothing where none is known."""
    if found is None:
        return Section("")
    rows = _together(found.modules)
    shown = rows[:most]
    shares = [each.percent for each in shown]
    ours = [each.name is None for each in shown]
    ahead, back = ([getattr(x, key) for x in shown] for key in ("forward_ms", "backward_ms"))
    columns = (
        Column(
            "module",
            told_apart([(each.name or NO_MODULE, each.kind or "") for each in shown]),
            right=False,
            foreign=[not each for each in ours],
            least=16,
        ),
        Column("ops", [formatting.count(each.ops) for each in shown]),
        Column("forward", formatting.column(ahead, "ms", back)),
        Column("backward", formatting.column(back, "ms", ahead)),
        Column("share", [formatting.share(each) for each in shares]),
        Column("", shares=shares, right=False, colours="cyan", optional=True),
    )
    return Section(OPS_TITLE, (Table(columns, _of_ops(found, len(rows) - len(shown))),))


def told_apart(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Names that differ: with the class where a name is nothing but numbers, or two have it."""
    counts = Counter(name for name, _ in rows)
    return [
        f"{name} {kind}".rstrip()
        if counts[name] > 1 or not any(each.isalpha() for each in name)
        else name
        for name, kind in rows
    ]


def _together(found: Sequence[ModuleOps]) -> list[ModuleOps]:
    """Modules of one class and size that differ in their numbers alone as one, most time first.

    Each has its own row where one would be left of several, or where no class is told.
    """
    groups: dict[object, list[ModuleOps]] = {}
    for at, each in enumerate(found):
        alone = each.name is None or each.kind is None
        groups.setdefault(at if alone else (pattern(each.name or ""), each.kind), []).append(each)
    every = list(groups.values())
    if sum(group[0].name is not None for group in every) == 1:
        every = [[each] for each in found]
    sums = (
        ModuleOps(
            name=None if group[0].name is None else common([each.name or "" for each in group]),
            ops=sum(each.ops for each in group),
            forward_ms=sum(each.forward_ms for each in group),
            backward_ms=sum(each.backward_ms for each in group),
            percent=sum(each.percent for each in group),
            kind=group[0].kind,
        )
        for group in every
    )
    return sorted(sums, key=lambda each: -each.percent)


def _of_ops(found: OpsByModule, left: int) -> str:
    """Whose time it is, and how it is known to be that."""
    time = "Device time" if found.on_device else "Self time on the CPU"
    text = (
        f"{time} of the ops of a profiled step, {formatting.ms(found.ms)} in all; ops of inner "
        "modules count there. Backward: ops of the autograd nodes that the module's forward made."
    )
    if any("*" in (each.name or "") for each in _together(found.modules)):
        text += f" {_MERGED}"
    if any(each.name is None for each in found.modules):
        text += f" {NO_MODULE.capitalize()}: ops called outside of all modules, sums of gradients."
    if found.unknown_percent >= LEAST_PERCENT:
        text += f" Of {formatting.percent(found.unknown_percent)} the module is not known."
    return text + _more(left)


def _more(left: int) -> str:
    return f" {formatting.plural(left, 'more row')} in summary.json." if left > 0 else ""


def _table(shown: Sequence[ModuleTime], note: str) -> Table:
    shares = [each.self_ms / each.ms * each.percent if each.ms else 0.0 for each in shown]
    columns = (
        *_names(shown),
        Column("calls", [formatting.count(each.calls) for each in shown]),
        Column("self time", formatting.column([each.self_ms for each in shown], "ms"),
               about="Self time: without inner modules."),
        Column("share", [formatting.share(each) for each in shares]),
        Column("", shares=shares, right=False, colours="cyan", optional=True),
        Column("total time", formatting.column([each.ms for each in shown], "ms"), optional=True,
               about="Total time: with inner modules."),
        *_flops(shown),
    )  # fmt: skip
    return Table(columns, note)


def _names(shown: Sequence[ModuleTime]) -> tuple[Column, ...]:
    kinds = [each.kind for each in shown]
    names = told_apart([(each.name, each.kind) for each in shown])
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
        Column("FLOPs", texts, about="FLOPs: with those of inner modules."),
        Column("rate", formatting.column(rates, "TFLOP/s"), optional=True),
    )


def _tree(found: ModuleTree, most: int) -> Table:
    """The modules in the order in which they were called."""
    every = [each for each in found.modules if each.percent >= LEAST_PERCENT]
    shown = every[:most]
    columns = (
        *_names(shown),
        Column("calls", [formatting.count(each.calls) for each in shown]),
        Column("total time", formatting.column([each.ms for each in shown], "ms")),
        Column("share", [formatting.share(each.percent) for each in shown]),
        Column("", shares=[each.percent for each in shown], right=False, colours="cyan"),
        Column("self time", formatting.column([each.self_ms for each in shown], "ms")),
        *(replace(column, about="") for column in _flops(shown)),
    )
    left = len(found.modules) - len(shown)
    note = f"{formatting.plural(left, 'more module')} in summary.json." if left else ""
    return Table(columns, note, caption="In the order of the calls, inner modules too", folded=True)


def _note(found: ModuleTree, shown: Sequence[ModuleTime], left: int, phases: Phases | None) -> str:
    """How it was measured, and what is missing."""
    text = (
        f"Medians of {formatting.plural(found.steps, 'extra step')}: {formatting.ms(found.ms)} of "
        "forwards."
    )
    text = text if found.busy is None else f"{said(found.busy)}. {text}"
    if phases is not None and phases.percent(FORWARD):
        text += (
            f" The {FORWARD} above includes the loss and is a {phases.statistic} of other "
            f"{phases.word}s."
        )
    text += f" {_MERGED}" if any("*" in each.name for each in shown) else ""
    if found.uncounted:
        text += f" FLOPs without those of {', '.join(found.uncounted)}, which have no formula."
    return text + _more(left)
