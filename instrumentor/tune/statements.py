"""Changes of expressions, gathered per statement and handed over as edits of whole statements."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor.edits import Edit, Kind
from instrumentor.locate.syntax import FUNCTIONS, LOOPS, Source, address
from instrumentor.tune.target import NotApplicable
from instrumentor.variant import Variant

PASS = "tune"
_COMPOUND = (*LOOPS, *FUNCTIONS, ast.ClassDef, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match)


@dataclass(eq=False)
class Changes:
    """What levers want done; several changes inside one statement become one edit of it."""

    _expressions: dict[ast.stmt, tuple[Source, dict[ast.expr, str], list[str]]] = field(
        default_factory=dict
    )
    _edits: list[tuple[Path, Edit]] = field(default_factory=list)
    _files: dict[Path, bytes] = field(default_factory=dict)
    _rebinds: set[str] = field(default_factory=set)

    def replace(self, source: Source, node: ast.expr, text: str, reason: str) -> None:
        """Put a text in the place of an expression.

        Raises:
            NotApplicable: the expression stands in the head of a compound statement, or beside a
                text of several lines.
        """
        statement = source.statement_of(node)
        if statement is None or isinstance(statement, _COMPOUND):
            raise NotApplicable(
                source.path, node.lineno, "the value is in the header of a block or in a decorator"
            )
        if _has_long_string(statement):
            raise NotApplicable(
                source.path, node.lineno, "the statement holds a text of several lines"
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
    return _between(_lines(source), _span(node))


def _has_long_string(statement: ast.stmt) -> bool:
    return any(
        isinstance(node, (ast.Constant, ast.JoinedStr))
        and (isinstance(node, ast.JoinedStr) or isinstance(node.value, (str, bytes)))
        and node.end_lineno != node.lineno
        for node in ast.walk(statement)
    )


Span = tuple[tuple[int, int], tuple[int, int]]


def _span(node: ast.stmt | ast.expr) -> Span:
    start = (node.lineno, node.col_offset)
    return start, (node.end_lineno or node.lineno, node.end_col_offset or 0)


def _lines(source: Source) -> list[bytes]:
    """Lines as UTF-8, in which the syntax tree counts its columns."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source.data).readline)
    text = source.data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    return [line.encode() for line in text.split("\n")]


def _between(lines: list[bytes], span: Span) -> str:
    (first, left), (last, right) = span
    if first == last:
        return lines[first - 1][left:right].decode()
    parts = [lines[first - 1][left:], *lines[first : last - 1], lines[last - 1][:right]]
    return b"\n".join(parts).decode()


def _rewritten(source: Source, statement: ast.stmt, texts: dict[ast.expr, str]) -> str:
    """The statement flush left with its expressions replaced, and its comment behind it."""
    lines = _lines(source)
    begin, end = _span(statement)
    pieces: list[str] = []
    at = begin
    for node, text in sorted(texts.items(), key=lambda item: _span(item[0])):
        start, stop = _span(node)
        pieces += [_between(lines, (at, start)), text]
        at = stop
    pieces.append(_between(lines, (at, end)))
    code = "".join(pieces)
    head = lines[begin[0] - 1][: begin[1]].decode()
    if head and not head.strip():
        code = re.sub(rf"(?m)^{re.escape(head)}", "", code)
    rest = lines[end[0] - 1][end[1] :].decode().strip()
    return f"{code}  {rest}" if rest.startswith("#") else code
