"""A summary as a document: for the terminal and a pull request, and as a page with everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from instrumentor_analysis.model import GAP_THRESHOLD_US, Summary
from instrumentor_analysis.reports import (
    breakdown,
    charts,
    formatting,
    headline,
    limits,
    owners,
    programs,
    telemetry,
    terminal,
)
from instrumentor_analysis.reports import html as pages
from instrumentor_analysis.reports import markdown as marked
from instrumentor_analysis.reports import modules as module_tree
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
from instrumentor_analysis.reports.drawing import PARTS
from instrumentor_analysis.reports.ops_data import ops_table
from instrumentor_analysis.reports.roofline_chart import roofline
from instrumentor_analysis.reports.sources import listings
from instrumentor_analysis.shared.documents import in_words
from instrumentor_analysis.summary.figure_table import FIGURES
from instrumentor_analysis.summary.verdict import no_verdict

_SHORT = breakdown.Most(ops=10, savings=5, places=5, rest=5)
_MIDDLE = breakdown.Most(ops=15, savings=15, places=10, rest=1000)
_MOST_MODULES, _MOST_SAVINGS, _MOST_ROWS = 40, 12, 100
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
    top = tiles(summary)
    figures = (_beside(each, top) for each in headline.figures(summary))
    sections = (s for s in _page_sections(summary, detail or Detail()) if _holds(s))
    document = replace(
        _document(summary, _MIDDLE),
        tiles=top,
        figures=tuple(each for each in figures if each.lines),
        sections=tuple(sections),
        environment=tuple(_environment(summary)),
        origin=_origin(summary),
    )
    return pages.render(document)


def one_conclusion(document: Document) -> Document:
    """Of a busy machine one verdict: what is said above the figures is why there is none else."""
    verdict, said = document.verdict, document.statements
    if verdict is None or not said:
        return document
    reason = ". ".join(each.said.replace(". [", " [") for each in said)
    return replace(document, verdict=replace(verdict, reason=reason, tone="bad"), statements=())


def _document(summary: Summary, most: breakdown.Most) -> Document:
    document = Document(
        headline.title(summary),
        headline.subtitle(summary),
        verdict=verdict_of(summary),
        statements=headline.above_the_figures(summary),
        figures=headline.figures(summary),
        sections=breakdown.sections(summary, most),
        warnings=headline.warnings(summary),
        files=listed(summary.artifacts),
    )
    return one_conclusion(document)


def verdict_of(summary: Summary) -> Verdict | None:
    """What the summary comes down to, with evidence and levers, or why that is nothing."""
    found = summary.verdict
    if found is None:
        missing = no_verdict(summary)
        if missing is None:
            return None
        name, reason, tries = missing
        levers = tuple(Statement(lever.what, lever.how) for lever in tries)
        return Verdict("Verdict", name, "plain", reason, levers=levers)
    evidence = tuple(
        Line(
            each.what,
            formatting.quantity(each.value, each.unit),
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
    names = [figure.name for figure in FIGURES if figure.tile]
    told = {line.name for line in whole.lines if line.tone != "absent"}
    wall = summary.wall_clock
    label = "" if wall is None else wall.label
    mean = None if wall is None else headline.region_in_iteration(wall)
    names += ["micro-step", f"{label}, median" if mean is None else label]
    if "throughput" not in told:
        names.append(f"{label} only")
    if headline.is_inference(summary.wall_clock):
        names += [name for name in _LATENCIES if name in told][:1]
    steady = (
        replace(line, name=f"{label}, median") if line.name == "median" else line
        for line in _named(whole, names)
    )
    rows = Figures(whole.title, tuple(steady)), Figures(step.title, _named(step, names))
    return tuple(row for row in rows if row.lines)


def _named(section: Figures, names: Sequence[str]) -> tuple[Line, ...]:
    """A section's lines of these names that were measured."""
    return tuple(line for line in section.lines if line.name in names and line.tone != "absent")


def _beside(figures: Figures, tiles: Sequence[Figures]) -> Figures:
    """What a page says in a table: neither the tiles once more, nor what was not measured."""
    shown = {line.value for row in tiles for line in row.lines if row.title == figures.title}
    rest = (x for x in figures.lines if x.tone != "absent" and x.value not in shown)
    return replace(figures, lines=tuple(rest))


def _page_sections(summary: Summary, detail: Detail) -> Iterator[Section]:
    """The sections of the page, those without anything to show included."""
    yield owners.section(summary.phases, drawn=True)
    yield owners.what_if(summary.what_if)
    yield owners.ranks(summary.ranks)
    yield owners.causes(summary.causes, _MOST_ROWS)
    phases = summary.phases
    yield module_tree.section(summary.modules, _MOST_MODULES, rows=_MOST_ROWS, phases=phases)
    yield module_tree.ops(summary.module_ops, _MOST_MODULES)
    yield programs.section(summary.programs, _MOST_MODULES)
    yield telemetry.section(summary.telemetry)
    steps, parts = charts.steps(summary), charts.breakdown(summary)
    whole = charts.iteration(summary)
    if whole is not None and summary.phases is None:  # its phases say more
        wall = summary.wall_clock
        step = "step" if wall is None else headline.step_word(wall)
        yield Section("Iteration" if step == "step" else "Micro-step", charts=(whole,))
    if steps is not None:
        yield Section("Steps", (_steps(summary),), charts=(steps,))
    slow = _keyed(breakdown.slow_ops(summary, len(summary.slow_ops)))
    tables = breakdown.categories(summary), slow
    # The table has what its keys say.
    shares = () if parts is None else (replace(parts, keys=()),)
    if tables[1].rows:
        yield Section("Where the time goes", tables, charts=shares, beside=True)
    yield limits.section(summary.limits)
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


def _keyed(table: Table) -> Table:
    """The ops with the colours that they have in the chart above them."""
    if not table.columns:
        return table
    first, *others = table.columns
    drawn = [f"part{at % PARTS + 1}" for at in range(charts.MOST_PARTS)]
    keys = [*drawn, *("rest" for _ in first.texts)][: len(first.texts)]
    return replace(table, columns=(replace(first, keys=keys), *others))


#: Facts of the run and the machine: heading, then key and name, in the order in which they are
#: asked for. A dotted key is within an object.
_ABOUT: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Run": (
        ("script", "script"),
        ("command", "command"),
        ("loop", "training loop"),
        ("started", "started"),
        ("duration_s", "duration"),
        ("script_exit_code", "exit code"),
        ("steps", "steps asked for"),
        ("warmup", "warm-up steps"),
        ("time_budget_s", "time for the steps"),
        ("batch_size", "batch size"),
        ("batch_size_source", "batch size from"),
        ("git_commit", "commit"),
        ("git_dirty", "uncommitted changes"),
        ("profiler_reason", "profiler"),
        ("label", "label"),
        ("ops", "ops"),
    ),
    "Machine": (
        ("host", "host"),
        ("cpu_model", "CPU"),
        ("cpu_count", "CPUs"),
        ("torch_threads", "torch threads"),
        ("machine.other_cpus", "CPUs used by others"),
        ("machine.load_before", "load average before"),
        ("machine.frequency_mhz_before", "CPU clock, MHz"),
        ("devices", "devices"),
        ("simulator", "simulator"),
        ("math_fidelity", "math fidelity"),
        ("platform", "system"),
    ),
    "Versions": (
        ("python_version", "Python"),
        ("torch_version", "torch"),
        ("packages.torch_xla", "torch_xla"),
        ("packages.numpy", "numpy"),
        ("packages.transformers", "transformers"),
        ("packages.ttnn", "ttnn"),
        ("tt_xla", "tt-xla"),
        ("python", "interpreter"),
        ("instrumentor", "instrumentor"),
    ),
}
_SECONDS = ("duration_s", "time_budget_s")


def _known(summary: Summary) -> dict[str, Any]:
    """Facts by key, those of objects by dotted keys as well."""
    every: dict[str, Any] = {**summary.run, **summary.environment}
    if summary.loop:
        places = (str(summary.loop[key]) for key in ("file", "line") if key in summary.loop)
        told = ", found by running the script" if summary.loop.get("found_by") == "running" else ""
        every["loop"] = ":".join(places) + told
    every["script_exit_code"] = summary.script_exit_code
    for outer in ("machine", "packages"):
        inner = every.get(outer)
        if isinstance(inner, Mapping):
            every |= {f"{outer}.{key}": value for key, value in inner.items()}
    return every


def _environment(summary: Summary) -> Iterator[Figures]:
    """What is known of the run and the machine, as a table for each."""
    known = _known(summary)
    for heading, rows in _ABOUT.items():
        lines = [
            Line(
                name,
                formatting.quantity(known[key], "s") if key in _SECONDS else in_words(known[key]),
            )
            for key, name in rows
            if known.get(key) not in (None, "", [], {})
        ]
        if lines:
            yield Figures(heading, tuple(lines))


def _origin(summary: Summary) -> str:
    """What was run, when, and of which commit: what a reader of many pages looks for."""
    run, environment = summary.run, summary.environment
    command = run.get("command")
    words = [str(word) for word in command] if isinstance(command, (list, tuple)) else []
    typed = " ".join([Path(words[0]).name, *words[1:]]) if words else str(run.get("script") or "")
    started = str(run.get("started") or "")[:16].replace("T", " ")
    commit = str(environment.get("git_commit") or "")[:10]
    changed = " with uncommitted changes" if commit and environment.get("git_dirty") else ""
    parts = (
        typed,
        f"{started} UTC" if started else "",
        f"commit {commit}{changed}" if commit else "",
    )
    return " · ".join(part for part in parts if part)
