"""From source to the training loop, or to the reasons why there is none to instrument."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from instrumentor.errors import UsageError
from instrumentor.locate import refusals
from instrumentor.locate.config import mesh_default_warning, mesh_reason
from instrumentor.locate.dataflow import binds
from instrumentor.locate.hostreads import find_host_reads
from instrumentor.locate.iteration import (
    End,
    Forward,
    Region,
    Sync,
    accumulation_of,
    clipping_between,
    contains,
    find_counter,
    find_forward,
    find_sync,
    fused_branch,
    group_sites,
    path_to,
    syncs_every_n,
    update_unit,
)
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, find_candidates
from instrumentor.locate.model import Declined, Located, Reason
from instrumentor.locate.program import Program
from instrumentor.locate.stop import find_stops
from instrumentor.locate.syntax import FUNCTIONS, LOOPS, Source, dotted, own_nodes, parse, root_name
from instrumentor.locate.validation import Validations
from instrumentor.locate.vocabulary import (
    host_read,
    is_cache_clear,
    is_sync_statement,
    loss_expression,
    sync_api,
)
from instrumentor.options import Options

__all__ = ["Declined", "Located", "Reason", "locate", "locate_file", "parse_source"]


def parse_source(path: Path, data: bytes) -> Source:
    """Parse, or decline with the parser's line.

    Raises:
        Declined: the text is not Python that this interpreter can parse.
    """
    try:
        return parse(path, data)
    except SyntaxError as error:
        place = f", column {error.offset}" if error.offset else ""
        raise Declined(
            Reason(
                path,
                error.lineno or 1,
                "syntax",
                f"the file does not parse: {error.msg}{place}",
                "Mend the syntax, or run instrument under the Python version the script is written for.",
            )
        ) from error


def locate(source: Source, options: Options, roots: Sequence[Path] | None = None) -> Located:
    """Find the loop of a module, or with `roots` of the program that the module starts.

    Raises:
        Declined: with every reason, in order of weight.
        UsageError: `--loop` names a line without a training loop.
    """
    program = Program.single(source)
    chosen = _choose(program, options) if b"backward" in source.data else None
    if isinstance(chosen, Located):
        return chosen
    if roots is not None:
        wider = Program.load(source, roots)
        if len(wider.sources) > 1:
            found = _choose(wider, options)
            if isinstance(found, Located):
                return found
            if found is not None and (chosen is None or found.kind != "no-loop"):
                chosen = found
            program = wider
    knowledge = Knowledge(program)
    raise Declined(chosen or refusals.no_loop(program, knowledge, []))


def locate_file(
    path: Path, options: Options, roots: Sequence[Path], arguments: Sequence[str] = ()
) -> Located:
    """As :func:`locate` for a script on disk: also reads its configuration."""
    reason = refusals.folder_reason(path)
    if reason is not None:
        raise Declined(reason)
    source = parse_source(path, path.read_bytes())
    located = locate(source, options, roots)
    mesh = mesh_reason(source, arguments)
    if mesh is not None:
        raise Declined(mesh)
    return located


def _choose(program: Program, options: Options) -> Located | Reason | None:
    """The located loop, or the reason why this program has none."""
    knowledge = Knowledge(program)
    candidates = find_candidates(program, knowledge)
    stepping = [c for c in candidates if c.updates]
    if options.loop is not None:
        chosen = _by_line(candidates, options)
        return _understand(program, knowledge, chosen, options)
    if len(stepping) > 1:
        reasons = [r for c in stepping for r in refusals.of_candidate(program, knowledge, c)]
        if reasons:
            raise Declined(*reasons)
        reachable = [c for c in stepping if _reachable(program, c)]
        if len(reachable) == 1:
            stepping = reachable
        else:
            raise Declined(*refusals.several(reachable or stepping))
    if not stepping:
        closure = refusals.closure_reason(program, knowledge)
        return closure or refusals.no_loop(program, knowledge, candidates)
    return _understand(program, knowledge, stepping[0], options)


def _by_line(candidates: list[Candidate], options: Options) -> Candidate:
    assert options.loop is not None
    file, line = options.loop
    named = [c for c in candidates if not file or c.source.path.name == Path(file).name]
    exact = [c for c in named if c.loop.lineno == line]
    around = [c for c in named if c.loop.lineno <= line <= (c.loop.end_lineno or c.loop.lineno)]
    if exact or around:
        return (exact or sorted(around, key=lambda c: -c.loop.lineno))[0]
    have = ", ".join(f"{c.source.path.name}:{c.loop.lineno}" for c in candidates) or "none"
    raise UsageError(
        f"--loop {file}:{line}: no training loop starts there", f"Loops with a backward: {have}."
    )


def _reachable(program: Program, candidate: Candidate) -> bool:
    """Whether module-level code of the entry may come to the loop."""
    scope = candidate.scope
    if not isinstance(scope, FUNCTIONS):
        return True
    seen: set[ast.AST] = set()
    stack: list[ast.AST] = [program.entry.tree]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if current is scope:
            return True
        source = program.source_of_scope.get(current)  # type: ignore[call-overload]
        if source is None:
            continue
        for call, _ in program.calls.get(current, ()):  # type: ignore[call-overload]
            stack.extend(f.node for f in program.resolve(source, current, call))  # type: ignore[arg-type]
            for argument in (*call.args, *(k.value for k in call.keywords)):
                if isinstance(argument, ast.Name):
                    probe = ast.Call(func=argument, args=[], keywords=[])
                    stack.extend(f.node for f in program.resolve(source, current, probe))  # type: ignore[arg-type]
    return False


def _understand(
    program: Program, knowledge: Knowledge, candidate: Candidate, options: Options
) -> Located:
    reasons = list(refusals.of_candidate(program, knowledge, candidate))
    if reasons:
        raise Declined(*reasons)
    candidate, forwards = _with_forward(program, knowledge, candidate)
    warnings = list(_warnings(program, candidate))
    regions, kept_forwards, scope = _regions(knowledge, candidate, forwards, options, warnings)
    first = regions[0]
    counter = find_counter(candidate, first.sites[0], first.begin)
    accumulation = accumulation_of(knowledge, candidate, first.sites[0])
    stops = find_stops(knowledge, candidate)
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
    _validations(located, options)
    reads = find_host_reads(knowledge, candidate, regions, counter)
    located.deferred = reads.moved
    warnings.extend(reads.warnings)
    _helper_reads(located)
    _cache_clears(located)
    return located


def _with_forward(
    program: Program, knowledge: Knowledge, candidate: Candidate
) -> tuple[Candidate, dict[Site, Forward]]:
    """Forwards of all sites; a loop that holds only backwards gives way to the one around it."""
    while True:
        found: dict[Site, Forward] = {}
        missing: Site | None = None
        for site in candidate.sites:
            forward = find_forward(knowledge, candidate, site)
            if forward is None:
                missing = site
            else:
                found[site] = forward
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
                "the forward of this backward is not in the same iteration of the loop (a rollout, a stored loss)",
                "Give a script whose loop runs the model and its backward together.",
            )
        )


def _regions(
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
    updates = candidate.updates
    fused = fused_branch(candidate, final, updates)
    every = None if fused is not None else syncs_every_n(candidate, final, updates)
    stepped_in_helper = any(u.statement is final.statement for u in updates)
    wants_step = options.scope == "step"
    if options.scope == "auto" and fused is not None:
        inner = next(s for s in own_nodes(fused) if isinstance(s, ast.stmt) and _is_sync(s))
        end, scope = inner, "step"
        sync = _kept(source, inner)
        stepping = next(u for u in updates if contains(fused, u.statement))
        unit = update_unit(source, loop, updates, stepping)
        other_ends = (End(_with_sync(source, unit), "fwd+bwd+optimizer", ""),)
        warnings.append(
            f"{source.path.name}:{fused.lineno}: the last micro-batch is left pending to fuse with the "
            "optimizer: its sample is forward + backward + optimizer, labelled so"
        )
    elif options.scope == "auto" and every is not None and sync.action != "keep":
        inner = next(s for s in own_nodes(every) if isinstance(s, ast.stmt) and _is_sync(s))
        stepping = next(u for u in updates if contains(every, u.statement))
        unit = update_unit(source, loop, updates, stepping)
        end = _with_sync(source, max(unit, inner, key=lambda s: s.lineno))
        scope, resume, label = "step", True, "step"
        sync = _kept(source, inner)
        warnings.append(
            f"{source.path.name}:{every.lineno}: the script syncs only with the optimizer step: "
            "a sample is the whole step, all its micro-steps"
        )
    elif wants_step or (options.scope == "auto" and stepped_in_helper):
        scope = label = "step"
        whole = _step_unit(candidate, final)
        if whole is not None:
            end = _with_sync(source, whole)
            resume = not contains(loop, whole) or any(
                isinstance(p, ast.If) and not contains(p, final.statement)
                for p in source.parents(whole)
                if p is not loop and contains(loop, p)
            )
        if stepped_in_helper and not wants_step:
            warnings.append(
                f"{source.path.name}:{final.statement.lineno}: the helper also steps the optimizer: "
                "a sample is forward + backward + optimizer"
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
    )
    region.hints = _hints(knowledge, candidate, region, forward)
    if (
        sync.action == "keep"
        and sync.statement is not None
        and not final.chain
        and scope == "fwd-bwd"
    ):
        region.clipping = clipping_between(source, loop, final.statement, sync.statement)
        for clip in region.clipping:
            warnings.append(
                f"{source.path.name}:{clip.lineno}: gradient clipping before the script's own sync is inside the timed region"
            )
    return region, forward, scope


def _kept(source: Source, statement: ast.stmt) -> Sync:
    call = is_sync_statement(statement)
    return Sync("keep", source, statement, sync_api(call) if call is not None else "")


def _with_sync(source: Source, statement: ast.stmt) -> ast.stmt:
    """The statement, or the sync that directly follows it."""
    place = source.places[statement]
    for following in place.suite[place.index + 1 :]:
        if is_sync_statement(following) is not None:
            return following
        break
    return statement


def _is_sync(statement: ast.stmt) -> bool:
    return is_sync_statement(statement) is not None


def _helper_sync(site: Site, source: Source, statement: ast.stmt) -> bool:
    return any(f.source is source and contains(f.node, statement) for f in site.chain)


def _step_unit(candidate: Candidate, site: Site) -> ast.stmt | None:
    source = candidate.source
    for update in candidate.updates:
        if update.source is source and update.scope is candidate.scope:
            if update.statement is site.statement:
                return site.statement
            return update_unit(source, candidate.loop, candidate.updates, update)
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
    if not hints or region.sites[0].chain:
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


def _warnings(program: Program, candidate: Candidate) -> list[str]:
    found: list[str] = []
    source = candidate.source
    for current in dict.fromkeys((program.entry, source)):
        for node in ast.walk(current.tree):
            if isinstance(node, ast.Call):
                name = dotted(node.func)
                if name in ("breakpoint", "pdb.set_trace", "ipdb.set_trace"):
                    found.append(
                        f"{current.path.name}:{node.lineno}: {name}() would wait for input"
                    )
                elif name in ("xmp.spawn", "torch_xla.launch"):
                    found.append(
                        f"{current.path.name}:{node.lineno}: {name} may start workers; only the main process records"
                    )
        for call, _ in refusals.distributed_calls(current):
            if dotted(call.func) not in ("xmp.spawn",):
                found.append(
                    f"{current.path.name}:{call.lineno}: {dotted(call.func)} under a condition: instrumented for the single-process run"
                )
                break
        for statement in current.places:
            if isinstance(statement, ast.Import) and any(
                a.name == "tracy" for a in statement.names
            ):
                found.append(
                    f"{current.path.name}:{statement.lineno}: the script has tracy signposts of its own; they stay"
                )
    mesh = mesh_default_warning(list(program.sources.values()))
    if mesh:
        found.append(mesh)
    return found


def _validations(located: Located, options: Options) -> None:
    finder = Validations(located.knowledge, located.candidate, located.warnings)
    skipped = [] if options.keep_validation else finder.find()
    taken = {s.statement for s in skipped} | {d for s in skipped for d in s.dependents}
    located.skipped = skipped + finder.checkpoints(taken)


def _helper_reads(located: Located) -> None:
    for region in located.regions:
        for site in region.sites:
            for function in site.chain:
                for statement in function.node.body:
                    read = host_read(statement, frozenset())
                    if read is None:
                        continue
                    sync = region.sync.statement
                    line = getattr(read, "lineno", statement.lineno)
                    if (
                        sync is not None
                        and region.sync.source is function.source
                        and line > sync.lineno
                    ):
                        continue
                    text = f"{function.source.path.name}:{line}: a host read inside {function.name}() is inside the timed region"
                    if text not in located.warnings:
                        located.warnings.append(text)


def _cache_clears(located: Located) -> None:
    sources = {located.candidate.source: None}
    sources.update({f.source: None for s in located.candidate.sites for f in s.chain})
    for source in sources:
        for statement in source.places:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                if is_cache_clear(statement.value):
                    located.cache_clears.append((source, statement))
    located.cache_clears.sort(key=lambda c: (str(c[0].path), c[1].lineno))
