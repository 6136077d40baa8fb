"""Where the time of a step goes, as tables: by category, op, device, source line and module."""

from __future__ import annotations

from msgspec import Struct

from instrumentor_analysis.model import CONDITIONS, DeviceRow, Devices, SlowOp, Spread, Summary
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.document import Column, Section, Table

#: Standard deviation over the steps from which an op is said to vary, percent of its mean.
VARIES_PERCENT = 5.0
_BOUNDS = {"DRAM": "good", "FLOP": "good", "BOTH": "good", "SLOW": "room", "HOST": "bad"}
_DEVICE_NOTE = (
    "Waited: in collectives, for the device that arrived last. "
    "The chips' clocks do not agree, so the device with the shortest duration of a collective is "
    "taken to have arrived last; the others waited for the difference."
)


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
    """All tables that there is something for, in the order of the reports."""
    time = "device time" if on_device(summary) else "their own time on the CPU"
    varying_steps = max((each.steps for each in varying(summary)), default=0)
    found = (
        Section("Where the device time goes", _given(categories(summary))),
        Section(f"Top ops by {time}", _given(slow_ops(summary, most.ops))),
        devices(summary.devices, most.rest),
        _sources(summary, most.places),
        Section("Device time by module", _given(modules(summary, most.places))),
        Section("Potential savings (upper bound)", _given(savings(summary, most.savings))),
        Section(
            f"Ops that vary most over the {varying_steps} steady steps",
            _given(variation(summary, most.rest)),
        ),
    )
    return tuple(section for section in found if section.tables or section.text)


def _given(table: Table) -> tuple[Table, ...]:
    return (table,) if table.rows else ()


def on_device(summary: Summary) -> bool:
    """The ops of the summary have device times."""
    return any(words.measured(op.device_time_ms) for op in summary.slow_ops)


def categories(summary: Summary) -> Table:
    """Device time of each category; ops on the host have none."""
    every = summary.categories
    shares = [words.share(each.percent if each.device_time_ms else None) for each in every]
    columns = (
        Column("category", [each.name for each in every], right=False),
        Column("share", shares),
        Column("device time", words.column([each.device_time_ms or None for each in every], "ms")),
        Column("ops", [words.count(each.op_count) for each in every]),
        Column("", shares=[each.percent for each in every], right=False, colours="cyan"),
    )
    return Table(columns)


def slow_ops(summary: Summary, most: int) -> Table:
    """Ops by name; one that was not timed has no share."""
    slow, timed = summary.slow_ops[:most], on_device(summary)
    times = [op.device_time_ms if timed else op.op_self_time_ms for op in slow]
    bounds = [op.bound or "" for op in slow]
    bound = Column("bound", bounds, right=False, colours=[bound_tone(each) for each in bounds])
    columns = (
        Column("op", [op.op for op in slow], right=False, foreign=True, least=20),
        Column("count", [words.count(op.count) for op in slow]),
        Column("device time" if timed else "self time", words.column(times, "ms")),
        Column("share", [_share(op) for op in slow]),
        *([bound] if any(bounds) else []),
        Column(
            "category",
            [op.category or "" for op in slow],
            right=False,
            colours="absent",
            optional=True,
        ),
    )
    return Table(columns)


def _share(op: SlowOp) -> str:
    timed = words.measured(op.device_time_ms) or words.measured(op.op_self_time_ms)
    return words.share(op.percent if timed else None)


def devices(found: Devices | None, most: int) -> Section:
    """A row per device, ops that they take unequally long for, and collectives."""
    if found is None:
        return Section("")
    title = "Devices"
    if found.max_over_mean is not None:
        title += f": the slowest took {found.max_over_mean:.2f} times the mean"
    return Section(title, (_devices(found), *_given(_skews(found, most)), *_waits(found, most)))


def _devices(found: Devices) -> Table:
    rows = found.rows
    known = [row.device_time_ms for row in rows if row.device_time_ms is not None]
    mean = sum(known) / len(known) if known else 0.0
    longest = max(known, default=0.0) or 1.0
    columns = (
        Column("device", [str(row.device_id) for row in rows]),
        Column("ops", [words.count(row.op_count) for row in rows]),
        Column("device time", words.column([row.device_time_ms for row in rows], "ms")),
        Column("vs. mean", [_against(row, mean) for row in rows]),
        Column("missing ops", [words.count(row.missing_ops) for row in rows]),
        Column("waited", words.column([row.waited_ms for row in rows], "ms")),
        Column("arrived last", [words.whole(row.arrived_last) for row in rows]),
        Column(
            "",
            shares=[(row.device_time_ms or 0.0) / longest * 100 for row in rows],
            right=False,
            colours="cyan",
            optional=True,
        ),
    )
    return Table(columns)


def _against(row: DeviceRow, mean_ms: float) -> str:
    if row.device_time_ms is None or not mean_ms:
        return words.ABSENT
    return f"{(row.device_time_ms / mean_ms - 1) * 100:+.1f} %"


def _skews(found: Devices, most: int) -> Table:
    ops = found.ops[:most]
    columns = (
        Column("op", [each.op for each in ops], right=False, foreign=True, least=12),
        Column("calls", [words.count(each.count) for each in ops]),
        Column("fastest", [words.readable_us(each.fastest_us) for each in ops]),
        Column("on", [f"device {each.fastest_device}" for each in ops], right=False),
        Column("slowest", [words.readable_us(each.slowest_us) for each in ops]),
        Column("on", [f"device {each.slowest_device}" for each in ops], right=False),
        Column("skew", [words.readable_us(each.skew_us) for each in ops]),
        Column("worst ID", [str(each.worst_id) for each in ops]),
    )
    return Table(columns, caption="Ops with the largest skew")


def _waits(found: Devices, most: int) -> tuple[Table, ...]:
    every = found.collectives[:most]
    last = [f"device {x.last_device}, {x.last_calls:,} of {x.calls:,}" for x in every]
    columns = (
        Column("collective", [each.op for each in every], right=False, foreign=True, least=12),
        Column("calls", [words.count(each.count) for each in every]),
        Column("last to arrive", last, right=False),
        Column("others waited", [f"{words.readable_us(x.mean_wait_us)} a call" for x in every]),
        Column("longest wait", [words.readable_us(each.longest_wait_us) for each in every]),
    )
    return _given(Table(columns, _DEVICE_NOTE, "Who arrived last in collectives"))


def _sources(summary: Summary, most: int) -> Section:
    """The first lines, and last what has no location where that took time."""
    locations, title = summary.locations, "Device time by source line"
    if locations is None or not locations.lines:
        return Section(title, text="" if locations is None else locations.note or "")
    lines = locations.lines[:most]
    names = [f"{each.file}:{each.line}" for each in lines]
    counts, times = [x.op_count for x in lines], [x.device_time_ms for x in lines]
    shares = [each.percent for each in lines]
    if locations.unlocated_ms:
        names.append("no location")
        counts.append(locations.unlocated_count)
        times.append(locations.unlocated_ms)
        shares.append(locations.unlocated_percent)
    column = Column(
        "line",
        names,
        right=False,
        foreign=[at < len(lines) for at in range(len(names))],
        behind=[*(" (once)" if each.const_eval else "" for each in lines), ""],
        least=24,
    )
    return Section(title, (_places(column, counts, times, shares),))


def modules(summary: Summary, most: int) -> Table:
    """The first modules, and last the constants; empty without locations."""
    found = () if summary.locations is None else summary.locations.most_modules(most)
    column = Column(
        "module",
        [each.name for each in found],
        right=False,
        foreign=[not each.const_eval for each in found],
        least=24,
    )
    return _places(
        column,
        [each.op_count for each in found],
        [each.device_time_ms for each in found],
        [each.percent for each in found],
    )


def _places(
    names: Column, counts: list[int], times: list[float], shares: list[float | None]
) -> Table:
    columns = (
        names,
        Column("ops", [words.count(count) for count in counts]),
        Column("device time", words.column(times, "ms")),
        Column("share", [words.share(share) for share in shares]),
    )
    return Table(columns)


def savings(summary: Summary, most: int) -> Table:
    """What could be won at most; shares are of device time and gaps."""
    found = summary.savings[:most]
    names = [each.op for each in found]
    columns = (
        Column(
            "op",
            names,
            right=False,
            foreign=True,
            squeezed=[words.squeezed(name) for name in names],
            least=12,
            comfort=30,
        ),
        Column("count", [words.count(each.count) for each in found], optional=True),
        Column("now", [words.readable_us(each.now_us) for each in found]),
        Column("saves", [words.readable_us(each.saving_us) for each in found]),
        Column("share", [words.share(each.percent) for each in found]),
        Column("if", [CONDITIONS[each.kind] for each in found], right=False),
    )
    return Table(columns)


def varying(summary: Summary) -> tuple[Spread, ...]:
    """The ops whose time changes from step to step by enough to wonder about."""
    return tuple(
        each for each in summary.spread if each.stdev_us >= VARIES_PERCENT / 100 * each.mean_us > 0
    )


def variation(summary: Summary, most: int) -> Table:
    """The ops that vary from step to step, by their ID in the table of ops."""
    found = varying(summary)[:most]
    columns = (
        Column("op", [each.op for each in found], right=False, foreign=True, least=20),
        Column("ID", [words.ABSENT if each.id is None else str(each.id) for each in found]),
        Column("mean", [words.readable_us(each.mean_us) for each in found]),
        Column("±", [words.readable_us(each.stdev_us) for each in found]),
        Column("of the mean", [words.share(each.stdev_us / each.mean_us * 100) for each in found]),
    )
    return Table(columns)
