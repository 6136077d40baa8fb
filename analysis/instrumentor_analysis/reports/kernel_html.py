"""A kernel's report as one HTML file without scripts: verdict, figures, heat map, buffers."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from instrumentor_analysis.kernels.facts import L1_BYTES, Facts
from instrumentor_analysis.kernels.findings import GOALS, used_cores
from instrumentor_analysis.kernels.heat import heat_map
from instrumentor_analysis.kernels.report import KernelReport
from instrumentor_analysis.reports import page
from instrumentor_analysis.reports.kernel_console import us
from instrumentor_analysis.reports.kernel_graph import graph
from instrumentor_analysis.reports.kernel_tables import sections
from instrumentor_analysis.reports.words import size


class Tile(Struct, frozen=True):
    """A figure at the top: name, value, what it is held against."""

    name: str
    value: str
    note: str = ""


def render(report: KernelReport) -> str:
    """The page."""
    facts = report.facts
    return page.render(
        "kernel.html.j2",
        report=report,
        facts=facts,
        run=facts.run,
        goals=GOALS,
        tiles=list(_tiles(report)),
        lines=heat_map(facts.lines, report.source),
        graph=graph(facts.log.buffers),
        sections=sections(facts),
        others=[finding for finding in report.found if finding is not report.limit],
        name=facts.kernel or facts.run.get("name") or "kernel",
    )


def _tiles(report: KernelReport) -> Iterator[Tile]:
    facts, program = report.facts, report.facts.program
    if facts.duration_us is not None:
        note = f"{program.duration_cycles:,} cycles" if program and program.duration_cycles else ""
        yield Tile("Wall time on the device", us(facts.duration_us), note)
    used = used_cores(facts)
    if used:
        of = facts.available_cores
        grid = f"grid {program.grid[0]}x{program.grid[1]}" if program and program.grid else ""
        yield Tile("Cores", f"{used} of {of}" if of else str(used), grid)
    yield from _traffic_tiles(facts)
    roofline = facts.log.roofline
    if roofline is not None:
        yield Tile("Bound by", roofline.bound, f"{roofline.percent:.0f} %")
    if facts.block_bytes is not None:
        share = f"{facts.block_bytes / L1_BYTES:.0%} of L1 on each core"
        yield Tile("Dataflow buffers", size(facts.block_bytes), share)


def _traffic_tiles(facts: Facts) -> Iterator[Tile]:
    program = facts.program
    if facts.dram_bytes is not None and program is not None and program.dram_read is not None:
        written = size(program.dram_write.bytes) if program.dram_write else "nothing"
        read = size(program.dram_read.bytes)
        yield Tile("DRAM traffic", size(facts.dram_bytes), f"{read} read, {written} written")
    if program is not None and program.bandwidth_gb_s is not None:
        peak = f"of {facts.peak_gb_s:.0f} GB/s" if facts.peak_gb_s else ""
        yield Tile("Effective bandwidth", f"{program.bandwidth_gb_s:.1f} GB/s", peak)
