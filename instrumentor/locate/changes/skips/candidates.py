"""Where to look: evaluations ahead of the loops, evaluations and saves between the samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from instrumentor.locate.changes.skips.effects import Files
from instrumentor.locate.changes.skips.facts import Facts, Place
from instrumentor.locate.changes.skips.storage import Frame, TooMuch
from instrumentor.locate.changes.skips.training_mode import switch
from instrumentor.locate.located import Kept
from instrumentor.locate.meaning import methods
from instrumentor.locate.meaning.host_values import is_logging, is_validation_name
from instrumentor.read.control_flow import flow_of
from instrumentor.read.names import external_name
from instrumentor.read.program import Function
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    LoopNode,
    ScopeNode,
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
from instrumentor.read.values import Class, Group, Object

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)
_NOTHING = ("", "")
#: What only runs a model behind the step, whatever it is for, in a constructor, or ahead of the
#: first sample with nothing to show for it; what is written there and is no weight. Nothing is said
#: of one that stays.
_RUNS, _MAKES, _WRITES = "runs a model", "makes an object", "writes a file"
_SETS_UP = "shows and gives nothing"
_QUIET = {**dict.fromkeys((_RUNS, _MAKES, _SETS_UP), "validation"), _WRITES: "checkpoint"}
_PICTURES = (*methods.WRITES_PICTURES, "savefig", "save_image")


class When(Enum):
    """When a statement runs, seen from the samples."""

    AHEAD = "ahead of the first"
    EARLY = "in a loop around theirs, and ahead of the first"
    STEP = "between them"
    HELPER = "between them, in a function that holds the step"
    EPOCH = "in a loop around theirs, and behind some"


class Piece(Struct, frozen=True, eq=False):
    """One evaluation or save; `quiet` where nothing but that it may go makes it one.

    Attributes:
        parts: of a branch that evaluates what may go by itself where the branch as a whole stays.
    """

    source: Source
    scope: ScopeNode
    statement: ast.stmt
    when: When
    what: str  # validation | checkpoint
    quiet: bool = False
    parts: tuple[Piece, ...] = ()

    @property
    def initial(self) -> bool:
        return self.when is When.AHEAD

    def holds(self, other: Piece) -> bool:
        return other.source is self.source and contains(self.statement, other.statement)

    def kept(self, why: str) -> Kept:
        seldom = self.when is When.EPOCH
        return Kept(self.source, self.statement, self.initial, self.what, why, seldom)


def find_pieces(facts: Facts) -> tuple[list[Piece], list[Kept]]:
    """The outermost statements that evaluate or save.

    Returns:
        Those that can be read, in source order, and those that cannot.
    """
    search = _Search(facts)
    found: list[Piece] = []
    kept: list[Kept] = []
    for place, when in search.places():
        for piece, why in search.pieces(place, when):
            if why:
                kept.append(piece.kept(why))
            elif not any(p.holds(piece) for p in found):
                found.append(piece)
    return found, list(dict.fromkeys(kept))


class _Search(Struct, eq=False):
    facts: Facts

    def places(self) -> Iterator[tuple[Place, When]]:
        """The statements between the samples, and those ahead of the first."""
        again = self.facts.repeated
        for source, scope, anchor in self.facts.anchors:
            loops = [s for s in (anchor, *source.loops_around(anchor)) if isinstance(s, LOOPS)]
            steps = self._loop_of_update(loops) if scope is self.facts.candidate.scope else None
            for suite, index in path_to(source, scope, anchor):
                at = suite[index]
                inside = bool(loops) and at is not loops[-1] and contains(loops[-1], at)
                for statement in suite[:index]:
                    yield (source, scope, statement), When.EARLY if inside else When.AHEAD
                for statement in suite[index + 1 :] if inside or scope in again else ():
                    inner = steps is not None and contains(steps, statement)
                    yield (source, scope, statement), When.STEP if inner else When.EPOCH
            for statement in anchor.body if isinstance(anchor, LOOPS) else ():
                yield (source, scope, statement), When.STEP
        for helper in self.facts.helpers.found:
            source, scope = helper.function.source, helper.function.node
            for statement in scope.body:
                yield (source, scope, statement), When.HELPER

    def pieces(self, place: Place, when: When) -> Iterator[tuple[Piece, str]]:
        """Pieces in or below a statement, outermost first, and why one is unread."""
        source, scope, _ = place
        for hit, what, why in self.hits(place, when is When.AHEAD):
            if when in (When.AHEAD, When.EARLY) and not self.trains_after(scope, hit):
                continue
            if when is When.HELPER and not self.facts.helpers.runs_with_the_step(scope, hit):
                continue
            quiet = what in _QUIET or (when is When.HELPER and self.may_feed(scope, hit, what))
            inner = hit.body if isinstance(hit, ast.If) and what == "validation" else ()
            parts = [p for s in inner for p, _ in self.pieces((source, scope, s), when)]
            named = _QUIET.get(what, what)
            yield Piece(source, scope, hit, when, named, quiet, tuple(parts)), why

    def trains_after(self, scope: ScopeNode, statement: ast.stmt) -> bool:
        """Whether a path leads on to the samples, as none does from `if args.evaluate`."""
        flow = flow_of(scope)
        anchors = [anchor for _, where, anchor in self.facts.anchors if where is scope]
        return any(flow.path(flow.after(statement), flow.before(each)) for each in anchors)

    def may_feed(self, scope: ScopeNode, statement: ast.stmt, what: str) -> bool:
        """Ahead of the step, and not called an evaluation: a teacher's answer, say."""
        named = any(is_validation_name(callee(call)) for call in own_calls(statement))
        ahead = self.facts.helpers.may_come_first(scope, statement)
        return what == "validation" and ahead and not named

    def _loop_of_update(self, loops: list[LoopNode]) -> LoopNode | None:
        """The loop whose iterations are whole steps: with nested micro-steps the one around."""
        updates = [u.statement for u in self.facts.candidate.updates]
        found = (p for p in loops if any(contains(p, u) for u in updates))
        return next(found, next(iter(loops), None))

    def hits(self, place: Place, initial: bool) -> Iterator[tuple[ast.stmt, str, str]]:
        """Evaluations and saves in or below a statement, outermost first; why one is unread."""
        source, scope, statement = place
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return
        if statement in self.facts.options.never:
            return
        trains = self.facts.leads_to_step(source, statement)
        if statement in self.facts.of_the_step and not trains:
            for suite in suites(statement) if isinstance(statement, ast.If) else ():
                for part in suite:
                    yield from self.hits((source, scope, part), initial)
            return
        frame = Frame(source, scope)
        if not trains and self.facts.knowledge.without_gradients(source, statement):
            if self._runs_a_model(frame, statement):
                quiet = initial and self._sets_up(frame, statement)
                yield statement, _SETS_UP if quiet else "validation", ""
            return
        if what := "" if trains else self._as_a_whole(frame, statement, initial):
            yield statement, what, ""
            return
        for suite in suites(statement):
            ends = isinstance(suite[-1], (ast.Return, ast.Raise))
            for part in suite if not (initial and ends) else ():  # that comes to no sample
                yield from self.hits((source, scope, part), initial)
        if isinstance(statement, _SIMPLE) and not trains:
            what, why = self._simple(frame, statement, initial)
            if not what and not initial and self._is_behind_eval(frame, statement):
                what = "validation"
            if not what and self._is_behind_the_step(frame, statement):
                what = _RUNS
            if what:
                yield statement, what, why

    def _as_a_whole(self, frame: Frame, statement: ast.stmt, initial: bool) -> str:
        if self._walks_over_data(frame, statement):
            return "validation"
        if not initial and self._is_a_branch_behind_eval(frame, statement):
            return "validation"
        return _WRITES if initial and self._records(frame, statement) else ""

    def _records(self, frame: Frame, statement: ast.stmt) -> bool:
        """Writes pictures, options or settings: `with open(path, 'w') as f: json.dump(args, f)`"""
        objects, where = self.facts.objects, (frame.source, frame.scope)
        calls = own_calls(statement) if isinstance(statement, (ast.Expr, ast.With)) else []
        if isinstance(statement, ast.With) and not all(
            objects.is_file(*where, item.context_expr, written=True) for item in statement.items
        ):
            return False
        functions = [f for call in calls for f in self.facts.reader.functions(frame, call)]
        inside = [*calls, *(c for f in functions for c in own_calls(f.node))]
        if any(callee(call) in _PICTURES for call in inside):
            return True
        given = (n for call in calls for a in arguments(call) for n in (a, *below(a)))
        return any(callee(call) in ("open", "dump") for call in inside) and any(
            isinstance(n, (ast.Name, ast.Attribute))
            and (objects.is_of_options(*where, n) or self._is_of_settings(frame, n))
            for n in given
        )

    def _is_of_settings(self, frame: Frame, node: ast.expr) -> bool:
        """`params = dict(layers=2, bidirectional=args.both)`: by names that are written out."""
        values = self.facts.program.names.of(frame.source, frame.scope, node)
        return bool(values) and all(
            (isinstance(v, Group) and bool(v.keys) and all(isinstance(k, str) for k in v.keys))
            or (
                isinstance(v, Object)
                and external_name(v.made_by) == "builtins.dict"
                and isinstance(v.node, ast.Call)
                and not v.node.args
                and all(k.arg is not None for k in v.node.keywords)
            )
            for v in values
        )

    def _walks_over_data(self, frame: Frame, statement: ast.stmt) -> bool:
        """A loop over a data loader that only runs a model."""
        return (
            isinstance(statement, ast.For)
            and self.facts.objects.walked(frame.source, frame.scope, statement.iter) is not None
            and self._only_runs(frame, statement)
        )

    def _is_behind_the_step(self, frame: Frame, statement: ast.stmt) -> bool:
        """Behind the update, and it only runs a model: `error = criterion(net(x))`, `show(net)`"""
        updates = self.facts.updates
        path = path_to(frame.source, frame.scope, statement)
        before = [s for suite, index in path for s in suite[:index]]
        after = [s for suite, index in path for s in suite[index + 1 :]]
        is_sync, where = self.facts.knowledge.is_sync, (frame.source, frame.scope)
        if any(is_sync(*where, call) for call in own_calls(statement)):
            return False  # by a name of which nothing else is known
        return (
            isinstance(statement, (ast.Assign, ast.Expr))
            and self._calls_a_model(frame, statement)
            and any(contains(s, u) for s in before for u in updates)
            and not any(contains(s, u) for s in (statement, *after) for u in updates)
            and self._only_runs(frame, statement)
        )

    def _is_behind_eval(self, frame: Frame, statement: ast.stmt) -> bool:
        """`model.eval()` ahead of it in its suite, and it only runs a model."""
        if not self._calls_a_model(frame, statement):
            return False
        place = frame.source.places[statement]
        switches = [
            switch(call)
            for before in place.suite[: place.index]
            if isinstance(before, (ast.Expr, ast.Assign))
            for call in own_calls(before)
            if isinstance(call.func, ast.Attribute)
            and self.facts.objects.is_module(frame.source, frame.scope, call.func.value)
        ]
        told = [to for to in switches if to is not None]
        return told[-1:] == [True] and self._only_runs(frame, statement)

    def _is_a_branch_behind_eval(self, frame: Frame, statement: ast.stmt) -> bool:
        """`if step % 10 == 0:` with a batch of its own, `model.eval()` and what only runs that."""
        return (
            isinstance(statement, ast.If)
            and not statement.orelse
            and any(
                isinstance(s, _SIMPLE) and self._is_behind_eval(frame, s) for s in statement.body
            )
            and self._only_runs(frame, statement)
            and not self.facts.reader.of(frame.source, frame.scope, [statement]).unknown
        )

    def _calls_a_model(self, frame: Frame, statement: ast.stmt) -> bool:
        """Not only something that the step calls too, as it does a barrier."""
        is_model, runs = self.facts.knowledge.is_model, self.facts.does
        return any(
            is_model(frame.source, frame.scope, call.func)
            or any(runs(f).runs_a_model for f in self.facts.reader.functions(frame, call))
            for call in own_calls(statement)
        )

    def _only_runs(self, frame: Frame, statement: ast.stmt) -> bool:
        """Runs a model and trains nothing."""
        knowledge, where = self.facts.knowledge, (frame.source, frame.scope)
        return self._runs_a_model(frame, statement) and not any(
            knowledge.is_backward(*where, call)
            or knowledge.is_step(*where, call)
            or self._trains(frame, call)
            for call in own_calls(statement)
        )

    def _trains(self, frame: Frame, call: ast.Call) -> bool:
        """Whether a call runs a function that trains, with what the call writes out."""
        trains = self.facts.knowledge.trains
        return any(trains(frame.scope, call, f) for f in self.facts.reader.functions(frame, call))

    def _simple(self, frame: Frame, statement: ast.stmt, initial: bool) -> tuple[str, str]:
        """What a simple statement is by its calls, and why it cannot be read.

        What saves ahead of the first sample somewhere below, or gives something, makes data or a
        model; between samples what gives something that it may read from a file too.
        """
        calls = own_calls(statement)
        gives = not isinstance(statement, ast.Expr)
        may_save = not gives or not (initial or self._reads_too(frame, statement))
        evaluates, why = self._evaluates(frame, calls)
        if (evaluates or why) and gives and self._makes(frame, calls):
            if evaluates:
                return _MAKES, ""
            why = ""
        if evaluates and initial and not gives and self._sets_up(frame, statement):
            return _SETS_UP, ""
        if evaluates or (why and initial):
            return "validation", why
        if may_save and any(self._saves(frame, c, itself=initial) for c in calls):
            return "checkpoint", ""
        if why:
            return "validation", why
        is_save = self.facts.knowledge.is_save
        if not initial and any(is_save(frame.source, frame.scope, c) for c in calls):
            return "checkpoint", "what it does cannot be read"
        return _NOTHING

    def _makes(self, frame: Frame, calls: list[ast.Call]) -> bool:
        """`trainer = Trainer(options)`, `model = build(options)`: what a model gives on the way."""
        where, program = (frame.source, frame.scope), self.facts.program
        return any(
            not is_validation_name(callee(call))
            and (
                self.facts.objects.is_module(*where, call)
                or any(isinstance(value, Class) for value in program.of(*where, call.func))
            )
            for call in calls[:1]
        )

    def _sets_up(self, frame: Frame, statement: ast.stmt) -> bool:
        """`model.initialize(batch)`: no call in it is named, shows or gives what a validation does.

        What it is for can only be what it changes: statistics of the data, shapes of weights.
        """
        inside = self.facts.program.called_from(frame.scope, [statement])
        functions = [node for node in inside if isinstance(node, FUNCTIONS)]
        called = [c for node in functions for c in own_calls(node)]
        first = (
            f.node for c in own_calls(statement) for f in self.facts.reader.functions(frame, c)
        )
        return not any(
            is_logging(call) or is_validation_name(callee(call))
            for call in (*own_calls(statement), *called)
        ) and not any(
            isinstance(n, ast.Return) and n.value is not None
            for node in first
            for n in own_nodes(node)
        )

    def _evaluates(self, frame: Frame, calls: list[ast.Call]) -> tuple[bool, str]:
        """A call of a function that runs a model, trains nothing and uses no gradients."""
        hidden = ""
        for call in calls:
            functions = self.facts.reader.functions(frame, call)
            named = is_validation_name(callee(call))  # its gradients are nobody's
            if not self._trains(frame, call) and any(
                self._is_evaluation(f, named=named) for f in functions
            ):
                return True, ""
            if named and not functions and self._hides(frame, call):
                hidden = f"{ast.unparse(call.func)}() is not in the program's own files"
        return False, hidden

    def _hides(self, frame: Frame, call: ast.Call) -> bool:
        """A call on an object of which nothing is known."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr in ("eval", "test"):
            return False
        where, objects = (frame.source, frame.scope, call.func.value), self.facts.objects
        return not objects.is_module(*where) and not objects.is_library(*where)

    def _is_evaluation(self, function: Function, *, named: bool) -> bool:
        """Of a function that trains nothing as it is called, though it may otherwise."""
        does, knowledge = self.facts.does(function), self.facts.knowledge
        otherwise = knowledge.has_backward(function) or bool(knowledge.stepped(function))
        return does.runs_a_model and (named or does.evaluates or otherwise)

    def _saves(self, frame: Frame, call: ast.Call, *, itself: bool) -> bool:
        """Args: itself: not in a function that the called one calls."""
        functions, saves = (
            self.facts.reader.functions(frame, call),
            self.facts.objects.saves_weights,
        )
        if functions and itself:
            inside = ((f, c) for f in functions for c in own_calls(f.node))
            return any(saves(f.source, f.node, c) for f, c in inside)
        if functions:
            return any(self.facts.does(f).saves_weights for f in functions)
        return saves(frame.source, frame.scope, call)

    def _reads_too(self, frame: Frame, statement: ast.stmt) -> bool:
        """`rows = load_and_cache(path)`"""
        try:
            found = self.facts.reader.of(frame.source, frame.scope, [statement])
        except TooMuch:
            return True
        return Files.READS in found.files

    def _runs_a_model(self, frame: Frame, statement: ast.stmt) -> bool:
        """Calls a module, or a function that does."""
        return any(
            self.facts.runs(frame.source, frame.scope, call)
            or any(
                self.facts.does(f).runs_a_model for f in self.facts.reader.functions(frame, call)
            )
            for call in own_calls(statement)
        )
