"""What settings want done: expressions put in the place of others, statements, bytes, arguments.

Several changes inside one statement become one edit of the whole statement.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
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


class Changes(Struct, eq=False):
    """The changes of one configuration.

    Attributes:
        arguments: of the script, as they are to be.
        options: compile options by name; they go into a call together.
    """

    arguments: list[str] = field(default_factory=list)
    options: dict[str, Value] = field(default_factory=dict)
    _expressions: dict[ast.stmt, tuple[Source, dict[ast.expr, str], list[str]]] = field(
        default_factory=dict
    )
    _edits: list[tuple[Path, Edit]] = field(default_factory=list)
    _files: dict[Path, bytes] = field(default_factory=dict)
    _rebinds: set[str] = field(default_factory=set)

    def replace(self, source: Source, node: ast.expr, text: str, reason: str) -> None:
        """Put a text in the place of an expression.

        Raises:
            NotApplicable: the expression stands in the head of a compound statement.
        """
        statement = source.statement_of(node)
        # An edit replaces a whole statement, which for a block would include its body.
        if statement is None or isinstance(statement, _COMPOUND):
            raise NotApplicable(
                source.path, node.lineno, "the value is in the header of a block or in a decorator"
            )
        _, found, reasons = self._expressions.setdefault(statement, (source, {}, []))
        found[node] = text
        reasons.append(reason)
        names = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
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
        """All that goes into the copy."""
        edits = [*self._edits]
        for statement, (source, texts, reasons) in self._expressions.items():
            code, reason = _rewritten(source, statement, texts), "; ".join(dict.fromkeys(reasons))
            edit = Edit(Kind.DISABLE, address(statement), code, pass_name=PASS, reason=reason)
            edits.append((source.path, edit))
        files, rebinds = tuple(self._files.items()), tuple(sorted(self._rebinds))
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


def _rewritten(source: Source, statement: ast.stmt, texts: dict[ast.expr, str]) -> str:
    """The statement flush left with its expressions replaced, and its comment behind it."""
    text = StatementText(source)
    changes = sorted((*text.span(node), new) for node, new in texts.items())
    _, end = text.span(statement)
    rest = text.data[end:].partition(b"\n")[0].decode().strip()
    code = text.rewritten(statement, changes)
    return f"{code}  {rest}" if rest.startswith("#") else code
