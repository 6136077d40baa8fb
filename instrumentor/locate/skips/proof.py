"""Which pieces may go: with what depends on them, until nothing that stays does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct, field

from instrumentor.locate.model import Kept, Skipped
from instrumentor.locate.skips.effects import Change, Effects, shown
from instrumentor.locate.skips.facts import Facts, Place
from instrumentor.locate.skips.gone import Gone
from instrumentor.locate.skips.pieces import Piece, Pieces
from instrumentor.locate.skips.storage import Spelling
from instrumentor.locate.skips.uses import Mention, Uses
from instrumentor.locate.syntax import FUNCTIONS, LOOPS, below, contains, path_to
from instrumentor.locate.vocabulary import host_read

_REMOVABLE = (
    *(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete),
    *(ast.If, ast.For, ast.With),
)


class Skips(Struct, frozen=True):
    """skipped: what is left out; kept: what looks like an evaluation or a save, and stays."""

    skipped: list[Skipped]
    kept: list[Kept]


def prove(facts: Facts, pieces: Pieces) -> Skips:
    """Take out what can go; the pieces are proven together, as one may need another."""
    left, kept = list(pieces.found), list(pieces.kept)
    while True:
        attempt = _Attempt(facts, left)
        failed = attempt.close()
        if failed is None:
            return Skips(attempt.skipped(), kept)
        piece, why = failed
        left = [p for p in left if p is not piece]
        kept.append(piece.kept(why))


class _Attempt(Struct, eq=False):
    """Pieces that are taken out together, and the statements that go along with each."""

    facts: Facts
    pieces: list[Piece]
    dependents: dict[Piece, list[ast.stmt]] = field(default_factory=dict)

    def statements(self, piece: Piece) -> list[ast.stmt]:
        return [piece.statement, *self.dependents.get(piece, ())]

    def gone(self) -> Gone:
        every = ((p.source, s) for p in self.pieces for s in self.statements(p))
        return Gone(self.facts.program, every)

    def effects(self, piece: Piece) -> Effects:
        return self.facts.reader.of(piece.source, piece.scope, self.statements(piece))

    def skipped(self) -> list[Skipped]:
        outer = [(p.source, d) for p in self.pieces for d in self.dependents.get(p, ())]
        return [
            self._skipped(p)
            for p in self.pieces
            if not any(s is p.source and contains(d, p.statement) for s, d in outer)
        ]

    def _skipped(self, piece: Piece) -> Skipped:
        others = [s for p in self.pieces if p.source is piece.source for s in self.statements(p)]
        owned = [
            d
            for d in self.dependents.get(piece, ())
            if not any(o is not d and contains(o, d) for o in others)
        ]
        effects = self.effects(piece)
        return Skipped(
            piece.source,
            piece.statement,
            tuple(dict.fromkeys(owned)),
            "\n".join(
                f"{m.owner.text}.{'train' if m.training else 'eval'}()"
                for m in effects.modes_left()
            ),
            piece.initial,
            piece.what,
            tuple(d.text if self._spelled(piece, d) else "" for d in effects.draws),
        )

    def _spelled(self, piece: Piece, path: Spelling) -> bool:
        """Whether the first name of a path means the same where a piece stands."""
        names = self.facts.program.names
        first = path.text.partition(".")[0]
        return bool(first) and names.binder(piece.source, piece.scope, first) is path.scope

    # -- proof ---------------------------------------------------------------------------------

    def close(self) -> tuple[Piece, str] | None:
        """Add what depends on the pieces until nothing that stays does; a piece that cannot go."""
        for piece in self.pieces:
            why = self._cannot_go(piece)
            if why:
                return piece, why
        grown = True
        while grown:
            grown = False
            for piece in self.pieces:
                added = self._add_dependent(piece)
                if isinstance(added, str):
                    return piece, added
                grown = grown or added
        saving = [p for p in self.pieces if self.effects(p).saves]  # with what depends on it
        loaded = self._loaded_later() if saving else ""
        return (saving[-1], loaded) if loaded else None

    def _cannot_go(self, piece: Piece) -> str:
        effects = self.effects(piece)
        if effects.unknown:
            return f"what it does cannot be read at {effects.unknown}"
        for mode in effects.modes_left():
            if not mode.certain or not self._spelled(piece, mode.owner):
                return "the mode in which it leaves the model cannot be determined"
        return _jumps(piece.statement)

    def _add_dependent(self, piece: Piece) -> bool | str:
        """Whether another statement goes along with a piece, or why one that must go cannot."""
        for use, change in Uses(self.facts, self.gone()).of(piece, self.statements(piece)):
            dependent = self._dependent(piece, use, change)
            if isinstance(dependent, str):
                return dependent
            if not any(contains(s, dependent) for s in self.statements(piece)):
                within = [d for d in self.dependents.get(piece, ()) if not contains(dependent, d)]
                self.dependents[piece] = [*within, dependent]
                return True
        return False

    # -- what goes along -----------------------------------------------------------------------

    def _dependent(self, piece: Piece, use: Mention, change: Change | None) -> ast.stmt | str:
        """The statement that goes with the piece because of a read, or why none can."""
        source, scope, node = use
        statement = source.statement_of(node)
        if statement is None or scope is not piece.scope:
            return _stays(piece, use, change)
        if statement in self.facts.of_the_step or self.facts.holds_step(statement):
            return _stays(piece, use, change)
        if _jumps(statement):
            return _read(piece, use, "decides at") + " how the script goes on"
        effects = self.facts.reader.of(source, scope, [statement])
        if not isinstance(statement, _REMOVABLE) or effects.unknown or effects.modes:
            return _stays(piece, use, change)
        if self._reads_the_step(statement, piece):
            return _stays(piece, use, change) + ", beside values of the step"
        return statement

    def _reads_the_step(self, statement: ast.stmt, piece: Piece) -> bool:
        """A host read of what the step computed: without it the step would be another one."""
        if piece.source is not self.facts.candidate.source:
            return False
        tensors = frozenset(
            n.id
            for s in self.facts.of_the_step
            for n in below(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        names = {n.id for n in below(statement) if isinstance(n, ast.Name) and n.id in tensors} - {
            c.name for c in self.effects(piece).bound
        }
        return bool(names) and host_read(statement, frozenset(names)) is not None

    # -- files ---------------------------------------------------------------------------------

    def _loaded_later(self) -> str:
        """A statement that stays and reads a file, in the loops or behind them."""
        gone = self.gone()
        for source, scope, statement in self._behind():
            if gone.holds(source, statement) or self.facts.holds_step(statement):
                continue
            if self.facts.reader.of(source, scope, [statement]).loads:
                return f"a file is read back at {source.path.name}:{statement.lineno}"
        return ""

    def _behind(self) -> Iterator[Place]:
        """Statements in the loops around the step and behind them, callers included."""
        for source, scope, anchor in self.facts.anchors():
            for suite, index in path_to(source, scope, anchor):
                for statement in suite[index + 1 :]:
                    yield source, scope, statement
            for loop in (anchor, *source.loops_around(anchor)):
                if isinstance(loop, LOOPS):
                    for statement in loop.body:
                        yield source, scope, statement


def _read(piece: Piece, use: Mention, how: str) -> str:
    source, _, node = use
    name = node.id if isinstance(node, ast.Name) else node.attr
    where = "line " if source is piece.source else f"{source.path.name}:"
    return f"{name} {how} {where}{node.lineno}"


def _stays(piece: Piece, use: Mention, change: Change | None) -> str:
    changed = f", and {shown(change)} may change it" if change is not None else ""
    return _read(piece, use, "is read at") + changed


def _jumps(statement: ast.stmt) -> str:
    """Why taking a statement out would change the way: it leaves the loop or the function."""
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
            if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef))
        ]
    return ""
