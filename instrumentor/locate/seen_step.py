"""The step that a run of the script has shown, where reading does not show it.

In: a program that was read, and what a run has seen of it; out: a `Located` step as reading makes
it, or a `Declined`. Region, stop, skips and host reads are found as for any other step.

A run shows which calls led to the step (`Program.ran`): they are followed, too. Where one of them
runs code that cannot be read, nothing is shown to be without effect, and all of it stays.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from instrumentor.locate.choose_loop import located_step
from instrumentor.locate.gradients.forward import Forward
from instrumentor.locate.located import Declined, Located
from instrumentor.locate.loop.loops import Candidate, Site, Update, in_order
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.libraries import LIBRARIES
from instrumentor.locate.meaning.roles import Evidence
from instrumentor.locate.region.modes import Region
from instrumentor.locate.region.regions import find_regions
from instrumentor.locate.rules.loops import ForwardApart
from instrumentor.locate.rules.no_loop import BackwardHidden, InNoLoop
from instrumentor.locate.rules.regions import no_phase_inside, no_update_inside
from instrumentor.locate.rules.shape import asynchronous, conditional_step, generator, line_search
from instrumentor.read.program import Function, Program
from instrumentor.read.script_options import ScriptOptions
from instrumentor.read.syntax import (
    LOOPS,
    LoopNode,
    ScopeNode,
    Source,
    beside,
    contains,
    dotted,
    own_calls,
    parse,
)
from instrumentor.shared.observed import Chain, Observed
from instrumentor.shared.options import Options
from instrumentor.shared.project import seen_from_here
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.files import read_bytes

#: What stands against a loop however its step was found.
_RULES = (line_search, conditional_step, asynchronous)
#: Code without a file that is Python's or torch's own.
_GENERATED = ("<frozen ", "<eval_with_key>")
_INSTALLED = ("site-packages", "dist-packages")
#: Packages of which it is known what their calls do.
_KNOWN = frozenset(name for each in LIBRARIES for name in each.packages)


def locate_seen(
    entry: Source,
    roots: Sequence[Path],
    seen: Observed,
    options: Options,
    arguments: Sequence[str] = (),
) -> Located:
    """The step as a run has shown it.

    Args:
        arguments: what the script is called with.

    Raises:
        Declined: these lines are no step by themselves, or there is no place for the stop.
    """
    program = Program.load(entry, roots, also=[*_imported_unseen(entry, roots, seen)])
    called_with = ScriptOptions(program, arguments)
    step = _SeenStep(Knowledge(program, called_with), seen)
    program.ran.update(step.calls())
    candidate = step.candidate()
    reasons = [reason for rule in _RULES for reason in rule(candidate)]
    if reasons:
        raise Declined(*dict.fromkeys(reasons))
    regions = find_regions(candidate, step.forwards(candidate), options)
    for region in regions:
        no_update_inside(region)
        _no_yield_inside(region)
    no_phase_inside(regions)
    told = [*step.unread()]
    why = f"the step runs code at {told[0].place} that cannot be read" if told else ""
    return located_step(candidate, regions, options, called_with, told, why)


def _no_yield_inside(region: Region) -> None:
    """Whoever walks over the loop goes on while it yields: that is apart from the clock."""
    starts, ends = region.begin.lineno, region.end.end_lineno or region.end.lineno
    own = region.candidate.source.path
    inside = [
        reason
        for reason in generator(region.candidate)
        if reason.file != own or starts <= reason.line <= ends
    ]
    if inside:
        raise Declined(*inside)


def loop_seen(tree: ast.AST, seen: Observed) -> LoopNode | None:
    """The innermost loop with the forward and all backwards; None where none holds the update too.

    Of micro-batches that is the loop over them, behind which the update stands.
    """
    whole = _around(tree, (*seen.backward, *seen.step))
    if whole is None or not all(_on(whole, line) for line in seen.forward[:1]):
        return whole
    return _around(tree, (*seen.forward[:1], *seen.backward))


def _around(tree: ast.AST, lines: Sequence[int]) -> LoopNode | None:
    """The innermost loop that holds all lines."""
    held = [
        node
        for node in ast.walk(tree)
        if isinstance(node, LOOPS) and all(_on(node, line) for line in lines)
    ]
    # Of nested loops the innermost starts last.
    return max(held, key=lambda loop: loop.lineno, default=None)


def _on(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _imported_unseen(entry: Source, roots: Sequence[Path], seen: Observed) -> Iterator[Source]:
    """Modules of the project that have run the step, by whatever way they are imported."""
    chains = [chain for each in seen.chains.values() for chain in each]
    for path in dict.fromkeys(file for chain in chains for file, _, _ in chain):
        own = any(path.is_relative_to(root) for root in roots)
        if path == entry.path or not own or set(path.parts) & {*_INSTALLED}:
            continue
        try:
            yield parse(path, read_bytes(path))
        except (OSError, SyntaxError):
            continue


class _Frame(NamedTuple):
    """A frame of a chain; `scope` is None where it is no scope of the program."""

    file: Path
    line: int
    name: str
    source: Source | None
    scope: ScopeNode | None

    @property
    def function(self) -> Function | None:
        if self.source is None or self.scope is None or isinstance(self.scope, ast.Module):
            return None
        return Function(self.source, self.scope)

    @property
    def is_readable(self) -> bool:
        """Of the program, of Python itself, or of a library of which it is known what it does."""
        if self.source is not None:
            return True
        parts = self.file.parts
        package = next((b for a, b in pairwise(parts) if a in _INSTALLED), None)
        if package is not None:
            return package.removesuffix(".py") in _KNOWN
        own = str(self.file).startswith(_GENERATED)
        return own or any(part.startswith("python3") for part in parts)


class _SeenStep(Struct, frozen=True, dict=True):
    """What a run has seen, in terms of a program."""

    knowledge: Knowledge
    seen: Observed

    @property
    def program(self) -> Program:
        return self.knowledge.program

    @cached_property
    def source(self) -> Source:
        """The module of the loop."""
        found = self.program.sources.get(self.seen.file)
        if found is None:
            entry = self.program.entry
            raise Declined(InNoLoop.of(entry.path, place=seen_from_here(self.seen.file)))
        return found

    @cached_property
    def loop(self) -> LoopNode:
        found, line = loop_seen(self.source.tree, self.seen), self.seen.backward[0]
        if found is None:
            raise Declined(InNoLoop.of(self.source.path, line, place=self.source.at(line)))
        return found

    @cached_property
    def scope(self) -> ScopeNode:
        return self.source.scope_of(self.loop)

    # -- which calls led there -----------------------------------------------------------------

    def _frames(self, chain: Chain) -> list[_Frame]:
        """The frames of a chain, outermost first; a lambda is a part of where it is written."""
        return [self._frame(*each) for each in reversed(chain) if not self._is_inline(*each)]

    def _is_inline(self, file: Path, _: int, name: str) -> bool:
        return file in self.program.sources and name.startswith("<") and name != "<module>"

    def _frame(self, file: Path, line: int, name: str) -> _Frame:
        source = self.program.sources.get(file)
        if source is None:
            return _Frame(file, line, name, None, None)
        if name == "<module>":
            return _Frame(file, line, name, source, source.tree)
        named = (f for f in source.functions if f.name == name and _on(f, line))
        innermost = max(named, key=lambda f: f.lineno, default=None)
        return _Frame(file, line, name, source, innermost)

    def _inwards(self, chain: Chain) -> list[_Frame]:
        """The frames of a chain from the loop's own inwards; empty where it is not met."""
        frames = self._frames(chain)
        own = [n for n, frame in enumerate(frames) if frame.scope is self.scope]
        return frames[own[-1] :] if own else []

    def calls(self) -> dict[ast.Call, list[Function]]:
        """Calls of the program, and the functions of it that these led to, which reading lacks."""
        found: dict[ast.Call, list[Function]] = {}
        led = dict[tuple[object, ...], tuple[_Frame, _Frame]]()  # by their places: chains repeat
        for chain in (chain for each in self.seen.chains.values() for chain in each):
            own = [frame for frame in self._frames(chain) if frame.scope is not None]
            led |= {(outer[:3], inner[:3]): (outer, inner) for outer, inner in pairwise(own)}
        for outer, inner in led.values():
            call, function = self._call_at(outer), inner.function
            if call is None or function is None or outer.source is None or outer.scope is None:
                continue
            known = self.program.resolve(outer.source, outer.scope, call)
            among = found.setdefault(call, [])
            if function not in (*known, *among):
                among.append(function)
        return {call: functions for call, functions in found.items() if functions}

    def unread(self) -> Iterator[Caveat]:
        """That the step runs code that cannot be read, the loop's line that leads there."""
        told = dict[int, str]()
        for chain in (chain for each in self.seen.chains.values() for chain in each):
            frames = self._inwards(chain)
            hidden = next((f for f in frames if not f.is_readable), None)
            if hidden is not None:
                told.setdefault(frames[0].line, f"{hidden.name}() of {hidden.file.name}")
        for line, code in told.items():
            yield Caveat(
                "seen-unread",
                f"A run has shown that {code} is a part of the step, and it cannot be read: "
                "validation and saving around the loop stay, and what it reads of the device "
                "within the timed region is not named.",
                place=self.source.at(line),
            )

    # -- statements ----------------------------------------------------------------------------

    def _statements_on(self, source: Source, scope: ScopeNode, line: int) -> list[ast.stmt]:
        """The innermost statements of a scope on a line; several where `;` parts them."""
        on = [s for s in source.places if _on(s, line) and source.scope_of(s) is scope]
        return [s for s in on if not any(o is not s and contains(s, o) for o in on)]

    def _call_at(self, frame: _Frame) -> ast.Call | None:
        """The outermost call on the line of a frame."""
        if frame.source is None or frame.scope is None:
            return None
        found = self._statements_on(frame.source, frame.scope, frame.line)
        return _outermost_call(found[-1], frame.line) if found else None

    def _in_loop(self, line: int, *, first: bool = False) -> ast.stmt:
        """The statement of the loop on a line; of several the last, unless the first is wanted.

        Raises:
            Declined: it is not in the loop.
        """
        found = self._statements_on(self.source, self.scope, line)
        found = [s for s in found if s is not self.loop and contains(self.loop, s)]
        if not found:
            raise Declined(ForwardApart.of(self.source.path, line))
        return found[0 if first else -1]

    # -- the step ------------------------------------------------------------------------------

    def candidate(self) -> Candidate:
        """The loop with the backwards and updates that were seen.

        Raises:
            Declined: they are not in one loop.
        """
        sites = in_order(map(self._site, self.seen.backward))
        updates = tuple(map(self._update, sorted(self.seen.step)))
        return Candidate(self.knowledge, self.source, self.scope, self.loop, sites, updates)

    def _led_through(self, part: str, line: int) -> list[_Frame]:
        """The frames from the loop inwards that led through one of its lines to a part."""
        every = map(self._inwards, self.seen.chains.get(part, ()))
        return next((frames for frames in every if frames and frames[0].line == line), [])

    def _site(self, line: int) -> Site:
        statement = self._in_loop(line)
        call = _outermost_call(statement, line)
        if call is None:
            place = self.source.at(line)
            raise Declined(BackwardHidden.at(self.source, statement, optimizer="it", place=place))
        frames = self._led_through("backward", line)
        inner = [*takewhile(lambda frame: frame.function is not None, frames[1:])]
        chain = tuple(frame.function for frame in inner if frame.function is not None)
        source, scope, backward, at = self.source, self.scope, call, statement
        for frame in inner[-1:]:
            found = self._call_at(frame)
            held = frame.source.statement_of(found) if frame.source and found else None
            if frame.source is None or frame.scope is None or found is None or held is None:
                chain = ()
                break
            source, scope, backward, at = frame.source, frame.scope, found, held
        loss = self.knowledge.loss_of(source, scope, backward)
        return Site(statement, call, backward, at, source, loss, chain)

    def _update(self, line: int) -> Update:
        on = self._statements_on(self.source, self.scope, line)
        statement = on[-1] if on else self._in_loop(line)
        call = _outermost_call(statement, line)
        frames = self._led_through("step", line)
        helper = next((frame.function for frame in frames[1:2]), None)
        names: Sequence[str] = ()
        if call is not None:
            names = self.knowledge.stepped_by(self.source, self.scope, call)
        name = names[0] if names else dotted(call.func if call is not None else statement)
        return Update(self.source, self.scope, statement, call, name or "optimizer", helper)

    def forwards(self, candidate: Candidate) -> dict[Site, Forward]:
        """The start of the forward, which was seen first, for each backward.

        Raises:
            Declined: it is not in the loop, or behind a backward.
        """
        if not self.seen.forward:
            raise Declined(ForwardApart.at(self.source, self.loop))
        begin, flow = self._in_loop(self.seen.forward[0], first=True), candidate.flow
        found: dict[Site, Forward] = {}
        for site in candidate.sites:
            unit = beside(self.source, begin, site.statement)
            ahead = unit is site.statement or contains(unit, site.statement)
            if not ahead and not flow.path(flow.before(unit), flow.before(site.statement)):
                raise Declined(ForwardApart.at(site.backward_source, site.backward))
            found[site] = Forward(unit, begin, self.source, Evidence.RUN)
        return found


def _outermost_call(statement: ast.stmt, line: int) -> ast.Call | None:
    """The call on a line of a statement that is in no other one on it."""
    on: Iterable[ast.Call] = [call for call in own_calls(statement) if _on(call, line)]
    return next((c for c in on if not any(o is not c and contains(o, c) for o in on)), None)
