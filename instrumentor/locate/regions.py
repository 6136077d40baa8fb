"""The timed regions of an iteration: from the start of the forward to the barrier.

A region runs from the statement that starts the differentiable forward to the barrier after the
last backward before the optimizer step. Exclusive branches have a region each; scripts that fuse
the last micro-batch with the optimizer, or sync only with it, end after the optimizer step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.forward import Forward
from instrumentor.locate.hints import batch_names, find_hints
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site
from instrumentor.locate.modes import (
    End,
    Iteration,
    Span,
    common_suite,
    helper_sync,
    is_inside,
    lifted,
    own_sync,
    span_of,
)
from instrumentor.locate.syncs import (
    Sync,
    find_sync,
)
from instrumentor.locate.syntax import (
    LOOPS,
    Source,
    callee,
    own_calls,
    own_nodes,
)
from instrumentor.locate.tree import always_meets, between, contains, exclusive, path_to
from instrumentor.options import Options
from instrumentor_analysis.caveats import Caveat


class Region(Struct, frozen=True, eq=False):
    """From `begin` (insert before) to `end` (insert after), both in the loop's scope.

    other_ends: further places that close the same region, in branches that exclude `end`'s.
    """

    begin: ast.stmt
    end: ast.stmt
    sites: tuple[Site, ...]
    forward: ast.stmt
    forward_source: Source
    sync: Sync
    ends_after_update: bool = False
    hints: tuple[str, ...] = ()
    clipping: tuple[ast.stmt, ...] = ()
    label: str = "fwd+bwd"
    other_ends: tuple[End, ...] = ()
    batch: tuple[str, ...] = ()  # names of this iteration's data, bound ahead of `begin`
    helper_syncs: bool = False  # the function that steps the optimizer syncs behind it
    resume: bool = False  # several micro-steps make one sample: begin only when none is open


class Regions(Struct, frozen=True):
    """The regions of an iteration, the forward of each, and what a sample covers."""

    found: tuple[Region, ...]
    forwards: tuple[Forward, ...]
    warnings: tuple[Caveat, ...]

    @property
    def scope(self) -> str:
        return "step" if any(r.ends_after_update for r in self.found) else "fwd-bwd"


def group_sites(candidate: Candidate) -> list[list[Site]]:
    """Backwards that share a region: those not in exclusive branches of each other."""
    groups: list[list[Site]] = []
    for site in candidate.sites:
        for group in groups:
            if not any(exclusive(candidate.source, site.statement, o.statement) for o in group):
                group.append(site)
                break
        else:
            groups.append([site])
    return groups


def clipping_between(
    source: Source, loop: ast.AST, first: ast.stmt, second: ast.stmt
) -> list[ast.stmt]:
    return [
        s
        for s in between(source, loop, first, second)
        if any("clip_grad" in callee(c) for c in own_calls(s)) or _sets_gradients(s)
    ]


def _sets_gradients(statement: ast.stmt) -> bool:
    """`p.grad = p.grad.clamp(-1, 1)`, by hand."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Store)
        for node in own_nodes(statement)
    )


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
    warnings.extend(_unsampled(candidate, regions))
    return Regions(tuple(regions), tuple(kept), tuple(warnings))


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
    if len(regions) < 2 or len({id(r.begin) for r in regions}) > 1:
        return regions
    if len({r.hints for r in regions}) > 1 or any(r.sync.action != "insert" for r in regions):
        return regions
    source = candidate.source
    ends = [r.end for r in regions]
    around = source.parents(ends[0])
    parent = next((p for p in around if all(contains(p, end) for end in ends)), None)
    if parent is None or not always_meets([parent], ends) or contains(parent, regions[0].begin):
        return regions
    if any(contains(parent, u.statement) for u in candidate.updates):
        return regions
    return [replace(_together(regions), end=parent)]


def _region(
    knowledge: Knowledge,
    candidate: Candidate,
    group: list[Site],
    forwards: dict[Site, Forward],
    options: Options,
) -> tuple[Region, Forward, list[Caveat]]:
    source, loop = candidate.source, candidate.loop
    group = sorted(group, key=lambda s: (s.statement.lineno, s.statement.col_offset))
    final = group[-1]
    ordered = sorted((forwards[s] for s in group), key=lambda f: (f.unit.lineno, f.unit.col_offset))
    forward = next((f for f in ordered if f.certain), ordered[0])
    common = common_suite(source, loop, [s.statement for s in group])
    end = _out_of_loops(source, loop, _lift_end(candidate, common, final.statement))
    plain = Span(lifted(common, forward.unit), end, find_sync(knowledge, candidate, final))
    span = span_of(Iteration(knowledge, candidate, tuple(group), options, plain))
    barrier = None if span.whole else own_sync(candidate, final, span.sync)
    region = Region(
        span.begin,
        span.end,
        tuple(group),
        forward.statement,
        forward.source,
        span.sync,
        ends_after_update=span.whole,
        resume=span.resume,
        label=span.label,
        other_ends=span.other_ends,
        helper_syncs=span.helper_syncs,
        batch=batch_names(candidate, span.begin),
        clipping=()
        if barrier is None
        else tuple(clipping_between(source, loop, final.statement, barrier)),
    )
    hints, unsure = find_hints(knowledge, candidate, region, forward)
    told = [span.warning, unsure, *(_clipped(source, clip) for clip in region.clipping)]
    return replace(region, hints=hints), forward, [caveat for caveat in told if caveat is not None]


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
    source, loop = candidate.source, candidate.loop
    ends = [e for r in regions for e in (r.end, *(o.after for o in r.other_ends))]
    named: set[ast.stmt] = set()
    for update in candidate.updates:
        step = update.statement
        if update.source is not source or update.scope is not candidate.scope:
            continue
        met = not contains(loop, step) and always_meets(loop.body, ends)
        for suite, index in path_to(source, loop, step) if contains(loop, step) else ():
            behind = suite[index + 1 :] if any(r.ends_after_update for r in regions) else []
            met = met or suite[index] in ends
            met = met or always_meets([*suite[:index], *behind], ends)
        if met:
            continue
        for end in ends:
            around = [
                p
                for p in source.parents(end)
                if isinstance(p, (ast.If, ast.Match))
                and contains(loop, p)
                and p.lineno < step.lineno
                and (not contains(p, step) or exclusive(source, end, step))
            ]
            if around and around[-1] not in named:
                named.add(around[-1])
                yield Caveat(
                    "branch-without-samples",
                    f"a branch from here reaches the optimizer step at line {step.lineno} without "
                    "passing the end of a timed region: a run that takes it has no samples there "
                    "and does not stop early",
                    place=source.at(around[-1].lineno),
                )


def _lift_end(candidate: Candidate, suite: list[ast.stmt], statement: ast.stmt) -> ast.stmt:
    """As `held`; into blocks that always run when an optimizer step stands in them as well."""
    source = candidate.source
    held = lifted(suite, statement)
    while (
        isinstance(held, (ast.With, ast.AsyncWith, ast.Try))
        and held is not statement
        and any(is_inside(source, held, u) for u in candidate.updates)
        and any(contains(s, statement) for s in held.body)
    ):
        held = lifted(held.body, statement)
    return held


def _out_of_loops(source: Source, loop: ast.AST, statement: ast.stmt) -> ast.stmt:
    current = statement
    for parent in source.parents(statement):
        if parent is loop:
            break
        if isinstance(parent, LOOPS):
            current = parent
    return current
