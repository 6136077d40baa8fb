"""What a sample of an iteration covers: forward + backward, or a whole step where those are one.

Each mode looks at an iteration and takes it or leaves it to the next one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update
from instrumentor.locate.syncs import (
    Sync,
    fused_branch,
    kept,
    may_leave,
    syncs_every_n,
    syncs_itself,
    with_sync,
)
from instrumentor.locate.syntax import LOOPS, Source, own_nodes
from instrumentor.locate.tree import always_meets, between, contains, exclusive, path_to
from instrumentor.options import Options
from instrumentor_analysis.caveats import Caveat


class End(Struct, frozen=True):
    """Where the clock is read: after which statement, under which label.

    synced: expression that tells whether the script has synced already, '' when it has not.
    """

    after: ast.stmt
    label: str = "fwd+bwd"
    synced: str = ""


class Span(Struct, frozen=True):
    """From which statement to which a sample goes, and what it is.

    whole: the optimizer step belongs to it; resume: several micro-steps make one sample; the
    warning says why it is not forward + backward.
    """

    begin: ast.stmt
    end: ast.stmt
    sync: Sync
    label: str = "fwd+bwd"
    whole: bool = False
    resume: bool = False
    other_ends: tuple[End, ...] = ()
    helper_syncs: bool = False
    warning: Caveat | None = None


class Iteration(Struct, frozen=True):
    """What the modes look at: the backwards of one path, and where they begin and end."""

    knowledge: Knowledge
    candidate: Candidate
    group: tuple[Site, ...]
    options: Options
    plain: Span

    @property
    def final(self) -> Site:
        return self.group[-1]

    def closed(self, span: Span) -> Span:
        """The span, with the script's own sync where it ends with one."""
        source = self.candidate.source
        if self.knowledge.sync_of(source, span.end) is None:
            return span
        return replace(span, sync=kept(self.knowledge, source, span.end))


def span_of(iteration: Iteration) -> Span:
    """The first mode that takes the iteration; else forward + backward as it is."""
    found = (mode(iteration) for mode in MODES)
    return next((span for span in found if span is not None), iteration.plain)


def _longer(source: Source, statement: ast.stmt, message: str) -> Caveat:
    """That a sample is more than forward + backward, and why."""
    return Caveat("longer-sample", message, place=source.at(statement.lineno))


def _fused_last(it: Iteration) -> Span | None:
    """The last micro-batch is left pending on purpose: its sample holds the optimizer, too."""
    knowledge, candidate, source = it.knowledge, it.candidate, it.candidate.source
    fused = fused_branch(knowledge, candidate, it.final, candidate.updates)
    if it.options.scope != "auto" or fused is None:
        return None
    inner = _first_sync(knowledge, source, fused)
    stepping = next(u for u in candidate.updates if contains(fused, u.statement))
    unit = update_unit(candidate, candidate.loop, stepping)
    return replace(
        it.plain,
        end=inner,
        sync=kept(knowledge, source, inner),
        whole=True,
        other_ends=(End(with_sync(knowledge, source, unit), "fwd+bwd+optimizer"),),
        helper_syncs=syncs_itself(knowledge, stepping.helper),
        warning=_longer(
            source,
            fused,
            "the last micro-batch is left pending to fuse with the optimizer: its sample is "
            "forward + backward + optimizer, labelled so",
        ),
    )


def _synced_every_n(it: Iteration) -> Span | None:
    """The script syncs only with the optimizer step: the micro-steps ahead of it are one graph."""
    knowledge, candidate, source = it.knowledge, it.candidate, it.candidate.source
    every = syncs_every_n(knowledge, candidate, it.final, candidate.updates)
    if it.options.scope != "auto" or every is None or it.plain.sync.action == "keep":
        return None
    inner = _first_sync(knowledge, source, every)
    stepping = next(u for u in candidate.updates if contains(every, u.statement))
    unit = update_unit(candidate, candidate.loop, stepping)
    return replace(
        it.plain,
        end=with_sync(knowledge, source, max(unit, inner, key=lambda s: s.lineno)),
        sync=kept(knowledge, source, inner),
        label="step",
        whole=True,
        resume=True,
        warning=_longer(
            source,
            every,
            "the script syncs only with the optimizer step: a sample is the whole step, all its "
            "micro-steps",
        ),
    )


def _several_updates(it: Iteration) -> Span | None:
    """A backward behind an update: from the first forward to the last update."""
    knowledge, candidate, source = it.knowledge, it.candidate, it.candidate.source
    several = several_steps(candidate)
    if several is None or (it.options.scope == "step" and _steps_in_helper(it)):
        return None
    begin = lifted(common_suite(source, candidate.loop, [it.plain.begin, several]), it.plain.begin)
    last = lifted(source.places[begin].suite, several)
    return it.closed(
        replace(
            it.plain,
            begin=begin,
            end=with_sync(knowledge, source, last),
            label="step",
            whole=True,
            warning=_longer(
                source,
                several,
                "one iteration makes several optimizer steps: a sample is all of it, from the "
                "first forward to the last update",
            ),
        )
    )


def _whole_step(it: Iteration) -> Span | None:
    """Asked for, or because the optimizer is stepped where the backward is."""
    knowledge, candidate, source = it.knowledge, it.candidate, it.candidate.source
    steps = step_updates(candidate, it.group)
    units = [_step_unit(candidate, it.group, u) for u in steps]
    in_branches = _in_branches(it, units)
    wanted = it.options.scope == "step"
    together = _steps_in_helper(it) or in_branches
    if not wanted and (it.options.scope != "auto" or not together):
        return None
    span = replace(
        it.plain,
        label="step",
        whole=True,
        helper_syncs=bool(steps) and all(syncs_itself(knowledge, u.helper) for u in steps),
        warning=None if wanted else _with_optimizer(it),
    )
    if not units:
        return span
    end = with_sync(knowledge, source, units[0])
    others = dict.fromkeys(with_sync(knowledge, source, u) for u in units[1:])
    return it.closed(
        replace(
            span,
            end=end,
            resume=not in_branches and _over_iterations(it, units[0]),
            other_ends=tuple(End(u, "step") for u in others if u is not end),
        )
    )


def _in_branches(it: Iteration, units: list[ast.stmt]) -> bool:
    """Whether every branch of the iteration's end steps the optimizer."""
    inside = any(is_inside(it.candidate.source, it.plain.end, u) for u in it.candidate.updates)
    return inside and always_meets([it.plain.end], units)


def _with_optimizer(it: Iteration) -> Caveat:
    why = "the helper also steps the optimizer" if _steps_in_helper(it) else _IN_BRANCHES
    text = f"{why}: a sample is forward + backward + optimizer"
    return _longer(it.candidate.source, it.final.statement, text)


def _steps_in_helper(it: Iteration) -> bool:
    return any(u.statement is it.final.statement for u in it.candidate.updates)


def _over_iterations(it: Iteration, unit: ast.stmt) -> bool:
    """Whether some iterations with a backward end without the step."""
    source, loop = it.candidate.source, it.candidate.loop
    if unit is it.final.statement:
        return False
    reached = all(always_reached(source, loop, s.statement, unit) for s in it.group)
    return not contains(loop, unit) or not reached


def _own_sync(it: Iteration) -> Span | None:
    """Forward + backward up to the script's own sync."""
    end = own_sync(it.candidate, it.final, it.plain.sync)
    return None if end is None else replace(it.plain, end=end)


def own_sync(candidate: Candidate, site: Site, sync: Sync) -> ast.stmt | None:
    """The script's own sync when it stands in the loop's scope behind the backward."""
    statement = sync.statement
    if sync.action != "keep" or statement is None or sync.source is not candidate.source:
        return None
    in_helper = helper_sync(site, sync.source, statement)
    return statement if contains(candidate.loop, statement) and not in_helper else None


MODES: tuple[Callable[[Iteration], Span | None], ...] = (
    _fused_last,
    _synced_every_n,
    _several_updates,
    _whole_step,
    _own_sync,
)


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


def always_reached(source: Source, loop: ast.AST, first: ast.stmt, last: ast.stmt) -> bool:
    """Whether every iteration that runs the first statement also comes to the last."""
    for parent in source.parents(last):
        if parent is loop:
            break
        if isinstance(parent, ast.If) and not contains(parent, first):
            return False
    return not any(may_leave(s) for s in between(source, loop, first, last))


def step_updates(candidate: Candidate, group: Sequence[Site]) -> list[Update]:
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


def _step_unit(candidate: Candidate, group: Sequence[Site], update: Update) -> ast.stmt:
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


def is_inside(source: Source, outer: ast.stmt, update: Update) -> bool:
    return update.source is source and contains(outer, update.statement)


def lifted(suite: list[ast.stmt], statement: ast.stmt) -> ast.stmt:
    """The statement of a suite that holds the given one; itself when it lies further out."""
    for candidate in suite:
        if contains(candidate, statement):
            return candidate
    return statement


def common_suite(source: Source, loop: ast.AST, statements: list[ast.stmt]) -> list[ast.stmt]:
    paths = [[suite for suite, _ in path_to(source, loop, s)] for s in statements]
    common = paths[0][0]
    for level, suite in enumerate(paths[0]):
        if all(len(p) > level and p[level] is suite for p in paths):
            common = suite
    return common


def _first_sync(knowledge: Knowledge, source: Source, branch: ast.AST) -> ast.stmt:
    return next(
        s
        for s in own_nodes(branch)
        if isinstance(s, ast.stmt) and knowledge.sync_of(source, s) is not None
    )


def helper_sync(site: Site, source: Source, statement: ast.stmt) -> bool:
    return any(f.source is source and contains(f.node, statement) for f in site.chain)


_IN_BRANCHES = "this backward runs in one branch only and each branch steps the optimizer"
