"""What is left out of the copy: validation and saving whose effects end in themselves.

An evaluation (gradients off, no backward, no optimizer step) before or between the samples, and
a save between them, are taken out together with every statement that exists only for their
results. That is shown, not assumed: whatever the pieces write may be read by nothing that stays,
what they call can be read to its end, and the mode in which they leave a module is set in their
place. What cannot be shown stays, and is named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from instrumentor.locate.forward import leading_to
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Kept, Skipped
from instrumentor.locate.names import external_name, is_method, passed
from instrumentor.locate.program import Function
from instrumentor.locate.regions import Region
from instrumentor.locate.skips.effects import Effects
from instrumentor.locate.skips.liveness import loads, reads_of
from instrumentor.locate.skips.objects import Objects
from instrumentor.locate.skips.reader import EffectsReader
from instrumentor.locate.skips.storage import Cell, Frame, Storage
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    LoopNode,
    ScopeNode,
    Source,
    arguments,
    below,
    last,
    own_calls,
    own_nodes,
    suites,
)
from instrumentor.locate.tree import contains, path_to
from instrumentor.locate.values import Group, Item, Object, Opaque, Value
from instrumentor.locate.vocabulary import (
    host_read,
    is_validation_name,
)
from instrumentor_analysis.caveats import Caveat

_Use = tuple[ast.AST, Source, ScopeNode]


@dataclass(eq=False)
class _Piece:
    """One evaluation or save with the statements that would go with it."""

    source: Source
    scope: ScopeNode
    statement: ast.stmt
    initial: bool
    what: str
    dependents: list[ast.stmt] = field(default_factory=list)

    @property
    def statements(self) -> list[ast.stmt]:
        return [self.statement, *self.dependents]


class _Gone:
    """The statements of all pieces."""

    def __init__(self, pieces: Iterable[_Piece]) -> None:
        self.by_source: dict[Source, list[ast.stmt]] = {}
        for piece in pieces:
            self.by_source.setdefault(piece.source, []).extend(piece.statements)

    def holds(self, source: Source, node: ast.AST) -> bool:
        return any(contains(s, node) for s in self.by_source.get(source, ()))


@dataclass(eq=False)
class Skips:
    """Finds what is left out for one candidate.

    Attributes:
        keep_validation: leave out saves alone.
        kept: what looks like an evaluation or a save, and stays.
    """

    knowledge: Knowledge
    candidate: Candidate
    regions: list[Region]
    keep_validation: bool = False
    kept: list[Kept] = field(default_factory=list)

    def find(self) -> list[Skipped]:
        """Everything to leave out; the pieces are proven together, as one may need another."""
        pieces = self.pieces()
        while pieces:
            for piece in pieces:
                piece.dependents = []
            failed = self._close(pieces)
            if failed is None:
                break
            piece, why = failed
            pieces.remove(piece)
            self.kept.append(Kept(piece.source, piece.statement, piece.initial, piece.what, why))
        outer = [(p.source, d) for p in pieces for d in p.dependents]
        return [
            self._skipped(p, pieces)
            for p in pieces
            if not any(s is p.source and contains(d, p.statement) for s, d in outer)
        ]

    def _skipped(self, piece: _Piece, pieces: list[_Piece]) -> Skipped:
        others = [s for p in pieces if p.source is piece.source for s in p.statements]
        owned = [
            d for d in piece.dependents if not any(o is not d and contains(o, d) for o in others)
        ]
        modes = self._effects(piece).mode_left()
        instead = [f"{m.owner}.{'train' if m.training else 'eval'}()" for m in modes.values()]
        return Skipped(
            piece.source,
            piece.statement,
            tuple(dict.fromkeys(owned)),
            "\n".join(instead),
            piece.initial,
            piece.what,
        )

    # -- proof ---------------------------------------------------------------------------------

    def _close(self, pieces: list[_Piece]) -> tuple[_Piece, str] | None:
        """Add what depends on the pieces until nothing that stays does; a piece that cannot go."""
        for piece in pieces:
            why = self._cannot_go(piece)
            if why:
                return piece, why
        grown = True
        while grown:
            grown = False
            for piece in pieces:
                for use, source, scope in self._uses(piece, pieces):
                    dependent = self._dependent(piece, use, source, scope)
                    if isinstance(dependent, str):
                        return piece, dependent
                    if not any(contains(s, dependent) for s in piece.statements):
                        piece.dependents = [
                            d for d in piece.dependents if not contains(dependent, d)
                        ]
                        piece.dependents.append(dependent)
                        grown = True
                        break
        saving = [p for p in pieces if self._effects(p).saves]  # with what depends on it
        loaded = self._loaded_later(pieces) if saving else ""
        return (saving[-1], loaded) if loaded else None

    def _cannot_go(self, piece: _Piece) -> str:
        effects = self._effects(piece)
        if effects.unknown:
            return f"what it does cannot be read at {effects.unknown[0]}"
        for mode in effects.mode_left().values():
            if not mode.certain or not mode.owner:
                return "the mode in which it leaves the model cannot be told"
        return _jumps(piece.statement)

    def _effects(self, piece: _Piece) -> Effects:
        return self._reader.of(piece.source, piece.scope, piece.statements)

    def _uses(self, piece: _Piece, pieces: list[_Piece]) -> Iterator[_Use]:
        """Reads, by what stays, of what the piece writes."""
        gone = _Gone(pieces)
        effects = self._effects(piece)
        for cell in sorted(effects.bound, key=_by_name):
            if cell.scope is None:
                continue
            source = self.knowledge.program.source_of_scope[cell.scope]
            if cell.scope is piece.scope:
                removed = gone.by_source.get(source, [])
                reads = reads_of(cell.scope, cell.name, piece.statements, removed)
                for read in sorted(reads, key=lambda r: (r.lineno, r.col_offset)):
                    if not gone.holds(source, read):
                        yield read, source, cell.scope
            if cell.scope is source.tree:
                yield from self._module_reads(source, cell.name, gone)
        seen: set[Cell] = set()
        for cell in sorted(effects.changed - effects.bound, key=_by_name):
            yield from self._reads_of_object(cell, gone, seen)

    def _module_reads(self, source: Source, name: str, gone: _Gone) -> Iterator[_Use]:
        """Reads of a module's variable in its functions."""
        for function in source.functions:
            if self._only_in(function, gone):
                continue
            if self._storage.owner(source, function, name) is source.tree:
                for use in loads(function, name):
                    if not gone.holds(source, use):
                        yield use, source, function

    def _reads_of_object(self, cell: Cell, gone: _Gone, seen: set[Cell]) -> Iterator[_Use]:
        """Where the value of a changed object may come out again, through calls and aliases."""
        if cell in seen:
            return
        seen.add(cell)
        for source, scope, node in self._mentions(cell, gone):
            if not self._comes_out(source, node, gone):
                continue
            handed_on = self._handed_on(source, scope, node)
            if handed_on is None:
                yield node, source, scope
                continue
            for other in handed_on:
                yield from self._reads_of_object(other, gone, seen)

    def _mentions(
        self, cell: Cell, gone: _Gone
    ) -> Iterator[tuple[Source, ScopeNode, ast.Name | ast.Attribute]]:
        """Places of a variable or of an attribute, functions that only pieces call left out."""
        program = self.knowledge.program
        sources = program.sources.values()
        if cell.scope is not None:
            sources = [program.source_of_scope[cell.scope]]  # type: ignore[assignment]
        for source in sources:
            for scope in (source.tree, *source.functions):
                if isinstance(scope, FUNCTIONS) and self._only_in(scope, gone):
                    continue
                if cell.scope is None and self._set_first(scope, cell.name):
                    continue
                for node in own_nodes(scope):
                    if cell.scope is None:
                        if isinstance(node, ast.Attribute) and node.attr == cell.name:
                            yield source, scope, node
                    elif isinstance(node, ast.Name) and node.id == cell.name:
                        if self._storage.owner(source, scope, node.id) is cell.scope:
                            yield source, scope, node

    def _handed_on(
        self, source: Source, scope: ScopeNode, node: ast.Name | ast.Attribute
    ) -> list[Cell] | None:
        """Other names that the object gets: a parameter of the program's own, a plain alias."""
        statement = source.statement_of(node)
        if isinstance(statement, ast.Assign) and statement.value is node:
            return [
                Cell(t.attr)
                if isinstance(t, ast.Attribute)
                else Cell(t.id, self._storage.owner(source, scope, t.id))
                for t in statement.targets
                if isinstance(t, (ast.Attribute, ast.Name))
            ]
        for call in own_calls(statement) if statement is not None else ():
            if any(a is node for a in arguments(call)):
                targets = self._reader.functions(Frame(source, scope), call)
                if not targets:
                    return None
                return [
                    Cell(parameter, f.node)
                    for f in targets
                    for parameter, value in passed(call, f.node, bound=is_method(f))
                    if value is node
                ]
        return None

    def _comes_out(self, source: Source, node: ast.Name | ast.Attribute, gone: _Gone) -> bool:
        """False for what only puts more into an object, replaces it or asks whether it is there."""
        if not isinstance(node.ctx, ast.Load) or gone.holds(source, node):
            return False
        statement = source.statement_of(node)
        if statement is None:
            return False
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            function: ast.AST = statement.value.func
            while isinstance(function, (ast.Attribute, ast.Subscript)):
                function = function.value
                if function is node:
                    return not self._keeps_to_itself(source, source.scope_of(statement), node)
        if isinstance(statement, (ast.Assign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(n is node for t in targets for n in below(t)):
                return isinstance(statement, ast.AugAssign) and statement.target is node
        for parent in (statement, *own_nodes(statement)):
            if isinstance(parent, ast.Compare) and parent.left is node:
                if all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops):
                    return False
        return True

    def _keeps_to_itself(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether a call on an object, its value unused, can change nothing but the object."""
        if self._objects.is_sink(source, scope, node) or self._objects.is_own(source, scope, node):
            return True
        values = self.knowledge.program.names.of(source, scope, node)
        return bool(values) and all(
            isinstance(v, Group)
            or (isinstance(v, Object) and v.node is not None and self._holds_nothing(v))
            for v in values
        )

    def _holds_nothing(self, made: Object) -> bool:
        """Made by a library from nothing that others have."""
        if made.where is None or made.node is None or not external_name(made.made_by):
            return False
        frame = Frame(*made.where)
        reaches = [self._storage.of(frame, a) for a in arguments(made.node)]
        return all(r.plain or not (r.cells or r.held) for r in reaches)

    def _set_first(self, scope: ScopeNode, attribute: str) -> bool:
        """Whether a function sets the attribute ahead of every read of its own."""
        if not isinstance(scope, FUNCTIONS):
            return False
        for statement in scope.body:
            uses = [
                n
                for n in (statement, *own_nodes(statement))
                if isinstance(n, ast.Attribute) and n.attr == attribute
            ]
            if uses:
                return isinstance(statement, ast.Assign) and all(
                    isinstance(n.ctx, ast.Store) for n in uses
                )
        return False

    def _only_in(self, function: ast.AST, gone: _Gone) -> bool:
        """Whether a function is called by nothing but what goes."""
        return function in self._functions_behind(gone) and not self._called_elsewhere(
            function, gone, frozenset()
        )

    def _called_elsewhere(self, function: ast.AST, gone: _Gone, seen: frozenset[ast.AST]) -> bool:
        if function in seen:
            return False
        program = self.knowledge.program
        callers = program.callers.get(function, ())  # type: ignore[call-overload]
        return any(
            not gone.holds(program.source_of_scope[caller], holder)
            and (
                not isinstance(caller, FUNCTIONS)
                or self._called_elsewhere(caller, gone, seen | {function})
                or not program.callers.get(caller)
            )
            for caller, _, holder in callers
        )

    def _functions_behind(self, gone: _Gone) -> set[ast.AST]:
        """Functions that are called below statements."""
        program = self.knowledge.program
        found: set[ast.AST] = set()
        queue = [
            (source, source.scope_of(statement), call)
            for source, statements in gone.by_source.items()
            for statement in statements
            for call in own_calls(statement)
        ]
        while queue:
            source, scope, call = queue.pop()
            for function in program.resolve(source, scope, call):
                if function.node not in found:
                    found.add(function.node)
                    queue += [
                        (function.source, function.node, inner)
                        for inner, _ in program.calls.get(function.node, ())
                    ]
        return found

    # -- what goes along -----------------------------------------------------------------------

    def _dependent(
        self, piece: _Piece, use: ast.AST, source: Source, scope: ScopeNode
    ) -> ast.stmt | str:
        """The statement that goes with the piece because of a read, or why none can."""
        name = use.id if isinstance(use, ast.Name) else getattr(use, "attr", "")
        line = getattr(use, "lineno", 0)
        where = "" if source is piece.source else f"{source.path.name}:"
        stays = f"{name} is read at {where or 'line '}{line}"
        statement = source.statement_of(use)
        if statement is None or scope is not piece.scope or isinstance(use, ast.arg):
            return stays
        if statement in self._of_the_step or self._holds_step(statement):
            return stays
        if _jumps(statement):
            return f"{name} decides at {where or 'line '}{line} how the script goes on"
        if not isinstance(statement, _REMOVABLE):
            return stays
        effects = self._reader.of(source, scope, [statement])
        if effects.unknown or effects.modes:
            return stays
        if self._reads_the_step(statement, piece):
            return f"{stays}, beside values of the step"
        return statement

    def _reads_the_step(self, statement: ast.stmt, piece: _Piece) -> bool:
        """A host read of what the step computed: without it the step would be another one."""
        if piece.source is not self.candidate.source:
            return False
        tensors = frozenset(
            n.id
            for s in self._of_the_step
            for n in below(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        names = {n.id for n in below(statement) if isinstance(n, ast.Name) and n.id in tensors} - {
            c.name for c in self._effects(piece).bound
        }
        return bool(names) and host_read(statement, frozenset(names)) is not None

    def _holds_step(self, statement: ast.stmt) -> bool:
        candidate = self.candidate
        held = [s.statement for s in candidate.sites] + [u.statement for u in candidate.updates]
        return any(contains(statement, s) for s in [candidate.loop, *held])

    def _loaded_later(self, pieces: list[_Piece]) -> str:
        """A statement that stays and reads weights back from a file, behind what is saved."""
        gone = _Gone(pieces)
        for source, scope, statement in self._behind():
            if gone.holds(source, statement) or self._holds_step(statement):
                continue
            if self._reader.of(source, scope, [statement]).loads:
                return f"a file is read back at {source.path.name}:{statement.lineno}"
        return ""

    def _behind(self) -> Iterator[tuple[Source, ScopeNode, ast.stmt]]:
        """Statements in the loops around the step and behind them, callers included."""
        for source, scope, anchor in self._anchors():
            for suite, index in path_to(source, scope, anchor):
                for statement in suite[index + 1 :]:
                    yield source, scope, statement
            for loop in (anchor, *source.loops_around(anchor)):
                if isinstance(loop, LOOPS):
                    for statement in loop.body:
                        yield source, scope, statement

    # -- where to look -------------------------------------------------------------------------

    def _anchors(self) -> Iterator[tuple[Source, ScopeNode, ast.stmt]]:
        """The loop, and in each caller the statement that leads to it."""
        seen: set[ScopeNode] = set()
        queue: list[tuple[Source, ScopeNode, ast.stmt]] = [
            (self.candidate.source, self.candidate.scope, self.candidate.loop)
        ]
        program = self.knowledge.program
        while queue:
            source, scope, anchor = queue.pop(0)
            if scope in seen:
                continue
            seen.add(scope)
            yield source, scope, anchor
            if isinstance(scope, FUNCTIONS):
                for caller, _, holder in program.callers.get(scope, ()):
                    queue.append((program.source_of_scope[caller], caller, holder))

    def pieces(self) -> list[_Piece]:
        """Evaluations ahead of the loops, evaluations and saves in the loop of whole steps."""
        found: list[_Piece] = []
        for source, scope, statement, initial in self._places():
            for hit, what in self._hits(source, scope, statement, initial):
                if not any(p.source is source and contains(p.statement, hit) for p in found):
                    found.append(_Piece(source, scope, hit, initial, what))
        return found

    def _places(self) -> Iterator[tuple[Source, ScopeNode, ast.stmt, bool]]:
        for source, scope, anchor in self._anchors():
            outermost = source.loops_around(anchor)
            loops = ([anchor] if isinstance(anchor, LOOPS) else []) + list(outermost)
            if loops and scope is self.candidate.scope:
                for statement in self._loop_of_update(loops).body:
                    yield source, scope, statement, False
            top: ast.stmt = loops[-1] if loops else anchor
            for suite, index in path_to(source, scope, top):
                for statement in suite[:index]:
                    yield source, scope, statement, True

    def _loop_of_update(self, loops: list[LoopNode]) -> LoopNode:
        """The loop whose iterations are whole steps: with nested micro-steps the one around."""
        for loop in loops:
            if any(contains(loop, u.statement) for u in self.candidate.updates):
                return loop
        return loops[0]

    @cached_property
    def _of_the_step(self) -> set[ast.stmt]:
        """Statements of the timed regions and those that the differentiated losses come from."""
        found: set[ast.stmt] = set()
        candidate = self.candidate
        for region in self.regions:
            suite = candidate.source.places[region.begin].suite
            found.update(
                s
                for s in suite[suite.index(region.begin) :]
                if (s.end_lineno or s.lineno) <= (region.end.end_lineno or region.end.lineno)
            )
            for site in region.sites:
                found |= leading_to(candidate, site)
        return found

    def _hits(
        self, source: Source, scope: ScopeNode, statement: ast.stmt, initial: bool
    ) -> Iterator[tuple[ast.stmt, str]]:
        """Evaluations and saves in or below a statement, outermost first."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return
        own = source is self.candidate.source
        holds = own and any(contains(statement, s.statement) for s in self.candidate.sites)
        if own and statement in self._of_the_step and not holds:
            return
        if not holds and self.knowledge.without_gradients(source, statement):
            if self._runs_a_model(source, scope, statement):
                if not self.keep_validation:
                    yield statement, "validation"
            return
        inner = [s for suite in suites(statement) for s in suite]
        for part in inner:
            yield from self._hits(source, scope, part, initial)
        if inner or holds:
            return
        if isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
            if not self.keep_validation and self._evaluates(source, scope, statement, initial):
                yield statement, "validation"
            elif not initial and self._reader.of(source, scope, [statement]).checkpoint:
                yield statement, "checkpoint"
            elif not initial and any(
                self.knowledge.is_save(source, scope, c) for c in own_calls(statement)
            ):
                why = "what it does cannot be read"
                self.kept.append(Kept(source, statement, initial, "checkpoint", why))

    def _evaluates(
        self, source: Source, scope: ScopeNode, statement: ast.stmt, initial: bool
    ) -> bool:
        """A call of a function that runs a model without gradients and trains nothing."""
        frame = Frame(source, scope)
        for call in own_calls(statement):
            functions = self._reader.functions(frame, call)
            if any(self._is_evaluation(f) for f in functions):
                return True
            word = last(ast.unparse(call.func))
            if not functions and is_validation_name(word) and self._hides(frame, call):
                why = f"{ast.unparse(call.func)}() is not in the program's own files"
                self.kept.append(Kept(source, statement, initial, "validation", why))
        return False

    def _hides(self, frame: Frame, call: ast.Call) -> bool:
        """A call on an object of which nothing is known."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr in ("eval", "test"):
            return False
        where = (frame.source, frame.scope, call.func.value)
        return not self._objects.is_module(*where) and not self._objects.is_library(*where)

    def _is_evaluation(self, function: Function) -> bool:
        knowledge = self.knowledge
        if knowledge.has_backward(function) or knowledge.stepped(function):
            return False
        called = list(self._called(function))
        return any(knowledge.evaluates(f) for f in called) and any(map(self._calls_module, called))

    def _runs_a_model(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
        """Calls a module, or a function that does, in a block without gradients."""
        frame = Frame(source, scope)
        return any(
            self._objects.is_module(source, scope, call.func)
            or any(map(self._calls_module, self._reader.functions(frame, call)))
            for call in own_calls(statement)
        )

    def _calls_module(self, function: Function) -> bool:
        where = (function.source, function.node)
        return any(self._objects.is_module(*where, c.func) for c in own_calls(function.node))

    def _called(self, function: Function) -> Iterator[Function]:
        """The function and what it calls, as far as the program's own files go."""
        queue, seen = [function], {function}
        while queue:
            current = queue.pop()
            yield current
            frame = Frame(current.source, current.node)
            for call in own_calls(current.node):
                found = [f for f in self._reader.functions(frame, call) if f not in seen]
                seen.update(found)
                queue += found

    # -- facts ---------------------------------------------------------------------------------

    @cached_property
    def _storage(self) -> Storage:
        return Storage(self.knowledge.program)

    @cached_property
    def _objects(self) -> Objects:
        found = Objects(self.knowledge)
        found.called_by_the_step |= self._called_by_the_step
        return found

    @cached_property
    def _called_by_the_step(self) -> set[Value]:
        """Objects that the step calls, itself or in the program's functions."""
        program = self.knowledge.program
        source, scope = self.candidate.source, self.candidate.scope
        calls = [(source, scope, c) for s in self._of_the_step for c in own_calls(s)]
        seen: set[ast.AST] = set()
        found: set[Value] = set()
        while calls:
            where, inside, call = calls.pop()
            values = program.names.of(where, inside, call.func)
            found.update(v for v in values if isinstance(v, (Object, Opaque, Item)))
            for function in program.resolve(where, inside, call):
                if function.node not in seen:
                    seen.add(function.node)
                    inner = own_calls(function.node)
                    calls += [(function.source, function.node, c) for c in inner]
        return found

    @cached_property
    def _reader(self) -> EffectsReader:
        return EffectsReader(self.knowledge.program, self._storage, self._objects)


_REMOVABLE = (
    ast.Expr,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.If,
    ast.For,
    ast.With,
    ast.Delete,
)


def _jumps(statement: ast.stmt) -> str:
    """Why taking a statement out would change the way: it leaves the loop or the function."""
    loops = 0
    stack: list[tuple[ast.AST, int]] = [(statement, loops)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)) or (
            isinstance(node, (ast.Break, ast.Continue)) and not depth
        ):
            return f"line {getattr(node, 'lineno', 0)} decides how the script goes on"
        inside = depth + isinstance(node, LOOPS)
        stack += [
            (child, inside)
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef))
        ]
    return ""


def _by_name(cell: Cell) -> tuple[str, int]:
    return cell.name, getattr(cell.scope, "lineno", 0)


def warnings_of(kept: Iterable[Kept]) -> list[Caveat]:
    """One for each piece that stays; of a checkpoint between epochs no figure depends."""
    found = []
    for piece in kept:
        when = " and runs before the first sample" if piece.initial else ""
        found.append(
            Caveat(
                f"{piece.what}-stays",
                f"{piece.what} stays{when}: {piece.why}",
                "note" if piece.what == "checkpoint" and not piece.initial else "caution",
                piece.source.at(piece.statement.lineno),
            )
        )
    return list(dict.fromkeys(found))
