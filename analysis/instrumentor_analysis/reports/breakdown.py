"""Where the time of a step goes, as tables: by category, op, device, source line and module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from instrumentor_analysis.model import CONDITIONS, DeviceRow, Devices, SlowOp, Summary
from instrumentor_analysis.reports import formatting, limits, owners, programs, telemetry
from instrumentor_analysis.reports import modules as module_tree
from instrumentor_analysis.reports.document import Column, Section, Table

#: Standard deviation over the steps from which an op is said to vary, percent of its mean.
VARIES_PERCENT = 5.0
#: As tt-perf-report names them: DRAM, FLOP and BOTH from 65 % of a peak on, SLOW below both.
_BOUNDS = {"DRAM": "good", "FLOP": "good", "BOTH": "good", "SLOW": "room", "HOST": "bad"}
_DEVICE_NOTE = (
    "Waited: in collectives, for the device that arrived last. "
    "The chips' clocks do not agree, so the device with the shortest duration of a collective is "
    "taken to have arrived last; the others waited for the difference."
)
#: Categories that go by letters, spelled out.
_SPELLED = {
    "CCL": "collectives between devices",
    "TM": "tensor manipulation (shape, layout)",
    "DM": "data movement",
}


class Most(Struct, frozen=True):
    """Rows of each kind that a format has room for."""

    ops: int
    savings: int
    places: int
    rest: int


def bound_tone(bound: str | None) -> str:
    """Good at a bound of the hardware, room below both, bad on the host."""
    return _BOUNDS.get(bound or "", "")


def sections(summary: Summary, most: Most) -> tuple[Section, ...]:
    """All tables that there is something for, in the order of terminal and Markdown.

    The page has an order of its own: ``summary._page_sections``.
    """
    time = "device time" if on_device(summary) else "self time"
    timed = any(_is_timed(op) for op in summary.slow_ops)
    found = (
        owners.section(summary.phases),
        owners.what_if(summary.what_if),
        owners.ranks(summary.ranks),
        owners.causes(summary.causes, most.places),
        module_tree.section(summary.modules, most.ops, phases=summary.phases),
        module_tree.ops(summary.module_ops, most.ops),
        programs.section(summary.programs, most.ops),
        telemetry.section(summary.telemetry),
        Section("Where the device time goes", (categories(summary),)),
        limits.section(summary.limits),
        Section(f"Top ops by {time}" if timed else "Ops", (slow_ops(summary, most.ops),)),
        devices(summary.devices, most.rest),
        _sources(summary, most.places),
        Section("Device time by module", (modules(summary, most.places),)),
        savings(summary, most.savings),
        variation(summary, most.rest),
    )
    return tuple(s for s in found if s.text or any(table.rows for table in s.tables))


def on_device(summary: Summary) -> bool:
    """The ops of the summary have device times."""
    return any(formatting.measured(op.device_time_ms) for op in summary.slow_ops)


def _names(title: str, names: Sequence[str], least: int) -> Column:
    """A column of names that a trace or a script has given: foreign text."""
    return Column(title, names, right=False, foreign=True, least=least)


def _text(title: str, texts: Sequence[str], **more: Any) -> Column:
    return Column(title, texts, right=False, **more)


def _counts(title: str, counts: Sequence[int | None]) -> Column:
    return Column(title, [formatting.count(count) for count in counts])


def _times(title: str, times_us: Sequence[float | None]) -> Column:
    return Column(title, [formatting.us(time_us) for time_us in times_us])


def _bars(shares: Sequence[float | None], *, optional: bool = False) -> Column:
    return Column("", shares=shares, right=False, colours="cyan", optional=optional)


def categories(summary: Summary) -> Table:
    """Device time of each category; ops on the host have none."""
    every = summary.categories
    # A device time of 0 was not measured: these ops ran on the host.
    shares = [formatting.share(each.percent if each.device_time_ms else None) for each in every]
    columns = (
        _text("category", [each.name for each in every]),
        Column("share", shares),
        Column(
            "device time", formatting.column([each.device_time_ms or None for each in every], "ms")
        ),
        _counts("ops", [each.op_count for each in every]),
        _bars([each.percent for each in every]),
    )
    return Table(columns, _spelled([each.name for each in every]))


def _spelled(names: Sequence[str | None]) -> str:
    """What the categories are that go by letters; empty without such a one."""
    words = [f"{name}: {words}" for name, words in _SPELLED.items() if name in names]
    return f"{'; '.join(words)}." if words else ""


def slow_ops(summary: Summary, most: int) -> Table:
    """Ops by name; one that was not timed has no share."""
    slow, timed = summary.slow_ops[:most], on_device(summary)
    times = [op.device_time_ms if timed else op.op_self_time_ms for op in slow]
    bounds = [op.bound or "" for op in slow]
    bound = Column("bound", bounds, right=False, colours=[bound_tone(each) for each in bounds])
    told = [op.limits or "" for op in slow]
    share = (
        Column("device time" if timed else "self time", formatting.column(times, "ms")),
        Column("share", [_share(op) for op in slow]),
        *([_ranges(slow)] if any(op.low_ms is not None for op in slow) else []),
    )
    columns = (
        _names("op", [formatting.plain_op(op.op) for op in slow], 20),
        _counts("count", [op.count for op in slow]),
        *(share if any(map(_is_timed, slow)) else ()),
        *([bound] if any(bounds) else []),
        *([_text("limited by", told, optional=True)] if any(told) else []),
        _text("category", [op.category or "" for op in slow], colours="absent", optional=True),
    )
    # Where the categories have a table of their own, they are spelled out there.
    spelled = "" if summary.categories else _spelled([op.category for op in slow])
    return Table(columns, spelled)


def _ranges(slow: Sequence[SlowOp]) -> Column:
    """From the least to the most of the profiled steps."""
    found = ((op.low_ms, op.high_ms) for op in slow)
    cells = (
        ("", "") if low is None or high is None else formatting.alike([low, high], "ms")
        for low, high in found
    )
    texts = [f"{ends[0]} to {ends[1]} {unit}" if unit else "" for ends, unit in cells]
    return Column("range", texts, optional=True)


def _share(op: SlowOp) -> str:
    return formatting.share(op.percent if _is_timed(op) else None)


def _is_timed(op: SlowOp) -> bool:
    return formatting.measured(op.device_time_ms) or formatting.measured(op.op_self_time_ms)


def devices(found: Devices | None, most: int) -> Section:
    """A row per device, ops that they take unequally long for, and collectives."""
    if found is None:
        return Section("")
    title = "Devices"
    if found.max_over_mean is not None:
        title += f": the slowest took {found.max_over_mean:.2f} times the mean"
    tables = _devices(found), _skews(found, most), _waits(found, most)
    return Section(title, tuple(table for table in tables if table.rows))


def _devices(found: Devices) -> Table:
    rows = found.rows
    known = [row.device_time_ms for row in rows if row.device_time_ms is not None]
    mean = sum(known) / len(known) if known else 0.0
    longest = max(known, default=0.0) or 1.0
    columns = (
        Column("device", [str(row.device_id) for row in rows]),
        _counts("ops", [row.op_count for row in rows]),
        Column("device time", formatting.column([row.device_time_ms for row in rows], "ms")),
        Column("vs. mean", [_against(row, mean) for row in rows]),
        _counts("missing ops", [row.missing_ops for row in rows]),
        Column("waited", formatting.column([row.waited_ms for row in rows], "ms")),
        Column("arrived last", [formatting.whole(row.arrived_last) for row in rows]),
        *_communication(rows),
        _bars([(row.device_time_ms or 0.0) / longest * 100 for row in rows], optional=True),
    )
    return Table(columns)


def _communication(rows: Sequence[DeviceRow]) -> tuple[Column, ...]:
    """Time in collectives and its hidden share, where the trace tells them."""
    if all(row.communication_ms is None for row in rows):
        return ()
    return (
        Column(
            "collectives", formatting.column([row.communication_ms for row in rows], "ms"),
            optional=True,
        ),
        Column("hidden", [formatting.share(row.hidden_percent) for row in rows], optional=True),
    )  # fmt: skip


def _against(row: DeviceRow, mean_ms: float) -> str:
    if row.device_time_ms is None or not mean_ms:
        return formatting.ABSENT
    return formatting.quantity((row.device_time_ms / mean_ms - 1) * 100, "%", signed=True)


def _skews(found: Devices, most: int) -> Table:
    ops = found.ops[:most]
    columns = (
        _names("op", [each.op for each in ops], 12),
        _counts("calls", [each.count for each in ops]),
        _times("fastest", [each.fastest_us for each in ops]),
        _text("on", [f"device {each.fastest_device}" for each in ops]),
        _times("slowest", [each.slowest_us for each in ops]),
        _text("on", [f"device {each.slowest_device}" for each in ops]),
        _times("skew", [each.skew_us for each in ops]),
        Column("worst ID", [str(each.worst_id) for each in ops]),
    )
    return Table(columns, caption="Ops with the largest skew")


def _waits(found: Devices, most: int) -> Table:
    every = found.collectives[:most]
    last = [f"device {x.last_device}, {x.last_calls:,} of {x.calls:,}" for x in every]
    columns = (
        _names("collective", [each.op for each in every], 12),
        _counts("calls", [each.count for each in every]),
        _text("last to arrive", last),
        Column("others waited", [f"{formatting.us(i.mean_wait_us)} a call" for i in every]),
        _times("longest wait", [each.longest_wait_us for each in every]),
    )
    return Table(columns, _DEVICE_NOTE, "Who arrived last in collectives")


def _sources(summary: Summary, most: int) -> Section:
    """The first lines, and last what has no location where that took time."""
    locations, title = summary.locations, "Device time by source line"
    if locations is None or not locations.lines:
        return Section(title, text="" if locations is None else locations.note or "")
    lines = locations.lines[:most]
    rows = [(x.op_count, x.device_time_ms, x.percent) for x in lines]
    names = [f"{each.file}:{each.line}" for each in lines]
    if locations.unlocated_ms:
        names.append("no location")
        unlocated = locations.unlocated_count, locations.unlocated_ms
        rows.append((*unlocated, locations.unlocated_percent))
    column = Column(
        "line",
        names,
        right=False,
        foreign=[at < len(lines) for at in range(len(names))],
        behind=[*(" (once)" if each.const_eval else "" for each in lines), ""],
        least=24,
    )
    return Section(title, (_places(column, rows),))


def modules(summary: Summary, most: int) -> Table:
    """The first modules, and last the constants; empty without locations."""
    found = () if summary.locations is None else summary.locations.most_modules(most)
    foreign = [not each.const_eval for each in found]
    names = [each.name for each in found]
    column = Column("module", names, right=False, foreign=foreign, least=24)
    return _places(column, [(x.op_count, x.device_time_ms, x.percent) for x in found])


def _places(names: Column, rows: Sequence[tuple[int, float, float | None]]) -> Table:
    """Ops, device time and share of places in the source."""
    columns = (
        names,
        _counts("ops", [row[0] for row in rows]),
        Column("device time", formatting.column([row[1] for row in rows], "ms")),
        Column("share", [formatting.share(row[2]) for row in rows]),
    )
    return Table(columns)


def savings(summary: Summary, most: int, note: str = "") -> Section:
    """Potential savings, upper bounds; shares are of device time and gaps.

    Args:
        most: rows of the table.
        note: a sentence below it.
    """
    found = summary.savings[:most]
    names = [each.op for each in found]
    columns = (
        Column(
            "op",
            names,
            right=False,
            foreign=True,
            squeezed=[formatting.squeezed(name) for name in names],
            least=12,
            comfort=30,
        ),
        Column("count", [formatting.count(each.count) for each in found], optional=True),
        _times("now", [each.now_us for each in found]),
        _times("saves", [each.saving_us for each in found]),
        Column("share", [formatting.share(each.percent) for each in found]),
        _text("if", [CONDITIONS[each.kind] for each in found]),
    )
    return Section("Potential savings (upper bound)", (Table(columns, note),))


def variation(summary: Summary, most: int, note: str = "") -> Section:
    """The ops whose time changes from step to step by enough to wonder about, by their ID."""
    limit = VARIES_PERCENT / 100
    # The last comparison leaves out ops that took no time: their spread has no percentage.
    every = [each for each in summary.spread if each.stdev_us >= limit * each.mean_us > 0]
    found = every[:most]
    columns = (
        _names("op", [each.op for each in found], 20),
        Column("ID", [formatting.ABSENT if each.id is None else str(each.id) for each in found]),
        _times("mean", [each.mean_us for each in found]),
        _times("±", [each.stdev_us for each in found]),
        Column("of the mean", [formatting.share(x.stdev_us / x.mean_us * 100) for x in found]),
    )
    steps = max((each.steps for each in every), default=0)
    title = f"Ops that vary most over the {steps} steady steps"
    return Section(title, (Table(columns, note),))
