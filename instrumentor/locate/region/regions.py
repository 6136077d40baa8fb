"""The timed regions of an iteration: from the start of the forward to the barrier.

A region runs from the statement that starts the differentiable forward to the barrier after the
last backward before the optimizer step. Exclusive branches have a region each; scripts that fuse
the last micro-batch with the optimizer, or sync only with it, end after the optimizer step.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from instrumentor.locate.gradients.forward import Forward
from instrumentor.locate.loop.loops import Candidate, Site
from instrumentor.locate.region.barrier_hints import batch_names, loss_names
from instrumentor.locate.region.conditions import condition
from instrumentor.locate.region.fetched import fetched
from instrumentor.locate.region.modes import End, Iteration, Region, completed, covered, in_helper
from instrumentor.locate.region.syncs import find_sync
from instrumentor.read.control_flow import OVER, START
from instrumentor.read.syntax import beside, callee, contains, own_calls, own_nodes, suites
from instrumentor.shared.options import Options
from instrumentor_analysis.shared.caveats import Caveat


def find_regions(
    candidate: Candidate, forwards: dict[Site, Forward], options: Options
) -> tuple[Region, ...]:
    """The regions of an iteration: one, or one for each exclusive branch."""
    found: dict[tuple[ast.stmt, ast.stmt], list[Region]] = {}
    for group in _groups(candidate):
        known = [site for site in group if site in forwards]
        if known:
            region = _region(candidate, known, forwards, options)
            found.setdefault((region.begin, region.end), []).append(region)
    regions = _merged(candidate, [_together(same) for same in found.values()])
    regions = [with_synced(region) for region in regions]
    return tuple(replace(region, when=_when(region, regions)) for region in regions)


def _groups(candidate: Candidate) -> list[list[Site]]:
    """Backwards that share a region: those not in exclusive branches of each other."""
    flow, groups = candidate.flow, list[list[Site]]()
    for site in candidate.sites:
        fits = (
            g for g in groups if not any(flow.exclusive(site.statement, o.statement) for o in g)
        )
        group = next(fits, None)
        if group is None:
            groups.append(group := [])
        group.append(site)
    return groups


def _region(
    candidate: Candidate, group: list[Site], forwards: dict[Site, Forward], options: Options
) -> Region:
    """The region of backwards that share one, as the modes and the script's own sync have it."""
    source, flow = candidate.source, candidate.flow
    group = sorted(group, key=lambda s: flow.order[s.statement])
    ordered = sorted((forwards[s] for s in group), key=lambda f: flow.order[f.unit])
    forward = next((f for f in ordered if f.certain), ordered[0])
    end = completed(candidate, [s.statement for s in group], group[-1].statement)
    sync = find_sync(candidate, group[-1])
    begin = beside(source, forward.unit, end)
    branches = _branches(begin, ordered)
    plain = Region(candidate, tuple(group), forward, begin, (End(end),), sync, branches=branches)
    region = covered(Iteration(options, plain))
    timed = () if region.whole else flow.between(group[-1].statement, region.end)
    clipped = [
        Caveat(
            "clipping-inside",
            "Gradient clipping before the script's own sync is inside the timed region.",
            place=source.at(s.lineno),
        )
        for s in timed
        if not any(suites(s)) and _clips(s)
    ]
    return replace(
        region,
        hints=loss_names(region),
        batch=_batch(region),
        fetch=fetched(candidate, region.begin),
        warnings=(*region.warnings, *clipped),
    )


def _batch(region: Region) -> tuple[str, ...]:
    """Names of the iteration's data that are bound wherever the clock starts."""
    candidate = region.candidate
    first, *others = (batch_names(candidate.knowledge, candidate, s) for s in region.starts)
    return tuple(name for name in first if all(name in names for names in others))


def _branches(begin: ast.stmt, forwards: Sequence[Forward]) -> tuple[ast.stmt, ...]:
    """The starts in the branches of a begin, where all forwards that begin there agree on them."""
    found = {f.branches for f in forwards if f.unit is begin}
    return found.pop() if len(found) == 1 else ()


def _clips(statement: ast.stmt) -> bool:
    """Clips gradients, by a call or by hand: `p.grad = p.grad.clamp(-1, 1)`."""
    return any("clip_grad" in callee(call) for call in own_calls(statement)) or any(
        isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Store)
        for node in own_nodes(statement)
    )


# -- several regions ---------------------------------------------------------------------------


def _together(regions: list[Region]) -> Region:
    """Regions of the same lines as one."""
    first = regions[0]
    return replace(
        first,
        sites=tuple(s for r in regions for s in r.sites),
        hints=tuple(h for h in first.hints if all(h in r.hints for r in regions)),
        warnings=tuple(w for r in regions for w in r.warnings),
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
    # one end behind them all also lets a host read ahead of the branches move behind it
    main = replace(first.ends[0], after=around)
    return [replace(_together(regions), ends=(main, *first.ends[1:]))]


def _around(candidate: Candidate, ends: list[ast.stmt]) -> ast.stmt | None:
    """The statement around these that runs one of them on every path, and no update."""
    flow, parents = candidate.flow, candidate.source.parents(ends[0])
    found = next((p for p in parents if all(contains(p, end) for end in ends)), None)
    if found is None or any(contains(found, u.statement) for u in candidate.updates):
        return None
    return found if flow.always(flow.before(found), ends, (flow.after(found),)) else None


def with_synced(region: Region) -> Region:
    """The region whose ends say whether the script has synced there already."""
    source, condition_of = region.candidate.source, region.candidate.knowledge.sync_condition
    inside = "True" if in_helper(region.sync, region.sites) else ""
    ends = [
        replace(e, synced=inside or e.synced or condition_of(source, e.after) or "")
        for e in region.ends
    ]
    return replace(region, ends=tuple(ends))


def _when(region: Region, regions: list[Region]) -> str:
    """Regions that begin together are begun when one of their backwards will come."""
    sites = [s.statement for r in regions if r.begin is region.begin for s in r.sites]
    told = {condition(region.candidate.flow, start, sites) for start in region.starts}
    return told.pop() if len(told) == 1 else condition(region.candidate.flow, region.begin, sites)


def unsampled(regions: tuple[Region, ...], left_out: Collection[ast.stmt] = ()) -> Iterator[Caveat]:
    """Branches that lead to the optimizer step past the end of every region.

    Args:
        left_out: statements to which no run with the script's options comes.
    """
    candidate = regions[0].candidate
    source, flow = candidate.source, candidate.flow
    whole = any(r.whole for r in regions)
    ends = [end.after for r in regions for end in r.ends]
    closed = {flow.after(e) for e in ends}
    closed |= {flow.before(s) for s in left_out if s in flow.begins}
    named: set[ast.stmt] = set()
    for update in candidate.own_updates:
        step = update.statement
        if not flow.path(START, flow.before(step), closed):
            continue
        if whole and not flow.path(flow.after(step), OVER, closed):
            continue
        tests = [_branch(candidate, end, step) for end in ends]
        for test in dict.fromkeys(t for t in tests if t is not None and t not in named):
            named.add(test)
            yield Caveat(
                "branch-without-samples",
                f"A branch from here reaches the optimizer step at line {step.lineno} without "
                "passing the end of a timed region. A run that takes it has no samples there and "
                "does not stop early.",
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
