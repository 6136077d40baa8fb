"""A summary as the text that ends a run: the verdict first, then numbers, then warnings.

Colours mean something: red a threshold that is passed (overhead, gaps above 6.5 us), green good
use, yellow room, grey what was not measured. :mod:`.reports.ops_console` prints the ops.
"""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.model import CONDITIONS, Summary
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.files import listed
from instrumentor_analysis.reports.headline import (
    DEVICE_HEADINGS,
    DEVICE_NOTE,
    SKEW_HEADINGS,
    WAIT_HEADINGS,
    Line,
    Place,
    Section,
    category_shares,
    category_times,
    device_rows,
    devices_title,
    module_places,
    op_id,
    sections,
    skew_rows,
    slow_share,
    source_places,
    subtitle,
    title,
    variation,
    varying,
    wait_rows,
    warnings,
)
from instrumentor_analysis.reports.terminal import (
    Column,
    Paint,
    indented,
    painter,
    table,
    tone_colour,
)

_NAME = 16
_VALUE = 13
MOST_OPS = 10
MOST_SAVINGS = 5
MOST_LINES = 5
#: Below this many columns names of ops are squeezed, as in the table of ops.
_NARROW = 100


def render(
    summary: Summary, *, width: int = 80, color: bool = False, folder: str | None = None
) -> str:
    """The output summary of a run.

    Args:
        width: columns of the terminal.
        color: use escape codes; decide by ``isatty`` and ``NO_COLOR``.
        folder: of the run, put before the paths of its files.

    Returns:
        Text that ends in a newline.
    """
    paint = painter(color)
    head = paint(words.visible(title(summary)), "bold")
    blocks = [
        [f"{head}  {paint(words.visible(subtitle(summary)), 'dim')}".rstrip()],
        _verdict(summary, width, paint),
        *(_section(section, width, paint) for section in sections(summary)),
        _categories(summary, width, paint),
        _slow_ops(summary, width, paint),
        _devices(summary, width, paint),
        _sources(summary, width, paint),
        _modules(summary, width, paint),
        _savings(summary, width, paint),
        _varying(summary, width, paint),
        _warnings(summary, width, paint),
        _files(summary, folder, paint),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _section(section: Section, width: int, paint: Paint) -> list[str]:
    lines = indented(words.visible(section.title), width, rest="  ")
    lines = [paint(line, "bold") for line in lines]
    for line in section.lines:
        lines += _figure(line, width, paint)
    return lines


def _figure(line: Line, width: int, paint: Paint) -> list[str]:
    value = line.value.rjust(_VALUE)
    # Units of one letter less would throw the figures out of line.
    if line.value.endswith(" %"):
        value = (line.value + " ").rjust(_VALUE)
    start = f"  {line.name:<{_NAME}}{value}"
    painted = f"  {line.name:<{_NAME}}{paint(value, tone_colour(line.tone))}"
    if not line.note:
        return [painted.rstrip()]
    notes = indented(words.visible(line.note), width, start + "   ", " " * (len(start) + 3))
    first = paint(notes[0][len(start) + 3 :], "dim")
    rest = [" " * (len(start) + 3) + paint(text.strip(), "dim") for text in notes[1:]]
    return [f"{painted}   {first}", *rest]


def _categories(summary: Summary, width: int, paint: Paint) -> list[str]:
    every = summary.categories
    if not every:
        return []
    bars = max(min(width - 50, 40), 8)
    columns = (
        Column("category", [words.visible(each.name) for each in every], right=False),
        Column("share", category_shares(summary)),
        Column("device time", category_times(summary)),
        Column("ops", [words.count(each.op_count) for each in every]),
        Column("", [words.bar(each.percent, bars) for each in every], right=False, colours="cyan"),
    )
    heading = paint("Where the device time goes", "bold")
    return [heading, *table(columns, width=width, paint=paint, indent="  ")]


def _slow_ops(summary: Summary, width: int, paint: Paint) -> list[str]:
    slow = summary.slow_ops[:MOST_OPS]
    if not slow:
        return []
    on_device = any(words.measured(op.device_time_ms) for op in slow)
    times = [op.device_time_ms if on_device else op.op_self_time_ms for op in slow]
    bound = Column(
        "bound",
        [words.visible(op.bound or "") for op in slow],
        right=False,
        colours=[bound_colour(op.bound) for op in slow],
    )
    categories = [words.visible(op.category or "") for op in slow]
    columns = (
        Column("op", [words.visible(op.op) for op in slow], right=False, least=20),
        Column("count", [words.count(op.count) for op in slow]),
        Column("device time" if on_device else "self time", words.column(times, "ms")),
        Column("share", [slow_share(op) for op in slow]),
        *([bound] if any(op.bound for op in slow) else []),
        Column("category", categories, right=False, colours="dim", optional=True),
    )
    basis = "device time" if on_device else "their own time on the CPU"
    heading = paint(f"Top ops by {basis}", "bold")
    return [heading, *table(columns, width=width, paint=paint, indent="  ")]


def _devices(summary: Summary, width: int, paint: Paint) -> list[str]:
    devices = summary.devices
    if devices is None:
        return []

    def listed(
        headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]
    ) -> list[str]:
        columns = [
            Column(
                heading,
                [words.visible(row[at]) for row in rows],
                right=at not in left,
                least=12 if at == 0 and left else 0,
            )
            for at, heading in enumerate(headings)
        ]
        return table(columns, width=width, paint=paint, indent="  ")

    lines = [paint(devices_title(devices), "bold")]
    lines += listed(DEVICE_HEADINGS, device_rows(devices), ())
    skews, waits = skew_rows(devices)[:MOST_LINES], wait_rows(devices)[:MOST_LINES]
    if skews:
        lines += ["", *listed(SKEW_HEADINGS, skews, (0, 3, 5))]
    if waits:
        lines += ["", *listed(WAIT_HEADINGS, waits, (0, 2))]
        lines += [paint(line, "dim") for line in indented(DEVICE_NOTE, width, "  ")]
    return lines


def bound_colour(bound: str | None) -> str:
    """Green at a bound of the hardware, yellow below both, red on the host."""
    return {"DRAM": "green", "FLOP": "green", "BOTH": "green", "SLOW": "yellow", "HOST": "red"}.get(
        bound or "", ""
    )


def _sources(summary: Summary, width: int, paint: Paint) -> list[str]:
    locations = summary.locations
    if locations is None or not (locations.lines or locations.note):
        return []
    heading = paint("Device time by source line", "bold")
    if not locations.lines:
        return [heading, *indented(words.visible(locations.note or ""), width, "  ")]
    places = source_places(locations, MOST_LINES)
    return [heading, *_places("line", places, width, paint)]


def _modules(summary: Summary, width: int, paint: Paint) -> list[str]:
    most = module_places(summary.locations, MOST_LINES)
    if not most:
        return []
    return [paint("Device time by module", "bold"), *_places("module", most, width, paint)]


def _places(title: str, places: Sequence[Place], width: int, paint: Paint) -> list[str]:
    columns = (
        Column(title, [words.visible(p.name + p.note) for p in places], right=False, least=24),
        Column("ops", [words.count(p.op_count) for p in places]),
        Column("device time", words.column([p.device_time_ms for p in places], "ms")),
        Column("share", [words.share(p.percent) for p in places]),
    )
    return table(columns, width=width, paint=paint, indent="  ")


def _savings(summary: Summary, width: int, paint: Paint) -> list[str]:
    most = summary.savings[:MOST_SAVINGS]
    if not most:
        return []
    names = [words.visible(each.op) for each in most]
    if width < _NARROW:
        names = [name.replace("DeviceOperation", "", 1).replace(" x ", "x") for name in names]
    columns = (
        Column("op", names, right=False, least=12, comfort=30),
        Column("count", [words.count(each.count) for each in most], optional=True),
        Column("now", [words.readable_us(each.now_us) for each in most]),
        Column("saves", [words.readable_us(each.saving_us) for each in most]),
        Column("share", [words.share(each.percent) for each in most]),
        Column("if", [CONDITIONS[each.kind] for each in most], right=False),
    )
    heading = paint("Potential savings (upper bound)", "bold")
    return [heading, *table(columns, width=width, paint=paint, indent="  ")]


def _varying(summary: Summary, width: int, paint: Paint) -> list[str]:
    most = varying(summary)[:MOST_LINES]
    if not most:
        return []
    columns = (
        Column("op", [words.visible(each.op) for each in most], right=False, least=20),
        Column("ID", [op_id(each) for each in most]),
        Column("mean", [words.readable_us(each.mean_us) for each in most]),
        Column("±", [words.readable_us(each.stdev_us) for each in most]),
        Column("of the mean", [variation(each) for each in most]),
    )
    steps = max(each.steps for each in most)
    heading = paint(f"Ops that vary most over the {steps} steady steps", "bold")
    return [heading, *table(columns, width=width, paint=paint, indent="  ")]


def _verdict(summary: Summary, width: int, paint: Paint) -> list[str]:
    verdict = summary.verdict
    if verdict is None:
        return []
    colour = "bold red" if verdict.name == "host-bound" else "bold yellow"
    text = f"Verdict: {verdict.name}: {words.visible(verdict.reason)}"
    first, *rest = indented(text, width, rest="  ")
    lines = [first.replace(verdict.name, paint(verdict.name, colour), 1), *rest]
    for each in verdict.evidence:
        limit = "" if each.threshold is None else f" (threshold {each.threshold:g})"
        fact = f"{each.what} {words.with_unit(each.value, each.unit)}{limit}"
        lines += [paint(line, "dim") for line in indented(words.visible(fact), width, "  · ")]
    if verdict.levers:
        lines.append("  Next, one at a time:")
        for number, lever in enumerate(verdict.levers, start=1):
            text = words.visible(f"{lever.what}: {lever.how}")
            lines += indented(text, width, f"  {number}. ")
    return lines


def _warnings(summary: Summary, width: int, paint: Paint) -> list[str]:
    lines: list[str] = []
    for warning in warnings(summary):
        lines += indented(words.visible(warning), width, "Warning: ", "  ")
    return [line.replace("Warning:", paint("Warning:", "yellow"), 1) for line in lines]


def _files(summary: Summary, folder: str | None, paint: Paint) -> list[str]:
    files = listed(summary.artifacts)
    if not files:
        return []
    size = max(len(words.visible(name)) for name, _ in files)
    before = "" if folder is None else folder.rstrip("/") + "/"
    return [
        paint("Files", "bold"),
        *(
            f"  {words.visible(name):<{size}}  {words.visible(before + path)}"
            for name, path in files
        ),
    ]
