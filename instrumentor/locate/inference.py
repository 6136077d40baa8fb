"""Loops without backward: inference under no_grad, and regions that the user marks by lines.

A sample is one iteration's model calls up to the read-back of their result when that directly
follows, else up to the barrier; the run stops behind it.
"""

from __future__ import annotations

import ast
from pathlib import Path

from msgspec.structs import replace

from instrumentor.locate.changes.cleanup import cleanup_behind
from instrumentor.locate.changes.stop import strategy_of
from instrumentor.locate.choose_loop import several
from instrumentor.locate.gradients.forward import Forward
from instrumentor.locate.gradients.walk import gradients_of
from instrumentor.locate.located import Declined, Located, Stop
from instrumentor.locate.loop.counter import Counter, header_count
from instrumentor.locate.loop.loops import Candidate, outwards
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.host_values import host_read
from instrumentor.locate.meaning.roles import Kind
from instrumentor.locate.region.barrier_hints import batch_names, called_model
from instrumentor.locate.region.modes import End, Region
from instrumentor.locate.region.regions import with_synced
from instrumentor.locate.region.syncs import own_sync
from instrumentor.locate.rules.marked_lines import NoInferenceLoop, RegionCut, RegionLeft
from instrumentor.read.names_used import binds, reads
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    ScopeNode,
    Source,
    arguments,
    callee,
    contains,
    own_calls,
    own_nodes,
)
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.caveats import Caveat

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)
_LEAVES = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)


# -- loops of inference --------------------------------------------------------------------------


def infers_only(knowledge: Knowledge) -> bool:
    """Nothing in the program trains: no backward, no optimizer, no `.fit()` or `.train()`."""
    program = knowledge.program
    return any(word in program.entry.data for word in (b"no_grad", b"inference_mode")) and not any(
        b"backward" in source.data or any(_trains(knowledge, source, c) for c in source.calls)
        for source in program.sources.values()
    )


def _trains(knowledge: Knowledge, source: Source, call: ast.Call) -> bool:
    """Makes an optimizer, or is `.fit()`, or `.train()` of what is no model."""
    scope = knowledge.program.scope_of(source, call)
    if callee(call) == "train":  # `model.train(False)` sets a mode
        return not _is_of_a_model(knowledge, source, scope, call)
    made = knowledge.kinds.is_a(source, scope, call, Kind.OPTIMIZER)
    return made or callee(call) in ("fit", "train_batch")


def _is_of_a_model(knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
    function = call.func
    return isinstance(function, ast.Attribute) and knowledge.is_model(source, scope, function.value)


def locate_inference(knowledge: Knowledge, loop: tuple[str, int] | None) -> Located:
    """The inference loop of a program.

    Raises:
        Declined: there is none, or several.
        UsageError: `--loop` names none of them.
    """
    program, candidates = knowledge.program, inference_candidates(knowledge)
    if loop is not None:
        file, line = loop
        named = [c for c in candidates if not file or c.source.path.name == Path(file).name]
        candidates = [c for c in named if c.loop.lineno == line]
        if not candidates:
            raise UsageError(f"--loop {file}:{line}: no inference loop starts there")
    if not candidates:
        raise Declined(NoInferenceLoop.of(program.entry.path))
    if len(candidates) > 1:
        raise Declined(*several(candidates, "inference"))
    candidate = candidates[0]
    source, scope = candidate.source, candidate.scope
    calls = _model_statements(candidate)
    first, last = _span(source, calls)
    end = _read_back(knowledge, source, first, last)
    region = _region(candidate, Forward(first, calls[0], source), end, "inference")
    found = called_model(knowledge, source, scope, calls[0])
    if found is not None:
        model, call = found
        given = [n.id for n in arguments(call) if isinstance(n, ast.Name) and n.id != model]
        hints = region.hints or tuple(sorted(reads(call)))[:2]
        region = replace(region, hints=hints, batch=tuple(given)[:2])
    return _located(region)


def inference_candidates(knowledge: Knowledge) -> list[Candidate]:
    """Innermost loops that run a model with gradients off, in order of file and line."""
    program, found = knowledge.program, list[Candidate]()
    for source in program.sources.values():
        for loop in source.places:
            if isinstance(loop, (ast.For, ast.While)):
                candidate = Candidate(knowledge, source, source.scope_of(loop), loop)
                calls = _model_statements(candidate)
                innermost = calls and all(source.loops_around(call)[0] is loop for call in calls)
                if innermost and _gradients_off(candidate, calls[0]):
                    found.append(candidate)
    # a loop in a helper of another one's iteration is part of that iteration
    helpers = {
        scope
        for c in found
        for scope in program.called_from(c.scope, c.loop.body)
        if scope is not c.scope
    }
    return sorted((c for c in found if c.scope not in helpers), key=lambda c: c.key)


def _model_statements(candidate: Candidate) -> list[ast.stmt]:
    """Statements of a loop's own scope that run a model, gradients on or off."""
    knowledge, source, scope = candidate.knowledge, candidate.source, candidate.scope
    body = candidate.loop.body
    found: set[ast.stmt | None] = {*gradients_of(knowledge).forwards(source, scope, body)}
    for call in own_calls(ast.Module(body, [])):
        if callee(call) == "generate" and _is_of_a_model(knowledge, source, scope, call):
            found.add(source.statement_of(call))
    simple = [s for s in found if isinstance(s, _SIMPLE)]
    return sorted(simple, key=lambda s: (s.lineno, s.col_offset))


def _gradients_off(candidate: Candidate, statement: ast.stmt) -> bool:
    """Under a `with no_grad`, in a decorated function, or called from such a place."""
    knowledge, source, scope = candidate.knowledge, candidate.source, candidate.scope
    if isinstance(scope, FUNCTIONS) and knowledge.is_no_grad_function(Function(source, scope)):
        return True
    return any(
        knowledge.without_gradients(where, parent)
        for where, _, at in outwards(knowledge.program, source, scope, statement)
        for parent in where.parents(at)
    )


def _span(source: Source, calls: list[ast.stmt]) -> tuple[ast.stmt, ast.stmt]:
    """First and last statement around the calls in the deepest suite that holds all of them."""
    for around in (calls[0], *source.parents(calls[0])):
        holding = [s for s in source.places[around].suite if any(contains(s, c) for c in calls)]
        if all(any(contains(s, c) for s in holding) for c in calls):
            return holding[0], holding[-1]
    return calls[0], calls[-1]


def _read_back(knowledge: Knowledge, source: Source, first: ast.stmt, last: ast.stmt) -> ast.stmt:
    """Statements behind the model that hand its result to the host belong to the sample."""
    results, place, end = binds(first) | binds(last), source.places[last], last
    for statement in place.suite[place.index + 1 :]:
        shows = isinstance(statement, (ast.Expr, ast.Assign)) and results & reads(statement)
        waits = shows and host_read(statement, frozenset()) is not None
        if not waits and knowledge.sync_of(source, statement) is None:
            break
        end = statement
    return end


# -- what both make ------------------------------------------------------------------------------


def _region(candidate: Candidate, forward: Forward, end: ast.stmt, label: str) -> Region:
    source, begin = forward.source, forward.unit
    suite = source.places[begin].suite
    inside = suite[suite.index(begin) : suite.index(end) + 1]
    hints = tuple(sorted(set[str]().union(*map(binds, inside))))[:3]
    sync, ends = own_sync(candidate.knowledge, source, end), (End(end, label),)
    return with_synced(Region(candidate, (), forward, begin, ends, sync, hints=hints))


def _located(region: Region, *warnings: Caveat) -> Located:
    candidate = region.candidate
    where = candidate.knowledge, candidate.source, candidate.scope, region.end
    name = header_count(candidate.loop)
    counter = Counter(name, candidate.loop.lineno, "enumerate", None) if name else None
    cleanup = cleanup_behind(*where)
    stops = (Stop(candidate.source, region.end, region.end, strategy_of(*where), "", cleanup),)
    return Located(candidate, (region,), counter, stops, warnings=warnings)


# -- marked lines --------------------------------------------------------------------------------


def locate_marked(knowledge: Knowledge, mark: tuple[str, int, int]) -> Located:
    """The lines FILE:START-END as a region.

    Raises:
        Declined: the lines are not whole statements of one block, or leave it on the way.
        UsageError: no such file in the program, no statement starts there, or it ends before.
    """
    source = _named(knowledge.program, mark)
    covered = _covered(source, mark)
    leaves = [n for n in own_nodes(ast.Module(covered, [])) if isinstance(n, _LEAVES)]
    if leaves:
        raise Declined(RegionLeft.at(source, leaves[0]))
    begin = covered[0]
    loops = source.loops_around(begin)
    # lines outside of any loop stand for their one iteration
    anchor = loops[0] if loops else begin
    candidate = Candidate(knowledge, source, source.scope_of(begin), anchor)  # type: ignore[arg-type]
    region = _region(candidate, Forward(begin, begin, source), covered[-1], "region")
    if loops:
        return _located(replace(region, batch=batch_names(knowledge, candidate, begin)))
    once = (
        "The region is in no loop of its function. It may run only once, and its first run also "
        "compiles."
    )
    place = source.at(begin.lineno)
    return _located(region, Caveat("region-without-loop", once, place=place))


def _named(program: Program, mark: tuple[str, int, int]) -> Source:
    """The program's module of a name; one of that very path goes before the others."""
    file = mark[0]
    sources = [s for s in program.sources.values() if not file or s.path.name == Path(file).name]
    exact = [s for s in sources if s.path == Path(file)]
    if not sources:
        raise UsageError(f"--region {file}: not a module of {program.entry.path.name}")
    return (exact or sources)[0]


def _covered(source: Source, mark: tuple[str, int, int]) -> list[ast.stmt]:
    """The statements between two lines."""
    file, start, stop = mark
    lines = len(source.data.splitlines())
    if stop > lines:
        raise UsageError(
            f"--region {file}:{start}-{stop}: the file ends at line {lines}",
            f"Give the last line of the step instead of {stop}: {lines} at most.",
        )
    at = [s for s in source.places if s.lineno == start]
    if not at:
        raise UsageError(f"--region {file}:{start}-{stop}: no statement starts at line {start}")
    place = source.places[min(at, key=lambda s: s.col_offset)]
    covered = [s for s in place.suite[place.index :] if (s.end_lineno or 0) <= stop]
    if not covered or ((covered[-1].end_lineno or 0) < stop and _cuts(source, stop)):
        raise Declined(RegionCut.of(source.path, start, start=start, stop=stop))
    return covered


def _cuts(source: Source, line: int) -> bool:
    """Whether a line lies inside a statement that goes on behind it."""
    return any(
        s.lineno <= line < (s.end_lineno or s.lineno)
        for s in source.places
        if not isinstance(s, (*LOOPS, ast.If, ast.With, ast.Try, *FUNCTIONS, ast.ClassDef))
    )
