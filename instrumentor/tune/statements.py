"""Changes of expressions, gathered per statement and handed over as edits of whole statements."""

from __future__ import annotations

import ast
from pathlib import Path

from msgspec import Struct, field

from instrumentor.edits import Edit, Kind
from instrumentor.locate.syntax import FUNCTIONS, LOOPS, Source, address
from instrumentor.statement_text import StatementText
from instrumentor.tune.target import NotApplicable
from instrumentor.variant import Variant

PASS = "tune"
_COMPOUND = (*LOOPS, *FUNCTIONS, ast.ClassDef, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match)


class Changes(Struct, eq=False):
    """What settings want done; several changes inside one statement become one edit of it."""

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
        if statement is None or isinstance(statement, _COMPOUND):
            raise NotApplicable(
                source.path, node.lineno, "the value is in the header of a block or in a decorator"
            )
        _, found, reasons = self._expressions.setdefault(statement, (source, {}, []))
        found[node] = text
        reasons.append(reason)

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
        """Insert statements; ``rebinds`` are names of the module that they may bind anew."""
        where = None if at is None else address(at)
        edit = Edit(kind, where, code, pass_name=PASS, reason=reason)
        if (source.path, edit) not in self._edits:
            self._edits.append((source.path, edit))
        self._rebinds.update(rebinds)

    def file(self, path: Path, data: bytes) -> None:
        """Put new bytes in the place of a data file's."""
        self._files[path] = data

    def data_of(self, path: Path) -> bytes:
        """A data file with the changes made so far."""
        return self._files[path] if path in self._files else path.read_bytes()

    def variant(self) -> Variant:
        """All of it."""
        replaced = [
            (
                source.path,
                Edit(
                    Kind.DISABLE,
                    address(statement),
                    _rewritten(source, statement, texts),
                    pass_name=PASS,
                    reason="; ".join(dict.fromkeys(reasons)),
                ),
            )
            for statement, (source, texts, reasons) in self._expressions.items()
        ]
        rebinds = set(self._rebinds)
        for statement in self._expressions:
            names = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
            rebinds |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
        return Variant(
            (*self._edits, *replaced), tuple(self._files.items()), tuple(sorted(rebinds))
        )


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
