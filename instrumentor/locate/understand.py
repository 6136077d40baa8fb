"""Candidates -> the one loop, understood; or the reasons against it."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from instrumentor.errors import UsageError
from instrumentor.locate.accumulation import accumulation_of
from instrumentor.locate.catalogue import Role
from instrumentor.locate.config import mesh_default_warning
from instrumentor.locate.counter import counters, find_counter, header_count
from instrumentor.locate.forward import Forward, find_forwards
from instrumentor.locate.hostreads import find_host_reads
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import UNKNOWN, Candidate, Site, end_of_iteration, find_candidates
from instrumentor.locate.model import Declined, Located, Reason, Stop
from instrumentor.locate.program import Program
from instrumentor.locate.regions import Region, find_regions
from instrumentor.locate.rules import reasons_against
from instrumentor.locate.rules.closures import closure_reason
from instrumentor.locate.rules.no_loop import no_loop
from instrumentor.locate.rules.several_loops import several
from instrumentor.locate.rules.step_in_region import no_update_inside
from instrumentor.locate.skips import find_skips, warnings_of
from instrumentor.locate.stop import find_stops
from instrumentor.locate.syntax import FUNCTIONS, LOOPS, Source, callee, dotted, own_nodes
from instrumentor.locate.tree import contains
from instrumentor.locate.vocabulary import host_read
from instrumentor.options import Options
from instrumentor_analysis.caveats import Caveat


def choose(program: Program, options: Options) -> Located | Reason | None:
    """The located loop, or the reason why this program has none."""
    knowledge = Knowledge(program)
    candidates = find_candidates(program, knowledge)
    if len(program.sources) > 1:
        # what a module of the repository offers counts only when the script comes to it
        candidates = [
            c for c in candidates if c.source is program.entry or is_reachable(program, c)
        ]
    stepping = _without_inner(program, [c for c in candidates if c.updates])
    if options.loop is not None:
        chosen = _by_line(program, candidates, options)
        return _understand(program, knowledge, chosen, options)
    stepping = [c for c in stepping if is_reachable(program, c)] or stepping
    if len(stepping) > 1:
        reasons = [r for c in stepping for r in reasons_against(knowledge, c)]
        raise Declined(*dict.fromkeys(reasons or several(stepping)))
    if not stepping:
        closure = closure_reason(program, knowledge)
        return closure or no_loop(program, knowledge, candidates)
    return _understand(program, knowledge, stepping[0], options)


def _without_inner(program: Program, candidates: list[Candidate]) -> list[Candidate]:
    """A loop in a helper of another one's iteration is part of that iteration, no rival."""
    kept = list(candidates)
    for inner in candidates:
        for outer in candidates:
            if outer is inner or inner not in kept or outer not in kept:
                continue
            same = outer.source is inner.source and outer.scope is inner.scope
            if same and contains(outer.loop, inner.loop):
                _take_sites(outer, inner.sites)
                kept.remove(inner)
            elif inner.scope in program.called_from(outer.scope, outer.loop.body):
                _take_sites(outer, _through_calls(program, outer, inner))
                kept.remove(inner)
    return kept


def _take_sites(outer: Candidate, sites: Iterable[Site]) -> None:
    found = [*outer.sites, *sites]
    outer.sites = sorted(found, key=lambda s: (s.statement.lineno, s.call.lineno))


def _through_calls(program: Program, outer: Candidate, inner: Candidate) -> Iterator[Site]:
    """The backwards of a helper's loop as the calls of that helper show them."""
    for call, statement in program.calls.get(outer.scope, ()):
        if not contains(outer.loop, statement):
            continue
        for function in program.resolve(outer.source, outer.scope, call):
            if function.node is inner.scope:
                for site in inner.sites:
                    chain = (function, *site.chain)
                    yield dataclasses.replace(site, statement=statement, call=call, chain=chain)


def _by_line(program: Program, candidates: list[Candidate], options: Options) -> Candidate:
    assert options.loop is not None
    file, line = options.loop
    named = [c for c in candidates if not file or c.source.path.name == Path(file).name]
    exact = [c for c in named if c.loop.lineno == line]
    around = [c for c in named if c.loop.lineno <= line <= (c.loop.end_lineno or c.loop.lineno)]
    if exact or around:
        chosen = (exact or sorted(around, key=lambda c: -c.loop.lineno))[0]
        if not chosen.updates:  # asked for all the same: the iteration ends with its last statement
            chosen.updates.append(end_of_iteration(chosen))
        return chosen
    have = ", ".join(f"{c.source.path.name}:{c.loop.lineno}" for c in candidates) or "none"
    bodies = [
        f"{source.path.name}:{s.body[0].lineno}-{s.end_lineno}"
        for source in program.sources.values()
        if not file or source.path.name == Path(file).name
        for s in source.places
        if isinstance(s, LOOPS) and s.lineno == line
    ]
    if bodies:
        raise UsageError(
            f"--loop {file}:{line}: no backward was found in this loop",
            f"Time its iterations anyway with --region {bodies[0]}. Loops with a backward: {have}.",
        )
    raise UsageError(
        f"--loop {file}:{line}: no training loop starts there", f"Loops with a backward: {have}."
    )


def is_reachable(program: Program, candidate: Candidate) -> bool:
    """Whether module-level code of the entry may come to the loop."""
    scope = candidate.scope
    return not isinstance(scope, FUNCTIONS) or scope in program.reached


def _understand(
    program: Program, knowledge: Knowledge, candidate: Candidate, options: Options
) -> Located:
    reasons = list(reasons_against(knowledge, candidate))
    if reasons:
        raise Declined(*dict.fromkeys(reasons))
    candidate, forwards = _with_forward(program, knowledge, candidate)
    warnings = list(_warnings(knowledge, candidate))
    if candidate.updates and candidate.updates[0].optimizer == UNKNOWN:
        warnings.append(
            Caveat(
                "no-optimizer-step",
                "no optimizer step was found here: the run ends after an iteration, wherever the "
                "update is",
                place=candidate.source.at(candidate.loop.lineno),
            )
        )
    regions, kept_forwards, scope = find_regions(knowledge, candidate, forwards, options, warnings)
    for region in regions:
        no_update_inside(candidate, region)
    warnings.extend(_inserted_sync(program, regions))
    first = regions[0]
    counter = find_counter(candidate, first.sites[0], first.begin)
    accumulation = accumulation_of(knowledge, candidate, first.sites[0])
    stops = [_behind(candidate, regions, stop) for stop in find_stops(knowledge, candidate)]
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
    located = Located(
        program,
        knowledge,
        candidate,
        regions,
        kept_forwards,
        counter,
        accumulation,
        stops[0],
        scope,
    )
    located.stops = stops
    located.warnings = warnings
    skips = find_skips(knowledge, candidate, regions, keep_validation=options.keep_validation)
    located.skipped, located.kept = skips.skipped, skips.kept
    warnings.extend(warnings_of(skips))
    as_written = options.host_reads == "as-written" or "host_reads" in options.skip
    reads = find_host_reads(knowledge, candidate, regions, counter, as_written=as_written)
    located.deferred = reads.moved
    warnings.extend(reads.warnings)
    _helper_reads(located)
    _helper_validations(located)
    _cache_clears(located)
    return located


def _behind(candidate: Candidate, regions: list[Region], stop: Stop) -> Stop:
    """A stop is never inside a region that closes behind the whole step."""
    for region in regions:
        if stop.source is candidate.source and contains(region.end, stop.after):
            if stop.after is not region.end and region.ends_after_update:
                return dataclasses.replace(stop, unit=region.end, after=region.end)
    return stop


def _with_forward(
    program: Program, knowledge: Knowledge, candidate: Candidate
) -> tuple[Candidate, dict[Site, Forward]]:
    """Forwards of all sites; a loop that holds only backwards gives way to the one around it."""
    while True:
        found = find_forwards(knowledge, candidate)
        missing = next((s for s in candidate.sites if s not in found), None)
        if found and (missing is None or any(f.certain for f in found.values())):
            return candidate, found
        outer = candidate.source.loops_around(candidate.loop)
        inner_update = any(contains(candidate.loop, u.statement) for u in candidate.updates)
        if outer and not inner_update:
            wider = Candidate(
                candidate.source, candidate.scope, outer[0], candidate.sites, candidate.updates
            )
            candidate = wider
            continue
        site = missing or candidate.sites[0]
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


_BREAKPOINTS = ("breakpoint", "pdb.set_trace", "ipdb.set_trace")


def _before_stop(program: Program, candidate: Candidate, source: Source, node: ast.AST) -> bool:
    """Not behind the loop in its own function, nor behind the call that leads to it."""
    statement = source.statement_of(node)
    if statement is None:
        return True
    scope = source.scope_of(statement)
    anchor: ast.stmt = candidate.loop
    where: ast.AST = candidate.scope
    for _ in range(6):
        if scope is where:
            return statement.lineno <= (anchor.end_lineno or anchor.lineno)
        callers = program.callers.get(where, ()) if isinstance(where, FUNCTIONS) else ()
        if len(callers) != 1:
            break
        where, _call, anchor = callers[0]
    return True


def _warnings(knowledge: Knowledge, candidate: Candidate) -> list[Caveat]:
    found: list[Caveat] = []
    program, source = knowledge.program, candidate.source
    for current in dict.fromkeys((program.entry, source)):
        for node in current.nodes:
            if isinstance(node, ast.Call):
                name = dotted(node.func)
                if name in _BREAKPOINTS and _before_stop(program, candidate, current, node):
                    text = f"{name}() would wait for input"
                    found.append(Caveat("breakpoint", text, place=current.at(node.lineno)))
                elif name in ("xmp.spawn", "torch_xla.launch"):
                    text = f"{name} may start workers; only the main process records"
                    found.append(Caveat("several-processes", text, place=current.at(node.lineno)))
        for call in current.calls:
            daemon = any(k.arg == "daemon" for k in call.keywords)
            if callee(call) == "Process" and not daemon:
                text = "a process started here may outlive the early stop: the run would wait"
                found.append(Caveat("outlives-stop", text, place=current.at(call.lineno)))
        found.extend(_distributed(knowledge, current))
        found.extend(_own_instrumentation(current))
    found.extend(_own_limits(candidate))
    mesh = mesh_default_warning(list(program.sources.values()))
    if mesh:
        found.append(mesh)
    return found


def _distributed(knowledge: Knowledge, source: Source) -> Iterator[Caveat]:
    """The first call that sets several processes up, where the script comes to it at all."""
    program = knowledge.program
    for call in source.calls:
        scope = program.scope_of(source, call)
        role = knowledge.role(source, scope, call)
        if role not in (Role.DISTRIBUTED, Role.SPAWN) or scope not in program.reached:
            continue
        if role is Role.DISTRIBUTED:
            yield Caveat(
                "several-processes",
                f"{dotted(call.func)}: measured as one process; with more than one the run stops",
                place=source.at(call.lineno),
            )
            return


_PROFILERS = ("torch.profiler", "torch_xla.debug.profiler", "xp.start", "xp.Trace", "cProfile")


def _own_instrumentation(source: Source) -> Iterator[Caveat]:
    """Signposts and profilers of the script's own: they survive and are named."""
    for statement in source.places:
        if isinstance(statement, ast.Import):
            modules = [a.name for a in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            modules = [statement.module or ""]
        else:
            continue
        if "tracy" in modules:
            yield Caveat(
                "own-signposts",
                "the script has tracy signposts of its own; they stay",
                place=source.at(statement.lineno),
            )
    for node in source.nodes:
        if isinstance(node, ast.Call) and dotted(node.func).startswith(_PROFILERS):
            if dotted(node.func).endswith(("profile", "start_server", "start_trace", "Trace")):
                yield Caveat(
                    "own-profiler",
                    f"the script profiles itself ({dotted(node.func)}); that stays and costs time",
                    place=source.at(node.lineno),
                )


def _own_limits(candidate: Candidate) -> Iterator[Caveat]:
    """Timers of the loop's own, and a `break` on a count that may come before our stop."""
    source = candidate.source
    loops = [candidate.loop, *candidate.source.loops_around(candidate.loop)]
    counted = {c for loop in loops for c, _ in counters(loop)} | set(map(header_count, loops))
    for top in candidate.loop.body:
        for node in (top, *own_nodes(top)):
            if isinstance(node, ast.If) and _counts_out(node, counted - {""}):
                yield Caveat(
                    "own-limit",
                    "the script leaves its loop on a count of its own; it may end before --steps "
                    "samples",
                    place=source.at(node.lineno),
                )
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                if dotted(node.value.func) in ("time.time", "time.perf_counter", "perf_counter"):
                    text = "the script's own timer stays"
                    yield Caveat("own-timer", text, "note", source.at(node.lineno))


def _counts_out(node: ast.If, counted: set[str]) -> bool:
    """`if step >= max_steps: break`."""
    return any(isinstance(s, ast.Break) for s in node.body) and any(
        isinstance(test, ast.Compare)
        and any(isinstance(op, (ast.Gt, ast.GtE, ast.Eq)) for op in test.ops)
        and dotted(test.left) in counted
        for test in (node.test, *own_nodes(node.test))
    )


def _inserted_sync(program: Program, regions: list[Region]) -> Iterator[Caveat]:
    """On XLA an inserted sync makes other graphs than the script would."""
    uses_xla = any(b"torch_xla" in s.data for s in program.sources.values())
    for region in regions:
        if uses_xla and region.sync.action == "insert":
            yield Caveat(
                "sync-inserted",
                "a sync is inserted here: on XLA it cuts the graph where the script does not, and "
                "from the second step on the device draws other random numbers",
                place=region.sync.source.at(region.end.lineno),
            )


def _helper_reads(located: Located) -> None:
    for region in located.regions:
        for site in region.sites:
            for function in site.chain:
                for statement in function.node.body:
                    read = host_read(statement, frozenset())
                    if read is None:
                        continue
                    line = getattr(read, "lineno", statement.lineno)
                    text = f"a host read inside {function.name}() is inside the timed region"
                    found = Caveat("host-read-inside", text, place=function.source.at(line))
                    if found not in located.warnings:
                        located.warnings.append(found)


def _helper_validations(located: Located) -> None:
    """A validation that a timed helper runs is timed with it."""
    program, knowledge = located.program, located.knowledge
    for function in {f.node: f for s in located.candidate.sites for f in s.chain}.values():
        for call, _ in program.calls.get(function.node, ()):
            targets = program.resolve(function.source, function.node, call)
            if any(knowledge.evaluates(t) and not knowledge.has_backward(t) for t in targets):
                text = f"validation inside {function.name}() is inside the timed region"
                place = function.source.at(call.lineno)
                located.warnings.append(Caveat("validation-inside", text, place=place))


def _cache_clears(located: Located) -> None:
    sources = {located.candidate.source: None}
    sources.update({f.source: None for s in located.candidate.sites for f in s.chain})
    for source in sources:
        for statement in source.places:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                role = located.knowledge.role(source, source.scope_of(statement), statement.value)
                if role is Role.CACHE_CLEAR:
                    located.cache_clears.append((source, statement))
    located.cache_clears.sort(key=lambda c: (str(c[0].path), c[1].lineno))
