"""The timed regions of an iteration: from the start of the forward to the barrier.

A region runs from the statement that starts the differentiable forward to the barrier after the
last backward before the optimizer step. Exclusive branches have a region each; scripts that fuse
the last micro-batch with the optimizer, or sync only with it, end after the optimizer step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import asdict, replace

from instrumentor.locate.conditions import condition
from instrumentor.locate.control import OVER, START
from instrumentor.locate.forward import Forward
from instrumentor.locate.hints import batch_names, find_hints
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site
from instrumentor.locate.modes import (
    Iteration,
    Span,
    helper_sync,
    span_of,
)
from instrumentor.locate.syncs import find_sync
from instrumentor.locate.syntax import (
    Source,
    beside,
    callee,
    contains,
    own_calls,
    own_nodes,
    suites,
)
from instrumentor.options import Options
from instrumentor_analysis.caveats import Caveat


class Region(Span, frozen=True, eq=False, kw_only=True):
    """From `begin` (insert before) to `end` (insert after), both in one scope.

    candidate: whose body holds it: the loop, or the function that makes the step for it.
    batch: names of this iteration's data, bound ahead of `begin`.
    when: what is true at the begin of the iterations with a backward; empty for all.
    """

    candidate: Candidate
    sites: tuple[Site, ...]
    forward: ast.stmt
    forward_source: Source
    hints: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    when: str = ""

    @property
    def ends(self) -> tuple[ast.stmt, ...]:
        """All statements behind which it closes."""
        return (self.end, *(e.after for e in self.other_ends))


class Regions(Struct, frozen=True):
    """The regions of an iteration, the forward of each, and what a sample covers."""

    found: tuple[Region, ...]
    forwards: tuple[Forward, ...]
    warnings: tuple[Caveat, ...]

    @property
    def scope(self) -> str:
        return "step" if any(r.whole for r in self.found) else "fwd-bwd"


def group_sites(candidate: Candidate) -> list[list[Site]]:
    """Backwards that share a region: those not in exclusive branches of each other."""
    flow, groups = candidate.flow, list[list[Site]]()
    for site in candidate.sites:
        for group in groups:
            if not any(flow.exclusive(site.statement, o.statement) for o in group):
                group.append(site)
                break
        else:
            groups.append([site])
    return groups


def find_regions(
    knowledge: Knowledge, candidate: Candidate, forwards: dict[Site, Forward], options: Options
) -> Regions:
    """The regions of an iteration: one, or one for each exclusive branch.

    Raises:
        Declined: no region has an end of its own.
    """
    regions: list[Region] = []
    kept: list[Forward] = []
    warnings: list[Caveat] = []
    for group in group_sites(candidate):
        group = [s for s in group if s in forwards]
        if not group:
            continue
        region, forward, told = _region(knowledge, candidate, group, forwards, options)
        warnings.extend(told)
        same = next((r for r in regions if r.begin is region.begin and r.end is region.end), None)
        if same is not None:
            regions[regions.index(same)] = _together([same, region])
            continue
        regions.append(region)
        kept.append(forward)
    regions = _merged(candidate, regions)
    regions = [_conditional(r, regions) for r in regions]
    warnings.extend(_unsampled(candidate, regions))
    return Regions(tuple(regions), tuple(kept), tuple(warnings))


def _conditional(region: Region, regions: list[Region]) -> Region:
    """Regions that begin together are begun when one of their backwards will come."""
    sites = [s.statement for r in regions if r.begin is region.begin for s in r.sites]
    return replace(region, when=condition(region.candidate.flow, region.begin, sites))


def _together(regions: list[Region]) -> Region:
    """Regions of the same lines as one."""
    first = regions[0]
    return replace(
        first,
        sites=tuple(s for r in regions for s in r.sites),
        hints=tuple(h for h in first.hints if all(h in r.hints for r in regions)),
    )


def _merged(candidate: Candidate, regions: list[Region]) -> list[Region]:
    """Exclusive branches that share their begin and their hints close once, after the `if`."""
    first = regions[0]
    alike = all(
        r.begin is first.begin and r.hints == first.hints and r.sync.action == "insert"
        for r in regions
    )
    around = _around(candidate, [r.end for r in regions]) if alike and len(regions) > 1 else None
    if around is None or contains(around, first.begin):
        return regions
    return [replace(_together(regions), end=around)]


def _around(candidate: Candidate, ends: list[ast.stmt]) -> ast.stmt | None:
    """The statement around these that runs one of them on every path, and no update."""
    flow, parents = candidate.flow, candidate.source.parents(ends[0])
    found = next((p for p in parents if all(contains(p, end) for end in ends)), None)
    if found is None or any(contains(found, u.statement) for u in candidate.updates):
        return None
    return found if flow.always(flow.before(found), ends, (flow.after(found),)) else None


def _region(
    knowledge: Knowledge,
    candidate: Candidate,
    group: list[Site],
    forwards: dict[Site, Forward],
    options: Options,
) -> tuple[Region, Forward, list[Caveat]]:
    source, flow = candidate.source, candidate.flow
    group = sorted(group, key=lambda s: flow.order[s.statement])
    final = group[-1]
    ordered = sorted((forwards[s] for s in group), key=lambda f: flow.order[f.unit])
    forward = next((f for f in ordered if f.certain), ordered[0])
    end = _end(candidate, group)
    plain = Span(beside(source, forward.unit, end), end, find_sync(knowledge, candidate, final))
    span = span_of(Iteration(knowledge, candidate, tuple(group), options, plain))
    region = Region(
        **asdict(span),
        candidate=candidate,
        sites=tuple(group),
        forward=forward.statement,
        forward_source=forward.source,
        batch=batch_names(knowledge, candidate, span.begin),
    )
    hints, unsure = find_hints(knowledge, candidate, region, forward)
    timed = () if span.whole else flow.between(final.statement, span.end)
    clipped = (_clipped(source, s) for s in timed if not any(suites(s)) and _clips(s))
    told = [caveat for caveat in (span.warning, unsure, *clipped) if caveat is not None]
    return replace(region, hints=hints), forward, told


def _clips(statement: ast.stmt) -> bool:
    """Clips gradients, by a call or by hand: `p.grad = p.grad.clamp(-1, 1)`."""
    return any("clip_grad" in callee(call) for call in own_calls(statement)) or any(
        isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Store)
        for node in own_nodes(statement)
    )


def _clipped(source: Source, clip: ast.stmt) -> Caveat:
    return Caveat(
        "clipping-inside",
        "gradient clipping before the script's own sync is inside the timed region",
        place=source.at(clip.lineno),
    )


def sync_in_helper(region: Region) -> bool:
    """Whether the kept sync stands in a helper that the region only calls."""
    sync = region.sync
    return sync.statement is not None and any(
        helper_sync(site, sync.source, sync.statement) for site in region.sites
    )


def _unsampled(candidate: Candidate, regions: list[Region]) -> Iterator[Caveat]:
    """Branches that lead to the optimizer step past the end of every region."""
    source, flow = candidate.source, candidate.flow
    whole = any(r.whole for r in regions)
    ends = [end for r in regions for end in r.ends]
    closed = {flow.after(e) for e in ends}
    named: set[ast.stmt] = set()
    for update in candidate.own_updates:
        step, at = update.statement, flow.before(update.statement)
        if not flow.path(START, at, closed):
            continue
        if whole and not flow.path(flow.after(step), OVER, closed):
            continue
        tests = [_branch(candidate, end, step) for end in ends]
        for test in dict.fromkeys(t for t in tests if t is not None and t not in named):
            named.add(test)
            yield Caveat(
                "branch-without-samples",
                f"a branch from here reaches the optimizer step at line {step.lineno} without "
                "passing the end of a timed region: a run that takes it has no samples there "
                "and does not stop early",
                place=source.at(test.lineno),
            )


def _branch(candidate: Candidate, end: ast.stmt, step: ast.stmt) -> ast.stmt | None:
    """The outermost test that lets an iteration come to a step without the end of a region."""
    flow = candidate.flow
    found = [
        p
        for p in candidate.source.parents(end)
        if isinstance(p, (ast.If, ast.Match))
        and flow.path(flow.before(p), flow.before(step))
        and (not contains(p, step) or flow.exclusive(end, step))
    ]
    return found[-1] if found else None


def _end(candidate: Candidate, group: list[Site]) -> ast.stmt:
    """The innermost statement that completes the last backward and every one before it."""
    source, flow = candidate.source, candidate.flow
    sites, final = [s.statement for s in group], group[-1].statement
    around = [s for s in (final, *source.parents(final)) if s in flow.begins]
    for statement in around:
        done = flow.after(statement)
        if not any(flow.path(done, flow.before(s)) for s in sites) and all(
            flow.always(flow.after(s), [statement]) for s in sites
        ):
            return statement
    return around[-1]
