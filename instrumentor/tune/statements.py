"""What settings want done: expressions put in the place of others, statements, bytes, arguments.

Several changes inside one statement become one edit of the whole statement.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from instrumentor.read.statement_text import StatementText
from instrumentor.read.syntax import FUNCTIONS, LOOPS, Source, address
from instrumentor.shared.edits import Edit, Kind
from instrumentor.shared.variant import Variant
from instrumentor.tune.settings import Value
from instrumentor.tune.target import NotApplicable
from instrumentor_analysis.shared.files import read_bytes

PASS = "tune"
_COMPOUND = (*LOOPS, *FUNCTIONS, ast.ClassDef, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match)

#: Where a script has a setting itself, and its value: None where that is not plain to see.
Own: TypeAlias = tuple[Path, int, Value | None]


class _Rewritten(Struct, eq=False):
    """What becomes of a statement: expressions in the place of others, keywords behind the last."""

    source: Source
    replaced: dict[ast.expr, str] = field(default_factory=dict)
    added: list[tuple[ast.expr, str]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def alters_nothing(self) -> bool:
        """Whether each expression is put in the place of the same one."""
        if self.added:
            return False
        try:  # what goes into the place of one may be several: more options in a table
            made = [ast.parse(text, mode="eval").body for text in self.replaced.values()]
        except SyntaxError:
            return False
        pairs = zip(made, self.replaced, strict=True)
        return all(ast.dump(new) == ast.dump(old) for new, old in pairs)


class Changes(Struct, eq=False):
    """The changes of one configuration.

    Attributes:
        arguments: of the script, as they are to be.
        options: compile options by name; they go into a call together.
    """

    arguments: list[str] = field(default_factory=list)
    options: dict[str, Value] = field(default_factory=dict)
    _statements: dict[ast.stmt, _Rewritten] = field(default_factory=dict)
    _edits: list[tuple[Path, Edit]] = field(default_factory=list)
    _files: dict[Path, bytes] = field(default_factory=dict)
    _rebinds: set[str] = field(default_factory=set)

    def replace(self, source: Source, node: ast.expr, text: str, reason: str) -> None:
        """Put a text in the place of an expression.

        Raises:
            NotApplicable: the expression stands in the head of a compound statement.
        """
        self._of(source, node, reason).replaced[node] = text

    def add_keyword(self, source: Source, call: ast.Call, text: str, reason: str) -> None:
        """Give a call `name=value` behind its last argument.

        Raises:
            NotApplicable: as for :meth:`replace`, or the call has no argument.
        """
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if not given:
            raise NotApplicable(source.path, call.lineno, "the call has no arguments")
        end = max(given, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
        self._of(source, call, reason).added.append((end, f", {text}"))

    def _of(self, source: Source, node: ast.expr, reason: str) -> _Rewritten:
        statement = source.statement_of(node)
        # An edit replaces a whole statement, which for a block would include its body.
        if statement is None or isinstance(statement, _COMPOUND):
            raise NotApplicable(
                source.path, node.lineno, "the value is in the header of a block or in a decorator"
            )
        found = self._statements.setdefault(statement, _Rewritten(source))
        found.reasons.append(reason)
        names = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
        self._rebinds.update(n.id for n in names if isinstance(n.ctx, ast.Store))
        return found

    def disable(self, source: Source, at: ast.stmt, code: str, reason: str) -> None:
        """Take a statement out, with others in its place."""
        edit = Edit(Kind.DISABLE, address(at), code, pass_name=PASS, reason=reason)
        self._edits.append((source.path, edit))
        names = (n for n in ast.walk(at) if isinstance(n, ast.Name))
        self._rebinds.update(n.id for n in names if isinstance(n.ctx, ast.Store))

    def insert(
        self,
        kind: Kind,
        source: Source,
        at: ast.stmt | None,
        code: str,
        reason: str,
        *,
        rebinds: tuple[str, ...] = (),
    ) -> None:
        """Insert statements.

        Args:
            at: the statement that ``kind`` refers to; None for the beginning of the file.
            reason: shown beside the change.
            rebinds: names of the module that the statements may bind anew.
        """
        where = None if at is None else address(at)
        edit = source.path, Edit(kind, where, code, pass_name=PASS, reason=reason)
        # Two settings may want the same line, such as an import.
        if edit not in self._edits:
            self._edits.append(edit)
        self._rebinds.update(rebinds)

    def rewrite(self, path: Path, change: Callable[[bytes], bytes]) -> None:
        """Change a data file's bytes, as they are after the changes made so far."""
        self._files[path] = change(self._files.get(path) or read_bytes(path))

    def variant(self) -> Variant:
        """All that goes into the copy; nothing of what the script has already."""
        edits = [*self._edits]
        for statement, made in self._statements.items():
            if made.alters_nothing:
                continue
            code, reason = _rewritten(statement, made), "; ".join(dict.fromkeys(made.reasons))
            edit = Edit(Kind.DISABLE, address(statement), code, pass_name=PASS, reason=reason)
            edits.append((made.source.path, edit))
        files = tuple((path, new) for path, new in self._files.items() if new != read_bytes(path))
        rebinds = tuple(sorted(self._rebinds))
        return Variant(tuple(edits), files, rebinds, tuple(self.arguments))


class Way(Struct, frozen=True):
    """How a setting acts on a script.

    Attributes:
        how: in words.
        own: where the script has it itself; None where it does not.
        apply: makes the changes for a value; raises NotApplicable.
    """

    how: str
    own: Own | None
    apply: Callable[[Value, Changes], None]


def text_of(source: Source, node: ast.expr) -> str:
    """An expression as it is written."""
    return StatementText(source).of(node)


def _rewritten(statement: ast.stmt, made: _Rewritten) -> str:
    """The statement flush left with its expressions changed, and its comment behind it."""
    text = StatementText(made.source)
    changes = [(*text.span(node), new) for node, new in made.replaced.items()]
    ends = ((text.span(node)[1], new) for node, new in made.added)
    changes += [(end, end, new) for end, new in ends]
    return written(made.source, statement, sorted(changes, key=lambda change: change[:2]))


def written(
    source: Source, statement: ast.stmt, changes: Sequence[tuple[int, int, str]] = ()
) -> str:
    """A statement flush left as :meth:`.StatementText.rewritten`, with the comment behind it."""
    text = StatementText(source)
    _, end = text.span(statement)
    rest = text.data[end:].partition(b"\n")[0].decode().strip()
    code = text.rewritten(statement, changes)
    return f"{code}  {rest}" if rest.startswith("#") else code
