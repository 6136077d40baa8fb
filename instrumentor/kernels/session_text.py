"""The words of a session: a line a version, and the summary at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from instrumentor.kernels.session import Session, Version, counted_against, held_against
from instrumentor.kernels.trials import Tried
from instrumentor_analysis.reports.formatting import quantity, size, us

_WORDS = {
    "baseline": "baseline",
    "faster": "FASTER",
    "slower": "slower",
    "better": "BETTER",
    "worse": "worse",
    "same": "the same",
    "traded": "a trade: less of one, more of another",
    "unsure": "no significant difference",
    "invalid": "WRONG RESULT",
    "failed": "FAILED",
}


def version_line(version: Version) -> str:
    """One version: what changed, what it took, what that means."""
    told = f"version {version.number}: {_WORDS[version.state]}"
    if version.state == "invalid":
        told += ", its time does not count"
    elif version.median_us is not None and version.state != "failed":
        runs = f" (median of {len(version.wall_us)})" if len(version.wall_us) > 1 else ""
        told += f", {us(version.median_us)}{runs}"
    if version.state in ("faster", "better") and version.validated is None:
        told += ", result not checked"
    changed = f"changed {version.change}" if version.change else ""
    return "; ".join(filter(None, (told, changed, version.problem or version.compared)))


def tried_line(tried: Tried) -> str:
    """One edit that was simulated: what it was, and what came of it."""
    return f"  tried {tried.title}: {_WORDS[tried.state]}; {tried.said}"


def summary_lines(session: Session) -> Iterator[str]:
    """Summary of a session: baseline, final version, each change, remaining bottleneck."""
    if not session.versions:
        yield "Nothing was measured."
        return
    document = summary_json(session)
    baseline, best = session.versions[0], session.best_version or session.versions[0]
    yield f"Kernel    {session.settings.get('kernel')}"
    yield f"Baseline  {_figures(baseline)}"
    yield f"Final     {_figures(best)}  (version {best.number})"
    if best.median_us is None:
        said = counted_against(baseline, best)[1] if best is not baseline else _none_better(best)
        yield f"Counts    {said}"
    elif best is not baseline:
        yield f"Speed-up  {document['speedup']:.2f}x: {document['statement']}"
    else:
        yield "Speed-up  none significant"
    yield "Changes"
    for version in session.versions[1:]:
        yield f"  {version_line(version)}"
    if len(session.versions) == 1 and not baseline.tried:
        yield "  none was measured"
    for version in session.versions:
        for tried in version.tried:
            yield f"{tried_line(tried)} (with version {version.number})"
    if best.bottleneck:
        yield f"Limit     {best.bottleneck}"


def _none_better(version: Version) -> str:
    """That no version is better, and which edits were when they were tried with the best one."""
    better = [tried.title for tried in version.tried if tried.state == "better"]
    if not better:
        return "no better version"
    return f"no better version was saved; better when tried: {', '.join(better)}"


def summary_json(session: Session) -> dict[str, Any]:
    """The session with its outcome."""
    best = session.best_version
    baseline = session.versions[0] if session.versions else None
    speedup, sentence = None, ""
    timed = best is not None and best.median_us is not None
    if timed and best is not None and baseline is not None and best is not baseline:
        held = held_against(baseline, best)
        if held is not None:
            speedup, sentence = 1 / held[0].value, held[1]
    return {
        **session.to_json(),
        "baseline_us": baseline.median_us if baseline else None,
        "final_us": best.median_us if best else None,
        "speedup": speedup,
        "statement": sentence,
        "remaining_bottleneck": best.bottleneck if best else "",
    }


def _figures(version: Version) -> str:
    parts = [us(version.median_us)] if version.median_us is not None else []
    return "  ".join([*parts, _metrics(version)])


def _metrics(version: Version) -> str:
    metrics = version.metrics
    parts = []
    counts = metrics.get("simulated")
    if counts and version.median_us is None:
        parts.append(f"DRAM {size(counts['dram_bytes'])}")
        parts.append(f"busiest node {size(counts['busiest_node_bytes'])}")
        parts.append(f"in {counts['busiest_node_copies']:,} copies")
    if metrics.get("cores_used"):
        parts.append(f"{metrics['cores_used']} of {metrics.get('cores_available') or '?'} cores")
    if metrics.get("dram_bytes") is not None:
        parts.append(f"DRAM {size(metrics['dram_bytes'])}")
    if metrics.get("bandwidth_gb_s") is not None:
        parts.append(quantity(metrics["bandwidth_gb_s"], "GB/s"))
    if metrics.get("bound"):
        parts.append(f"{metrics['bound']} bound")
    return ", ".join(parts)
