"""The mode in which statements leave modules, followed along the paths through them.

On each path a module is as it was found, or in the mode of its last switch; `if model.training:`
and the variable that keeps that tell what it was found in. So `if was_training: model.train()`
gives back what there was, and `model.eval()` below `if model.training:` leaves it in evaluation.
A variable that is set to `True` or to `False` tells which of the paths goes where it is asked.
Where a module is None there is none to be left in a mode.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.changes.skips.storage import Spelling
from instrumentor.read.bindings import Bound
from instrumentor.read.control_flow import END, START, Flow
from instrumentor.read.program import Program
from instrumentor.read.syntax import FUNCTIONS, LOOPS, ScopeNode, Source, bound_by, header

#: What runs a part of an expression never, or several times.
SOMETIMES = (
    *(ast.Lambda, ast.IfExp, ast.BoolOp, ast.GeneratorExp),
    *(ast.ListComp, ast.SetComp, ast.DictComp),
)


#: Functions that turn gradients on or off, as they are told, for all that follows.
SWITCHES_GRADIENTS = (
    "torch.set_grad_enabled",
    "torch.autograd.set_grad_enabled",
    "torch.autograd.grad_mode.set_grad_enabled",
)


class State(NamedTuple):
    """At the end of a path: in training mode now (None: as found), and when it was found."""

    now: bool | None = None
    found: bool | None = None

    @property
    def mode(self) -> bool | None:
        """The mode that it is in, as far as that is told."""
        return self.found if self.now is None else self.now

    @property
    def is_kept(self) -> bool:
        return self.now is None or self.now == self.found

    def then(self, other: State) -> State | None:
        """Behind a path that found it as this one left it; None where it did not."""
        if None not in (self.mode, other.found) and self.mode != other.found:
            return None
        found = other.found if self == State() else self.found
        return State(self.now if other.now is None else other.now, found)


States = frozenset[State]
#: Variables of which a path tells whether they are true.
Told = frozenset[tuple[str, bool]]
AS_FOUND: States = frozenset({State()})


class Mode(Struct, frozen=True):
    """A module whose mode is switched.

    Attributes:
        owner: the module as the examined statement's scope spells it.
        scope: where it is switched, and the text that it has there.
        ends: how that may leave it.
        restored: the variable whose value it is switched to, which may be what it was found in.
        is_flag: it is a flag of a library, which is on or off as a module is in either mode.
        is_group: it is all that a container holds.
        may_lack: there is none where it is None.
        one_of: as the examined scope spells them, modules of which it is one that is not told.
    """

    owner: Spelling
    scope: ScopeNode
    text: str
    ends: States
    restored: str = ""
    is_flag: bool = False
    is_group: bool = False
    may_lack: bool = False
    one_of: frozenset[Spelling] = frozenset()

    @property
    def line(self) -> str:
        """What puts it and its parts into the modes in which they are left; nothing if untold."""
        if self.is_kept:
            return "" if self.is_flag or self.is_group else self._given_back
        if self.training is None:
            return ""
        if self.text in SWITCHES_GRADIENTS:
            return f"{self.owner.text}({self.training})"
        if self.is_flag:
            return f"{self.owner.text} = {self.training}"
        switch = "train" if self.training else "eval"
        if self.is_group:
            held = self.owner.text.removeprefix("[*")
            held = held if held == self.owner.text else held[:-1]
            return f"[each.{switch}() for each in {held}]"
        return f"{self._unless}{self.owner.text}.{switch}()"

    @property
    def _given_back(self) -> str:
        """Parts that were in another mode than the whole are in its mode then."""
        module, unless = self.owner.text, self._unless
        training, evaluation = self._last(found=True), self._last(found=False)
        if (training, evaluation) == ({True}, {False}):
            return f"{unless}{module}.train() if {module}.training else {module}.eval()"
        if training == {True} and evaluation <= {None}:
            return f"{unless}{module}.training and {module}.train()"
        if evaluation == {False} and training <= {None}:
            return f"{unless}{module}.training or {module}.eval()"
        return ""

    def _last(self, *, found: bool) -> set[bool | None]:
        """The last switch on each path on which it was found so."""
        return {end.now for end in self.ends if end.found in (None, found)}

    @property
    def _unless(self) -> str:
        return f"if {self.owner.text} is not None: " if self.may_lack else ""

    @property
    def key(self) -> Spelling:
        """Modules that cannot be spelled are told apart by where they are switched."""
        if self.is_flag:
            return Spelling(self.text)
        return self.owner if self.owner.text else Spelling(self.text, self.scope)

    @property
    def is_kept(self) -> bool:
        """Given back as it was found."""
        return all(end.is_kept for end in self.ends)

    @property
    def training(self) -> bool | None:
        """The mode in which every path leaves it; None where they differ, or that is not told."""
        modes = {end.mode for end in self.ends}
        return modes.pop() if len(modes) == 1 else None

    def or_not(self) -> Mode:
        """Where it may not be switched at all."""
        return replace(self, ends=self.ends | AS_FOUND)


def join(before: Mode | None, mode: Mode) -> Mode:
    """A switch behind another of the same module."""
    if before is None or mode.restored:
        return mode
    return replace(
        mode,
        ends=_then(before.ends, mode.ends),
        may_lack=before.may_lack or mode.may_lack,
        one_of=_one_of([before, mode]),
    )


def _one_of(modes: Iterable[Mode]) -> frozenset[Spelling]:
    """The modules of which several switches take one; empty where they differ in these."""
    every = {mode.one_of for mode in modes}
    return every.pop() if len(every) == 1 else frozenset()


def _then(before: Iterable[State], after: Iterable[State]) -> States:
    ends = [*after]
    found = (state.then(end) for state in before for end in ends)
    return frozenset(state for state in found if state is not None)


class Paths(Struct, dict=True):
    """The paths through a function, or through a statement.

    Attributes:
        switches: of each statement what it does by itself, not what is below it.
        out: statements that are passed over; no path leads into `never`.
        key_of: what a module's expression is told by, as in `Mode.key`.
    """

    program: Program
    source: Source
    scope: ScopeNode
    flow: Flow
    switches: dict[ast.stmt, list[Mode]]
    out: Collection[ast.stmt]
    never: Callable[[ast.stmt], bool]
    key_of: Callable[[ast.expr], Spelling]

    def left(self) -> dict[Spelling, Mode]:
        """How each module is left at the end."""
        every: dict[Spelling, list[Mode]] = {}
        for mode in (m for modes in self.switches.values() for m in modes):
            every.setdefault(mode.key, []).append(mode)
        return {
            key: replace(
                modes[-1],
                ends=self._ends(key),
                restored="",
                may_lack=self._may_lack(key) or any(m.may_lack for m in modes),
                one_of=_one_of(modes),
            )
            for key, modes in every.items()
        }

    def _ends(self, key: Spelling) -> States:
        flow, starts = self.flow, {p: s for s, p in self.flow.begins.items()}
        known: dict[int, set[tuple[Told, State]]] = {START: {(frozenset(), State())}}
        waiting = [START]
        while waiting:
            point = waiting.pop()
            statement, every = starts.get(point), _by_told(known[point])
            if statement is not None and statement in self.out:
                point, statement = flow.after(statement), None
            for told, before in every.items():
                for way, there in self._goes_on(statement, point, key, told, before):
                    into = starts.get(way)
                    if into is not None and self.never(into):
                        continue
                    if not there <= known.setdefault(way, set()):
                        known[way] |= there
                        waiting.append(way)
        return frozenset(state for _, state in known[END]) if END in known else AS_FOUND

    def _goes_on(
        self, statement: ast.stmt | None, point: int, key: Spelling, told: Told, before: States
    ) -> Iterator[tuple[int, set[tuple[Told, State]]]]:
        """Where the paths go from a point that tell the same of the variables."""
        states, behind = before, told
        if statement is not None:
            states = self._switched(statement, key, before)
            behind = self._sets(statement, told)
        for way, truth in self._ways(statement, point):
            there = behind, states
            if truth is not None and isinstance(statement, (ast.If, ast.While)):
                there = self._where(statement.test, key, there, statement, truth=truth)
            yield way, {(there[0], state) for state in there[1]}
        for way in self.flow.failing.get(point, ()):
            yield way, {*((behind, s) for s in states), *((told, s) for s in before)}

    def _switched(self, statement: ast.stmt, key: Spelling, states: States) -> States:
        for mode in self.switches.get(statement, ()):
            if mode.key != key:
                continue
            if not mode.restored:
                states = _then(states, mode.ends)
            elif self._tells(mode.restored, key, statement) is True:
                found = {state.found for state in states}
                found = {True, False} if None in found else found
                states = frozenset(State(mode, mode) for mode in found)
            else:
                states = frozenset(State(now, s.found) for s in states for now in (True, False))
        return states

    def _ways(self, statement: ast.stmt | None, point: int) -> Iterator[tuple[int, bool | None]]:
        """What follows a point, and what a test there has to come to for that."""
        following = self.flow.following[point]
        if isinstance(statement, (ast.If, ast.While)) and len(following) > 1:
            yield from zip(following, (True, False), strict=False)
            return
        yield from ((way, None) for way in following)

    # -- what was found ------------------------------------------------------------------------

    def _where(
        self,
        test: ast.expr,
        key: Spelling,
        paths: tuple[Told, States],
        at: ast.stmt,
        *,
        truth: bool,
    ) -> tuple[Told, States]:
        """The paths on which a test comes to that, with what it tells of them."""
        told, states = paths
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self._where(inner, key, paths, at, truth=not truth)
            case ast.BoolOp(op=op, values=values) if truth is isinstance(op, ast.And):
                for value in values:
                    paths = self._where(value, key, paths, at, truth=truth)
                return paths
            case ast.Attribute(attr="training", value=module) if self.key_of(module) == key:
                return told, _then(states, frozenset({State(None, truth)}))
            case ast.Compare() if self._asks_for_none(test, key) is truth:
                return told, frozenset()
            case ast.Name(id=name) if (name, not truth) in told:
                return told, frozenset()
            case ast.Name(id=name):
                sign = self._tells(name, key, at)
                if sign is not None:
                    was = truth is sign
                    known = (s for s in states if s.found in (None, was))
                    states = frozenset(State(s.now, was) for s in known)
        return told, states

    def _may_lack(self, key: Spelling) -> bool:
        nodes = (node for statement in self.flow.begins for node in header(statement))
        return any(self._asks_for_none(node, key) is not None for node in nodes)

    def _asks_for_none(self, node: ast.AST, key: Spelling) -> bool | None:
        """Whether a test is true where a module is None, or where it is not."""
        match node:
            case ast.Compare(
                left=module, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(None)]
            ) if self.key_of(module) == key:
                return isinstance(op, ast.Is)
        return None

    def _sets(self, statement: ast.stmt, told: Told) -> Told:
        """What is told of the variables behind a statement."""
        bound = {name for node in header(statement) for name in bound_by(node)}
        behind = frozenset(one for one in told if one[0] not in bound)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=bool(value))):
                if name in self._own:
                    return behind | {(name, value)}
        return behind

    @cached_property
    def _own(self) -> set[str]:
        """Variables that only this function binds, not one inside of it or around it."""
        names, source, scope = self.program.names, self.source, self.scope
        bound = {name for at in self.flow.begins for n in header(at) for name in bound_by(n)}
        return {
            name
            for name in bound
            if isinstance(scope, FUNCTIONS)
            if names.binder(source, scope, name) is scope
            if all(
                source.scope_of(b.value) is scope
                for b in names.bound(source, scope, name)
                if isinstance(b, Bound)
            )
        }

    def _tells(self, name: str, key: Spelling, at: ast.stmt) -> bool | None:
        """Whether a variable is true where the module was found in training, or in evaluation."""
        names = self.program.names
        if names.binder(self.source, self.scope, name) is not self.scope:
            return None
        bound = names.bound(self.source, self.scope, name)
        if not all(isinstance(b, Bound) and not b.path for b in bound):
            return None
        values = [b.value for b in bound if isinstance(b, Bound)]
        match values:
            case [ast.UnaryOp(op=ast.Not(), operand=value)] if self._is_asked(value, key, at):
                return False
            case [value] if self._is_asked(value, key, at):
                return True
        return None

    def _is_asked(self, node: ast.expr, key: Spelling, at: ast.stmt) -> bool:
        """`model.training` read as it was found, on each way to a statement."""
        match node:
            case ast.Attribute(attr="training", value=module) if self.key_of(module) == key:
                pass
            case _:
                return False
        asks, flow = self.source.statement_of(node), self.flow
        if asks not in flow.begins or any(isinstance(p, LOOPS) for p in self._around(asks)):
            return False
        switched = (s for s, modes in self.switches.items() if any(m.key == key for m in modes))
        here = flow.before(asks)
        if any(s is asks or flow.path(flow.before(s), here, failing=True) for s in switched):
            return False
        return asks is at or not flow.path(START, flow.before(at), {here})

    def _around(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        for parent in self.source.parents(statement):
            if parent in self.flow.begins:
                yield parent


def _by_told(paths: Iterable[tuple[Told, State]]) -> dict[Told, States]:
    found: dict[Told, set[State]] = {}
    for told, state in paths:
        found.setdefault(told, set()).add(state)
    return {told: frozenset(states) for told, states in found.items()}


def sometimes(statement: ast.stmt) -> bool:
    """Whether a part of what a statement itself computes may not run, or run several times."""
    return any(isinstance(node, SOMETIMES) for node in header(statement))


def flow_through(statement: ast.stmt) -> Flow:
    """The paths through one statement."""
    return Flow([statement], returned=END)


def switches_itself(node: ast.AST) -> bool:
    """`model = model.eval()`, which binds the name to what it has."""
    match node:
        case ast.Assign(
            targets=[target], value=ast.Call(func=ast.Attribute(value=owner, attr=word), args=[])
        ):
            return word in ("eval", "train") and ast.unparse(target) == ast.unparse(owner)
    return False
