"""What an evaluation does whose model nobody has put into evaluation mode.

Dropout takes random numbers then, and batch normalization changes its running statistics.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from msgspec import Struct, field

from instrumentor.locate.changes.skips.facts import Facts, Place
from instrumentor.locate.changes.skips.implicit import Implicit
from instrumentor.locate.meaning import libraries
from instrumentor.read.constants import Running, run_by
from instrumentor.read.names import external_name
from instrumentor.read.program import Function
from instrumentor.read.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    argument,
    arguments,
    below,
    callee,
    contains,
    own_calls,
    path_to,
)
from instrumentor.read.values import (
    Class,
    External,
    Free,
    Group,
    Item,
    Member,
    Object,
    Opaque,
    Value,
)

#: Callers that are followed outwards, and objects inwards.
_DEPTH, _MOST = 6, 200


class TrainingMode(Struct, eq=False):
    """Calls of modules in a piece, as far as they may run in training mode.

    Attributes:
        draws: one takes random numbers there.
        tracks: one that changes its buffers, as `FILE:LINE`, else nothing.
        makes: one that may make its weights, in whatever mode, likewise.
    """

    facts: Facts
    piece: Place
    draws: bool = False
    tracks: str = ""
    makes: str = ""
    _inside: Running = field(default_factory=Running)

    def read(self) -> TrainingMode:
        source, scope, statement = self.piece
        program = self.facts.program
        self._inside = run_by(program, scope, [statement])
        calls: list[tuple[Source, ScopeNode, ast.Call]]
        calls = [(source, scope, c) for c in own_calls(statement)]
        calls += self._inside.calls(program)
        for where, inner, call in calls:
            if self.facts.objects.is_module(where, inner, call.func):
                self._run(where, inner, call)
        return self

    def _run(self, source: Source, scope: ScopeNode, call: ast.Call) -> None:
        names = self.facts.program.names
        made = list(self._holds(list(names.of(source, scope, call.func))))
        made += self._functional(source, scope, call)
        if any(libraries.is_made_when_called(name) for name, _ in made):
            self.makes = self.makes or source.at(call.lineno)
        draws = any(libraries.draws_in_training(n, told=_told(c)) and _some(c) for n, c in made)
        tracks = any(_tracks(n, c) for n, c in made)
        tracks |= bool(self.facts.reader.carried.by(source, scope, call, training=True))
        tracks |= self._runs_untold(source, scope, call)
        at = source.statement_of(call)
        if not (draws or tracks) or at is None:
            return
        ids = self._ids(source, scope, call.func)
        if _switches_here(call.func) or self._evaluating(source, scope, at, ids, _DEPTH):
            return
        self.draws |= draws
        self.tracks = self.tracks or (source.at(call.lineno) if tracks else "")

    # -- what a module holds -------------------------------------------------------------------

    def _holds(self, waiting: list[Value]) -> Iterator[tuple[str, ast.Call]]:
        """Library classes that are called where a module is made, its parts included."""
        names, seen = self.facts.program.names, set[Value]()
        while waiting and len(seen) < _MOST:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            calls: list[tuple[Source, ScopeNode, ast.Call]] = []
            if isinstance(value, Object):
                waiting.append(value.made_by)
                if value.where is not None and value.node is not None:
                    calls = [(*value.where, c) for c in _all_calls(value.node)]
            elif isinstance(value, Class):
                for cls in self.facts.program.bases(value):
                    for method in cls.source.class_of:
                        if cls.source.class_of[method] is cls.node and method.name != "forward":
                            calls += [(cls.source, method, c) for c in own_calls(method)]
            elif isinstance(value, Function):
                calls = [(value.source, value.node, c) for c in own_calls(value.node)]
            for source, scope, call in calls:
                yield from self._classes(source, scope, call)
                waiting += names.of(source, scope, call.func)
                for given in arguments(call):
                    waiting += [v for v in names.of(source, scope, given) if isinstance(v, Object)]

    def _classes(
        self, source: Source, scope: ScopeNode, call: ast.Call
    ) -> Iterator[tuple[str, ast.Call]]:
        """What a call may make, with the options that it or a `partial` of the class gives."""
        names = self.facts.program.names
        name = names.qualified(source, scope, call.func)
        if name:
            yield name, call
        for value in names.of(source, scope, call.func):
            if isinstance(value, External) and value.name.rpartition(".")[2] != callee(call):
                yield from ((value.name, made) for made in (call, *self._bound(value.name)))

    def _bound(self, name: str) -> Iterator[ast.Call]:
        """`partial(InstanceNorm2d, affine=True)` as the call that it makes of what it is given."""
        program = self.facts.program
        for source in program.sources.values():
            for call in source.calls:
                if callee(call) == "partial" and call.args:
                    scope = source.scope_of(call)
                    if program.names.qualified(source, scope, call.args[0]) == name:
                        yield ast.Call(call.args[0], call.args[1:], call.keywords)

    def _functional(
        self, source: Source, scope: ScopeNode, call: ast.Call
    ) -> Iterator[tuple[str, ast.Call]]:
        """Functions of libraries that a forward calls."""
        names = self.facts.program.names
        for run in Implicit(self.facts.program).run_by(source, scope, call.func):
            for inner in own_calls(run.node):
                if name := names.qualified(run.source, run.node, inner.func):
                    yield name, inner

    def _runs_untold(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """Whether a module runs parts of which no class is told: `encoders[settings["name"]]()`."""
        return any(
            isinstance(inner.func, (ast.Attribute, ast.Subscript))
            and any(map(_is_untold, self.facts.program.names.of(run.source, run.node, inner.func)))
            and self.facts.objects.is_module(run.source, run.node, inner.func)
            for run in Implicit(self.facts.program).run_by(source, scope, call.func)
            for inner in own_calls(run.node)
        )

    # -- who switches it -----------------------------------------------------------------------

    def _ids(self, source: Source, scope: ScopeNode, node: ast.expr) -> set[Value]:
        """What a module may be, what it is a part of, and what it was made around."""
        found: set[Value] = set()
        while True:
            found |= set(self.facts.program.names.of(source, scope, node))
            if not isinstance(node, (ast.Attribute, ast.Subscript)):
                break
            node = node.value
        for value in list(found):
            found |= {Object(value.made_by)} if isinstance(value, Object) else set()
            if isinstance(value, Member):
                found.add(value.owner)
        for value in list(found):
            if isinstance(value, Object) and value.node and value.where:
                if external_name(value.made_by):
                    for given in arguments(value.node):
                        found |= set(self.facts.program.names.of(*value.where, given))
        return found

    def _evaluating(
        self, source: Source, scope: ScopeNode, at: ast.stmt, ids: set[Value], depth: int
    ) -> bool:
        """Whether every way to a statement has come by a switch to evaluation mode last."""
        for suite, index in reversed(path_to(source, scope, at)):
            for before in reversed(suite[:index]):
                switched = self._switched(source, scope, before, ids)
                if switched is not None:
                    return switched
        if not isinstance(scope, FUNCTIONS) or not depth:
            return False
        program = self.facts.program
        callers = [
            (program.source_of_scope[s], s, at) for s, _, at in program.callers.get(scope, ())
        ]
        inside = scope in self._inside.functions
        within = [c for c in callers if self._is_within(*c)] if inside else []
        callers = within or callers
        return bool(callers) and all(self._evaluating(*c, ids, depth - 1) for c in callers)

    def _is_within(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
        own = self.piece[0] is source and contains(self.piece[2], statement)
        out = self._inside.functions.get(scope)
        return own or (out is not None and statement not in out)

    def _switched(
        self, source: Source, scope: ScopeNode, statement: ast.stmt, ids: set[Value]
    ) -> bool | None:
        """Whether a statement puts a module into evaluation mode; None where it does not switch."""
        program = self.facts.program
        running = run_by(program, scope, [statement])
        out = self._inside.functions.get(scope, frozenset())
        calls = [
            (source, scope, c) for c in own_calls(statement) if source.statement_of(c) not in out
        ]
        calls += running.calls(program)
        out = out.union(*running.functions.values())
        last: dict[ScopeNode, bool] = {}
        for where, inner, call in sorted(calls, key=lambda c: c[2].lineno):
            to = switch(call)
            if to is None or not isinstance(call.func, ast.Attribute):
                continue
            mine = self._ids(where, inner, call.func.value)
            if mine and ids and not mine & ids:
                continue
            if not to or _is_certain(where, call, statement, out):
                last[inner] = to
        return all(last.values()) if last else None


def _is_untold(value: Value) -> bool:
    """An element of what is no container of modules, or what is known by its place alone."""
    while isinstance(value, Item):
        value = value.owner
        if not isinstance(value, (Item, Group)) and not _is_container(value):
            return True
    return isinstance(value, (Free, Opaque))


def _is_container(value: Value) -> bool:
    made = external_name(value.made_by) if isinstance(value, Object) else ""
    return made.startswith("torch.nn.") or (isinstance(value, Object) and not made)


def switch(call: ast.Call) -> bool | None:
    """To evaluation mode, to training mode; None for another call, or the mode that there was."""
    word = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    match word, call.args:
        case "eval", []:
            return True
        case "train", []:
            return None if call.keywords else False
        case "train", [ast.Constant(value=value)]:
            return not value
    return None


def _switches_here(function: ast.expr) -> bool:
    """`model.eval()(x)`"""
    return isinstance(function, ast.Call) and switch(function) is True


def _is_certain(source: Source, call: ast.Call, top: ast.stmt, out: Collection[ast.stmt]) -> bool:
    """Not under a condition, unless that is decided, asks for the mode, or both ways switch.

    Args:
        top: a statement that has run: what is around it asks for nothing more.
        out: statements that no call comes to.
    """
    statement = source.statement_of(call)
    if statement is top:
        return True
    for parent in source.parents(statement) if statement is not None else ():
        if isinstance(parent, ast.If) and ".training" not in ast.unparse(parent.test):
            decided = any(s in out for s in (*parent.body, *parent.orelse))
            if not decided and not all(
                any(switch(c) for s in part for c in own_calls(s))
                for part in (parent.body, parent.orelse)
            ):
                return False
        if isinstance(parent, ast.Match):
            return False
        if parent is top:
            break
    return True


def _all_calls(call: ast.Call) -> list[ast.Call]:
    return [call, *(n for n in below(call) if isinstance(n, ast.Call))]


def _told(call: ast.Call) -> bool:
    return argument(call, "dropout") is not None


def _some(call: ast.Call) -> bool:
    """Not `Dropout(0)`, `dropout=0.0` or `training=False`."""
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg in ("p", "dropout"))]
    given += [k.value for k in call.keywords if k.arg == "training"]
    nothing = (n.value for n in given if isinstance(n, ast.Constant))
    return not any(isinstance(v, (int, float)) and not v for v in nothing)


def _tracks(name: str, call: ast.Call) -> bool:
    """Whether what a call makes changes its buffers; in doubt it does."""
    switch = libraries.tracks_in_training(name)
    if switch is None or not switch.option:
        return switch is not None and switch.is_on
    told = argument(call, switch.option, at=switch.at)
    if told is not None:
        return not isinstance(told, ast.Constant) or bool(told.value)
    more = any(k.arg is None for k in call.keywords)
    return switch.is_on or more or any(isinstance(a, ast.Starred) for a in call.args)
