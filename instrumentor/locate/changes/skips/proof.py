"""Which pieces may go: with what depends on them, until nothing that stays does."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from instrumentor.locate.changes.skips.candidates import Piece
from instrumentor.locate.changes.skips.effects import Change, Effects, Files, shown
from instrumentor.locate.changes.skips.facts import Facts, Place
from instrumentor.locate.changes.skips.removal import Gone
from instrumentor.locate.changes.skips.storage import Spelling
from instrumentor.locate.changes.skips.uses import Mention, Uses
from instrumentor.locate.located import Kept, Skipped
from instrumentor.read.syntax import FUNCTIONS, LOOPS, below, contains, path_to
from instrumentor.read.vocabulary import host_read

_REMOVABLE = (
    *(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete),
    *(ast.If, ast.For, ast.With),
)


#: What a piece does with files, what one that stays may need that for unless it does so itself,
#: and how that reads.
_NEEDED = (
    (Files.WRITES, Files.READS, Files(0), "a file is read back at {}"),
    (
        Files.MAKES_FOLDER,
        Files.NEEDS_FOLDER,
        Files.MAKES_FOLDER,
        "a file is made at {}, in a folder that this may make",
    ),
)


class Stays(Exception):
    """Why a piece cannot go."""

    def __init__(self, piece: Piece, why: str) -> None:
        super().__init__(why)
        self.piece, self.why = piece, why


def prove(facts: Facts, pieces: Sequence[Piece]) -> tuple[list[Skipped], list[Kept]]:
    """Take out what can go; the pieces are proven together, as one may need another."""
    left, kept = list(pieces), list[Kept]()
    while True:
        attempt = _Attempt(facts, {piece: [piece.statement] for piece in left})
        try:
            attempt.close()
        except Stays as found:
            left.remove(found.piece)
            kept.append(found.piece.kept(found.why))
        else:
            return list(attempt.skipped()), kept


class _Attempt(Struct, eq=False):
    """Pieces that are taken out together, each with the statements that go along with it."""

    facts: Facts
    taken: dict[Piece, list[ast.stmt]]

    def _gone(self) -> Gone:
        every = ((p.source, s) for p, statements in self.taken.items() for s in statements)
        return Gone(self.facts.program, every)

    def _effects(self, piece: Piece) -> Effects:
        return self.facts.reader.of(piece.source, piece.scope, self.taken[piece])

    def skipped(self) -> Iterator[Skipped]:
        """The pieces with their dependents, none inside of another."""
        for piece, (statement, *dependents) in self.taken.items():
            every = [
                s for p, taken in self.taken.items() if p.source is piece.source for s in taken
            ]
            if any(s is not statement and contains(s, statement) for s in every):
                continue
            effects = self._effects(piece)
            modes = (f"{m.owner.text}.{'train' if m.training else 'eval'}()" for m in effects.left)
            yield Skipped(
                piece.source,
                statement,
                tuple(
                    d for d in dependents if not any(o is not d and contains(o, d) for o in every)
                ),
                "\n".join(modes),
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

    def close(self) -> None:
        """Add what depends on the pieces until nothing that stays does.

        Raises:
            Stays: a piece cannot go.
        """
        for piece in self.taken:
            self._check(piece)
        while sum(map(self._add_dependent, self.taken)):
            pass
        for does, needs, itself, why in _NEEDED:
            pieces = [p for p in self.taken if does in self._effects(p).files]
            at = self._left_doing(needs, itself) if pieces else ""
            if at:
                raise Stays(pieces[-1], why.format(at))

    def _check(self, piece: Piece) -> None:
        """By itself: what it does can be read and made up for."""
        effects = self._effects(piece)
        if effects.unknown:
            raise Stays(piece, f"what it does cannot be read at {effects.unknown}")
        if not all(mode.certain and self._spelled(piece, mode.owner) for mode in effects.left):
            raise Stays(piece, "the mode in which it leaves the model cannot be determined")
        if jumps := _jumps(piece.statement):
            raise Stays(piece, jumps)

    def _add_dependent(self, piece: Piece) -> bool:
        """Whether another statement goes along with a piece."""
        taken = self.taken[piece]
        for use, change in Uses(self.facts, self._gone()).of(piece, taken):
            dependent = self._dependent(piece, use, change)
            if not any(contains(s, dependent) for s in taken):
                within = [s for s in taken[1:] if not contains(dependent, s)]
                self.taken[piece] = [piece.statement, *within, dependent]
                return True
        return False

    # -- what goes along -----------------------------------------------------------------------

    def _dependent(self, piece: Piece, use: Mention, change: Change | None) -> ast.stmt:
        """The statement that goes with the piece because of a read."""
        source, scope, node = use
        name = node.id if isinstance(node, ast.Name) else node.attr
        where = f"line {node.lineno}" if source is piece.source else source.at(node.lineno)
        why = f"{name} is read at {where}"
        if change is not None:
            why += f", and {shown(change)} may change it"
        statement = source.statement_of(node)
        if statement is None or scope is not piece.scope:
            raise Stays(piece, why)
        if statement in self.facts.of_the_step or self.facts.holds_step(statement):
            raise Stays(piece, why)
        if _jumps(statement):
            raise Stays(piece, f"{name} decides at {where} how the script goes on")
        effects = self.facts.reader.of(source, scope, [statement])
        if not isinstance(statement, _REMOVABLE) or effects.unknown or effects.modes:
            raise Stays(piece, why)
        if self._reads_the_step(statement, piece):
            raise Stays(piece, f"{why}, beside values of the step")
        return statement

    def _reads_the_step(self, statement: ast.stmt, piece: Piece) -> bool:
        """A host read of what the step computed: without it the step would be another one."""
        if piece.source is not self.facts.candidate.source:
            return False
        of_the_step = (n for s in self.facts.of_the_step for n in below(s))
        names = {
            n.id for n in of_the_step if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        names &= {n.id for n in below(statement) if isinstance(n, ast.Name)}
        names -= {c.name for c in self._effects(piece).bound}
        return bool(names) and host_read(statement, frozenset(names)) is not None

    # -- files ---------------------------------------------------------------------------------

    def _left_doing(self, needs: Files, itself: Files) -> str:
        """A statement that stays, in the loops or behind them, and needs what a piece does."""
        gone = self._gone()
        for source, scope, statement in self._behind():
            if gone.holds(source, statement) or self.facts.holds_step(statement):
                continue
            files = self.facts.reader.of(source, scope, [statement]).files
            if needs in files and not itself & files:
                return source.at(statement.lineno)
        return ""

    def _behind(self) -> Iterator[Place]:
        """Statements in the loops around the step and behind them, callers included."""
        for source, scope, anchor in self.facts.anchors:
            for suite, index in path_to(source, scope, anchor):
                for statement in suite[index + 1 :]:
                    yield source, scope, statement
            for loop in (anchor, *source.loops_around(anchor)):
                if isinstance(loop, LOOPS):
                    for statement in loop.body:
                        yield source, scope, statement


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
