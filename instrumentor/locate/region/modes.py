"""What a sample of an iteration covers: forward + backward, or a whole step where those are one.

Each mode looks at an iteration and takes it or leaves it to the next one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.gradients.forward import Forward
from instrumentor.locate.loop.loops import Candidate, Site, Update
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.region.syncs import (
    Sync,
    fused,
    own_sync,
    syncs_every_n,
    syncs_itself,
    with_sync,
)
from instrumentor.read.control_flow import LEFT, OVER, Flow, flow_of
from instrumentor.read.syntax import LOOPS, FunctionNode, LoopNode, Source, beside, contains
from instrumentor.shared.options import Options
from instrumentor_analysis.shared.caveats import Caveat


class End(Struct, frozen=True):
    """Where the clock is read: after which statement, under which label.

    synced: expression that tells whether the script has synced already, '' when it has not.
    """

    after: ast.stmt
    label: str = "fwd+bwd"
    synced: str = ""


class Region(Struct, frozen=True, eq=False):
    """A timed region of an iteration: from `begin` (insert before) to its ends, in one scope.

    Attributes:
        candidate: whose body holds it: the loop, or the function that makes the step for it.
        sites: the backwards in it; none for inference and marked lines.
        ends: the main one first; each path meets one of them.
        whole: the optimizer step belongs to it.
        resume: several micro-steps make one sample.
        hints: names of what has told the device where it ends: the loss, a model's result.
        branches: statements of exclusive branches of `begin`, in each of which it starts.
        batch: names of this iteration's data, bound ahead of `begin`.
        when: what is true at the begin of the iterations with a backward; empty for all.
        fetch: the part of `begin` that fetches the batch, which is done ahead of the clock.
    """

    candidate: Candidate
    sites: tuple[Site, ...]
    forward: Forward
    begin: ast.stmt
    ends: tuple[End, ...]
    sync: Sync
    whole: bool = False
    resume: bool = False
    hints: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    when: str = ""
    fetch: ast.expr | None = None
    warnings: tuple[Caveat, ...] = ()
    branches: tuple[ast.stmt, ...] = ()

    @property
    def starts(self) -> tuple[ast.stmt, ...]:
        """Statements ahead of which the clock starts: one of them runs in an iteration."""
        return self.branches or (self.begin,)

    def reaches(self, statement: ast.stmt, avoiding: Collection[int] = ()) -> bool:
        """Whether a statement may run once the clock has started in its iteration.

        Args:
            avoiding: points of the control flow that are not met on the way.
        """
        flow = self.candidate.flow
        at, starts = flow.before(statement), [flow.before(s) for s in self.starts]
        return any(at == start or flow.path(start, at, avoiding) for start in starts)

    @property
    def end(self) -> ast.stmt:
        return self.ends[0].after

    @property
    def label(self) -> str:
        return self.ends[0].label


class Iteration(Struct, frozen=True):
    """The backwards of one path as plain forward + backward, of which a mode makes what it is."""

    options: Options
    plain: Region

    @property
    def candidate(self) -> Candidate:
        return self.plain.candidate

    @property
    def knowledge(self) -> Knowledge:
        return self.candidate.knowledge

    @property
    def source(self) -> Source:
        return self.candidate.source

    @property
    def final(self) -> Site:
        return self.plain.sites[-1]

    @property
    def steps_in_helper(self) -> bool:
        """Whether what runs the last backward steps the optimizer as well."""
        return any(u.statement is self.final.statement for u in self.candidate.updates)

    def unit(self, update: Update) -> ast.stmt:
        return self.units([update])[0]

    def units(self, updates: Sequence[Update]) -> list[ast.stmt]:
        return completing(self.candidate, self.candidate.loop, updates)

    def end(self, after: ast.stmt, label: str, updates: Iterable[Update] = ()) -> End:
        """An end behind the sync that follows a statement; synced where all these updates sync."""
        helpers = [u.helper for u in updates]
        synced = bool(helpers) and all(syncs_itself(self.knowledge, h) for h in helpers)
        after = with_sync(self.knowledge, self.source, after)
        return End(after, label, "True" if synced else "")

    def whole(self, *ends: End, at: ast.stmt, why: str, **more: Any) -> Region:
        """A region with the optimizer's step, and why it is more than forward + backward.

        Unless told otherwise it ends with the script's own sync where one stands there.
        """
        sync = own_sync(self.knowledge, self.source, ends[0].after)
        told = Caveat("longer-sample", why, place=self.source.at(at.lineno))
        more = {"sync": self.plain.sync if sync.statement is None else sync, **more}
        return replace(self.plain, ends=ends, whole=True, warnings=(told,) if why else (), **more)


def covered(iteration: Iteration) -> Region:
    """As the first mode has it that takes the iteration; else forward + backward as it is."""
    found = (mode(iteration) for mode in MODES)
    return next((region for region in found if region is not None), iteration.plain)


def _left_pending(it: Iteration) -> Region | None:
    """The script leaves micro-batches pending on purpose, to be one graph with the optimizer."""
    if it.options.scope != "auto":
        return None
    last = fused(it.candidate, it.final)
    found = last
    if found is None and it.plain.sync.action == "insert":
        found = syncs_every_n(it.candidate, it.final)
    if found is None:
        return None
    inner, stepping = found
    sync, at = own_sync(it.knowledge, it.source, inner), next(it.source.parents(inner), inner)
    # a sync of ours behind the backward would cut the graph that the script keeps whole
    if last is None:
        end = max(it.unit(stepping), inner, key=it.candidate.flow.order.__getitem__)
        why = (
            "The script syncs only with the optimizer step, so one sample covers the whole step "
            "with all its micro-steps."
        )
        return it.whole(it.end(end, "step"), at=at, why=why, sync=sync, resume=True)
    why = (
        "The last micro-batch is left pending to fuse with the optimizer, so its sample covers "
        "forward, backward and optimizer; its label says so."
    )
    end_of_last = it.end(it.unit(stepping), "fwd+bwd+optimizer", [stepping])
    return it.whole(End(inner), end_of_last, at=at, why=why, sync=sync)


def _several_updates(it: Iteration) -> Region | None:
    """A backward behind an update: from the first forward to the last update."""
    several = several_steps(it.candidate)
    if several is None or (it.options.scope == "step" and it.steps_in_helper):
        return None
    begin = beside(it.source, it.plain.begin, several)
    optimizers = {u.optimizer for u in it.candidate.own_updates}
    what = "Several optimizers are" if len(optimizers) > 1 else "The optimizer may be"
    times = "" if len(optimizers) > 1 else "several times "
    why = f"{what} stepped {times}per iteration; one sample covers the whole iteration."
    around = beside(it.source, several, begin)
    steps = [u.statement for u in it.candidate.own_updates if contains(around, u.statement)]
    # where only some iterations come to the last one, what follows it there is not timed
    last = completed(it.candidate, steps, several)
    ends = [it.end(unit, "step") for unit in dict.fromkeys((around, last))]
    branches = it.plain.branches if begin is it.plain.begin else ()
    return it.whole(*ends, at=several, why=why, begin=begin, branches=branches)


def _whole_step(it: Iteration) -> Region | None:
    """Asked for, or because the optimizer is stepped where the backward is."""
    steps = step_updates(it.candidate, it.plain.sites)
    units = it.units(steps)
    in_branches = _in_branches(it, units)
    why = ""
    if it.options.scope == "auto" and it.steps_in_helper:
        why = "The helper also steps the optimizer"
    elif it.options.scope == "auto" and in_branches:
        why = "Each branch has its own backward and optimizer step"
    elif it.options.scope != "step":
        return None
    why = why and f"{why}, so one sample covers forward, backward and optimizer."
    at = it.final.statement
    if not units:
        return it.whole(End(it.plain.end, "step"), at=at, why=why, sync=it.plain.sync)
    ends = dict.fromkeys(it.end(unit, "step", steps) for unit in units)
    resume = not in_branches and _over_iterations(it, units[0])
    return it.whole(*ends, at=at, why=why, resume=resume)


def _in_branches(it: Iteration, units: list[ast.stmt]) -> bool:
    """Whether every branch of the iteration's end steps the optimizer."""
    flow, end = it.candidate.flow, it.plain.end
    inside = any(contains(end, u.statement) for u in it.candidate.own_updates)
    return inside and flow.always(flow.before(end), units, (flow.after(end),))


def _over_iterations(it: Iteration, unit: ast.stmt) -> bool:
    """Whether some iterations with a backward end without the step."""
    flow, ends = it.candidate.flow, (*OVER, LEFT)
    return unit is not it.final.statement and any(
        flow.path(flow.after(s.statement), ends, {flow.before(unit)}) for s in it.plain.sites
    )


def _own_sync(it: Iteration) -> Region | None:
    """Forward + backward up to the script's own sync, where it stands behind the backward."""
    sync, end = it.plain.sync, it.plain.sync.statement
    if end is None or sync.source is not it.source or end not in it.candidate.flow.begins:
        return None
    return None if in_helper(sync, [it.final]) else replace(it.plain, ends=(End(end),))


MODES: tuple[Callable[[Iteration], Region | None], ...] = (
    _left_pending,
    _several_updates,
    _whole_step,
    _own_sync,
)


def in_helper(sync: Sync, sites: Iterable[Site]) -> bool:
    """Whether the script's own sync stands in a helper of these backwards."""
    at = sync.statement
    return at is not None and any(
        f.source is sync.source and contains(f.node, at) for s in sites for f in s.chain
    )


def completed(candidate: Candidate, statements: Sequence[ast.stmt], final: ast.stmt) -> ast.stmt:
    """The innermost statement around the final one of several behind which all have run.

    What only some iterations do behind them stays outside of it.
    """
    flow = candidate.flow
    around = [s for s in (final, *candidate.source.parents(final)) if s in flow.begins]
    for statement in around:
        done = flow.after(statement)
        if not any(flow.path(done, flow.before(s)) for s in statements) and all(
            flow.always(flow.after(s), [statement]) for s in statements
        ):
            return statement
    return around[-1]


Block: TypeAlias = LoopNode | FunctionNode | ast.Module


def completing(candidate: Candidate, body: Block, last: Sequence[Update]) -> list[ast.stmt]:
    """For the last update of each branch the statement behind which the whole step is done.

    Where an update of another optimizer may be the last one of an iteration as well (`a.step()`,
    then `b.step()` in some of them), it is the statement that both come to.
    """
    flow = flow_of(body)
    units = [_update_unit(candidate, body, update) for update in last]
    around = [u.statement for u in candidate.updates if u.statement in flow.begins]
    for number, (unit, update) in enumerate(zip(tuple(units), last, strict=True)):
        others = units[:number] + units[number + 1 :]
        for wider in (unit, *(p for p in update.source.parents(unit) if p in flow.begins)):
            before = [s for s in around if flow.path(flow.after(s), flow.before(wider))]
            if all(flow.always(flow.after(s), [*others, wider]) for s in before):
                units[number] = wider
                break
    return units


def _update_unit(candidate: Candidate, body: Block, update: Update) -> ast.stmt:
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
    """The updates that close a step of these backwards: the last one of each exclusive branch.

    Those that the last backward leads to come first.
    """
    flow, final, known = candidate.flow, group[-1].statement, candidate.own_updates
    sites = [s.statement for s in group]
    follow = [u for u in known if not all(flow.exclusive(u.statement, s) for s in sites)] or known
    last = last_of_branches(flow, follow)
    return sorted(last, key=lambda u: flow.exclusive(u.statement, final))


def last_of_branches(flow: Flow, updates: Sequence[Update]) -> list[Update]:
    """The updates that no other one follows: the last, or the last of each exclusive branch."""
    return [
        u
        for n, u in enumerate(updates)
        if all(flow.exclusive(u.statement, v.statement) for v in updates[n + 1 :])
    ]


def several_steps(candidate: Candidate) -> ast.stmt | None:
    """The statement with the last update when a backward of the iteration follows another."""
    flow = candidate.flow
    updates = [u for u in candidate.own_updates if u.call and u.statement in flow.begins]
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
