"""Host reads inside the region: moved behind the barrier in their own order, or named.

A statement moves only when what lies between its place and the barrier neither binds what it
reads nor reads what it binds; statements that depend on it move along. It never crosses the
counter's increment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from instrumentor.locate.counter import Counter
from instrumentor.locate.dataflow import binds, effects, uses
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Deferred
from instrumentor.locate.regions import Region
from instrumentor.locate.syncs import may_leave
from instrumentor.locate.syntax import LOOPS, Source, callee, own_calls, own_nodes, suites
from instrumentor.locate.tree import between, contains, path_to
from instrumentor.locate.vocabulary import (
    host_read,
    is_logging,
)
from instrumentor_analysis.caveats import Caveat


@dataclass(frozen=True)
class HostReads:
    moved: list[Deferred]
    warnings: list[Caveat]


def find_host_reads(
    knowledge: Knowledge, candidate: Candidate, regions: list[Region], counter: Counter | None
) -> HostReads:
    """Decide for each host read between begin and end of each region."""
    moved: list[Deferred] = []
    warnings: list[Caveat] = []
    for number, region in enumerate(regions):
        if region.ends_after_update and region.end is not region.sites[-1].statement:
            # the region closes after the optimizer: reads in it are the script's own waits
            pass
        statements = _inside(knowledge, candidate, region)
        tensors = _tensors(candidate, region, statements)
        if region.resume:
            warnings.extend(_between_micro_steps(candidate, region, statements, tensors))
        warnings.extend(_fetches(candidate.source, region, statements))
        plan = _decide(knowledge, candidate, region, statements, tensors, counter)
        source = candidate.source
        moved.extend(Deferred(source, s, number, _read_lines(source, s, tensors)) for s in plan[0])
        warnings.extend(plan[1])
    return HostReads(moved, warnings)


def _between_micro_steps(
    candidate: Candidate, region: Region, statements: list[ast.stmt], tensors: frozenset[str]
) -> Iterator[Caveat]:
    """Reads and logging outside the straight path: with several micro-steps they are timed."""
    source, known = candidate.source, set(statements)
    place = source.places[region.end]
    behind = place.suite[place.index + 1 :] if region.end not in candidate.loop.body else []
    for top in candidate.loop.body:
        for node in (top, *own_nodes(top)):
            if not isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign)) or node in known:
                continue
            if any(contains(s, node) for s in behind):
                continue
            logs = any(is_logging(c) for c in own_calls(node))
            if logs or host_read(node, tensors) is not None:
                yield Caveat(
                    "host-read-inside",
                    "runs between the micro-steps of one sample, inside the timed region",
                    place=source.at(node.lineno),
                )


def _fetches(source: Source, region: Region, statements: list[ast.stmt]) -> Iterator[Caveat]:
    """The next batch, fetched between forward and backward, is timed with them."""
    for statement in dict.fromkeys((region.forward, *statements)):
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            continue
        if any(callee(c) in ("next", "get_batch", "next_batch") for c in own_calls(statement)):
            yield Caveat(
                "fetch-inside",
                "the next batch is fetched inside the timed region",
                place=source.at(statement.lineno),
            )


def _read_lines(source: Source, statement: ast.stmt, tensors: frozenset[str]) -> tuple[int, ...]:
    """Lines of the statements that read: inside `with` blocks the inner ones, else its own."""
    inner = statement.body if isinstance(statement, ast.With) else []
    if not inner:
        return (statement.lineno,) if host_read(statement, tensors) is not None else ()
    found = [line for s in inner for line in _read_lines(source, s, tensors)]
    if not found and host_read(statement, tensors) is not None:
        found = [statement.lineno]
    return tuple(found)


def _inside(knowledge: Knowledge, candidate: Candidate, region: Region) -> list[ast.stmt]:
    """Statements from begin to end in execution order, with-blocks opened."""
    source = candidate.source
    found: list[ast.stmt] = []
    path = path_to(source, candidate.loop, region.end)
    begin = source.places[region.begin]
    started = False
    for suite, index in path:
        if not started and suite is begin.suite:
            started = True
            found.extend(_open(knowledge, source, suite[begin.index : index]))
        elif started:
            found.extend(_open(knowledge, source, suite[:index]))
    if not started:
        return []
    anchors = {s.statement for s in region.sites}
    if region.end not in anchors and knowledge.sync_of(candidate.source, region.end) is None:
        found.append(region.end)
    return found


def _open(knowledge: Knowledge, source: Source, statements: list[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.With) and not knowledge.without_gradients(source, statement):
            found.extend(_open(knowledge, source, statement.body))
        else:
            found.append(statement)
    return found


def _tensors(candidate: Candidate, region: Region, statements: list[ast.stmt]) -> frozenset[str]:
    """Names computed from the forward on, host values left out."""
    names: set[str] = set()
    for statement in statements:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.With, ast.If, ast.For)):
            if (
                isinstance(statement, (ast.Assign, ast.AnnAssign))
                and host_read(statement, frozenset()) is not None
            ):
                names -= binds(statement)
                continue
            if statement.lineno >= region.forward.lineno or statement is region.begin:
                names |= binds(statement)
    for site in region.sites:
        if not site.chain:
            names |= {n.id for n in ast.walk(site.backward) if isinstance(n, ast.Name)}
        elif isinstance(site.statement, (ast.Assign, ast.AnnAssign)):
            names |= binds(site.statement)
    return frozenset(
        names - {"self", "torch", "F", "nn", "accelerator", "scaler", "fabric", "config", "args"}
    )


def _decide(
    knowledge: Knowledge,
    candidate: Candidate,
    region: Region,
    statements: list[ast.stmt],
    tensors: frozenset[str],
    counter: Counter | None,
) -> tuple[list[ast.stmt], list[Caveat]]:
    source = candidate.source
    site_statements = {s.statement for s in region.sites}
    wanted: list[ast.stmt] = []
    warnings: list[Caveat] = []
    for statement in statements:
        holds_site = any(contains(statement, s) for s in site_statements)
        read = host_read(statement, tensors) if not holds_site else _own_read(statement, tensors)
        if read is None:
            continue
        line = getattr(read, "lineno", statement.lineno)
        if holds_site or not _movable(statement):
            warnings.append(_stays(source, line, "it decides or feeds what follows"))
            continue
        wanted.append(statement)
    wanted = [w for w in wanted if not _feeds_loss(candidate, region, statements, w, warnings)]
    moving: list[ast.stmt] = []
    for statement in wanted:
        if not _reaches(source, candidate.loop, statement, region.end):
            warnings.append(
                _stays(source, statement.lineno, "a path from it does not pass the barrier")
            )
            continue
        group = _closure(
            knowledge,
            statements,
            statement,
            site_statements,
            moving,
            counter,
            tensors,
            region,
            candidate,
        )
        if group is None:
            warnings.append(
                _stays(
                    source,
                    statement.lineno,
                    "what follows depends on it, or it would cross the step counter",
                )
            )
            continue
        moving.extend(s for s in group if s not in moving)
    moving.sort(key=lambda s: (s.lineno, s.col_offset))
    return moving, warnings


def _reaches(source: Source, loop: ast.AST, statement: ast.stmt, end: ast.stmt) -> bool:
    """Whether every iteration that runs a statement also comes to the end of the region."""
    own = source.places[statement].suite
    for parent in source.parents(end):
        if source.places[end].suite is own or parent is loop:
            break
        if isinstance(parent, ast.If) and not contains(parent, statement):
            return False
    return not any(may_leave(s) for s in between(source, loop, statement, end))


def _own_read(statement: ast.stmt, tensors: frozenset[str]) -> ast.AST | None:
    """A read in the header of a compound statement that holds the backward."""
    if isinstance(statement, ast.If):
        probe = ast.If(test=statement.test, body=[], orelse=[])
        return host_read(probe, tensors)
    return None


def _stays(source: Source, line: int, why: str) -> Caveat:
    text = f"a host read inside the timed region stays: {why}"
    return Caveat("host-read-inside", text, place=source.at(line))


def _movable(statement: ast.stmt) -> bool:
    """Simple statements, and `if`/`with` blocks without jumps."""
    if isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert)):
        return True
    if isinstance(statement, (ast.If, ast.With)):
        for node in own_nodes(statement):
            if isinstance(
                node, (ast.Continue, ast.Break, ast.Return, ast.Raise, ast.Yield, ast.Await)
            ):
                return False
            if isinstance(node, ast.Call) and callee(node) == "backward":
                return False
        return True
    if isinstance(statement, LOOPS):
        return not any(
            isinstance(n, (ast.Return, ast.Raise, ast.Yield)) for n in own_nodes(statement)
        ) and not any(
            isinstance(n, ast.Call) and callee(n) == "backward" for n in own_nodes(statement)
        )
    return False


def _feeds_loss(
    candidate: Candidate,
    region: Region,
    statements: list[ast.stmt],
    read: ast.stmt,
    warnings: list[Caveat],
) -> bool:
    """A read whose result the forward or backward needs, through whatever names, cannot move."""
    sites = [s.statement for s in region.sites]
    live = effects(read)
    feeds = contains(read, region.forward) and region.forward_source is candidate.source
    following = [s for s in statements[statements.index(read) + 1 :] if s not in sites]
    for statement in following:
        if live & uses(statement):
            live |= effects(statement)
    # the backward itself may be the end of the region
    feeds = feeds or any(read.lineno < site.lineno and live & uses(site) for site in sites)
    if feeds:
        warnings.append(_stays(candidate.source, read.lineno, "the loss is computed from it"))
    return feeds


def _closure(
    knowledge: Knowledge,
    statements: list[ast.stmt],
    start: ast.stmt,
    sites: set[ast.stmt],
    already: list[ast.stmt],
    counter: Counter | None,
    tensors: frozenset[str],
    region: Region,
    candidate: Candidate,
) -> list[ast.stmt] | None:
    """The statement with the dependents that must move along, or None when it must stay."""
    group = [start]
    tail = statements[statements.index(start) + 1 :]
    ends = [
        s.statement
        for s in region.sites
        if s.statement not in statements and s.statement.lineno > start.lineno
    ]
    if (
        region.end not in statements
        and region.end not in ends
        and knowledge.sync_of(candidate.source, region.end) is None
    ):
        ends.append(region.end)
    merged = sorted([*tail, *ends], key=lambda s: (s.lineno, s.col_offset))
    for statement in merged:
        if statement in group or statement in already:
            continue
        if (
            counter is not None
            and counter.statement is not None
            and contains(statement, counter.statement)
        ):
            return None
        is_site = any(contains(statement, s) for s in sites)
        changed = binds(statement) if is_site else effects(statement)
        moved_uses = set().union(*(uses(g) for g in group))
        moved_effects = set().union(*(effects(g) for g in group))
        conflict = changed & (moved_uses | moved_effects) or uses(statement) & moved_effects
        if not conflict:
            continue
        if is_site or not _movable(statement) or contains(statement, region.forward):
            return None
        if effects(statement) & _needed_by_sites(sites):
            return None
        group.append(statement)
    return group


def _needed_by_sites(sites: set[ast.stmt]) -> set[str]:
    needed: set[str] = set()
    for site in sites:
        needed |= uses(site)
    return needed


__all__ = ["HostReads", "find_host_reads", "suites"]
