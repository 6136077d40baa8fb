"""The timed regions of an iteration: from the start of the forward to the barrier.

A region runs from the statement that starts the differentiable forward to the barrier after the
last backward before the optimizer step. Exclusive branches have a region each; scripts that fuse
the last micro-batch with the optimizer, or sync only with it, end after the optimizer step.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from instrumentor.locate.dataflow import binds
from instrumentor.locate.forward import Forward
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update
from instrumentor.locate.syncs import (
    Sync,
    find_sync,
    fused_branch,
    is_sync,
    kept,
    may_leave,
    syncs_every_n,
    syncs_itself,
    with_sync,
)
from instrumentor.locate.syntax import (
    LOOPS,
    Source,
    dotted,
    own_calls,
    own_nodes,
    root_name,
)
from instrumentor.locate.tree import between, contains, exclusive, path_to
from instrumentor.locate.vocabulary import callee, loss_expression
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
    return _merged(candidate, regions), kept, scope


def _merged(candidate: Candidate, regions: list[Region]) -> list[Region]:
    """Exclusive branches that share their begin and their hints close once, after the `if`."""
    if len(regions) < 2 or len({id(r.begin) for r in regions}) > 1:
        return regions
    if len({r.hints for r in regions}) > 1 or any(r.sync.action != "insert" for r in regions):
        return regions
    source = candidate.source
    first, second = regions[0].end, regions[1].end
    for parent in source.parents(first):
        if contains(parent, second):
            if any(contains(parent, u.statement) for u in candidate.updates) or contains(
                parent, regions[0].begin
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
    begin, end = _lift(source, common, begin), _lift(source, common, last_site)
    end = _out_of_loops(source, loop, end)
    sync = find_sync(knowledge, candidate, final)
    scope, label = "fwd-bwd", "fwd+bwd"
    resume = False
    other_ends: tuple[End, ...] = ()
    helper_syncs = False
    updates = candidate.updates
    fused = fused_branch(candidate, final, updates)
    every = None if fused is not None else syncs_every_n(candidate, final, updates)
    stepped_in_helper = any(u.statement is final.statement for u in updates)
    wants_step = options.scope == "step"
    if options.scope == "auto" and fused is not None:
        inner = next(s for s in own_nodes(fused) if isinstance(s, ast.stmt) and is_sync(s))
        end, scope = inner, "step"
        sync = kept(source, inner)
        stepping = next(u for u in updates if contains(fused, u.statement))
        unit = update_unit(candidate, loop, stepping)
        other_ends = (End(with_sync(source, unit), "fwd+bwd+optimizer"),)
        helper_syncs = syncs_itself(stepping.helper)
        warnings.append(
            f"{source.path.name}:{fused.lineno}: the last micro-batch is left pending to "
            "fuse with the optimizer: its sample is forward + backward + optimizer, labelled so"
        )
    elif options.scope == "auto" and every is not None and sync.action != "keep":
        inner = next(s for s in own_nodes(every) if isinstance(s, ast.stmt) and is_sync(s))
        stepping = next(u for u in updates if contains(every, u.statement))
        unit = update_unit(candidate, loop, stepping)
        end = with_sync(source, max(unit, inner, key=lambda s: s.lineno))
        scope, resume, label = "step", True, "step"
        sync = kept(source, inner)
        warnings.append(
            f"{source.path.name}:{every.lineno}: the script syncs only with the optimizer step: "
            "a sample is the whole step, all its micro-steps"
        )
    elif wants_step or (options.scope == "auto" and stepped_in_helper):
        scope = label = "step"
        whole = _step_unit(candidate, final)
        helper_syncs = any(syncs_itself(u.helper) for u in updates)
        if whole is not None:
            end = with_sync(source, whole)
            if is_sync(end):
                sync = kept(source, end)
            resume = whole is not final.statement and (
                not contains(loop, whole) or not _always_reached(source, loop, final, whole)
            )
        if stepped_in_helper and not wants_step:
            warnings.append(
                f"{source.path.name}:{final.statement.lineno}: the helper also steps the "
                "optimizer: a sample is forward + backward + optimizer"
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
    region.batch = _batch_names(candidate, begin)
    region.hints = _hints(knowledge, candidate, region, forward)
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


def _step_unit(candidate: Candidate, site: Site) -> ast.stmt | None:
    source = candidate.source
    for update in candidate.updates:
        if update.source is source and update.scope is candidate.scope:
            if update.statement is site.statement:
                return site.statement
            return update_unit(candidate, candidate.loop, update)
    return None


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
            return statement if _in_suite_below_single(source, candidate, statement) else candidate
    return statement


def _in_suite_below_single(source: Source, outer: ast.stmt, inner: ast.stmt) -> bool:
    return outer is inner


def _out_of_loops(source: Source, loop: ast.AST, statement: ast.stmt) -> ast.stmt:
    current = statement
    for parent in source.parents(statement):
        if parent is loop:
            break
        if isinstance(parent, LOOPS):
            current = parent
    return current


def _batch_names(candidate: Candidate, begin: ast.stmt) -> tuple[str, ...]:
    """Names of the iteration's data: the loop's targets, or what `next(...)` was bound to."""
    loop = candidate.loop
    names: list[str] = []
    if isinstance(loop, ast.For):
        target: ast.expr = loop.target
        counts = any(callee(c) == "enumerate" for c in own_calls(loop.iter))
        if counts and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        ranges = any(callee(c) in ("range", "count", "trange") for c in own_calls(loop.iter))
        if not ranges:
            names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
    if not names:
        for statement in loop.body:
            for node in (statement, *own_nodes(statement)):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                    if callee(node.value) in ("next", "get_batch") and node.lineno < begin.lineno:
                        names += [
                            n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)
                        ]
    deleted = {
        n.id
        for top in loop.body
        for n in (top, *own_nodes(top))
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)
    }
    return tuple(n for n in dict.fromkeys(names) if n not in deleted and n not in ("_", "self"))[:2]


COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


def _hints(
    knowledge: Knowledge, candidate: Candidate, region: Region, forward: Forward
) -> tuple[str, ...]:
    """Names the barrier may look at to learn the device: the loss first, then a model."""
    source = candidate.source
    loop_names = set()
    for statement in candidate.loop.body:
        loop_names |= binds(statement)
    deleted = {
        n.id
        for top in candidate.loop.body
        for n in (top, *own_nodes(top))
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)
    }
    common: list[str] | None = None
    for site in region.sites:
        names: list[str] = []
        expression: ast.AST = loss_expression(site.backward) if not site.chain else site.statement
        for node in (expression, *own_nodes(expression)):
            if isinstance(node, ast.Name) and (
                isinstance(node.ctx, ast.Store) or node.id in loop_names
            ):
                names.append(node.id)
            elif (
                isinstance(node, ast.Attribute)
                and not site.chain
                and dotted(node) == f"self.{node.attr}"
            ):
                if not isinstance(node.ctx, ast.Store) and "loss" in node.attr:
                    names.append(dotted(node))
        names = [n for n in dict.fromkeys(names) if n not in deleted and n != "_"]
        common = names if common is None else [n for n in common if n in names]
    hints = (common or [])[:2]
    if (not hints or region.sites[0].chain) and not isinstance(forward.unit, COMPOUND):
        call = knowledge.forward_call(source, candidate.scope, forward.unit)
        if call is not None:
            for node in (call.func, *call.args, *(k.value for k in call.keywords)):
                name = dotted(node)
                name = (
                    name.rpartition(".")[0]
                    if node is call.func and not knowledge.is_model(source, name)
                    else name
                )
                if name and knowledge.is_model(source, name) and root_name(node) not in deleted:
                    hints.append(name)
                    break
    if not hints:
        for name in ("self.model", "model"):
            if any(
                dotted(n) == name
                for n in ast.walk(candidate.scope)
                if isinstance(n, (ast.Name, ast.Attribute))
            ):
                hints.append(name)
                break
    return tuple(dict.fromkeys(hints))
