"""Host reads inside the region: moved behind the barrier in their own order, or named.

A statement moves only when what lies between its place and the barrier neither binds what it
reads nor reads what it binds; statements that depend on it move along. It never crosses the
counter's increment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

from msgspec import Struct

from instrumentor.locate.located import Deferred
from instrumentor.locate.loop.counter import Counter
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.changed_names import effects, uses
from instrumentor.locate.meaning.host_values import has_values, host_read, host_reads, is_logging
from instrumentor.locate.meaning.plain_numbers import is_plain
from instrumentor.locate.region.modes import Region
from instrumentor.read.control_flow import LEFT, NEXT, OVER
from instrumentor.read.names_used import binds
from instrumentor.read.syntax import (
    LOOPS,
    Source,
    arguments,
    below,
    callee,
    contains,
    own_calls,
    own_nodes,
    path_to,
    suites,
)
from instrumentor_analysis.shared.caveats import Caveat


def find_host_reads(
    regions: Sequence[Region], counter: Counter | None, *, as_written: bool = False
) -> tuple[list[Deferred], list[Caveat]]:
    """What goes behind the barrier, each host read with what depends on it, and what to tell.

    Args:
        as_written: move none, and say which would have been.
    """
    moved: list[Deferred] = []
    warnings: list[Caveat] = []
    candidate = regions[0].candidate
    for number, region in enumerate(regions):
        reads = _Reads(region, counter)
        moving, stay = reads.decide()
        warnings += [*_between_micro_steps(reads), *stay]
        moved += [Deferred(candidate.source, s, number, _read_lines(reads, s)) for s in moving]
    lines = sorted({line for deferred in moved for line in deferred.reads})
    if lines and candidate.program.uses_xla:  # elsewhere a read costs the same at any place
        warnings.append(_measured(candidate, lines, as_written=as_written))
    return [] if as_written else moved, [*dict.fromkeys(warnings)]


def _measured(candidate: Candidate, lines: list[int], *, as_written: bool) -> Caveat:
    """Which of two programs the figures are of."""
    others = f" (and at {', '.join(map(str, lines[1:]))})" if lines[1:] else ""
    if as_written:
        kind = "host-reads-as-written"
        text = (
            f"The host read here{others} is timed where it stands and may run the forward a "
            "second time; --host-reads moved measures the step without it."
        )
    else:
        kind = "host-reads-moved"
        text = (
            f"The host read here{others} was moved behind the timer. On XLA your script may pay "
            "for a second forward here; --host-reads as-written includes it."
        )
    return Caveat(kind, text, place=candidate.source.at(lines[0]))


class _Reads(Struct, eq=False, dict=True):
    """The statements of one region, and which of them wait for the device."""

    region: Region
    counter: Counter | None

    @property
    def candidate(self) -> Candidate:
        return self.region.candidate

    @property
    def source(self) -> Source:
        return self.candidate.source

    @cached_property
    def sites(self) -> list[ast.stmt]:
        return [site.statement for site in self.region.sites]

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """From begin to end in execution order, with-blocks opened."""
        found: list[ast.stmt] = []
        begin, started = self.source.places[self.region.begin], False
        for suite, index in path_to(self.source, self.candidate.loop, self.region.end):
            if started or suite is begin.suite:
                found += self._open(suite[0 if started else begin.index : index])
                started = True
        if self.region.end not in self.sites and not self._ends_in_sync:
            found.append(self.region.end)
        return found

    @cached_property
    def around(self) -> list[ast.If]:
        """The tests between begin and end in whose branch the region ends."""
        suite = self.source.places[self.region.begin].suite
        path = path_to(self.source, self.candidate.loop, self.region.end)
        inside = [part is suite for part, _ in path]
        held = path[inside.index(True) : -1] if True in inside else []
        blocks = (part[index] for part, index in held)
        return [s for s in blocks if isinstance(s, ast.If) and s is not self.region.begin]

    @property
    def _ends_in_sync(self) -> bool:
        return self.candidate.knowledge.sync_of(self.source, self.region.end) is not None

    def _open(self, statements: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            gradless = self.candidate.knowledge.without_gradients(self.source, statement)
            if isinstance(statement, ast.With) and not gradless:
                yield from self._open(statement.body)
            else:
                yield statement

    @cached_property
    def tensors(self) -> frozenset[str]:
        """Names computed from the forward on, host values left out."""
        names: set[str] = set()
        first = self.region.forward.statement.lineno
        for statement in self.statements:
            if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.With, ast.If, ast.For)):
                names |= self._fills(statement, names)
                continue
            # `loss = loss.item()` is a number from here on: reading it again waits for nothing
            if isinstance(statement, _ASSIGNS) and self._takes_out(statement):
                names -= binds(statement)
            elif statement.lineno >= first or statement is self.region.begin:
                names |= binds(statement)
        for site in self.region.sites:
            if not site.chain:
                names |= {n.id for n in ast.walk(site.backward) if isinstance(n, ast.Name)}
            elif isinstance(site.statement, _ASSIGNS):
                names |= binds(site.statement)
        return frozenset(n for n in names - _NO_TENSORS if not self._is_number(n))

    def _is_number(self, name: str) -> bool:
        """Whether a name never holds anything but numbers of Python's own."""
        one = self.candidate
        return is_plain(one.program, self.source, one.scope, ast.Name(name, ast.Load()))

    def _fills(self, statement: ast.stmt, tensors: set[str]) -> set[str]:
        """`losses`, where a statement appends a value that is still on the device."""
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), "append"), [value])):
                if has_values(value, frozenset(tensors)) and not self._takes_out(statement):
                    return {name}
        return set()

    @cached_property
    def scalars(self) -> frozenset[str]:
        """Names of tensors without dimensions: what is differentiated, and what sums up to it.

        A sum has the dimensions of each of its parts.
        """
        direct = [site for site in self.region.sites if not site.chain and not site.backward.args]
        found = {n for site in direct for n in _summed(site.loss)}
        for statement in reversed(self.statements):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in found:
                    found |= _summed(value)
                case ast.AugAssign(target=ast.Name(id=name), value=value) if name in found:
                    found |= _summed(value)
        return frozenset(found)

    def reads(self, node: ast.AST) -> Iterator[ast.AST]:
        """The expressions below a node that wait for a value of the device."""
        yield from host_reads(node, self.tensors)
        yield from (part for part in (node, *own_nodes(node)) if self._takes_element(part))
        yield from (
            call
            for call in own_calls(node)
            if any(has_values(given, self.tensors) for given in call.args)
            and self._qualified(call).startswith("numpy.")
        )
        yield from self._shown_weights(node)

    def _shown_weights(self, node: ast.AST) -> Iterator[ast.Call]:
        """Calls that log weights."""
        for call in own_calls(node):
            given = chain.from_iterable(map(below, arguments(call)))
            if is_logging(call) and any(map(self._is_weight, given)):
                yield call

    def _is_weight(self, node: ast.AST) -> bool:
        """`net.scale.data`: a backward behind it leaves that as it is."""
        match node:
            case ast.Attribute(value=ast.Attribute() as owner, attr="data"):
                one = self.candidate
                return one.knowledge.is_model(self.source, one.scope, owner)
        return False

    def shows(self, call: ast.Call) -> bool:
        """A call that records values which are not all known to be numbers of Python's own."""
        one = self.candidate
        return is_logging(call) and not all(
            is_plain(one.program, self.source, one.scope, given) for given in arguments(call)
        )

    def _qualified(self, call: ast.Call) -> str:
        return self.candidate.program.qualified(self.source, self.candidate.scope, call.func)

    def _takes_element(self, node: ast.AST) -> bool:
        """`loss.data[0]`, which gave the number before `.item()` did."""
        match node:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="data")):
                return name in self.scalars
        return False

    def _takes_out(self, statement: ast.stmt) -> bool:
        """Whether a statement makes numbers of tensors, whatever these are called."""
        return host_read(statement, frozenset()) is not None or any(
            map(self._takes_element, own_nodes(statement))
        )

    def decide(self) -> tuple[list[ast.stmt], list[Caveat]]:
        """What moves, in its own order, and why each other read stays."""
        moving: list[ast.stmt] = []
        stays: list[Caveat] = []
        for statement in self.statements:
            if next(self._lines(statement), None) is None:
                continue
            group = self._group(statement, moving)
            if isinstance(group, str):
                stays += self._told(statement, group)
            else:
                moving += [s for s in group if s not in moving]
        for test in self.around:
            stays += self._told(test, _DECIDES)
        return sorted(moving, key=_position), stays

    def _told(self, statement: ast.stmt, why: str) -> Iterator[Caveat]:
        """That the host reads of a statement stay, and why."""
        text = f"A host read stays inside the timed region: {why}"
        for line in dict.fromkeys(self._lines(statement)):
            yield Caveat("host-read-inside", text, place=self.source.at(line))

    def _lines(self, statement: ast.stmt) -> Iterator[int]:
        """Where a statement reads in timed iterations; one with the backward, in its header."""
        within: ast.stmt = statement
        if self._holds_site(statement):
            if not isinstance(statement, ast.If):
                return
            within = ast.If(test=statement.test, body=[], orelse=[])
        for read in self.reads(within):
            if self._is_timed(read):
                yield getattr(read, "lineno", statement.lineno)

    def _is_timed(self, read: ast.AST) -> bool:
        """Whether the clock runs there, and a path leads on to the end: else it is in no sample."""
        statement = read if isinstance(read, ast.stmt) else self.source.statement_of(read)
        flow, end = self.candidate.flow, self.region.end
        if statement is None or statement not in flow.begins or end not in flow.begins:
            return True
        if self.region.branches and not self.region.reaches(statement):
            return False
        at, ends = flow.before(statement), (flow.before(end), flow.after(end))
        return at in ends or flow.path(at, ends)

    def _holds_site(self, statement: ast.stmt) -> bool:
        return any(contains(statement, site) for site in self.sites)

    def _is_forward(self, statement: ast.stmt) -> bool:
        forward = self.region.forward
        return forward.source is self.source and contains(statement, forward.statement)

    def _group(self, start: ast.stmt, already: list[ast.stmt]) -> list[ast.stmt] | str:
        """A host read with the dependents that must move along, or why it stays."""
        if self._holds_site(start) or not _movable(start):
            return _DECIDES
        if self.region.whole and any(self._shown_weights(start)):
            return _STEPPED
        feeds = _BESIDE if any(suites(start)) else _FEEDS
        if self._is_forward(start):
            return feeds
        group, stays, live = [start], "", effects(start)
        needed = set[str]().union(*map(uses, self.sites))
        for statement in self._behind(start):
            if statement in already:
                continue
            if self.counter is not None and self.counter.statement is not None:
                if contains(statement, self.counter.statement):
                    stays = _DEPENDS
            is_site = self._holds_site(statement)
            moved_uses = set[str]().union(*map(uses, group))
            moved_effects = set[str]().union(*map(effects, group))
            # `loss.backward()` leaves the loss as a read behind it would see it
            changed = binds(statement) if is_site else effects(statement)
            if not (changed & (moved_uses | moved_effects) or uses(statement) & moved_effects):
                continue
            if uses(statement) & live:
                if is_site:  # of a block that holds the backward any statement may use it
                    return _DEPENDS if any(suites(statement)) else feeds
                live |= effects(statement)
            fixed = is_site or not _movable(statement) or self._is_forward(statement)
            if fixed or effects(statement) & needed:
                stays = _DEPENDS
            group.append(statement)
        flow, end = self.candidate.flow, self.region.end
        leaves = (*OVER, LEFT) if end in flow.begins else (NEXT, LEFT)
        if flow.path(flow.after(start), leaves, {flow.before(end), flow.after(end)}):
            return "a path from it does not pass the barrier"
        return stays or group

    def _behind(self, start: ast.stmt) -> list[ast.stmt]:
        """What runs between a statement and the barrier, the end of the region included."""
        found = self.statements[self.statements.index(start) + 1 :]
        ends = [s for s in self.sites if s.lineno > start.lineno]
        if not self._ends_in_sync:
            ends.append(self.region.end)
        found += [s for s in dict.fromkeys(ends) if s not in self.statements]
        return sorted(found, key=_position)


_DECIDES = "it decides or feeds what follows"
_FEEDS = "the loss is computed from it"
_BESIDE = "it stands in a block that computes the loss"
_DEPENDS = "what follows depends on it, or it would cross the step counter"
_STEPPED = "it shows weights that the optimizer's step changes"
_ASSIGNS = (ast.Assign, ast.AnnAssign)
#: Names that the forward's statements may bind or use and that are no tensors.
_NO_TENSORS = frozenset(
    {"self", "torch", "F", "nn", "accelerator", "scaler", "fabric", "config", "args"}
)
_JUMPS = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)
_LOOP_JUMPS = (ast.Continue, ast.Break, ast.Await)


def _position(statement: ast.stmt) -> tuple[int, int]:
    return statement.lineno, statement.col_offset


def _movable(statement: ast.stmt) -> bool:
    """Simple statements, and blocks without jumps and backwards."""
    if isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Assert)):
        return True
    if not isinstance(statement, (ast.If, ast.With, *LOOPS)):
        return False
    jumps = _JUMPS if isinstance(statement, LOOPS) else (*_JUMPS, *_LOOP_JUMPS)
    return not any(
        isinstance(node, jumps) or (isinstance(node, ast.Call) and callee(node) == "backward")
        for node in own_nodes(statement)
    )


def _summed(node: ast.expr) -> set[str]:
    """Names that an expression is, or adds up or multiplies."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.BinOp(left=left, right=right):
            return _summed(left) | _summed(right)
    return set()


def _read_lines(reads: _Reads, statement: ast.stmt) -> tuple[int, ...]:
    """Lines of the statements that read: inside `with` blocks the inner ones, else its own."""
    inner = statement.body if isinstance(statement, ast.With) else []
    found = [line for s in inner for line in _read_lines(reads, s)]
    if not found and next(reads.reads(statement), None) is not None:
        return (statement.lineno,)
    return tuple(found)


def _between_micro_steps(reads: _Reads) -> Iterator[Caveat]:
    """Reads and logging outside the straight path: with several micro-steps they are timed."""
    source, region, loop = reads.source, reads.region, reads.candidate.loop
    place = source.places[region.end]
    behind = place.suite[place.index + 1 :] if region.end not in loop.body else []
    for node in reads.candidate.flow.statements if region.resume else ():
        if not isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign)) or node in reads.statements:
            continue
        reading = next(reads.reads(node), None) is not None
        if (reading or any(map(reads.shows, own_calls(node)))) and not any(
            contains(s, node) for s in behind
        ):
            text = "This runs between the micro-steps of one sample, inside the timed region."
            yield Caveat("host-read-inside", text, place=source.at(node.lineno))
