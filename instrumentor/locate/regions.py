"""The timed regions of an iteration: from the start of the forward to the barrier.

A region runs from the statement that starts the differentiable forward to the barrier after the
last backward before the optimizer step. Exclusive branches have a region each; scripts that fuse
the last micro-batch with the optimizer, or sync only with it, end after the optimizer step.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from instrumentor.locate.forward import Forward
from instrumentor.locate.hints import batch_names, find_hints
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update
from instrumentor.locate.syncs import (
    Sync,
    find_sync,
    fused_branch,
    kept,
    may_leave,
    syncs_every_n,
    syncs_itself,
    with_sync,
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


@dataclass(frozen=True)
class End:
    """Where the clock is read: after which statement, under which label.

    synced: expression that tells whether the script has synced already, '' when it has not.
    """

    after: ast.stmt
    label: str = "fwd+bwd"
    synced: str = ""


@dataclass(eq=False)
class Region:
    """From `begin` (insert before) to `end` (insert after), both in the loop's scope.

    other_ends: further places that close the same region, in branches that exclude `end`'s.
    """

    begin: ast.stmt
    end: ast.stmt
    sites: list[Site]
    forward: ast.stmt
    forward_source: Source
    sync: Sync
    ends_after_update: bool = False
    hints: tuple[str, ...] = ()
    clipping: list[ast.stmt] = field(default_factory=list)
    label: str = "fwd+bwd"
    other_ends: tuple[End, ...] = ()
    batch: tuple[str, ...] = ()  # names of this iteration's data, bound ahead of `begin`
    helper_syncs: bool = False  # the function that steps the optimizer syncs behind it
    resume: bool = False  # several micro-steps make one sample: begin only when none is open


def update_unit(candidate: Candidate, loop: ast.AST, update: Update) -> ast.stmt:
    """The statement after which an update is certainly complete in its branch.

    The update itself, or the `if` whose every branch holds one, or the loop over optimizers.
    """
    unit = update.statement
    for parent in update.source.parents(update.statement):
        if parent is loop or _holds_backward(candidate, update.source, parent):
            break
        if isinstance(parent, LOOPS):
            unit = parent
        elif isinstance(parent, ast.If) and parent.orelse:
            branches = [parent.body, parent.orelse]
            if all(
                any(contains(s, u.statement) for s in branch for u in candidate.updates)
                for branch in branches
            ):
                unit = parent
    return unit


def _holds_backward(candidate: Candidate, source: Source, statement: ast.stmt) -> bool:
    """Whether a backward of the iteration runs below a statement, in a helper or directly."""
    return source is candidate.source and any(
        contains(statement, site.statement) for site in candidate.sites
    )


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
    knowledge: Knowledge,
    candidate: Candidate,
    forwards: dict[Site, Forward],
    options: Options,
    warnings: list[str],
) -> tuple[list[Region], list[Forward], str]:
    regions: list[Region] = []
    kept: list[Forward] = []
    scope = "fwd-bwd"
    for group in group_sites(candidate):
        group = [s for s in group if s in forwards]
        if not group:
            continue
        region, forward, region_scope = _region(
            knowledge, candidate, group, forwards, options, warnings
        )
        if region_scope == "step":
            scope = "step"
        same = next((r for r in regions if r.begin is region.begin and r.end is region.end), None)
        if same is not None:
            same.sites.extend(region.sites)
            same.hints = tuple(h for h in same.hints if h in region.hints)
            continue
        regions.append(region)
        kept.append(forward)
    regions = _merged(candidate, regions)
    for region in regions:
        _no_update_inside(candidate, region)
    warnings.extend(_unsampled(candidate, regions))
    return regions, kept, scope


def _merged(candidate: Candidate, regions: list[Region]) -> list[Region]:
    """Exclusive branches that share their begin and their hints close once, after the `if`."""
    if len(regions) < 2 or len({id(r.begin) for r in regions}) > 1:
        return regions
    if len({r.hints for r in regions}) > 1 or any(r.sync.action != "insert" for r in regions):
        return regions
    source = candidate.source
    ends = [r.end for r in regions]
    for parent in source.parents(ends[0]):
        if all(contains(parent, end) for end in ends):
            if (
                any(contains(parent, u.statement) for u in candidate.updates)
                or contains(parent, regions[0].begin)
                or not always_meets([parent], ends)
            ):
                return regions
            merged = regions[0]
            merged.end = parent
            for other in regions[1:]:
                merged.sites.extend(other.sites)
            return [merged]
    return regions


def _region(
    knowledge: Knowledge,
    candidate: Candidate,
    group: list[Site],
    forwards: dict[Site, Forward],
    options: Options,
    warnings: list[str],
) -> tuple[Region, Forward, str]:
    source, loop = candidate.source, candidate.loop
    group = sorted(group, key=lambda s: (s.statement.lineno, s.statement.col_offset))
    final = group[-1]
    ordered = sorted((forwards[s] for s in group), key=lambda f: (f.unit.lineno, f.unit.col_offset))
    forward = next((f for f in ordered if f.certain), ordered[0])
    begin, last_site = forward.unit, final.statement
    common = _common_suite(source, loop, [s.statement for s in group])
    begin, end = _lift(source, common, begin), _lift_end(candidate, common, last_site)
    end = _out_of_loops(source, loop, end)
    sync = find_sync(knowledge, candidate, final)
    scope, label = "fwd-bwd", "fwd+bwd"
    resume = False
    other_ends: tuple[End, ...] = ()
    helper_syncs = False
    updates = candidate.updates
    fused = fused_branch(knowledge, candidate, final, updates)
    every = None if fused is not None else syncs_every_n(knowledge, candidate, final, updates)
    stepped_in_helper = any(u.statement is final.statement for u in updates)
    steps = _step_updates(candidate, group)
    units = [_step_unit(candidate, group, u) for u in steps]
    several = several_steps(candidate)
    in_branches = any(_inside(source, end, u) for u in updates) and always_meets([end], units)
    wants_step = options.scope == "step"
    if options.scope == "auto" and fused is not None:
        inner = _first_sync(knowledge, source, fused)
        end, scope = inner, "step"
        sync = kept(knowledge, source, inner)
        stepping = next(u for u in updates if contains(fused, u.statement))
        unit = update_unit(candidate, loop, stepping)
        other_ends = (End(with_sync(knowledge, source, unit), "fwd+bwd+optimizer"),)
        helper_syncs = syncs_itself(knowledge, stepping.helper)
        warnings.append(
            f"{source.path.name}:{fused.lineno}: the last micro-batch is left pending to "
            "fuse with the optimizer: its sample is forward + backward + optimizer, labelled so"
        )
    elif options.scope == "auto" and every is not None and sync.action != "keep":
        inner = _first_sync(knowledge, source, every)
        stepping = next(u for u in updates if contains(every, u.statement))
        unit = update_unit(candidate, loop, stepping)
        end = with_sync(knowledge, source, max(unit, inner, key=lambda s: s.lineno))
        scope, resume, label = "step", True, "step"
        sync = kept(knowledge, source, inner)
        warnings.append(
            f"{source.path.name}:{every.lineno}: the script syncs only with the optimizer step: "
            "a sample is the whole step, all its micro-steps"
        )
    elif several is not None and not (wants_step and stepped_in_helper):
        scope = label = "step"
        begin = _lift(source, _common_suite(source, loop, [begin, several]), begin)
        end = with_sync(knowledge, source, _lift(source, source.places[begin].suite, several))
        if knowledge.sync_of(source, end) is not None:
            sync = kept(knowledge, source, end)
        warnings.append(
            f"{source.path.name}:{several.lineno}: one iteration makes several optimizer steps: a "
            "sample is all of it, from the first forward to the last update"
        )
    elif wants_step or (options.scope == "auto" and (stepped_in_helper or in_branches)):
        scope = label = "step"
        helper_syncs = bool(steps) and all(syncs_itself(knowledge, u.helper) for u in steps)
        if units:
            whole = units[0]
            end = with_sync(knowledge, source, whole)
            if knowledge.sync_of(source, end) is not None:
                sync = kept(knowledge, source, end)
            resume = (
                not in_branches
                and whole is not final.statement
                and (
                    not contains(loop, whole)
                    or not all(_always_reached(source, loop, s, whole) for s in group)
                )
            )
            others = dict.fromkeys(with_sync(knowledge, source, u) for u in units[1:])
            other_ends = tuple(End(u, label) for u in others if u is not end)
        if not wants_step:
            warnings.append(
                f"{source.path.name}:{final.statement.lineno}: "
                + ("the helper also steps the optimizer" if stepped_in_helper else _IN_BRANCHES)
                + ": a sample is forward + backward + optimizer"
            )
    elif (
        sync.action == "keep"
        and sync.source is source
        and sync.statement is not None
        and contains(loop, sync.statement)
    ):
        end = sync.statement if not _helper_sync(final, sync.source, sync.statement) else end
    region = Region(
        begin,
        end,
        list(group),
        forward.statement,
        forward.source,
        sync,
        ends_after_update=scope == "step",
        resume=resume,
        label=label,
        other_ends=other_ends,
        helper_syncs=helper_syncs,
    )
    region.batch = batch_names(candidate, begin)
    region.hints = find_hints(knowledge, candidate, region, forward, warnings)
    if (
        sync.action == "keep"
        and sync.statement is not None
        and sync.source is source
        and contains(loop, sync.statement)
        and not _helper_sync(final, sync.source, sync.statement)
        and scope == "fwd-bwd"
    ):
        region.clipping = clipping_between(source, loop, final.statement, sync.statement)
        for clip in region.clipping:
            warnings.append(
                f"{source.path.name}:{clip.lineno}: gradient clipping before the script's "
                "own sync is inside the timed region"
            )
    return region, forward, scope


def _always_reached(source: Source, loop: ast.AST, site: Site, unit: ast.stmt) -> bool:
    """Whether every iteration with this backward also comes to the statement."""
    for parent in source.parents(unit):
        if parent is loop:
            break
        if isinstance(parent, ast.If) and not contains(parent, site.statement):
            return False
    return not any(may_leave(s) for s in between(source, loop, site.statement, unit))


def sync_in_helper(region: Region) -> bool:
    """Whether the kept sync stands in a helper that the region only calls."""
    sync = region.sync
    return sync.statement is not None and any(
        _helper_sync(site, sync.source, sync.statement) for site in region.sites
    )


def _helper_sync(site: Site, source: Source, statement: ast.stmt) -> bool:
    return any(f.source is source and contains(f.node, statement) for f in site.chain)


def _step_updates(candidate: Candidate, group: list[Site]) -> list[Update]:
    """The updates that close a step of these backwards: one per exclusive branch.

    First the one that the last backward leads to; those of other branches only when the branch
    follows an earlier backward of the group.
    """
    source, final = candidate.source, group[-1]
    known = [u for u in candidate.updates if u.source is source and u.scope is candidate.scope]
    of_final = [u for u in known if not exclusive(source, u.statement, final.statement)]
    of_final.sort(key=lambda u: u.statement is not final.statement)
    reached = [
        u for u in known if not all(exclusive(source, u.statement, s.statement) for s in group)
    ]
    chosen: list[Update] = []
    for update in [*of_final, *reached] or known:
        if all(exclusive(source, update.statement, c.statement) for c in chosen):
            chosen.append(update)
    return chosen


def _step_unit(candidate: Candidate, group: list[Site], update: Update) -> ast.stmt:
    """The statement behind which the step of these backwards is complete."""
    if any(update.statement is s.statement for s in group):
        return update.statement
    return update_unit(candidate, candidate.loop, update)


def several_steps(candidate: Candidate) -> ast.stmt | None:
    """The statement with the last update when a backward of the iteration follows another."""
    source = candidate.source
    updates = [u for u in candidate.updates if not u.manual and _is_of_loop(candidate, u)]
    updates.sort(key=lambda u: (u.statement.lineno, u.call.lineno))
    for first, second in combinations(updates, 2):
        if first.call is not second.call or first.optimizer != second.optimizer:
            if not exclusive(source, first.statement, second.statement) and any(
                _between(source, first.statement, s.statement, second.statement)
                for s in candidate.sites
            ):
                return updates[-1].statement
    return None


def _is_of_loop(candidate: Candidate, update: Update) -> bool:
    return update.scope is candidate.scope and contains(candidate.loop, update.statement)


def _between(source: Source, first: ast.stmt, site: ast.stmt, second: ast.stmt) -> bool:
    """A backward after the one step and up to the other, on one path."""
    if exclusive(source, first, site) or exclusive(source, second, site):
        return False
    return first.lineno < site.lineno <= second.lineno and site is not first


def _inside(source: Source, outer: ast.stmt, update: Update) -> bool:
    return update.source is source and contains(outer, update.statement)


def _no_update_inside(candidate: Candidate, region: Region) -> None:
    """A region of forward + backward never holds an optimizer step, on any path.

    Raises:
        Declined: when it would, or when a path of a whole step has no end.
    """
    from instrumentor.locate.model import Declined, Reason

    source, final = candidate.source, region.sites[-1].statement
    if region.ends_after_update:
        ends = [region.end, *(e.after for e in region.other_ends)]
        apart = [e for e in ends if exclusive(source, e, final)]
        earlier = any(not exclusive(source, e, s.statement) for e in apart for s in region.sites)
        if len(apart) == len(ends) and earlier:
            raise Declined(
                Reason(
                    source.path,
                    final.lineno,
                    "step-in-region",
                    "no optimizer step is known behind this backward, only in the other branch: "
                    "the region would stay open",
                    _ONE_PATH,
                )
            )
        return
    for update in candidate.updates:
        if update.source is not source or update.scope is not candidate.scope:
            continue
        step = update.statement
        ahead = region.begin.lineno <= step.lineno < region.end.lineno
        if contains(region.end, step) or (ahead and not exclusive(source, step, region.end)):
            known = _step_updates(candidate, region.sites)
            raise Declined(
                Reason(
                    source.path,
                    step.lineno,
                    "step-in-region",
                    f"this runs the backward and steps {update.optimizer} as well: forward + "
                    "backward has no end of its own here"
                    if step is final
                    else f"this steps {update.optimizer} before forward + backward is certainly "
                    f"done (last backward: line {final.lineno}): no single end is ahead of it",
                    "Use --scope step: a sample is the whole step then."
                    if any(not exclusive(source, u.statement, final) for u in known)
                    else _ONE_PATH,
                )
            )


_IN_BRANCHES = "this backward runs in one branch only and each branch steps the optimizer"
_ONE_PATH = "Give a script with one of the branches, or run every backward ahead of the branches."


def _unsampled(candidate: Candidate, regions: list[Region]) -> Iterator[str]:
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
                yield (
                    f"{source.path.name}:{around[-1].lineno}: a branch from here comes to the "
                    f"optimizer step in line {step.lineno} past the end of every timed region: a "
                    "run that takes it has no samples there and does not stop early"
                )


def _common_suite(source: Source, loop: ast.AST, statements: list[ast.stmt]) -> list[ast.stmt]:
    paths = [[suite for suite, _ in path_to(source, loop, s)] for s in statements]
    common = paths[0][0]
    for level, suite in enumerate(paths[0]):
        if all(len(p) > level and p[level] is suite for p in paths):
            common = suite
    return common


def _lift(source: Source, suite: list[ast.stmt], statement: ast.stmt) -> ast.stmt:
    """The statement of a suite that holds the given one; itself when it lies further out."""
    for candidate in suite:
        if contains(candidate, statement):
            return candidate
    return statement


def _lift_end(candidate: Candidate, suite: list[ast.stmt], statement: ast.stmt) -> ast.stmt:
    """As `_lift`; into blocks that always run when an optimizer step stands in them as well."""
    source = candidate.source
    lifted = _lift(source, suite, statement)
    while (
        isinstance(lifted, (ast.With, ast.AsyncWith, ast.Try))
        and lifted is not statement
        and any(_inside(source, lifted, u) for u in candidate.updates)
        and any(contains(s, statement) for s in lifted.body)
    ):
        lifted = _lift(source, lifted.body, statement)
    return lifted


def _out_of_loops(source: Source, loop: ast.AST, statement: ast.stmt) -> ast.stmt:
    current = statement
    for parent in source.parents(statement):
        if parent is loop:
            break
        if isinstance(parent, LOOPS):
            current = parent
    return current


def _first_sync(knowledge: Knowledge, source: Source, branch: ast.AST) -> ast.stmt:
    return next(
        s
        for s in own_nodes(branch)
        if isinstance(s, ast.stmt) and knowledge.sync_of(source, s) is not None
    )
