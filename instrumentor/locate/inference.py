"""Loops without backward: inference under no_grad, and regions that the user marks by lines.

A sample is one iteration's model calls up to the read-back of their result when that directly
follows, else up to the barrier; the run stops behind it.
"""

from __future__ import annotations

import ast
from pathlib import Path

from msgspec.structs import replace

from instrumentor.errors import UsageError
from instrumentor.locate.catalogue import Kind
from instrumentor.locate.counter import Counter, header_count
from instrumentor.locate.dataflow import binds, reads
from instrumentor.locate.forward import Forward
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Update
from instrumentor.locate.model import Declined, Located, Reason, Stop
from instrumentor.locate.program import Program
from instrumentor.locate.regions import Region
from instrumentor.locate.stop import strategy_of
from instrumentor.locate.syncs import Sync
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    SCOPES,
    ScopeNode,
    Source,
    arguments,
    callee,
    own_calls,
    own_nodes,
    path_to,
    receiver,
)
from instrumentor.locate.vocabulary import (
    host_read,
)
from instrumentor_analysis.caveats import Caveat

_REMEDY = "Give a script with a loop that runs the model under torch.no_grad() or inference_mode()."


def infers_only(program: Program, knowledge: Knowledge) -> bool:
    """Nothing in the program trains: no backward, no optimizer, no `.fit()` or `.train()`."""
    if not any(word in program.entry.data for word in (b"no_grad", b"inference_mode")):
        return False
    for source in program.sources.values():
        if b"backward" in source.data:
            return False
        for node in source.nodes:
            if isinstance(node, ast.Call):
                word = callee(node)
                scope = program.scope_of(source, node)
                if word in ("fit", "train_batch") or knowledge.kinds.is_a(
                    source, scope, node, Kind.OPTIMIZER
                ):
                    return False
                if word == "train" and not knowledge.is_model_named(source, scope, receiver(node)):
                    return False
    return True


def inference_candidates(program: Program, knowledge: Knowledge) -> list[Candidate]:
    """Innermost loops that run a model with gradients off, in order of file and line."""
    found: list[Candidate] = []
    for source in program.sources.values():
        for statement in source.places:
            if not isinstance(statement, (ast.For, ast.While)):
                continue
            scope = source.scope_of(statement)
            calls = _model_statements(knowledge, source, scope, statement)
            inner = [s for s in own_nodes(statement) if isinstance(s, (ast.For, ast.While))]
            if not calls or any(_model_statements(knowledge, source, scope, i) for i in inner):
                continue
            if _gradients_off(knowledge, source, scope, statement, calls[0]):
                found.append(Candidate(source, scope, statement))
    return sorted(found, key=lambda c: c.key)


def _model_statements(
    knowledge: Knowledge, source: Source, scope: ScopeNode, loop: ast.stmt
) -> list[ast.stmt]:
    """Statements of a loop's own scope that run a model, gradients on or off."""
    found: list[ast.stmt] = []
    for node in own_nodes(loop):
        if isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)):
            generates = any(
                callee(c) == "generate" and knowledge.is_model_named(source, scope, receiver(c))
                for c in own_calls(node)
            )
            if generates or knowledge.forward_call(source, scope, node) is not None:
                found.append(node)
    return sorted(found, key=lambda s: (s.lineno, s.col_offset))


def _gradients_off(
    knowledge: Knowledge, source: Source, scope: ScopeNode, loop: ast.stmt, call: ast.stmt
) -> bool:
    """Under a `with no_grad`, in a decorated function, or called from such a place."""
    program = knowledge.program
    if any(knowledge.without_gradients(source, p) for p in source.parents(call)):
        return True
    if not isinstance(scope, FUNCTIONS):
        return False
    if any(knowledge.is_no_grad(source, source.scope_of(scope), d) for d in scope.decorator_list):
        return True
    return any(
        any(
            knowledge.without_gradients(where, p)
            for where in (program.source_of_scope[caller],)
            for p in where.parents(holder)
        )
        for caller, _, holder in program.callers.get(scope, ())
    )


def locate_inference(
    program: Program, knowledge: Knowledge, loop: tuple[str, int] | None
) -> Located:
    """The inference loop of a program.

    Raises:
        Declined: there is none, or several.
        UsageError: `--loop` names none of them.
    """
    candidates = inference_candidates(program, knowledge)
    if loop is not None:
        file, line = loop
        candidates = [
            c
            for c in candidates
            if c.loop.lineno == line and (not file or c.source.path.name == Path(file).name)
        ]
        if not candidates:
            raise UsageError(f"--loop {file}:{line}: no inference loop starts there")
    path = program.entry.path
    if not candidates:
        message = "no loop that runs a model with gradients off was found"
        raise Declined(Reason(path, 1, "no-inference-loop", message, _REMEDY))
    if len(candidates) > 1:
        names = " or ".join(f"--loop {c.source.path.name}:{c.loop.lineno}" for c in candidates)
        raise Declined(
            *(
                Reason(
                    c.source.path,
                    c.loop.lineno,
                    "several-loops",
                    f"one of {len(candidates)} inference loops",
                    f"Say which one: {names}",
                )
                for c in candidates
            )
        )
    return _understand(program, knowledge, candidates[0])


def _understand(program: Program, knowledge: Knowledge, candidate: Candidate) -> Located:
    source, scope, loop = candidate.source, candidate.scope, candidate.loop
    calls = _model_statements(knowledge, source, scope, loop)
    suite, first, last = _same_suite(source, loop, calls)
    end = _read_back(knowledge, source, suite, first, last)
    region = _region(knowledge, candidate, first, end, calls[0], "inference")
    call = knowledge.forward_call(source, scope, calls[0])
    if call is not None:
        model = reads(call.func)
        given = [n.id for n in arguments(call) if isinstance(n, ast.Name) and n.id not in model]
        hints = region.hints or tuple(sorted(reads(call)))[:2]
        region = replace(region, hints=hints, batch=tuple(given)[:2])
    return _located(program, knowledge, candidate, region, Forward(first, calls[0], source))


def _same_suite(
    source: Source, loop: ast.stmt, calls: list[ast.stmt]
) -> tuple[list[ast.stmt], ast.stmt, ast.stmt]:
    """The deepest suite that holds all model calls, and the first and last statement there."""
    paths = [path_to(source, loop, c) for c in calls]
    depth = 0
    while all(len(p) > depth + 1 for p in paths) and len({id(p[depth + 1][0]) for p in paths}) == 1:
        depth += 1
    suite = paths[0][depth][0]
    indices = [p[depth][1] for p in paths]
    return suite, suite[min(indices)], suite[max(indices)]


def _read_back(
    knowledge: Knowledge, source: Source, suite: list[ast.stmt], first: ast.stmt, last: ast.stmt
) -> ast.stmt:
    """Statements behind the model that hand its result to the host belong to the sample."""
    results = frozenset(binds(first) | binds(last))
    end = last
    for statement in suite[suite.index(last) + 1 :]:
        if knowledge.sync_of(source, statement) is not None:
            end = statement
            continue
        if isinstance(statement, (ast.Expr, ast.Assign)) and results & reads(statement):
            if host_read(statement, frozenset()) is not None:
                end = statement
                continue
        break
    return end


def _region(
    knowledge: Knowledge,
    candidate: Candidate,
    begin: ast.stmt,
    end: ast.stmt,
    forward: ast.stmt,
    label: str,
) -> Region:
    source = candidate.source
    inside: set[str] = set()
    suite = source.places[begin].suite
    for statement in suite[suite.index(begin) : suite.index(end) + 1]:
        inside |= binds(statement)
    keeps = knowledge.sync_of(source, end) is not None
    sync = Sync("keep" if keeps else "insert", source, end if keeps else None, "")
    hints = tuple(sorted(inside))[:3]
    return Region(
        begin=begin,
        end=end,
        sync=sync,
        label=label,
        candidate=candidate,
        sites=(),
        forward=forward,
        forward_source=source,
        hints=hints,
    )


def _located(
    program: Program,
    knowledge: Knowledge,
    candidate: Candidate,
    region: Region,
    forward: Forward,
) -> Located:
    source, scope = candidate.source, candidate.scope
    pseudo = Update(source, scope, region.end, ast.Call(ast.Name("x"), [], []), region.label)
    strategy = strategy_of(knowledge, candidate, pseudo)
    stop = Stop(source, scope, region.end, region.end, strategy)
    counter = _counter(candidate)
    return Located(
        program, knowledge, candidate, (region,), (forward,), counter, "none", (stop,), region.label
    )


def _counter(candidate: Candidate) -> Counter | None:
    loop = candidate.loop
    name = header_count(loop)
    return Counter(name, loop.lineno, "enumerate", None) if name else None


def locate_marked(
    program: Program, knowledge: Knowledge, mark: tuple[str, int, int], label: str = "region"
) -> Located:
    """The lines FILE:START-END as a region.

    Raises:
        Declined: the lines are not whole statements of one block, or leave it on the way.
        UsageError: no such file in the program, or no statement starts there.
    """
    file, start, stop = mark
    sources = [s for s in program.sources.values() if not file or s.path.name == Path(file).name]
    sources = [s for s in sources if s.path == Path(file)] or sources
    if not sources:
        raise UsageError(f"--region {file}: not a module of {program.entry.path.name}")
    source = sources[0]
    begin = _statement_at(source, start)
    if begin is None:
        raise UsageError(f"--region {file}:{start}-{stop}: no statement starts at line {start}")
    suite = source.places[begin].suite
    covered = [s for s in suite if s.lineno >= begin.lineno and (s.end_lineno or 0) <= stop]
    if not covered or ((covered[-1].end_lineno or 0) < stop and _cuts(source, stop)):
        message = f"lines {start}-{stop} are not whole statements of one block"
        remedy = "Let the region start and end with statements of the same indentation."
        raise Declined(Reason(source.path, start, "region", message, remedy))
    for statement in covered:
        inner = () if isinstance(statement, SCOPES) else own_nodes(statement)
        for node in (statement, *inner):
            if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)):
                raise Declined(
                    Reason(
                        source.path,
                        getattr(node, "lineno", start),
                        "region",
                        "the region is left before its end",
                        "End the region before that line.",
                    )
                )
    loops = source.loops_around(begin)
    scope = source.scope_of(begin)
    anchor = loops[0] if loops else begin
    candidate = Candidate(source, scope, anchor)  # type: ignore[arg-type]
    region = _region(knowledge, candidate, begin, covered[-1], begin, label)
    located = _located(program, knowledge, candidate, region, Forward(begin, begin, source))
    once = Caveat(
        "region-without-loop",
        "the region is in no loop of its function: it may run only once, and its first run "
        "is the compile sample",
        place=source.at(start),
    )
    return located if loops else replace(located, warnings=(once,))


def _statement_at(source: Source, line: int) -> ast.stmt | None:
    at = [s for s in source.places if s.lineno == line]
    return min(at, key=lambda s: s.col_offset) if at else None


def _cuts(source: Source, line: int) -> bool:
    """Whether a line lies inside a statement that goes on behind it."""
    return any(
        s.lineno <= line < (s.end_lineno or s.lineno)
        for s in source.places
        if not isinstance(s, (*LOOPS, ast.If, ast.With, ast.Try, *FUNCTIONS, ast.ClassDef))
    )
