"""Which pieces may go: with what depends on them, until nothing that stays does."""

from __future__ import annotations

import ast
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_

from msgspec import Struct, field

from instrumentor.locate.changes.skips.ahead import Ahead
from instrumentor.locate.changes.skips.candidates import Piece, When
from instrumentor.locate.changes.skips.effects import Change, Effects, Files, shown
from instrumentor.locate.changes.skips.facts import Facts, Mention, Place
from instrumentor.locate.changes.skips.files import OpenedFiles
from instrumentor.locate.changes.skips.modes import SOMETIMES, Mode
from instrumentor.locate.changes.skips.removal import Closed, Gone, Statements
from instrumentor.locate.changes.skips.settled import Settled
from instrumentor.locate.changes.skips.storage import Frame, Spelling
from instrumentor.locate.changes.skips.training_mode import TrainingMode
from instrumentor.locate.changes.skips.uses import Uses
from instrumentor.locate.located import Kept, Skipped
from instrumentor.locate.meaning import methods
from instrumentor.locate.meaning.host_values import host_read
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    ScopeNode,
    Source,
    arguments,
    below,
    bound_by,
    callee,
    contains,
    own_calls,
    own_nodes,
    path_to,
)

_REMOVABLE = (
    *(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete),
    *(ast.If, ast.For, ast.With),
)


class Stays(Exception):
    """Why a piece cannot go."""

    def __init__(self, piece: Piece, why: str, *, trains: bool = False) -> None:
        super().__init__(why)
        self.piece, self.why = piece, why
        #: what it computes goes into the step: a rollout
        self.trains = trains and piece.when not in (When.AHEAD, When.STEP)


def prove(
    facts: Facts, pieces: Sequence[Piece], asked: Collection[str] = ()
) -> tuple[list[Skipped], list[Kept], list[Kept]]:
    """Take out what can go; the pieces are proven together, as one may need another.

    Args:
        asked: what goes without a proof as well, unless the step itself reads what it writes.

    Returns:
        What goes, what stays, and what goes without a proof with the reason why it would stay.
    """
    left, forced = [part for p in pieces for part in p.parts or (p,)], dict[Piece, str]()
    found_out = dict[Piece, tuple[Stays, int]]()
    every = [part for p in pieces for part in (p, *p.parts)]
    ahead = {p: Ahead(facts, (p.source, p.scope, p.statement)) for p in every}
    modes: dict[Piece, TrainingMode] = {}
    files = OpenedFiles(facts)

    def closed(together: Collection[Piece]) -> _Attempt:
        taken = {piece: [piece.statement] for piece in every if piece in together}
        attempt = _Attempt(facts, taken, set(forced), ahead, modes, files)
        attempt.close()
        return attempt

    while True:
        try:
            attempt = closed(left)
        except Stays as found:
            wanted = found.piece.what in asked and not found.piece.quiet
            if wanted and found.piece not in forced:
                forced[found.piece] = found.why
                continue
            left.remove(found.piece)
            forced.pop(found.piece, None)
            found_out[found.piece] = found, len(left)
        else:
            break
    # what one would have read alone was another's as long as that stood to go as well
    for piece in [p for p, (_, others) in found_out.items() if others > len(left)]:
        with suppress(Stays):
            attempt = closed([piece, *left])
            left, _ = [*attempt.taken], found_out.pop(piece)
    # a part of a block that stays by itself may go with all of the block
    for piece, stayed in [(p, found_out.keys() & p.parts) for p in pieces]:
        with suppress(Stays):
            attempt = closed({piece, *left}.difference(piece.parts)) if stayed else attempt
            left = [*attempt.taken]
            found_out = {p: why for p, why in found_out.items() if p not in stayed}
    kept = [stays.piece.kept(stays.why) for stays, _ in found_out.values() if _is_told(stays)]
    return list(attempt.skipped()), kept, [p.kept(why) for p, why in forced.items()]


def _is_told(stays: Stays) -> bool:
    """Whether the user hears of it."""
    return not stays.trains and not stays.piece.quiet and not _acts(stays.piece)


class _Attempt(Struct, eq=False):
    """Pieces that are taken out together, each with the statements that go along with it.

    Attributes:
        by_change: of these the ones that read what another changes, not what it computes.
    """

    facts: Facts
    taken: dict[Piece, list[ast.stmt]]
    forced: set[Piece]
    ahead: dict[Piece, Ahead]
    in_training: dict[Piece, TrainingMode]
    files: OpenedFiles
    by_change: set[ast.stmt] = field(default_factory=set)

    def _gone(self, absent: Statements = (), closed: Closed | None = None) -> Gone:
        return Gone(self.facts.program, self._out, [*self.facts.ruled_out, *absent], closed)

    @property
    def _out(self) -> list[tuple[Source, ast.stmt]]:
        return [(p.source, s) for p, statements in self.taken.items() for s in statements]

    def _effects(self, piece: Piece) -> Effects:
        return self.facts.reader.of(piece.source, piece.scope, self.taken[piece])

    def skipped(self) -> Iterator[Skipped]:
        """The pieces with their dependents, none inside of another."""
        mine = {piece.statement: piece for piece in self.taken}
        for piece, taken in self.taken.items():  # of several pieces one has a statement
            for s in taken:
                mine.setdefault(s, piece)
        own = {piece.statement for piece in self.taken}
        for piece, (statement, *_) in self.taken.items():
            every = [s for s, owner in mine.items() if owner.source is piece.source]
            if _around(piece, mine) is not piece:
                continue
            # What goes along with a piece inside of this one goes with this one.
            dependents = [d for d in mine if d not in own and _around(mine[d], mine) is piece]
            effects = self.facts.reader.of(piece.source, piece.scope, [statement, *dependents])
            modes = (
                line
                for mode in effects.modes.values()
                if (line := mode.line)
                and self._names(piece, mode, mode.owner)
                and not effects.binds(mode.owner)
            )
            yield Skipped(
                piece.source,
                statement,
                tuple(
                    d for d in dependents if not any(o is not d and contains(o, d) for o in every)
                ),
                "\n".join(modes),
                piece.initial,
                piece.what,
                tuple(
                    d.text if self._spelled(piece, d) and not effects.binds(d) else ""
                    for d in effects.draws
                )
                # of dropout: the samples of a loader the recorder looks at
                + (("",) if self._in_training(piece).draws else ()),
                {
                    d: "\n".join(map(ast.unparse, reads))
                    for d in dependents
                    if (reads := self._read_of_the_step(d, piece))
                },
            )

    def _spelled(self, piece: Piece, path: Spelling) -> bool:
        """Whether the first name of a path means the same where a piece stands."""
        names, first = self.facts.program.names, path.first
        return bool(first) and names.binder(piece.source, piece.scope, first) is path.scope

    # -- proof ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Add what depends on the pieces until nothing that stays does.

        Raises:
            Stays: a piece cannot go.
        """
        for piece in self.taken:
            if piece not in self.forced:
                self._check(piece)
        while sum(map(self._add_dependent, self.taken)):
            pass
        sure = [p for p in self.taken if p not in self.forced]
        for piece in reversed(sure):
            effects = self._effects(piece)
            if piece.quiet and (self._in_training(piece).draws or effects.draws):
                raise Stays(piece, "it draws random numbers")
            if read := self._read_back(piece, effects) if Files.WRITES in effects.files else None:
                source, call = read
                if told := self._tells_of_it(piece, source, call):
                    self.taken[piece].append(told)
                    self.close()
                    return
                raise Stays(piece, f"a file is read back at {source.at(call.lineno)}")
            if at := self._made_inside(piece) if Files.MAKES_FOLDER in effects.files else "":
                raise Stays(piece, f"a file is made at {at}, in a folder that this may make")

    def _check(self, piece: Piece) -> None:
        """By itself: what it does can be read and made up for."""
        if self.facts.unread:
            raise Stays(piece, self.facts.unread)
        effects = self._effects(piece)
        if effects.unknown:
            raise Stays(piece, f"what it does cannot be read at {effects.unknown}")
        if not all(self._is_told(piece, effects, mode) for mode in effects.left):
            raise Stays(piece, "the mode in which it leaves the model cannot be determined")
        helpers = self.facts.helpers
        if beside := helpers.called_beside(piece.scope, self.facts.is_dead):
            raise Stays(piece, beside)
        first = piece.when in (When.AHEAD, When.EARLY)
        if piece.when in (When.STEP, When.HELPER):
            first = helpers.may_come_first(piece.scope, piece.statement)
        for to_cpu, change in effects.moved.values():  # else a step has shown where it has to be
            if first or to_cpu:
                raise Stays(piece, f"{shown(change)} leaves a model on another device")
        if jumps := _jumps(piece.statement, self.facts.options.never):
            raise Stays(piece, jumps)
        if first and (at := self._in_training(piece).makes):
            raise Stays(piece, f"the weights of a model are made at its first call, at {at}")
        if at := self._in_training(piece).tracks:
            raise Stays(piece, f"running statistics change with a model in training mode at {at}")

    def _is_told(self, piece: Piece, effects: Effects, mode: Mode) -> bool:
        """Whether a line in its place can put a module into the mode in which it is left.

        If not, it goes where nothing asks for that mode.
        """
        owners = mode.one_of or {mode.owner}
        if not all(self._names(piece, mode, o) and not effects.binds(o) for o in owners):
            return False
        if mode.is_group and len(effects.modes) > 1:  # of which one may be a part of the other
            return False
        if mode.is_flag or (mode.training is not None and not mode.one_of):
            return mode.training is not None
        place = (piece.source, piece.scope, piece.statement)
        settled = Settled(self.facts, self._gone(self.facts.never))
        return all(settled.holds(place, owner) for owner in owners)

    def _names(self, piece: Piece, mode: Mode, owner: Spelling) -> bool:
        """Whether a module or a flag can be spelled where a piece stands."""
        if not mode.is_flag:
            return self._spelled(piece, owner)
        node, names = ast.parse(mode.owner.text, mode="eval").body, self.facts.program.names
        return names.qualified(piece.source, piece.scope, node) == mode.text

    def _in_training(self, piece: Piece) -> TrainingMode:
        """What the piece does with modules that nobody put into evaluation mode."""
        found = self.in_training.get(piece)
        if found is None:
            place = (piece.source, piece.scope, piece.statement)
            found = self.in_training[piece] = TrainingMode(self.facts, place).read()
        return found

    def _add_dependent(self, piece: Piece) -> bool:
        """Whether another statement goes along with a piece."""
        taken = self.taken[piece]
        facts = self.facts
        unread = self._gone(facts.never, facts.closed)
        late = self._gone([*facts.never, *facts.cleanup], facts.closed)
        named = Gone(facts.program, self._out)  # a branch that never runs has to be bound as well
        uses = Uses(facts, named, unread, late, self.ahead[piece])
        for use, change, via in uses.of(piece, taken):
            if piece in self.forced and change and not self._is_of_the_step(use):
                continue
            dependent = self._dependent(piece, use, change, via)
            if not any(contains(s, dependent) for s in taken):
                if change is not None:
                    self.by_change.add(dependent)
                within = [s for s in taken[1:] if not contains(dependent, s)]
                self.taken[piece] = [piece.statement, *within, dependent]
                return True
        return False

    # -- what goes along -----------------------------------------------------------------------

    def _dependent(
        self, piece: Piece, use: Mention, change: Change | None, via: Mention | None
    ) -> ast.stmt:
        """The statement that goes with the piece because of a read.

        Args:
            via: where the piece's own scope hands on what is read elsewhere.
        """
        if via is not None and use[1] is not piece.scope and self._is_call(via):
            try:
                return self._dependent(piece, via, change, None)
            except Stays:
                pass
        source, scope, node = use
        name = node.id if isinstance(node, ast.Name) else node.attr
        where = f"line {node.lineno}" if source is piece.source else source.at(node.lineno)
        why = f"{name} is used at {where}"
        if change is not None:
            why = f"{shown(change)} might change {name}, which is used at {where}"
        statement = source.statement_of(node)
        if statement is None or scope is not piece.scope:
            raise Stays(piece, why)
        if any(s is source and contains(out, statement) for s, out in self.facts.ruled_out):
            return statement
        if self._is_of_the_step(use):
            nodes = (n for s in self.by_change for n in (s, *own_nodes(s)))
            hands_on = change is None and not any(name in bound_by(n) for n in nodes)
            raise Stays(piece, why, trains=hands_on)
        if piece in self.forced and isinstance(statement, _REMOVABLE):
            return statement
        if isinstance(statement, ast.Return):
            raise Stays(piece, f"{name} is returned at {where}")
        if _jumps(statement, self.facts.options.never):
            raise Stays(piece, f"{name} decides at {where} how the script goes on")
        effects = self.facts.reader.of(source, scope, [statement])
        if not isinstance(statement, _REMOVABLE) or effects.unknown or effects.modes:
            raise Stays(piece, why)
        reads = self._read_of_the_step(statement, piece)
        if reads is None or (reads and change is not None):
            raise Stays(piece, f"{why}, beside values of the step")
        return statement

    def _is_call(self, use: Mention) -> bool:
        """A statement that is nothing but a call, whose value nobody has."""
        statement = use[0].statement_of(use[2])
        return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)

    def _is_of_the_step(self, use: Mention) -> bool:
        """A read by the step, or in a function that it calls."""
        source, scope, node = use
        statement = source.statement_of(node)
        if statement is None or scope in self.facts.run_by_the_step:
            return True
        of_the_step = statement in self.facts.of_the_step or self.facts.holds_step(statement)
        return of_the_step or self.facts.leads_to_step(source, statement)

    def _read_of_the_step(self, statement: ast.stmt, piece: Piece) -> list[ast.expr] | None:
        """Host reads of what the step computed, without which the step would be another one.

        Returns:
            What is read all the same where the statement is taken out; None if that is not told.
        """
        if not self.facts.helpers.iterates(piece.scope, statement):
            return []
        of_the_step = (n for s in self.facts.of_the_step for n in below(s))
        names = {
            n.id for n in of_the_step if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        frame = Frame(piece.source, piece.scope)
        names &= {
            n.id
            for n in below(statement)
            if isinstance(n, ast.Name) and not self.facts.storage.of(frame, n).plain
        }
        names -= {c.name for c in self._effects(piece).bound}
        if not names or host_read(statement, frozenset(names)) is None:
            return []
        return _reads_alone(statement, names)

    # -- files ---------------------------------------------------------------------------------

    def _tells_of_it(self, piece: Piece, source: Source, call: ast.Call) -> ast.stmt | None:
        """The statement that only hands a file to an outlet: `wandb.save(path)`."""
        statement = source.statement_of(call)
        alone = isinstance(statement, ast.Expr) and statement.value is call
        if not alone or (source, source.scope_of(call)) != (piece.source, piece.scope):
            return None
        does = self.facts.reader.of(source, piece.scope, [statement] if statement else [])
        tells = self.facts.objects.tells(source, piece.scope, call)
        return statement if tells and not does.unknown and Files.READS not in does.files else None

    def _read_back(self, piece: Piece, effects: Effects) -> tuple[Source, ast.Call] | None:
        """A call that runs later than a piece, and may read a file that it writes."""
        written = self.files.written(effects)
        for later in self._left(piece) if written else ():
            if found := self.files.read(later, written):
                return found
        for source, scope, statement in self._places_left(piece) if written else ():
            for home, where, call in self._calls_of(source, scope, statement):
                if self.files.needs(home, where, call, written):
                    return home, call
        return None

    def _made_inside(self, piece: Piece) -> str:
        """A call that makes a file later, where nothing with it or ahead of it makes its folder."""
        gone = self._gone(self.facts.never)
        for later in self._left(piece):
            if Files.NEEDS_FOLDER in later.files and Files.MAKES_FOLDER not in later.files:
                for (call, frame), does in later.opened.items():
                    made = self.files.folder_made_ahead(frame, call)
                    ahead = made and not any(gone.holds(*each) for each in made)
                    if Files.NEEDS_FOLDER in does and not ahead:
                        return frame.source.at(call.lineno)
        return ""

    def _left(self, piece: Piece) -> Iterator[Effects]:
        """What statements do that run later than a piece, and stay."""
        gone, reader = self._gone(), self.facts.reader
        for source, scope, statement in self._places_left(piece):
            effects = reader.of(source, scope, [statement], gone.by_source.get(source, ()))
            follows = self._follows(statement)
            opened = {
                (call, frame): files
                for (call, frame), files in effects.opened.items()
                if not follows or (frame.source is source and contains(statement, call))
                if not (frame.scope in gone.functions or gone.holds(frame.source, call))
            }
            yield Effects(files=reduce(or_, opened.values(), Files(0)), opened=opened)

    def _follows(self, statement: ast.stmt) -> bool:
        """Whether what a statement calls is told by itself: the loop, and what leads to it."""
        return any(contains(statement, anchor) for *_, anchor in self.facts.anchors)

    def _places_left(self, piece: Piece) -> Iterator[Place]:
        """Statements that run later than a piece, and stay."""
        gone = self._gone(self.facts.never)
        for place in (*self._later(), *(self._until_the_step(piece) if piece.initial else ())):
            if not gone.holds(place[0], place[2]):
                yield place

    def _calls_of(
        self, source: Source, scope: ScopeNode, statement: ast.stmt
    ) -> Iterator[tuple[Source, ScopeNode, ast.Call]]:
        """Calls of a statement and of the functions that it runs, which stay."""
        gone, program = self._gone(self.facts.never), self.facts.program
        inside = {} if self._follows(statement) else program.called_from(scope, [statement])
        calls = [(source, scope, call) for call in own_calls(statement)]
        for function in inside:
            if isinstance(function, FUNCTIONS) and function not in gone.functions:
                home = program.source_of_scope[function]
                calls += [(home, function, call) for call in own_calls(function)]
        yield from (each for each in calls if not gone.holds(each[0], each[2]))

    def _until_the_step(self, piece: Piece) -> Iterator[Place]:
        """Statements between a piece and the loop that it stands ahead of."""
        source, scope = piece.source, piece.scope
        for suite, index in path_to(source, scope, piece.statement):
            yield from ((source, scope, s) for s in suite[index + 1 :])
        for source, scope, anchor in self.facts.anchors:  # the innermost first
            if scope is piece.scope:
                return
            for suite, index in path_to(source, scope, anchor):
                yield from ((source, scope, s) for s in suite[: index + 1])

    def _later(self) -> Iterator[Place]:
        """Statements in the loops around the step and behind them, callers included."""
        for source, statement in self.facts.cleanup:
            yield source, source.scope_of(statement), statement
        for source, scope, anchor in self.facts.anchors:
            for around in (anchor, *source.parents(anchor)):
                place = source.places[around]
                for statement in place.suite[place.index + 1 :]:
                    yield source, scope, statement
            for loop in (anchor, *source.loops_around(anchor)):
                if isinstance(loop, LOOPS):
                    for statement in loop.body:
                        yield source, scope, statement


def _around(piece: Piece, owners: Mapping[ast.stmt, Piece]) -> Piece:
    """The outermost piece with a statement that holds another one's, itself if there is none."""
    met = {piece}
    while True:
        holding = (
            owner
            for statement, owner in owners.items()
            if owner.source is piece.source
            and statement is not piece.statement
            and contains(statement, piece.statement)
        )
        found = next((owner for owner in holding if owner not in met), None)
        if found is None:
            return piece
        met.add(found)
        piece = found


def _reads_alone(statement: ast.stmt, names: Collection[str]) -> list[ast.expr] | None:
    """`loss.item()` in what is printed, if nothing else there reads these names on the host."""
    inside = [n for n in own_nodes(statement) if isinstance(n, ast.expr)]
    told = [n for n in inside if _is_a_read(n, names)]
    told = [n for n in told if not any(o is not n and contains(o, n) for o in told)]
    named = [n for n in inside if isinstance(n, ast.Name) and n.id in names]
    maybe = [n for n in inside if isinstance(n, SOMETIMES)]
    if not isinstance(statement, ast.Expr) or any(contains(m, n) for m in maybe for n in told):
        return None
    return told if all(any(contains(t, n) for t in told) for n in named) else None


def _is_a_read(node: ast.expr, names: Collection[str]) -> bool:
    """`loss.detach().item()`, `float(loss)` of nothing but these names."""
    words = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=word), args=[], keywords=[]):
            calls = (n for n in ast.walk(owner) if isinstance(n, ast.Call))
            known = all(callee(c) in methods.READING_METHODS for c in calls)
            return word in methods.HANDS_TO_HOST and known and set() < words <= {*names}
        case ast.Call(func=ast.Name(id="float" | "int" | "bool"), args=[ast.Name()], keywords=[]):
            return words - {callee(node)} <= {*names}
    return False


def _acts(piece: Piece) -> bool:
    """A rollout: what a model gives is what an environment does next."""
    bound = {name for n in (piece.statement, *own_nodes(piece.statement)) for name in bound_by(n)}
    steps = (
        n.value
        for n in own_nodes(piece.scope)
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and callee(n.value) == "step"
    )
    given = (n for call in steps for a in arguments(call) for n in below(a))
    return not piece.initial and any(isinstance(n, ast.Name) and n.id in bound for n in given)


def _jumps(statement: ast.stmt, never: Container[ast.stmt]) -> str:
    """Why taking a statement out would change the way: it leaves the loop or the function.

    Args:
        never: what the options leave out.
    """
    stack: list[tuple[ast.AST, int]] = [(statement, 0)]
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
            if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef)) and child not in never
        ]
    return ""
