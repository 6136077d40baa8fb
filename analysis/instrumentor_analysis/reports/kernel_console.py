"""A kernel's report for the terminal: the bottleneck first, then what it was judged by."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor_analysis.kernels.facts import L1_BYTES, Facts
from instrumentor_analysis.kernels.findings import GOALS, Finding, used_cores
from instrumentor_analysis.kernels.heat import heat_map
from instrumentor_analysis.kernels.model import BufferUse
from instrumentor_analysis.kernels.report import KernelReport
from instrumentor_analysis.reports.kernel_tables import sections
from instrumentor_analysis.reports.terminal import painter, section_lines
from instrumentor_analysis.reports.words import size

_BLOCKS = " ▁▂▃▄▅▆▇█"


def render(report: KernelReport, *, width: int = 100, color: bool = False) -> str:
    """The report as text; lines of source are cut at ``width`` columns."""
    return "\n".join(_Page(report, width, color).lines()) + "\n"


class _Page:
    def __init__(self, report: KernelReport, width: int, color: bool) -> None:
        self.report, self.facts = report, report.facts
        self.width, self.paint = max(width, 40), painter(color)

    def lines(self) -> Iterator[str]:
        yield from self._head()
        yield from self._limit()
        yield from self._figures()
        for section in sections(self.facts):
            yield ""
            yield from section_lines(section, self.width, self.paint)
        yield from self._heat()
        yield from self._buffers()
        yield from self._remarks()
        if self.report.rerun:
            yield ""
            yield "The whole profile by hand:"
            yield f"  {self.report.rerun}"

    def _head(self) -> Iterator[str]:
        facts, run = self.facts, self.facts.run
        call = run.get("invocation") or {}
        through = "".join(f", from line {step.get('line')}" for step in call.get("through") or ())
        where = f", call {call.get('number')} at line {call.get('line')}{through}" if call else ""
        name = facts.kernel or str(run.get("name") or "kernel")
        wall = "wall time not measured in this mode"
        if facts.duration_us is not None:
            wall = f"{us(facts.duration_us)} on the device"
        yield f"{self.paint(name, 'bold')}{where}: {self.paint(wall, 'bold')}"
        validated = run.get("validated")
        if validated is False:
            yield self.paint("The validation failed: nothing below says that it is faster.", "red")

    def _limit(self) -> Iterator[str]:
        limit = self.report.limit
        yield ""
        if limit is None:
            other = "auto-profile" if self.facts.mode == "perf" else "perf"
            yield f"Bottleneck  none found in this run: no goal is missed; see --mode {other} too"
            return
        yield f"Bottleneck  {self.paint(limit.title, 'red')}  [{GOALS[limit.goal]}]"
        yield f"  seen      {limit.evidence}"
        yield f"  change    {limit.change}"
        yield f"  gain      {limit.worth}"

    def _figures(self) -> Iterator[str]:
        facts, program = self.facts, self.facts.program
        yield ""
        used = used_cores(facts)
        if used:
            share = f" ({used / facts.available_cores:.0%})" if facts.available_cores else ""
            of = f" of {facts.available_cores}" if facts.available_cores else ""
            grid = f", grid {program.grid[0]}x{program.grid[1]}" if program and program.grid else ""
            yield f"Cores       {used}{of}{share}{grid}; asked for {_asked(facts)}"
        if program is not None and program.bandwidth_gb_s is not None:
            rate, peak = program.bandwidth_gb_s, facts.peak_gb_s
            share = f" ({rate / peak:.0%} of {peak:.0f})" if peak else ""
            yield f"Bandwidth   {rate:.1f} GB/s{share}"
        roofline = facts.log.roofline
        if roofline is not None:
            verdict = f"{roofline.percent:.0f} % {roofline.bound} bound"
            yield f"Bound       {'balanced' if roofline.bound == 'balanced' else verdict}"
        if facts.block_bytes is not None:
            share_l1 = facts.block_bytes / L1_BYTES
            yield f"Blocks      {size(facts.block_bytes)} a core, {share_l1:.0%} of L1"

    def _heat(self) -> Iterator[str]:
        lines = heat_map(self.facts.lines, self.report.source)
        if not lines:
            return
        yield ""
        yield "  line     cycles  share  waits    source (█: hottest of its thread)"
        for line in lines:
            if not line.cycles:
                if line.text.strip():
                    yield self.paint(f"{line.line:>6}{'':>27} {line.text}"[: self.width], "dim")
                continue
            bar = _BLOCKS[min(round(line.share * (len(_BLOCKS) - 1)), len(_BLOCKS) - 1)]
            waits = f"{line.waits / line.total:>5.0%}" if line.waits and line.total else "     "
            text = f"{line.line:>6} {line.total:>10,} {line.share:>6.1%} {waits} {bar} {line.text}"
            hot = "red" if line.share > 0.5 else "yellow" if line.share > 0.2 else ""
            cut = text[: self.width]
            yield self.paint(cut, hot)

    def _buffers(self) -> Iterator[str]:
        buffers = self.facts.log.buffers
        if not buffers:
            return
        yield ""
        yield "Dataflow buffers"
        for buffer in buffers:
            name = buffer.name or f"buffer {buffer.index}"
            moved = [f"DRAM {_ends([c])}" for c in buffer.copies if c.direction == "read"]
            source = " + ".join(moved) or _ends(buffer.producers)
            target = _ends(buffer.consumers)
            out = [_ends([c]) for c in buffer.copies if c.direction == "write"]
            tail = f" --> DRAM {' + '.join(out)}" if out else ""
            yield f"  {source or '?'} --> [{name}] --> {target or '?'}{tail}"
        for pipe in self.facts.log.pipes:
            yield f"  pipe {pipe.source} --> {pipe.target}"

    def _remarks(self) -> Iterator[str]:
        others = [f for f in self.report.found if f is not self.report.limit]
        if others:
            yield ""
            yield "Also"
        for finding in others:
            yield f"  {self.paint(finding.title, 'yellow')} ({finding.evidence})"
            yield f"    {finding.change}{_gain(finding)}"
        if self.report.warnings:
            yield ""
        for warning in self.report.warnings:
            yield f"{self.paint('warning:', 'yellow')} {warning}"


def _gain(finding: Finding) -> str:
    known = finding.gain is not None and finding.gain >= 1.05
    return f" Gain: {finding.worth}." if known else ""


def _asked(facts: Facts) -> str:
    grid = facts.run.get("grid") or {}
    return f"{grid.get('text') or grid.get('kind') or 'not visible'}"


def _ends(uses: tuple[BufferUse, ...] | list[BufferUse]) -> str:
    return " + ".join(dict.fromkeys(f"{use.function}:{use.line}" for use in uses))


def us(value: float) -> str:
    """A time in microseconds, in the unit that fits."""
    return f"{value / 1000:,.3f} ms" if value >= 1000 else f"{value:,.2f} us"
