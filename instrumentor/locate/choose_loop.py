"""Candidates -> the one loop, understood; or the reasons against it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from pathlib import Path

from msgspec.structs import replace

from instrumentor.locate.changes.host_reads import find_host_reads
from instrumentor.locate.changes.skips import Skips, find_skips, warnings_of
from instrumentor.locate.changes.stop import find_stops
from instrumentor.locate.gradients.forward import (
    Forward,
    find_forwards,
    is_made_elsewhere,
    unfollowed,
)
from instrumentor.locate.located import Declined, Located, Reason, Stop
from instrumentor.locate.loop.counter import find_counter, runs_once
from instrumentor.locate.loop.first import first_of
from instrumentor.locate.loop.loops import (
    Candidate,
    Site,
    Update,
    cleared,
    end_of_iteration,
    find_candidates,
    find_updates,
    from_callers,
    in_order,
    without_probes,
)
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Role
from instrumentor.locate.region.accumulation import accumulation_of
from instrumentor.locate.region.beside_the_step import beside_the_step, holds
from instrumentor.locate.region.modes import Region
from instrumentor.locate.region.regions import find_regions, unsampled
from instrumentor.locate.region.step_function import step_function
from instrumentor.locate.remarks import of_a_test, of_the_program, of_the_syncs, one_of_several
from instrumentor.locate.rules import reasons_against
from instrumentor.locate.rules.arguments import passed_by
from instrumentor.locate.rules.closures import closures_anywhere
from instrumentor.locate.rules.loops import (
    ForwardApart,
    ForwardUnknown,
    ForwardUnseen,
    LoopUnseen,
    SeveralLoops,
)
from instrumentor.locate.rules.no_loop import no_loop
from instrumentor.locate.rules.regions import no_forward_ahead, no_phase_inside, no_update_inside
from instrumentor.read.constants import is_ruled_out
from instrumentor.read.control_flow import flow_of
from instrumentor.read.program import Program
from instrumentor.read.script_options import Place, ScriptOptions
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    ScopeNode,
    Source,
    arguments,
    callee,
    contains,
    dotted,
    is_main_guard,
    own_nodes,
)
from instrumentor.read.values import Class, Object
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options
from instrumentor_analysis.shared.caveats import Caveat

#: Calls in calls any deeper than this lead to no part of a step.
_DEPTH = 8


class Guessed(Exception):
    """Other modules may tell what a step is known by: a spelling alone, or an unread call."""


def choose(
    program: Program,
    options: Options,
    arguments: Sequence[str] = (),
    *,
    guesses: bool = True,
) -> Located | Reason:
    """The located loop, or the reason why this program has none.

    Args:
        arguments: what the script is called with: they may choose among several loops.
        guesses: whether a forward may be told by its spelling.

    Raises:
        Guessed: it would have to be.
    """
    called_with = ScriptOptions(program, arguments)
    knowledge = Knowledge(program, called_with)
    candidates = _offered(knowledge, options)
    if options.loop is not None:
        one = _by_line(program, candidates, find_candidates(knowledge), *options.loop)
        return _understand(one, options, called_with, guesses=guesses)
    candidates, never = _made(candidates, called_with)
    stepping = _stepping(candidates, options)
    if not stepping:
        return next(closures_anywhere(knowledge), None) or no_loop(
            knowledge, candidates, options.test
        )
    called = _as_called(program, stepping, called_with, options) if len(stepping) > 1 else stepping
    # without guesses what other modules say of the ways between the loops is still to be read
    first = _in_turn(called, called_with) if len(called) > 1 and guesses else None
    if len(called) > 1:
        reasons = [] if first else [r for c in called for r in reasons_against(c)]
        reasons = reasons or [*_hidden(knowledge, called, called_with)]
        if reasons or first is None:
            raise Declined(*dict.fromkeys(reasons or several(called)))
    one = first or called[0]
    located = _understand(one, options, called_with, guesses=guesses, never=never)
    others = [c for c in (called if first else stepping) if c is not one]
    told = [_first(one, others) if first else _by_options(one, others)] if others else []
    return replace(located, warnings=(*told, *located.warnings))


# -- which loop ----------------------------------------------------------------------------------


def _offered(knowledge: Knowledge, options: Options) -> list[Candidate]:
    """What a module of the repository offers counts only when the script comes to it."""
    entry = knowledge.program.entry
    return [c for c in find_candidates(knowledge) if c.source is entry or is_reachable(c, options)]


def is_reachable(candidate: Candidate, options: Options) -> bool:
    """Whether module-level code of the entry, or its tests, may come to the loop."""
    program, source, scope = candidate.program, candidate.source, candidate.scope
    if isinstance(scope, FUNCTIONS):
        if options.test is not None:
            return scope in program.reached_by_tests(options.test)
        return scope in program.reached
    # an import does not run what stands under the `__main__` guard
    guards = (p for p in source.parents(candidate.loop) if isinstance(p, ast.If))
    return source is program.entry or not any(is_main_guard(p.test) for p in guards)


def _made(
    candidates: list[Candidate], called_with: ScriptOptions
) -> tuple[list[Candidate], list[Place]]:
    """Loops whose steps are methods of objects that the options make, and where others would be.

    Of classes that the options choose among, one may hold the whole loop: it is a part of the
    iteration of that loop only in which the other one's method makes the step.
    """
    out = {
        c.loop: at
        for c in candidates
        if all(at := [_never_made(c, called_with, site) for site in c.sites])
    }
    left = [c for c in candidates if c.loop not in out]
    if not left:
        return candidates, []
    return left, [place for at in out.values() for place in at if place is not None]


def _stepping(candidates: list[Candidate], options: Options) -> list[Candidate]:
    """Loops of steps: those that the script comes to, if there are any."""
    updating = without_probes([c for c in candidates if c.updates])
    found = _of_one_step(_without_inner(updating))
    return [c for c in found if is_reachable(c, options)] or found


def _without_inner(candidates: list[Candidate]) -> list[Candidate]:
    """A loop in a helper of another one's iteration is part of that iteration, no rival."""
    kept = {c.loop: c for c in candidates}
    for inner, outer in permutations(candidates, 2):
        found = kept.get(outer.loop)
        if found is None or inner.loop not in kept:
            continue
        same = outer.source is inner.source and outer.scope is inner.scope
        if same and contains(outer.loop, inner.loop):
            sites = inner.sites
        elif inner.scope in outer.program.called_from(outer.scope, outer.loop.body):
            sites = tuple(_through_calls(outer, inner))
            if _is_apart(outer, inner, sites):
                found, sites = _without_updates_of(found, sites), ()
        elif _is_of_a_forward(outer, inner):
            sites = ()  # what a module trains by itself is a part of its forward
        else:
            continue
        del kept[inner.loop]
        kept[outer.loop] = replace(found, sites=in_order([*found.sites, *sites]))
    return list(kept.values())


def _is_of_a_forward(outer: Candidate, inner: Candidate) -> bool:
    """Whether nobody but the forwards of modules that an iteration runs comes to a loop."""
    if not isinstance(inner.scope, FUNCTIONS):
        return False
    run, callers = _run_by_modules(outer), outer.program.callers_of(inner.scope)
    return inner.scope in run and all(scope in run for scope, _, _ in callers)


def _run_by_modules(outer: Candidate) -> set[ScopeNode]:
    """Functions that an iteration runs where the forwards of modules count as functions."""
    program, found = outer.program, set[ScopeNode]()
    waiting: list[tuple[ScopeNode, Sequence[ast.stmt]]] = [(outer.scope, outer.loop.body)]
    while waiting:
        scope, body = waiting.pop()
        run = program.called_from(scope, body)
        inside = {n for top in body for n in (top, *own_nodes(top))}
        calls = [(scope, call) for call, at in program.calls.get(scope, ()) if at in inside]
        calls += [(each, call) for each in run for call, _ in program.calls.get(each, ())]
        forwards: set[ScopeNode] = {
            forward.node
            for each, call in calls
            for value in program.of(program.source_of_scope[each], each, call.func)
            if isinstance(value, Object) and isinstance(value.made_by, Class)
            for forward in program.methods(value.made_by, "forward", overrides=False)
        }
        waiting += [(node, node.body) for node in forwards - found]
        found |= forwards | set(run)
    return found - {outer.scope}


def _is_apart(outer: Candidate, inner: Candidate, sites: Sequence[Site]) -> bool:
    """Whether a helper's loop trains something else, behind the step of an iteration.

    No backward of the step follows it, and its optimizers are made for it: a mesh that is refined.
    """
    knowledge, flow = inner.knowledge, outer.flow
    own = {site.statement for site in outer.sites}
    follows = any(
        site.statement in own or flow.path(flow.after(site.statement), flow.before(at))
        for site in sites
        for at in own
    )
    if not sites or follows or any(u.helper is not None or u.call is None for u in inner.updates):
        return False
    on_the_way = {function.node for site in sites for function in site.chain}
    stepped = [
        value
        for u in inner.updates
        if u.call is not None and (node := knowledge.optimizer_of(u.source, u.scope, u.call))
        for value in knowledge.values(u.source, u.scope, node)
    ]
    return bool(stepped) and all(
        isinstance(v, Object) and v.where is not None and v.where[1] in on_the_way for v in stepped
    )


def _without_updates_of(candidate: Candidate, sites: Iterable[Site]) -> Candidate:
    """Without the updates by what runs these backwards."""
    statements = {site.statement for site in sites}
    left = [u for u in candidate.updates if u.statement not in statements]
    return replace(candidate, updates=tuple(left) or candidate.updates)


def _of_one_step(candidates: list[Candidate]) -> list[Candidate]:
    """Loops over micro-batches, one behind the other and each with its update behind it, as one.

    A discriminator's and a generator's are parts of one step: its loop is around both, or around
    the call of their function.
    """
    kept, parts = list[Candidate](), dict[ScopeNode, list[Candidate]]()
    for candidate in candidates:
        if any(contains(candidate.loop, u.statement) for u in candidate.updates):
            kept.append(candidate)
        else:
            parts.setdefault(candidate.scope, []).append(candidate)
    for each in parts.values():
        whole = _around(each) if len(each) > 1 else None
        kept += each if whole is None else [whole]
    return sorted(kept, key=lambda c: c.key)


def _around(parts: list[Candidate]) -> Candidate | None:
    """The innermost loop whose iteration runs all of these loops, one after the other."""
    first = parts[0]
    flow = flow_of(first.scope)
    if any(flow.exclusive(one.loop, other.loop) for one, other in permutations(parts, 2)):
        return None
    places = [(first.source, first.scope, s) for c in parts for s in c.sites]
    loops = first.source.loops_around(first.loop)
    loop = next((each for each in loops if all(contains(each, c.loop) for c in parts)), None)
    if loop is None:
        lifted = [next(from_callers(first.program, *place), None) for place in places]
        places = [place for place in lifted if place is not None]
        if len(places) < len(lifted) or len({scope for _, scope, _ in places}) > 1:
            return None
        around = [source.loops_around(site.statement) for source, _, site in places]
        loop = next((o for o in around[0] if all(o in others for others in around)), None)
    if loop is None:
        return None
    source, scope, _ = places[0]
    sites = in_order(site for _, _, site in places)
    whole = Candidate(first.knowledge, source, scope, loop, sites)
    return replace(whole, updates=tuple(find_updates(whole)))


def _through_calls(outer: Candidate, inner: Candidate) -> Iterator[Site]:
    """The backwards of a helper's loop as the calls that lead to it in a loop show them."""
    program, waiting = inner.program, [(inner.source, inner.scope, s) for s in inner.sites]
    while waiting:
        for source, caller, seen in from_callers(program, *waiting.pop(0)):
            if caller is outer.scope and contains(outer.loop, seen.statement):
                yield seen
            elif seen.chain[0] not in seen.chain[1:] and len(seen.chain) < _DEPTH:
                waiting.append((source, caller, seen))


def _as_called(
    program: Program, stepping: list[Candidate], called_with: ScriptOptions, options: Options
) -> list[Candidate]:
    """The loops that the script's options leave; all of them when they rule out none."""
    entry = called_with.entry_as_called()
    if entry is not None:
        called = Program.load(entry, program.roots)
        left = {c.key for c in _stepping(_offered(Knowledge(called), options), options)}
        stepping = [c for c in stepping if c.key in left] or stepping
    if options.test is not None or len(stepping) < 2:
        return stepping
    top = program.entry.tree
    reached = {top: None, **program.called_from(top, top.body, called_with.never)}
    return [
        c for c in stepping if c.scope in reached and not called_with.rule_out(c.source, c.loop)
    ] or stepping


def _in_turn(called: list[Candidate], called_with: ScriptOptions) -> Candidate | None:
    """The first of loops that run one behind the other, none in iterations of another one."""
    first = first_of(called, called_with)
    if first is None or any(c.scope in _run_by_modules(first) for c in called if c is not first):
        return None
    return None if any(first.scope in _run_by_modules(c) for c in called) else first


def _hidden(
    knowledge: Knowledge, offered: Sequence[Candidate], called_with: ScriptOptions
) -> Iterator[Reason]:
    """Where a method of an object of no known class is called that holds one of other loops.

    Then those that are seen to be reached may all be beside the point.
    """
    entry, seen = called_with.entry_as_called(), {c.key for c in offered}
    program = knowledge.program
    program = Program.load(entry, program.roots) if entry is not None else program
    as_called = Knowledge(program)
    loops = [c for c in find_candidates(as_called) if c.updates and c.key not in seen]
    for scope in program.reached:
        source = program.source_of_scope[scope]
        for call, _ in program.calls.get(scope, ()):
            methods = program.methods_by_name.get(callee(call), [])
            if len(methods) < 2 or not isinstance(call.func, ast.Attribute):
                continue
            if program.resolve(source, scope, call):
                continue
            if as_called.is_model(source, scope, call.func.value):
                continue
            bodies: set[ScopeNode] = {method.node for method in methods}
            for method in methods:
                bodies.update(program.called_from(method.node, method.node.body))
            count = sum(c.scope in bodies for c in loops)
            if count > 1:
                yield LoopUnseen.at(source, call, call=f"{dotted(call.func)}()", count=count)
                return


def several(candidates: list[Candidate], what: str = "training") -> list[Reason]:
    """That none of several loops is the obvious one: a reason for each, so as to list them."""
    words = {
        "count": len(candidates),
        "what": what,
        "options": " or ".join(map(_option, candidates)),
    }
    places = (
        f", in {c.scope.name}()" if isinstance(c.scope, FUNCTIONS) else "" for c in candidates
    )
    return [
        SeveralLoops.at(c.source, c.loop, place=place, **words)
        for c, place in zip(candidates, places, strict=True)
    ]


def _by_options(chosen: Candidate, others: list[Candidate]) -> Caveat:
    """That the script's own options chose one of several loops."""
    lines = " or ".join(map(_option, others))
    return Caveat(
        "loop-by-options",
        f"The script's options choose this one of {len(others) + 1} training loops. For another "
        f"one give the script's arguments, or {lines}.",
        place=chosen.source.at(chosen.loop.lineno),
    )


def _first(chosen: Candidate, others: list[Candidate]) -> Caveat:
    """That several loops run, and the first of them is measured."""
    name = chosen.scope.name if isinstance(chosen.scope, FUNCTIONS) else ""
    place = chosen.source.at(chosen.loop.lineno)
    return one_of_several(name, place, [*map(_option, others)])


def _option(candidate: Candidate) -> str:
    return f"--loop {candidate.source.at(candidate.loop.lineno)}"


def _by_line(
    program: Program, offered: list[Candidate], candidates: list[Candidate], file: str, line: int
) -> Candidate:
    """The loop that starts at a line; else the innermost one around it.

    Args:
        offered: those that the script is seen to come to, which go before the others.
    """
    for among in (offered, candidates):
        around = [
            c
            for c in among
            if not file or c.source.path.name == Path(file).name
            if c.loop.lineno <= line <= (c.loop.end_lineno or c.loop.lineno)
        ]
        if around:
            break
    else:
        raise _no_loop_at(program, offered, file, line)
    chosen = max(around, key=lambda c: c.loop.lineno)
    if not chosen.updates:
        # asked for all the same: the iteration ends with its last statement
        return replace(chosen, updates=(end_of_iteration(chosen),))
    whole = _without_inner([c for c in candidates if c.updates])
    return next((c for c in whole if c.loop is chosen.loop), chosen)


def _no_loop_at(program: Program, candidates: list[Candidate], file: str, line: int) -> UsageError:
    have = ", ".join(c.source.at(c.loop.lineno) for c in candidates) or "none"
    bodies = [
        f"{source.path.name}:{s.body[0].lineno}-{s.end_lineno}"
        for source in program.sources.values()
        if not file or source.path.name == Path(file).name
        for s in source.places
        if isinstance(s, LOOPS) and s.lineno == line
    ]
    told, hint = "no training loop starts there", ""
    if bodies:
        told = "no backward was found in this loop"
        hint = f"Time its iterations anyway with --region {bodies[0]}. "
    return UsageError(f"--loop {file}:{line}: {told}", f"{hint}Loops with a backward: {have}.")


# -- understanding it ----------------------------------------------------------------------------


def _understand(
    candidate: Candidate,
    options: Options,
    called_with: ScriptOptions,
    *,
    guesses: bool,
    never: Iterable[Place] = (),
) -> Located:
    reasons = [*passed_by(candidate, called_with), *reasons_against(candidate)]
    if reasons:
        raise Declined(*dict.fromkeys(reasons))
    candidate, left_out = _as_called_step(_as_iterated(candidate), called_with)
    beside_it = cleared(candidate)
    candidate = replace(candidate, sites=tuple(s for s in candidate.sites if s not in beside_it))
    body, regions = _timed(candidate, options, guesses=guesses)
    if not isinstance(body.loop, FUNCTIONS):
        candidate = body
    told = [
        *(_by_branch(*place) for place in _branches(called_with, [*never, *left_out])),
        *(_trains_nothing(site) for site in beside_it),
    ]
    return located_step(candidate, regions, options, called_with, told)


def located_step(
    candidate: Candidate,
    regions: tuple[Region, ...],
    options: Options,
    called_with: ScriptOptions,
    told: Sequence[Caveat] = (),
    unread: str = "",
) -> Located:
    """A step whose region is known, with all that a run changes around it.

    Args:
        told: what there is to say of how it was found.
        unread: why nothing can be shown of what the step runs, where that is so: then all that
            looks like validation or saving stays.

    Raises:
        Declined: there is no place for the stop.
    """
    first = regions[0]
    body = first.candidate
    site = next(s for s in candidate.sites if s.backward is first.sites[0].backward)
    counter = find_counter(candidate, site, first.begin)
    stops = [_behind(regions, stop) for stop in find_stops(candidate)]
    if options.test is not None:
        stops = [replace(stop, strategy="skip") for stop in stops]
    skips = _left_out(candidate, regions, stops, options, called_with, unread)
    timed = {
        each.statement: each.what
        for each in skips.kept
        if any(holds(region, each.source, each.statement) for region in regions)
    }
    beside = replace(skips, kept=[each for each in skips.kept if each.statement not in timed])
    as_written = options.host_reads == "as-written" or "host_reads" in options.skip
    moved, read = find_host_reads(regions, counter, as_written=as_written)
    not_run = [*called_with.left_out_of(body.source, body.flow.statements)]
    without = [*(s.statement for s in skips.skipped), *(d.statement for d in moved), *not_run]
    others, known = beside_the_step(regions, without, timed), {(c.kind, c.place) for c in read}
    return Located(
        candidate,
        regions,
        counter,
        tuple(stops),
        accumulation_of(candidate, site),
        skipped=tuple(skips.skipped),
        endings=tuple(skips.endings),
        kept=tuple(skips.kept),
        deferred=tuple(moved),
        cache_clears=tuple(_cache_clears(candidate)),
        warnings=(
            *(of_a_test(candidate) if options.test is None else ()),
            *of_the_program(candidate),
            *told,
            *(caveat for region in regions for caveat in region.warnings),
            *unsampled(regions, not_run),
            *of_the_syncs(regions),
            *warnings_of(beside),
            *read,
            *(c for c in others if (c.kind, c.place) not in known),
        ),
    )


def _timed(
    candidate: Candidate, options: Options, *, guesses: bool
) -> tuple[Candidate, tuple[Region, ...]]:
    """What a sample covers, and the loop or the function of whose body that is a part.

    Raises:
        Declined: these lines are no step by themselves.
        Guessed: a forward would have to be told by its spelling.
    """
    body, forwards = _with_forward(step_function(candidate, options.scope) or candidate)
    regions = find_regions(body, forwards, options)
    for region in regions:
        no_update_inside(region)
    no_phase_inside(regions)
    read = (r.forward.is_typed and not r.forward.after_unread for r in regions)
    if not guesses and not all(read):
        raise Guessed
    for region in regions:
        no_forward_ahead(region)
    return body, regions


def _left_out(
    candidate: Candidate,
    regions: Sequence[Region],
    stops: Sequence[Stop],
    options: Options,
    called_with: ScriptOptions,
    unread: str = "",
) -> Skips:
    """What the copy leaves out; what the script's own options leave out needs no word."""
    skips = find_skips(
        candidate.knowledge,
        candidate,
        regions,
        stops,
        keep_validation=options.keep_validation,
        asked=[*["validation"] * options.skip_validation, *["checkpoint"] * options.skip_saving],
        called_with=called_with,
        unread=unread,
    )
    runs = [k for k in skips.kept if not called_with.rule_out(k.source, k.statement)]
    return replace(skips, kept=runs)


def _as_iterated(candidate: Candidate) -> Candidate:
    """Without what only the first iteration does, and what every caller of the loop rules out."""

    def stays(one: Site | Update, source: Source, scope: ScopeNode) -> bool:
        once = source is candidate.source and runs_once(candidate.loop, source, one.statement)
        return not once and not is_ruled_out(candidate.program, scope, one.statement)

    sites = [s for s in candidate.sites if stays(s, candidate.source, candidate.scope)]
    updates = [u for u in candidate.updates if stays(u, u.source, u.scope)]
    return replace(
        candidate,
        sites=tuple(sites) or candidate.sites,
        updates=tuple(updates) or candidate.updates,
    )


def _as_called_step(
    candidate: Candidate, called_with: ScriptOptions
) -> tuple[Candidate, list[Place]]:
    """Without the ways through a step that the script's options rule out, and what these are."""

    def runs(update: Update) -> bool:
        return not _ruled_out(candidate, called_with, update)

    if candidate.updates and not any(map(runs, candidate.updates)):
        # with these options another one completes the step: behind the micro-batches, say
        candidate = replace(
            candidate, updates=tuple(find_updates(candidate, runs)) or candidate.updates
        )
    out = {s: at for s in candidate.sites if (at := _ruled_out(candidate, called_with, s))}
    sites = [s for s in candidate.sites if s not in out]
    given = (u for u in candidate.updates if u.call is not None and arguments(u.call))
    closures = [at for u in given if (at := _ruled_out(candidate, called_with, u))]
    if not out or not sites:
        return candidate, closures
    left = [*filter(runs, candidate.updates)]
    taken = replace(candidate, sites=tuple(sites), updates=tuple(left) or candidate.updates)
    return taken, [*out.values(), *closures]


def _branches(called_with: ScriptOptions, places: Sequence[Place]) -> list[Place]:
    """The first of these places in each of the branches that the options leave out."""
    branches = {called_with.branch_of(*place): place for place in reversed(places)}
    return [*branches.values()][::-1]


def _ruled_out(
    candidate: Candidate, called_with: ScriptOptions, one: Site | Update
) -> Place | None:
    """What the options leave out for a backward or an update not to run: a branch, an object."""
    source = one.source if isinstance(one, Update) else candidate.source
    if called_with.rule_out(source, one.statement):
        return source, one.statement
    if isinstance(one, Site) and called_with.rule_out(one.backward_source, one.backward_statement):
        return one.backward_source, one.backward_statement
    return _never_made(candidate, called_with, one)


def _never_made(
    candidate: Candidate, called_with: ScriptOptions, one: Site | Update
) -> Place | None:
    """Where the object would be made whose method runs it, where the options make another one."""
    source, scope = candidate.source, candidate.scope
    helper = one.chain[0] if isinstance(one, Site) and one.chain else getattr(one, "helper", None)
    if isinstance(one, Update):
        source, scope = one.source, one.scope
    if helper is None or one.call is None:
        return None
    return called_with.never_made(source, scope, one.call, helper)


def _by_branch(source: Source, statement: ast.stmt) -> Caveat:
    return Caveat(
        "branch-by-options",
        "This branch is not timed: the script's options do not take it. To measure it, give the "
        "arguments that you train with.",
        place=source.at(statement.lineno),
    )


def _trains_nothing(site: Site) -> Caveat:
    return Caveat(
        "backward-cleared",
        "The gradients of this backward are cleared before the optimizer steps again. It is not in "
        "the timed region, but within the iteration in which it runs.",
        place=site.backward_source.at(site.backward.lineno),
    )


def _behind(regions: Iterable[Region], stop: Stop) -> Stop:
    """A stop is never inside a region that closes behind the whole step."""
    for region in regions:
        if stop.source is not region.candidate.source or not region.whole:
            continue
        if contains(region.end, stop.after) and stop.after is not region.end:
            return replace(stop, unit=region.end, after=region.end)
    return stop


def _with_forward(candidate: Candidate) -> tuple[Candidate, dict[Site, Forward]]:
    """Forwards of all sites; a loop that holds only backwards gives way to the one around it."""
    unsure: tuple[Candidate, dict[Site, Forward]] | None = None
    # a call that cannot be read may be the forward, but one that is certain goes before it
    for around in _outwards(candidate):
        found = find_forwards(candidate.knowledge, around)
        if _apart(around, found) is not None:
            continue
        if any(f.certain for f in found.values()):
            return around, found
        if unsure is None and len(found) == len(around.sites):
            unsure = around, found
    if unsure is not None:
        return unsure
    site = _apart(around, found) or next(
        (s for s in around.sites if s not in found), around.sites[0]
    )
    raise Declined(_without_forward(around, site))


def _without_forward(candidate: Candidate, site: Site) -> Reason:
    """That a forward is elsewhere, or that none is seen: then a call may not have been followed."""
    where, call = site.backward_source, unfollowed(candidate, site)
    if call is None:
        decline = ForwardApart if is_made_elsewhere(candidate, site) else ForwardUnknown
        return decline.at(where, site.backward)
    source, node = call
    name = dotted(node)
    if isinstance(node, ast.Call):
        name = f"{dotted(node.func) or callee(node)}()"
    return ForwardUnseen.at(where, site.backward, what=name, place=source.at(node.lineno))


def _apart(candidate: Candidate, found: dict[Site, Forward]) -> Site | None:
    """A backward whose forward is elsewhere, on one path with one that is timed from its forward.

    A sample from that forward on would leave a part of the step out, and call itself the step.
    """
    for site in candidate.sites:
        others = [known.statement for known in found]
        if site in found or site.statement in others:
            continue
        if not all(candidate.flow.exclusive(site.statement, other) for other in others):
            return site
    return None


def _outwards(candidate: Candidate) -> Iterator[Candidate]:
    """The loop, those around it, and those that call its function; none around an update."""
    program, source, scope = candidate.program, candidate.source, candidate.scope
    for loop in (candidate.loop, *source.loops_around(candidate.loop)):
        yield replace(candidate, loop=loop)
        # further out an iteration would be several steps
        if any(u.source is source and contains(loop, u.statement) for u in candidate.updates):
            return
    lifted = [[*from_callers(program, source, scope, site)] for site in candidate.sites]
    for seen in zip(*lifted, strict=True):
        where, caller, first = seen[0]
        sites = tuple(s for _, _, s in seen if s.chain[0] not in s.chain[1:])
        for loop in where.loops_around(first.statement)[:1] if sites else ():
            outer = replace(candidate, source=where, scope=caller, loop=loop, sites=sites)
            yield from _outwards(outer)


def _cache_clears(candidate: Candidate) -> Iterator[tuple[Source, ast.stmt]]:
    """Statements that clear the compile cache, in the files of the loop and its helpers."""
    sources = {candidate.source, *(helper.source for helper in candidate.helpers)}
    for source in sorted(sources, key=lambda s: str(s.path)):
        for statement in sorted(source.places, key=lambda s: s.lineno):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                role = candidate.knowledge.role(source, source.scope_of(statement), statement.value)
                if role is Role.CACHE_CLEAR:
                    yield source, statement
