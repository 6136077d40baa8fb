"""A statement of a script written again, with some of its expressions changed."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable
from itertools import accumulate

from instrumentor.read.syntax import Source


class StatementText:
    """The text of a module as UTF-8, in which the syntax tree counts its columns."""

    def __init__(self, source: Source) -> None:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source.data).readline)
        text = source.data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        self.data = text.encode()
        lengths = (len(line.encode()) + 1 for line in text.split("\n"))
        self._starts = [0, *accumulate(lengths)]

    def span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        """Where a node begins and ends in ``data``."""
        last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[last - 1] + end

    def of(self, node: ast.stmt | ast.expr) -> str:
        """A node as it is written."""
        begin, end = self.span(node)
        return self.data[begin:end].decode()

    def rewritten(self, statement: ast.stmt, changes: Iterable[tuple[int, int, str]]) -> str:
        """The statement flush left, with texts in the place of what stands from and to.

        Args:
            changes: from, to and text; of several from one place, in the order in which they are
                to stand.
        """
        at, end = self.span(statement)
        text = b""
        for begin, stop, new in changes:
            text += self.data[at:begin] + new.encode()
            at = stop
        text += self.data[at:end]
        return _flush_left(text.decode(), statement.col_offset)


def _flush_left(text: str, indent: int) -> str:
    """Later lines lose the statement's own indentation, where that changes no text in quotes."""
    head, *rest = text.split("\n")
    cut = [line[indent:] if not line[:indent].strip() else line.lstrip() for line in rest]
    candidate = "\n".join([head, *cut])
    return candidate if _same(candidate, text) else text


def _same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return False
