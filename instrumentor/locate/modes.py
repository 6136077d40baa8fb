"""What a sample of an iteration covers: forward + backward, or a whole step where those are one.

Each mode looks at an iteration and takes it or leaves it to the next one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.control import LEFT, OVER, Flow, flow_of
from instrumentor.locate.forward import Forward
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update
from instrumentor.locate.syncs import (
    Sync,
    fused,
    own_sync,
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


class Region(Struct, frozen=True, eq=False):
    """A timed region of an iteration: from `begin` (insert before) to its ends, in one scope.

    Attributes:
        candidate: whose body holds it: the loop, or the function that makes the step for it.
        sites: the backwards in it; none for inference and marked lines.
        ends: the main one first; each path meets one of them.
        whole: the optimizer step belongs to it.
        resume: several micro-steps make one sample.
        hints: names that tell the device where it ends.
        batch: names of this iteration's data, bound ahead of `begin`.
        when: what is true at the begin of the iterations with a backward; empty for all.
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
    warnings: tuple[Caveat, ...] = ()

    @property
    def end(self) -> ast.stmt:
        return self.ends[0].after

    @property
    def label(self) -> str:
        return self.ends[0].label


class Iteration(Struct, frozen=True):
    """What the modes look at: the backwards of one path as the plain forward + backward."""

    knowledge: Knowledge
    options: Options
    plain: Region

    @property
    def candidate(self) -> Candidate:
        return self.plain.candidate

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

    def with_sync(self, statement: ast.stmt) -> ast.stmt:
        return with_sync(self.knowledge, self.source, statement)

    def end(self, after: ast.stmt, label: str, updates: Iterable[Update] = ()) -> End:
        """An end behind the sync that follows a statement; synced where all these updates sync."""
        helpers = [u.helper for u in updates]
        synced = bool(helpers) and all(syncs_itself(self.knowledge, h) for h in helpers)
        return End(self.with_sync(after), label, "True" if synced else "")

    def longer(self, at: ast.stmt, message: str) -> tuple[Caveat]:
        """That a sample is more than forward + backward, and why."""
        return (Caveat("longer-sample", message, place=self.source.at(at.lineno)),)

    def closed(self, region: Region) -> Region:
        """The region, with the script's own sync where it ends with one."""
        sync = own_sync(self.knowledge, self.source, region.end)
        return region if sync.statement is None else replace(region, sync=sync)


def covered(iteration: Iteration) -> Region:
    """As the first mode has it that takes the iteration; else forward + backward as it is."""
    found = (mode(iteration) for mode in MODES)
    return next((region for region in found if region is not None), iteration.plain)


def _fused_last(it: Iteration) -> Region | None:
    """The last micro-batch is left pending on purpose: its sample holds the optimizer, too."""
    found = fused(it.knowledge, it.candidate, it.final) if it.options.scope == "auto" else None
    if found is None:
        return None
    inner, stepping = found
    unit = update_unit(it.candidate, it.candidate.loop, stepping)
    return replace(
        it.plain,
        ends=(End(inner), it.end(unit, "fwd+bwd+optimizer", [stepping])),
        sync=own_sync(it.knowledge, it.source, inner),
        whole=True,
        warnings=it.longer(
            next(it.source.parents(inner), inner),
            "the last micro-batch is left pending to fuse with the optimizer: its sample is "
            "forward + backward + optimizer, labelled so",
        ),
    )


def _synced_every_n(it: Iteration) -> Region | None:
    """The script syncs only with the optimizer step: the micro-steps ahead of it are one graph."""
    if it.options.scope != "auto" or it.plain.sync.action == "keep":
        return None
    found = syncs_every_n(it.knowledge, it.candidate, it.final)
    if found is None:
        return None
    inner, stepping = found
    unit = update_unit(it.candidate, it.candidate.loop, stepping)
    return replace(
        it.plain,
        ends=(it.end(max(unit, inner, key=it.candidate.flow.order.__getitem__), "step"),),
        sync=own_sync(it.knowledge, it.source, inner),
        whole=True,
        resume=True,
        warnings=it.longer(
            next(it.source.parents(inner), inner),
            "the script syncs only with the optimizer step: a sample is the whole step, all its "
            "micro-steps",
        ),
    )


def _several_updates(it: Iteration) -> Region | None:
    """A backward behind an update: from the first forward to the last update."""
    several = several_steps(it.candidate)
    if several is None or (it.options.scope == "step" and it.steps_in_helper):
        return None
    begin = beside(it.source, it.plain.begin, several)
    region = replace(
        it.plain,
        begin=begin,
        ends=(it.end(beside(it.source, several, begin), "step"),),
        whole=True,
        warnings=it.longer(
            several,
            "one iteration makes several optimizer steps: a sample is all of it, from the "
            "first forward to the last update",
        ),
    )
    return it.closed(region)


def _whole_step(it: Iteration) -> Region | None:
    """Asked for, or because the optimizer is stepped where the backward is."""
    candidate, final = it.candidate, it.final.statement
    steps = step_updates(candidate, it.plain.sites)
    units = [update_unit(candidate, candidate.loop, u) for u in steps]
    in_branches = _in_branches(it, units)
    if it.options.scope == "step":
        told: tuple[Caveat, ...] = ()
    elif it.options.scope == "auto" and (it.steps_in_helper or in_branches):
        why = (
            "the helper also steps the optimizer"
            if it.steps_in_helper
            else "this backward runs in one branch only and each branch steps the optimizer"
        )
        told = it.longer(final, f"{why}: a sample is forward + backward + optimizer")
    else:
        return None
    if not units:
        end = End(it.plain.end, "step")
        return replace(it.plain, ends=(end,), whole=True, warnings=told)
    region = replace(
        it.plain,
        ends=tuple(dict.fromkeys(it.end(unit, "step", steps) for unit in units)),
        whole=True,
        resume=not in_branches and _over_iterations(it, units[0]),
        warnings=told,
    )
    return it.closed(region)


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
    _fused_last,
    _synced_every_n,
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
