"""A summary as a document: for the terminal and a pull request, and as a page with everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from instrumentor_analysis.model import GAP_THRESHOLD_US, Summary
from instrumentor_analysis.reports import breakdown, charts, formatting, headline, terminal
from instrumentor_analysis.reports import html as pages
from instrumentor_analysis.reports import markdown as marked
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.document import (
    Column,
    Document,
    Figures,
    Line,
    Section,
    Statement,
    Table,
    Tone,
    Verdict,
)
from instrumentor_analysis.reports.ops_data import ops_table
from instrumentor_analysis.reports.roofline_chart import roofline
from instrumentor_analysis.reports.sources import listings
from instrumentor_analysis.shared.documents import in_words

_SHORT = breakdown.Most(ops=10, savings=5, places=5, rest=5)
_MIDDLE = breakdown.Most(ops=15, savings=15, places=10, rest=1000)
_MOST_MODULES, _MOST_SAVINGS, _MOST_ROWS = 40, 12, 100
_STEP_TILES = (
    "wall clock",
    "device time",
    "op self time",
    "overhead",
    "dispatch per op",
    "ops",
    "matmul FLOPs",
)
#: Of these the highest that the samples tell is a headline figure of inference.
_LATENCIES = ("latency p99", "latency p95", "latency p90")
_TONES: dict[str, Tone] = {"host-bound": "bad", "compute-bound": "good"}
#: End of a path -> what it is; these come first, in this order.
_FILES = (
    ("report.html", "report"),
    ("tt_perf_report_stacked.png", "chart"),
    (".tracy", "host trace"),
    ("torch_profile/trace.json", "trace"),
)


def console(summary: Summary, *, width: int = 80, color: bool = False, notes: bool = False) -> str:
    """The text that ends a run; with the warnings of weight ``note`` on demand."""
    document = replace(_document(summary, _SHORT), warnings=headline.warnings(summary, notes=notes))
    return terminal.render([document], width=width, color=color)


def markdown(summary: Summary) -> str:
    """summary.md."""
    return marked.render([_document(summary, _MIDDLE)])


def html(summary: Summary, detail: Detail | None = None) -> str:
    """report.html: everything about one run on one page.

    Args:
        detail: the single ops and what belongs to them; without it the page shows less.
    """
    # A page has room for what is there, a text says as well what is not.
    figures = (f for f in headline.figures(summary) if any(e.tone != "absent" for e in f.lines))
    sections = (s for s in _page_sections(summary, detail or Detail()) if _holds(s))
    document = replace(
        _document(summary, _MIDDLE),
        tiles=tiles(summary),
        figures=tuple(figures),
        sections=tuple(sections),
        facts=tuple(_facts(summary)),
    )
    return pages.render(document)


def _document(summary: Summary, most: breakdown.Most) -> Document:
    return Document(
        headline.title(summary),
        headline.subtitle(summary),
        verdict=_verdict(summary),
        statements=headline.above_the_figures(summary),
        figures=headline.figures(summary),
        sections=breakdown.sections(summary, most),
        warnings=headline.warnings(summary),
        files=listed(summary.artifacts),
    )


def _verdict(summary: Summary) -> Verdict | None:
    found = summary.verdict
    if found is None:
        return None
    evidence = tuple(
        Line(
            each.what,
            formatting.with_unit(each.value, each.unit),
            "" if each.threshold is None else f"threshold {each.threshold:g}",
        )
        for each in found.evidence
    )
    levers = tuple(Statement(lever.what, lever.how) for lever in found.levers)
    tone = _TONES.get(found.name, "room")
    return Verdict("Verdict", found.name, tone, found.reason, evidence=evidence, levers=levers)


def listed(artifacts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(what it is, path) of each artifact: chart and host trace first, the rest as recorded."""
    first: list[tuple[str, str]] = []
    rest = dict(artifacts)
    for end, name in _FILES:
        for key, path in artifacts.items():
            if path.endswith(end) and key in rest:
                first.append((name, rest.pop(key)))
    return (*first, *rest.items())


def tiles(summary: Summary) -> tuple[Figures, ...]:
    """The few figures at the top: a row of all steady steps, and one of the step that is shown.

    Never two steps in one row: the device time of one says nothing of the median of all.
    """
    whole, step = headline.wall_clock_figures(summary)[0], headline.step_figures(summary)
    names: tuple[str, ...] = ("median", "throughput", "token throughput", "MFU")
    if headline.is_inference(summary.wall_clock):
        told = {line.name for line in whole.lines if line.tone != "absent"}
        latency = [name for name in _LATENCIES if name in told][:1]
        names = ("throughput", "token throughput", "median", *latency, "MFU")
    label = "" if summary.wall_clock is None else f"of {summary.wall_clock.label}"
    steady = (
        Line("wall clock, median", line.value, label) if line.name == "median" else line
        for line in _named(whole, names)
    )
    rows = Figures(whole.title, tuple(steady)), Figures(step.title, _named(step, _STEP_TILES))
    return tuple(row for row in rows if row.lines)


def _named(section: Figures, names: Sequence[str]) -> tuple[Line, ...]:
    """A section's lines of these names, unmeasured ones left out except the device time."""
    found = {line.name: line for line in section.lines}
    shown = [found[name] for name in names if name in found]
    return tuple(line for line in shown if line.tone != "absent" or line.name == "device time")


def _page_sections(summary: Summary, detail: Detail) -> Iterator[Section]:
    """The sections of the page, those without anything to show included."""
    steps, parts = charts.steps(summary), charts.breakdown(summary)
    if steps is not None:
        yield Section("Steps", (_steps(summary),), charts=(steps,))
    tables = breakdown.categories(summary), breakdown.slow_ops(summary, len(summary.slow_ops))
    # The table has what its keys say.
    shares = () if parts is None else (replace(parts, keys=()),)
    if tables[1].rows:
        yield Section("Where the time goes", tables, charts=shares, beside=True)
    yield breakdown.devices(summary.devices, _MOST_ROWS)
    yield breakdown.savings(summary, _MOST_SAVINGS, "Share: of device time and gaps.")
    yield breakdown.variation(summary, _MOST_ROWS, "±: standard deviation.")
    yield Section("Ops", ops=ops_table(detail))
    roofs = roofline(detail)
    yield Section("Roofline", charts=() if roofs is None else (roofs,))
    waited = f"Above {GAP_THRESHOLD_US} us (red) the device waited for the host."
    yield Section("Gaps between ops", (replace(charts.gap_table(summary.gaps), note=waited),))
    if summary.locations is not None:
        modules = breakdown.modules(summary, _MOST_MODULES)
        code = listings(summary, detail.sources)
        yield Section("Source", (modules,), summary.locations.note or "", listings=code)


def _holds(section: Section) -> bool:
    """There is something to show."""
    rows = any(table.rows for table in section.tables)
    return bool(rows or section.text or section.charts or section.listings or section.ops)


def _steps(summary: Summary) -> Table:
    steps = summary.steps[-charts.MOST_STEPS :]
    columns = (
        Column("step", [step.name for step in steps], right=False),
        Column("kind", [step.kind or "" for step in steps], right=False),
        Column("wall clock", formatting.column([step.wall_clock_ms for step in steps], "ms")),
        Column("device time", formatting.column([step.device_time_ms for step in steps], "ms")),
        Column("overhead", [formatting.share(step.overhead_percent) for step in steps]),
        Column("ops", [formatting.whole(step.op_count) for step in steps]),
    )
    return Table(columns, folded=True)


def _facts(summary: Summary) -> Iterator[Line]:
    """What is known of the run and the machine."""
    every = {**summary.run, **summary.environment}
    if summary.loop:
        places = (str(summary.loop[key]) for key in ("file", "line") if key in summary.loop)
        every["loop"] = ":".join(places)
    if summary.script_exit_code is not None:
        every["script_exit_code"] = summary.script_exit_code
    for key, value in every.items():
        if value not in (None, "", [], {}):
            yield Line(key.replace("_", " "), in_words(value))
