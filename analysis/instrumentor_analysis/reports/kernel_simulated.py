"""A simulated kernel's report as a document: correct or not, what limits it, what was counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from instrumentor_analysis.kernels.findings import GOALS, Finding
from instrumentor_analysis.kernels.simulated_findings import CORRECT, TOO_LARGE
from instrumentor_analysis.kernels.simulated_findings import tiles as amount
from instrumentor_analysis.kernels.simulated_report import SimulatedReport
from instrumentor_analysis.kernels.simulation import Simulation, Used
from instrumentor_analysis.reports.document import (
    Document,
    Figures,
    Line,
    Section,
    Statement,
    Verdict,
    in_table,
)
from instrumentor_analysis.reports.formatting import plural, size, us
from instrumentor_analysis.shared.caveats import Caveat

_NOTE = "counts of tt-lang's simulator, no times"


def document(report: SimulatedReport) -> Document:
    """The report; all of its figures are for the tiles of a page."""
    run = report.facts.run
    call = run.get("invocation") or {}
    where = f", call {call.get('number')} at line {call.get('line')}" if call else ""
    known = {"script": run.get("script"), "scheduler": report.simulation.scheduler}
    return Document(
        f"{run.get('kernel') or 'kernel'}{where}: simulated, {_outcome(report)}",
        subtitle=_NOTE,
        verdict=_verdict(report),
        figures=(Figures("", tuple(_figures(report))),),
        sections=tuple(section for section in _sections(report) if section is not None),
        warnings=tuple(Caveat("kernel", text) for text in report.warnings),
        facts=tuple(Line(name, str(value)) for name, value in known.items() if value),
    )


def _outcome(report: SimulatedReport) -> str:
    run, problem = report.facts.run, report.simulation.problem
    if problem is not None and problem.kind != "stopped":
        return "DEADLOCK" if problem.kind == "deadlock" else "FAILED"
    if not report.simulation.complete:
        return "not at its end"
    verdict = run.get("validation") or {}
    if verdict.get("later"):
        return f"a check fails {plural(verdict['later'], 'call')} later"
    if verdict and not verdict.get("ok"):
        return f"WRONG by {verdict.get('by')}"
    if report.wrong is not None:
        return "DOES NOT FIT" if report.wrong.kind in TOO_LARGE else "NOT RIGHT"
    if not report.simulation.arithmetic:
        return "result not computed"
    by = report.facts.approver
    return f"right by {by}" if by else "RESULT NOT CHECKED"


def _verdict(report: SimulatedReport) -> Verdict:
    limit = report.limit
    if limit is None and not report.simulation.complete:
        return Verdict("Limit", "not known: the run ended before the kernel did", "plain")
    if limit is None:
        return Verdict("Limit", "none found: no goal is missed", "plain")
    details = (Line("seen", limit.evidence), Line("change", limit.change))
    return Verdict("Limit", limit.title, "bad", aside=GOALS[limit.goal], details=details)


def _figures(report: SimulatedReport) -> Iterator[Line]:
    counted, floor = report.simulation, report.floor
    busy = counted.nodes - len(counted.idle)
    grid = "x".join(map(str, counted.grid))
    cores = f"; {report.chip.name} has {report.chip.worker_cores}"
    yield Line("Nodes", f"{busy} of {counted.nodes}", f"grid {grid}{cores}")
    yield Line("DRAM", size(counted.dram_bytes))
    copies = sum(row.copies for row in counted.copies)
    tiles = sum(row.tiles for row in counted.copies)
    if copies:
        yield Line("Copies", f"{copies:,}", f"{amount(tiles / copies)} each")
    share = counted.l1_bytes / counted.l1_limit_bytes if counted.l1_limit_bytes else 0
    yield Line(
        "L1 a node", size(counted.l1_bytes), f"{share:.0%} of {size(counted.l1_limit_bytes)}"
    )
    if floor is not None:
        at = f"a model, no time: {floor.bound} at the peaks of {floor.chip}"
        yield Line("Floor", us(floor.us), at)


def _sections(report: SimulatedReport) -> Iterator[Section | None]:
    counted = report.simulation
    yield _remarks("Correctness", [each for each in _others(report) if each.goal == CORRECT])
    yield in_table("Tensors", _TENSORS, list(_tensors(counted)), 3)
    yield in_table("Buffers", _BUFFERS, list(_buffers(report)), 2)
    yield in_table("Work of the nodes", _NODES, list(_nodes(counted)), 2)
    yield in_table("Pipes", ("pipe", "way", "messages", "tiles"), list(_pipes(counted)), 2)
    yield _remarks("Also", [finding for finding in _others(report) if finding.goal != CORRECT])


def _others(report: SimulatedReport) -> list[Finding]:
    return [finding for finding in report.found if finding is not report.limit]


def _remarks(title: str, found: Sequence[Finding]) -> Section | None:
    return Section(title, statements=tuple(map(_remark, found))) if found else None


_TENSORS = ("tensor", "shape", "", "tiles", "times", "DRAM", "remote L1", "local L1", "copies")


def _tensors(counted: Simulation) -> Iterator[Sequence[str]]:
    for row in counted.moved.values():
        known, times = counted.tensors.get(row.tensor), counted.times(row)
        shape = " x ".join(map(str, known.shape)) if known else ""
        levels = (f"{tiles:,}" for tiles in (row.dram, row.remote_l1, row.local_l1))
        often = "" if times is None else f"{times:.3g}"
        tiles, copies = f"{row.tiles:,}", f"{row.copies:,}"
        yield (row.tensor, shape, row.direction, tiles, often, *levels, copies)


_BUFFERS = ("buffer", "from -> to", "block", "blocks", "bytes", "no room", "not there")


def _buffers(report: SimulatedReport) -> Iterator[Sequence[str]]:
    counted = report.simulation
    for name, of in counted.buffers.items():
        fills, takes = counted.uses(name, "reserve"), counted.uses(name, "wait")
        ends = f"{' + '.join(fills) or '?'} -> {' + '.join(takes) or '?'}"
        block = " x ".join(map(str, of.shape))
        yield (
            report.facts.named(name),
            ends,
            block,
            f"{of.blocks}",
            size(of.bytes),
            _blocked(fills),
            _blocked(takes),
        )


def _blocked(uses: dict[str, Used]) -> str:
    # The last one of a deadlock was asked for and never had.
    asked = sum(max(row.count, row.blocked) for row in uses.values())
    return f"{sum(row.blocked for row in uses.values()):,} of {asked:,}" if asked else ""


_NODES = ("", "node", "moved", "copies", "share of the mean")


def _nodes(counted: Simulation) -> Iterator[Sequence[str]]:
    moved, copies = counted.of_node(counted.bytes_of), counted.of_node(lambda row: row.copies)
    if counted.nodes < 2 or not moved:
        return
    mean = sum(moved.values()) / counted.nodes
    most, least = max(moved, key=lambda n: moved[n]), min(moved, key=lambda n: moved[n])
    alike = len(moved) > 1 and moved[most] == moved[least]
    rows = (("each", most),) if alike else (("busiest", most), ("least busy", least))
    for word, node in rows[: len(moved)]:
        which = plural(len(moved), "node") if alike else counted.coordinates(node)
        share = f"{moved[node] / mean:.0%}" if mean else ""
        yield word, which, size(moved[node]), f"{copies[node]:,}", share
    if counted.idle:
        yield "idle", plural(len(counted.idle), "node"), size(0), "0", "0%"


def _pipes(counted: Simulation) -> Iterator[Sequence[str]]:
    sums: dict[tuple[str, str], list[int]] = {}
    for row in counted.pipes:
        one = sums.setdefault((row.pipe, row.way), [0, 0])
        one[:] = [one[0] + row.count, one[1] + row.tiles]
    for (pipe, way), (count, tiles) in sums.items():
        yield pipe, way, f"{count:,}", f"{tiles:,}"


def _remark(finding: Finding) -> Statement:
    return Statement(f"{finding.title} ({finding.evidence})", finding.change, "room")
