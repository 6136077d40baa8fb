"""A kernel's report as a document: the bottleneck first, then what it was judged by."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from instrumentor_analysis.kernels.facts import L1_BYTES, Facts
from instrumentor_analysis.kernels.findings import GOALS, Finding, used_cores
from instrumentor_analysis.kernels.heat import HotLine, heat_map
from instrumentor_analysis.kernels.model import Program
from instrumentor_analysis.kernels.report import AnyReport, KernelReport
from instrumentor_analysis.kernels.simulated_report import SimulatedReport
from instrumentor_analysis.reports import html as pages
from instrumentor_analysis.reports import kernel_simulated, terminal
from instrumentor_analysis.reports.document import (
    CodeLine,
    Document,
    Figures,
    Line,
    Listing,
    Section,
    Statement,
    Verdict,
    in_table,
)
from instrumentor_analysis.reports.formatting import quantity, size, us
from instrumentor_analysis.reports.kernel_graph import flow, graph
from instrumentor_analysis.shared.caveats import Caveat

_FAILED = "The validation failed: the times below are of a wrong result."


def console(report: AnyReport, *, width: int = 100, color: bool = False) -> str:
    """The report as text; lines of source are cut at ``width`` columns."""
    # Below that nothing of the code is left beside its figures.
    return terminal.render([_document(report)], width=max(width, 40), color=color)


def html(report: AnyReport) -> str:
    """The report as a page."""
    document = _document(report)
    tiles = document.figures
    if isinstance(report, KernelReport):
        tiles = _given(Figures("", (*_totals(report.facts), *_figures(report.facts))))
    return pages.render(replace(document, tiles=tiles, figures=()))


def _document(report: AnyReport) -> Document:
    if isinstance(report, SimulatedReport):
        return kernel_simulated.document(report)
    facts, run = report.facts, report.facts.run
    known = {"script": run.get("script"), "mode": facts.mode}
    return Document(
        _title(facts),
        alarm=_FAILED if run.get("validated") is False else "",
        verdict=_verdict(report),
        figures=_given(Figures("", tuple(_figures(facts)))),
        sections=tuple(section for section in _sections(report) if section is not None),
        warnings=tuple(Caveat("kernel", text) for text in report.warnings),
        facts=tuple(Line(name, str(value)) for name, value in known.items() if value),
    )


def _given(figures: Figures) -> tuple[Figures, ...]:
    return (figures,) if figures.lines else ()


def _title(facts: Facts) -> str:
    call = facts.run.get("invocation") or {}
    through = "".join(f", from line {step.get('line')}" for step in call.get("through") or ())
    where = f", call {call.get('number')} at line {call.get('line')}{through}" if call else ""
    name = facts.kernel or str(facts.run.get("name") or "kernel")
    wall = "wall time not measured in this mode"
    if facts.duration_us is not None:
        wall = f"{us(facts.duration_us)} on the device"
    return f"{name}{where}: {wall}"


def _verdict(report: KernelReport) -> Verdict:
    limit = report.limit
    if limit is None:
        other = "auto-profile" if report.facts.mode == "perf" else "perf"
        said = f"none found in this run: no goal is missed; see --mode {other} too"
        return Verdict("Bottleneck", said, "plain")
    pairs = {"seen": limit.evidence, "change": limit.change, "gain": limit.worth}
    details = tuple(Line(name, text) for name, text in pairs.items())
    return Verdict("Bottleneck", limit.title, "bad", aside=GOALS[limit.goal], details=details)


def _totals(facts: Facts) -> Iterator[Line]:
    """Totals for the tiles of a page; the text has them in its heading and a table."""
    program = facts.program
    if facts.duration_us is not None:
        note = f"{program.duration_cycles:,} cycles" if program and program.duration_cycles else ""
        yield Line("Wall time on the device", us(facts.duration_us), note)
    if facts.dram_bytes is not None and program is not None and program.dram_read is not None:
        written = size(program.dram_write.bytes) if program.dram_write else "nothing"
        note = f"{size(program.dram_read.bytes)} read, {written} written"
        yield Line("DRAM traffic", size(facts.dram_bytes), note)


def _figures(facts: Facts) -> Iterator[Line]:
    program, used = facts.program, used_cores(facts)
    if used:
        known = facts.available_cores
        of = f" of {known} ({used / known:.0%})" if known else ""
        grid = f"grid {program.grid[0]}x{program.grid[1]}; " if program and program.grid else ""
        given = facts.run.get("grid") or {}
        asked = given.get("text") or given.get("kind") or "not visible"
        yield Line("Cores", f"{used}{of}", f"{grid}asked for {asked}")
    if program is not None and program.bandwidth_gb_s is not None:
        rate, peak = program.bandwidth_gb_s, facts.peak_gb_s
        share = f" ({rate / peak:.0%} of {peak:.0f})" if peak else ""
        yield Line("Bandwidth", f"{quantity(rate, 'GB/s')}{share}")
    roofline = facts.log.roofline
    if roofline is not None:
        verdict = f"{roofline.percent:.0f} % {roofline.bound} bound"
        yield Line("Bound", "balanced" if roofline.bound == "balanced" else verdict)
    if facts.block_bytes is not None:
        share = f"{facts.block_bytes / L1_BYTES:.0%} of L1"
        yield Line("Blocks", f"{size(facts.block_bytes)} a core", share)


def _sections(report: KernelReport) -> Iterator[Section | None]:
    facts = report.facts
    yield from _tables(facts)
    lines = tuple(map(_code_line, heat_map(facts.lines, report.source)))
    heads, legend = ("cycles", "share", "waits"), "█: hottest of its thread"
    listing = Listing("", heads, lines, "source", legend=legend)
    yield Section("Cycles by line", listings=(listing,)) if lines else None
    drawn = graph(facts.log.buffers)
    flows = tuple(_flows(facts))
    yield Section("Dataflow buffers", verbatim=flows, charts=(drawn,)) if drawn else None
    others = [finding for finding in report.found if finding is not report.limit]
    yield Section("Also", statements=tuple(map(_remark, others))) if others else None
    by_hand = (report.rerun,)
    yield Section("The whole profile by hand:", verbatim=by_hand) if report.rerun else None


def _code_line(hot: HotLine) -> CodeLine:
    if not hot.cycles:
        return CodeLine(hot.line, hot.text)
    waits = f"{hot.waits / hot.total:.0%}" if hot.waits and hot.total else ""
    threads = "  ".join(f"{thread} {cycles:,}" for thread, cycles in hot.cycles)
    cells = f"{hot.total:,}", f"{hot.share:.1%}", waits
    return CodeLine(hot.line, hot.text, cells, hot.share, threads)


def _flows(facts: Facts) -> Iterator[str]:
    """Each buffer with what fills and empties it."""
    for name, *ends in map(flow, facts.log.buffers):
        filled, emptied = (" + ".join(each) or "?" for each in ends)
        yield f"{filled} --> [{name}] --> {emptied}"
    for pipe in facts.log.pipes:
        yield f"pipe {pipe.source} --> {pipe.target}"


def _remark(finding: Finding) -> Statement:
    # Below 1.05 Finding.worth calls a gain negligible.
    known = finding.gain is not None and finding.gain >= 1.05
    gain = f" Gain: {finding.worth}." if known else ""
    return Statement(f"{finding.title} ({finding.evidence})", finding.change + gain, "room")


def _tables(facts: Facts) -> Iterator[Section | None]:
    """Arguments, threads, data movement and signposts, of those that there are."""
    program, log = facts.program, facts.log
    arguments = [
        (each.name, " x ".join(map(str, each.shape)), each.dtype, size(each.bytes))
        for each in facts.arguments
    ]
    yield in_table("Arguments", ("argument", "shape", "dtype", "size"), arguments, 3)
    threads = [
        (row.thread, row.function, f"{row.cycles:,}", f"{row.operations:,}", f"{row.percent:.1f} %")
        for row in log.threads
    ]
    yield in_table("Threads", ("thread", "function", "cycles", "ops", "share"), threads, 2)
    if program is not None:
        every = {} if threads else program.kernel_cycles
        cores = [(thread, f"{low:,}", f"{high:,}") for thread, (low, high) in every.items()]
        yield in_table("Threads", ("thread", "least cycles", "most cycles"), cores)
        yield _movement(program)
    heads = ("signpost", "thread", "count", "total", "average", "least", "most")
    posts = [
        (row.name, row.thread, *(f"{getattr(row, head):,}" for head in heads[2:]))
        for row in log.signposts
    ]
    yield in_table("Signposts", heads, posts, 2)


def _movement(program: Program) -> Section | None:
    """Bytes and transfers by kind, barriers and sizes of transfers."""
    kinds = {
        "DRAM read": program.dram_read,
        "DRAM write": program.dram_write,
        "L1 read": program.l1_read,
        "L1 write": program.l1_write,
        "multicast": program.multicast,
    }
    rows = [(kind, size(m.bytes), f"{m.transfers:,}") for kind, m in kinds.items() if m is not None]
    sizes = ", ".join(
        size(amount) + (f" x{count:,}" if count else "")
        for amount, count in sorted(program.transfer_sizes.items())
    )
    notes = [f"transfers of {sizes}"] if sizes else []
    if program.barriers is not None:
        notes.append(f"barriers: {program.barriers[0]:,} read, {program.barriers[1]:,} write")
    return in_table("Data movement", ("kind", "bytes", "transfers"), rows, note="; ".join(notes))
