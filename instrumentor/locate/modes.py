"""What a sample of an iteration covers: forward + backward, or a whole step where those are one.

Each mode looks at an iteration and takes it or leaves it to the next one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.control import LEFT, OVER, Flow, flow_of
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update
from instrumentor.locate.syncs import (
    Sync,
    fused,
    kept,
    syncs_every_n,
    syncs_itself,
    with_sync,
)
from instrumentor.locate.syntax import LOOPS, FunctionNode, LoopNode, Source, beside, contains
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
    found = fused(knowledge, candidate, it.final)
    if it.options.scope != "auto" or found is None:
        return None
    inner, stepping = found
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
            next(source.parents(inner), inner),
            "the last micro-batch is left pending to fuse with the optimizer: its sample is "
            "forward + backward + optimizer, labelled so",
        ),
    )


def _synced_every_n(it: Iteration) -> Span | None:
    """The script syncs only with the optimizer step: the micro-steps ahead of it are one graph."""
    knowledge, candidate, source = it.knowledge, it.candidate, it.candidate.source
    found = syncs_every_n(knowledge, candidate, it.final)
    if it.options.scope != "auto" or found is None or it.plain.sync.action == "keep":
        return None
    inner, stepping = found
    unit = update_unit(candidate, candidate.loop, stepping)
    return replace(
        it.plain,
        end=with_sync(knowledge, source, max(unit, inner, key=candidate.flow.order.__getitem__)),
        sync=kept(knowledge, source, inner),
        label="step",
        whole=True,
        resume=True,
        warning=_longer(
            source,
            next(source.parents(inner), inner),
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
    begin = beside(source, it.plain.begin, several)
    last = beside(source, several, begin)
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
    units = [update_unit(candidate, candidate.loop, u) for u in steps]
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
    flow, end = it.candidate.flow, it.plain.end
    inside = any(contains(end, u.statement) for u in it.candidate.own_updates)
    return inside and flow.always(flow.before(end), units, (flow.after(end),))


def _with_optimizer(it: Iteration) -> Caveat:
    why = "the helper also steps the optimizer" if _steps_in_helper(it) else _IN_BRANCHES
    text = f"{why}: a sample is forward + backward + optimizer"
    return _longer(it.candidate.source, it.final.statement, text)


def _steps_in_helper(it: Iteration) -> bool:
    return any(u.statement is it.final.statement for u in it.candidate.updates)


def _over_iterations(it: Iteration, unit: ast.stmt) -> bool:
    """Whether some iterations with a backward end without the step."""
    flow, ends = it.candidate.flow, (*OVER, LEFT)
    return unit is not it.final.statement and any(
        flow.path(flow.after(s.statement), ends, {flow.before(unit)}) for s in it.group
    )


def _own_sync(it: Iteration) -> Span | None:
    """Forward + backward up to the script's own sync, where it stands behind the backward."""
    candidate, sync, end = it.candidate, it.plain.sync, it.plain.sync.statement
    if sync.action != "keep" or end is None or sync.source is not candidate.source:
        return None
    in_helper = helper_sync(it.final, sync.source, end)
    return replace(it.plain, end=end) if end in candidate.flow.begins and not in_helper else None


MODES: tuple[Callable[[Iteration], Span | None], ...] = (
    _fused_last,
    _synced_every_n,
    _several_updates,
    _whole_step,
    _own_sync,
)


def update_unit(
    candidate: Candidate, body: LoopNode | FunctionNode | ast.Module, update: Update
) -> ast.stmt:
    """The statement after which an update is certainly complete in its branch.

    The update itself, or the `if` whose every branch holds one, or the loop over optimizers.
    """
    flow, unit = flow_of(body), update.statement
    updates = [u.statement for u in candidate.updates if u.source is update.source]
    sites = [s.statement for s in candidate.sites if update.source is candidate.source]
    for parent in update.source.parents(update.statement):
        if parent is body or any(contains(parent, site) for site in sites):
            break
        branches = isinstance(parent, ast.If) and flow.always(
            flow.before(parent), updates, (flow.after(parent),)
        )
        if branches or isinstance(parent, LOOPS):
            unit = parent
    return unit


def step_updates(candidate: Candidate, group: Sequence[Site]) -> list[Update]:
    """The updates that close a step of these backwards: one per exclusive branch.

    First the one that the last backward leads to; those of other branches only when the branch
    follows an earlier backward of the group.
    """
    flow, final = candidate.flow, group[-1].statement
    known = sorted(candidate.own_updates, key=lambda u: u.statement is not final)

    def follow(*sites: ast.stmt) -> list[Update]:
        return [u for u in known if not all(flow.exclusive(u.statement, s) for s in sites)]

    chosen: list[Update] = []
    for update in [*follow(final), *follow(*(s.statement for s in group))] or known:
        if all(flow.exclusive(update.statement, c.statement) for c in chosen):
            chosen.append(update)
    return chosen


def several_steps(candidate: Candidate) -> ast.stmt | None:
    """The statement with the last update when a backward of the iteration follows another."""
    flow = candidate.flow
    updates = [u for u in candidate.own_updates if not u.manual and u.statement in flow.begins]
    updates.sort(key=lambda u: flow.order[u.statement])
    for first, second in combinations(updates, 2):
        if first.call is second.call and first.optimizer == second.optimizer:
            continue
        if any(_between(flow, first.statement, s, second.statement) for s in candidate.sites):
            return updates[-1].statement
    return None


def _between(flow: Flow, first: ast.stmt, site: Site, second: ast.stmt) -> bool:
    """A backward after the one step and up to the other, on one path."""
    at = site.statement
    return (
        at is not first
        and flow.path(flow.after(first), flow.before(at))
        and (at is second or flow.path(flow.after(at), flow.before(second)))
    )


def helper_sync(site: Site, source: Source, statement: ast.stmt) -> bool:
    return any(f.source is source and contains(f.node, statement) for f in site.chain)


_IN_BRANCHES = "this backward runs in one branch only and each branch steps the optimizer"
