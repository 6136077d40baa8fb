"""Inserted code as lines of a block: marked one by one, and parsed anew wherever it goes."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TypeAlias

import libcst as cst

from instrumentor.rewrite.engine.parsing import parse
from instrumentor.rewrite.line_format import BEGIN, END, MARKER
from instrumentor.shared.errors import ProofFailed

#: A statement, or a line without one: LibCST prints both at the indentation of their block.
Line: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement | cst.EmptyLine

_NEWLINE = re.compile(r"\r\n?")


def comment_line(text: str) -> cst.EmptyLine:
    """A comment on a line of its own, at the indentation of the block it is put into."""
    return cst.EmptyLine(comment=cst.Comment(text))


def physical(line: str) -> cst.EmptyLine:
    """A line of the original without code, as it is, wherever it is put."""
    text = line.rstrip("\r\n")
    rest = text.lstrip(" \t\f")
    return cst.EmptyLine(
        indent=False,
        whitespace=cst.SimpleWhitespace(text[: len(text) - len(rest)]),
        comment=cst.Comment(rest) if rest else None,
        newline=cst.Newline(line[len(text) :] or None),
    )


def marked_end() -> cst.TrailingWhitespace:
    """The end of a line of ours."""
    return cst.TrailingWhitespace(
        whitespace=cst.SimpleWhitespace("  "), comment=cst.Comment(MARKER)
    )


def snippet(code: str) -> Sequence[Line]:
    """Parse flush-left code, one or more statements, into fresh marked ones.

    Raises:
        ProofFailed: the code does not parse.
    """
    text = _NEWLINE.sub("\n", code).strip("\n")
    if not text.strip():
        return ()
    try:
        marked = _mark_lines(text)
        # Own defaults, not the file's: a block then has no indentation of its own and takes on
        # that of the file it is put into.
        parsed = cst.parse_module((text if marked is None else marked) + "\n")
    except (SyntaxError, ValueError, cst.ParserSyntaxError) as error:
        raise _no_code(text) from error
    lines: list[Line] = [*parsed.header, *parsed.body, *parsed.footer]
    return lines if marked is not None else [comment_line(BEGIN), *lines, comment_line(END)]


def prelude(code: str, newline: str) -> str:
    """The lines of a block of the module itself, with its own indentation.

    Nothing in it depends on its place, so LibCST need not read it: it can be longer than the
    script.

    Raises:
        ProofFailed: the code does not parse.
    """
    text = _NEWLINE.sub("\n", code).strip("\n")
    try:
        parse(text)
    except (SyntaxError, ValueError) as error:
        raise _no_code(text) from error
    return newline.join((BEGIN, *text.split("\n"), END))


def _no_code(text: str) -> ProofFailed:
    return ProofFailed(f"code to be inserted does not parse: {text!r}")


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
