"""Candidates -> the one loop, understood; or the reasons against it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

from msgspec.structs import replace

from instrumentor.errors import UsageError
from instrumentor.locate.accumulation import accumulation_of
from instrumentor.locate.catalogue import Role
from instrumentor.locate.constants import is_ruled_out
from instrumentor.locate.counter import find_counter, runs_once
from instrumentor.locate.forward import Forward, find_forwards
from instrumentor.locate.hostreads import find_host_reads
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import (
    Candidate,
    Site,
    Update,
    end_of_iteration,
    find_candidates,
    in_order,
)
from instrumentor.locate.model import Declined, Located, Reason, Stop
from instrumentor.locate.program import Function, Program
from instrumentor.locate.regions import Region, find_regions
from instrumentor.locate.remarks import of_the_helpers, of_the_program, of_the_syncs
from instrumentor.locate.rules import reasons_against
from instrumentor.locate.rules.closures import closure_reason
from instrumentor.locate.rules.common import runs_as_script
from instrumentor.locate.rules.no_loop import no_loop
from instrumentor.locate.rules.phases import no_phase_inside
from instrumentor.locate.rules.several_loops import by_options, several
from instrumentor.locate.rules.step_in_region import no_update_inside
from instrumentor.locate.script_options import ScriptOptions
from instrumentor.locate.skips import find_skips, warnings_of
from instrumentor.locate.step_function import step_function
from instrumentor.locate.stop import find_stops
from instrumentor.locate.syntax import FUNCTIONS, LOOPS, ScopeNode, Source, contains
from instrumentor.options import Options


def choose(program: Program, options: Options, arguments: Sequence[str] = ()) -> Located | Reason:
    """The located loop, or the reason why this program has none.

    Args:
        arguments: what the script is called with: they may choose among several loops.
    """
    knowledge = Knowledge(program)
    candidates = _offered(program, knowledge)
    if options.loop is not None:
        chosen = _by_line(program, candidates, *options.loop)
        return _understand(program, knowledge, chosen, options)
    stepping = _stepping(program, candidates)
    called = _as_called(program, stepping, arguments) if len(stepping) > 1 else stepping
    if len(called) == 1:
        located = _understand(program, knowledge, called[0], options)
        others = [c for c in stepping if c is not called[0]]
        return replace(located, warnings=(*by_options(called[0], others), *located.warnings))
    if not stepping:
        return closure_reason(knowledge) or no_loop(program, knowledge, candidates)
    reasons = [r for c in called for r in reasons_against(knowledge, c)]
    raise Declined(*dict.fromkeys(reasons or several(called)))


def _offered(program: Program, knowledge: Knowledge) -> list[Candidate]:
    """What a module of the repository offers counts only when the script comes to it."""
    return [
        candidate
        for candidate in find_candidates(program, knowledge)
        if candidate.source is program.entry or is_reachable(program, candidate)
    ]


def _stepping(program: Program, candidates: list[Candidate]) -> list[Candidate]:
    """Loops of steps: those that the script comes to, if there are any."""
    found = _without_inner(program, [c for c in candidates if c.updates])
    return [c for c in found if is_reachable(program, c)] or found


def _as_called(
    program: Program, stepping: list[Candidate], arguments: Sequence[str]
) -> list[Candidate]:
    """The loops that the script's options leave; all of them when they rule out none."""
    entry = ScriptOptions(program, arguments).entry_as_called()
    if entry is None:
        return stepping
    called = Program.load(entry, program.roots)
    left = {c.key for c in _stepping(called, _offered(called, Knowledge(called)))}
    return [c for c in stepping if c.key in left] or stepping


def _without_inner(program: Program, candidates: list[Candidate]) -> list[Candidate]:
    """A loop in a helper of another one's iteration is part of that iteration, no rival."""
    kept = list(candidates)
    for inner, outer in permutations(candidates, 2):
        found = next((c for c in kept if c.loop is outer.loop), None)
        if found is None or inner.loop not in [c.loop for c in kept]:
            continue
        same = outer.source is inner.source and outer.scope is inner.scope
        if same and contains(outer.loop, inner.loop):
            sites = [*found.sites, *inner.sites]
        elif inner.scope in program.called_from(outer.scope, outer.loop.body):
            sites = [*found.sites, *_through_calls(program, outer, inner)]
        else:
            continue
        kept = [c for c in kept if c.loop is not inner.loop]
        kept[kept.index(found)] = replace(found, sites=in_order(sites))
    return kept


def _through_calls(program: Program, outer: Candidate, inner: Candidate) -> Iterator[Site]:
    """The backwards of a helper's loop as the calls of that helper show them."""
    for call, statement in program.calls.get(outer.scope, ()):
        if not contains(outer.loop, statement):
            continue
        for function in program.resolve(outer.source, outer.scope, call):
            if function.node is inner.scope:
                for site in inner.sites:
                    chain = (function, *site.chain)
                    yield replace(site, statement=statement, call=call, chain=chain)


def _by_line(program: Program, candidates: list[Candidate], file: str, line: int) -> Candidate:
    """The loop that starts at a line; else the innermost one around it."""
    named = [c for c in candidates if not file or c.source.path.name == Path(file).name]
    around = [c for c in named if c.loop.lineno <= line <= (c.loop.end_lineno or c.loop.lineno)]
    if not around:
        raise _no_loop_at(program, candidates, file, line)
    chosen = max(around, key=lambda c: c.loop.lineno)
    if chosen.updates:
        return chosen
    # asked for all the same: the iteration ends with its last statement
    return replace(chosen, updates=(end_of_iteration(chosen),))


def _no_loop_at(program: Program, candidates: list[Candidate], file: str, line: int) -> UsageError:
    have = ", ".join(c.source.at(c.loop.lineno) for c in candidates) or "none"
    bodies = [
        f"{source.path.name}:{s.body[0].lineno}-{s.end_lineno}"
        for source in program.sources.values()
        if not file or source.path.name == Path(file).name
        for s in source.places
        if isinstance(s, LOOPS) and s.lineno == line
    ]
    if not bodies:
        return UsageError(
            f"--loop {file}:{line}: no training loop starts there",
            f"Loops with a backward: {have}.",
        )
    return UsageError(
        f"--loop {file}:{line}: no backward was found in this loop",
        f"Time its iterations anyway with --region {bodies[0]}. Loops with a backward: {have}.",
    )


def is_reachable(program: Program, candidate: Candidate) -> bool:
    """Whether module-level code of the entry may come to the loop."""
    if isinstance(candidate.scope, FUNCTIONS):
        return candidate.scope in program.reached
    return candidate.source is program.entry or not runs_as_script(candidate.source, candidate.loop)


def _understand(
    program: Program, knowledge: Knowledge, candidate: Candidate, options: Options
) -> Located:
    reasons = list(reasons_against(knowledge, candidate))
    if reasons:
        raise Declined(*dict.fromkeys(reasons))
    candidate = _as_iterated(program, candidate)
    body, forwards = _with_forward(knowledge, step_function(knowledge, candidate) or candidate)
    if not isinstance(body.loop, FUNCTIONS):
        candidate = body
    regions = find_regions(knowledge, body, forwards, options)
    for region in regions.found:
        no_update_inside(body, region)
    no_phase_inside(regions.found)
    first = regions.found[0]
    site = next(s for s in candidate.sites if s.backward is first.sites[0].backward)
    counter = find_counter(candidate, site, first.begin)
    stops = [_behind(candidate, regions.found, stop) for stop in find_stops(knowledge, candidate)]
    if not stops:
        raise Declined(
            Reason(
                candidate.source.path,
                candidate.loop.lineno,
                "no-optimizer-step",
                "no optimizer step follows the backward",
                "A training loop steps an optimizer.",
            )
        )
    keep = options.keep_validation
    skips = find_skips(knowledge, candidate, regions.found, keep_validation=keep)
    as_written = options.host_reads == "as-written" or "host_reads" in options.skip
    reads = find_host_reads(knowledge, body, regions.found, counter, as_written=as_written)
    return Located(
        program,
        knowledge,
        candidate,
        regions.found,
        regions.forwards,
        counter,
        accumulation_of(knowledge, candidate, site),
        tuple(stops),
        regions.scope,
        skipped=tuple(skips.skipped),
        kept=tuple(skips.kept),
        deferred=tuple(reads.moved),
        cache_clears=tuple(_cache_clears(knowledge, candidate)),
        warnings=(
            *of_the_program(knowledge, candidate),
            *regions.warnings,
            *of_the_syncs(program, regions.found),
            *warnings_of(skips),
            *reads.warnings,
            *dict.fromkeys(of_the_helpers(knowledge, regions.found)),
        ),
    )


def _as_iterated(program: Program, candidate: Candidate) -> Candidate:
    """Without what only the first iteration does, and what every caller of the loop rules out."""

    def stays(one: Site | Update, source: Source, scope: ScopeNode) -> bool:
        once = source is candidate.source and runs_once(candidate.loop, source, one.statement)
        return not once and not is_ruled_out(program, scope, one.statement)

    sites = [s for s in candidate.sites if stays(s, candidate.source, candidate.scope)]
    updates = [u for u in candidate.updates if stays(u, u.source, u.scope)]
    return replace(
        candidate,
        sites=tuple(sites) or candidate.sites,
        updates=tuple(updates) or candidate.updates,
    )


def _behind(candidate: Candidate, regions: Sequence[Region], stop: Stop) -> Stop:
    """A stop is never inside a region that closes behind the whole step."""
    for region in regions:
        if stop.source is candidate.source and contains(region.end, stop.after):
            if stop.after is not region.end and region.whole:
                return replace(stop, unit=region.end, after=region.end)
    return stop


def _with_forward(
    knowledge: Knowledge, candidate: Candidate
) -> tuple[Candidate, dict[Site, Forward]]:
    """Forwards of all sites; a loop that holds only backwards gives way to the one around it."""
    unsure: tuple[Candidate, dict[Site, Forward]] | None = None
    for around in _outwards(knowledge.program, candidate):
        found = find_forwards(knowledge, around)
        if any(f.certain for f in found.values()):
            return around, found
        if unsure is None and len(found) == len(around.sites):
            unsure = around, found
    if unsure is not None:
        return unsure
    site = next((s for s in around.sites if s not in found), around.sites[0])
    raise Declined(
        Reason(
            site.backward_source.path,
            site.backward.lineno,
            "forward-apart",
            "the forward of this backward is not in the same iteration of the loop "
            "(a rollout, a stored loss)",
            "Give a script whose loop runs the model and its backward together.",
        )
    )


def _outwards(program: Program, candidate: Candidate) -> Iterator[Candidate]:
    """The loop, those around it, and those that call its function; none around an update."""
    source, scope = candidate.source, candidate.scope
    for loop in (candidate.loop, *source.loops_around(candidate.loop)):
        yield replace(candidate, loop=loop)
        if any(u.source is source and contains(loop, u.statement) for u in candidate.updates):
            return
    if not isinstance(scope, FUNCTIONS):
        return
    function = Function(source, scope)
    for caller, call, holder in program.callers.get(scope, ()):
        where = program.source_of_scope[caller]
        sites = tuple(
            replace(site, statement=holder, call=call, chain=(function, *site.chain))
            for site in candidate.sites
            if function not in site.chain
        )
        for loop in where.loops_around(holder)[:1] if sites else ():
            outer = replace(candidate, source=where, scope=caller, loop=loop, sites=sites)
            yield from _outwards(program, outer)


def _cache_clears(knowledge: Knowledge, candidate: Candidate) -> Iterator[tuple[Source, ast.stmt]]:
    """Statements that clear the compile cache, in the files of the loop and its helpers."""
    sources = {candidate.source, *(f.source for s in candidate.sites for f in s.chain)}
    for source in sorted(sources, key=lambda s: str(s.path)):
        for statement in sorted(source.places, key=lambda s: s.lineno):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                role = knowledge.role(source, source.scope_of(statement), statement.value)
                if role is Role.CACHE_CLEAR:
                    yield source, statement
