"""Inserted code: marked line by line, and parsed anew for every place it goes to."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import libcst as cst
from msgspec import Struct

from instrumentor.engine.parsing import parse
from instrumentor.errors import ProofFailed
from instrumentor.marks import BEGIN, END, MARKER

_NEWLINE = re.compile(r"\r\n?")


class Snippet(Struct, frozen=True):
    """Marked statements, with the lines that stand before and behind them."""

    before: Sequence[cst.EmptyLine]
    statements: Sequence[cst.SimpleStatementLine | cst.BaseCompoundStatement]
    after: Sequence[cst.EmptyLine]


def comment_line(text: str) -> cst.EmptyLine:
    """A comment on a line of its own, at the indentation of the block it is put into."""
    return cst.EmptyLine(comment=cst.Comment(text))


def marked_end() -> cst.TrailingWhitespace:
    """The end of a line of ours."""
    return cst.TrailingWhitespace(
        whitespace=cst.SimpleWhitespace("  "), comment=cst.Comment(MARKER)
    )


def make_snippet(code: str, *, as_block: bool = False) -> Snippet:
    """Parse flush-left code into fresh marked statements.

    Args:
        code: one or more statements.
        as_block: put it between a begin and an end line even when every line could carry a
            marker of its own.

    Raises:
        ProofFailed: the code does not parse.
    """
    text = _NEWLINE.sub("\n", code).strip("\n")
    if not text.strip():
        return Snippet((), (), ())
    try:
        marked = None if as_block else _mark_lines(text)
        # Own defaults, not the file's: a block then has no indentation of its own and takes on
        # that of the file it is put into.
        parsed = cst.parse_module((text if marked is None else marked) + "\n")
    except (SyntaxError, ValueError, cst.ParserSyntaxError) as error:
        raise ProofFailed(f"code to be inserted does not parse: {text!r}") from error
    before, after = list(parsed.header), list(parsed.footer)
    if marked is None:
        before.insert(0, comment_line(BEGIN))
        after.append(comment_line(END))
    return Snippet(before, parsed.body, after)


def make_opaque(code: str) -> str:
    """The lines of a block at module level that already has the file's indentation.

    Nothing in such a block depends on its place, so LibCST need not read it: a prelude can be
    longer than the script.

    Raises:
        ProofFailed: the code does not parse.
    """
    text = _NEWLINE.sub("\n", code).strip("\n")
    try:
        parse(text)
    except (SyntaxError, ValueError) as error:
        raise ProofFailed(f"code to be inserted does not parse: {text!r}") from error
    return f"{BEGIN}\n{text}\n{END}"


def _mark_lines(text: str) -> str | None:
    """Append the marker to every line; None when it would not be a comment everywhere."""
    lines = text.split("\n")
    marked = "\n".join(f"{line.rstrip()}  {MARKER}" for line in lines if line.strip())
    if len(lines) == 1:
        return marked
    meaning = ast.dump(parse(text))
    try:
        return marked if ast.dump(parse(marked)) == meaning else None
    except SyntaxError:
        return None
