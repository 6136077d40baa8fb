"""Carry out planned edits on a source file, such that the text alone gives the original back.

In: bytes and edits; out: bytes that give the original back.

``ast`` addresses the statements, LibCST rewrites them: one parse, one transformer over the
blocks. See :mod:`instrumentor.rewrite.line_format` for the format of the result.
"""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
from collections.abc import Sequence
from itertools import takewhile

import libcst as cst

from instrumentor.read.syntax import address, children
from instrumentor.rewrite.engine.actions import gather, refusal
from instrumentor.rewrite.engine.pairs import pair
from instrumentor.rewrite.engine.parsing import parse
from instrumentor.rewrite.engine.rewriter import Rewriter
from instrumentor.rewrite.line_format import MARKER, Line, classify, strip
from instrumentor.shared.edits import Edit, Statement
from instrumentor.shared.errors import ProofFailed, UsageError

__all__ = ["MARKER", "apply_edits", "check_reversible", "strip"]

_MAX_DEPTH = 1500  # levels of the syntax tree, less than half of what LibCST's stack holds
# Not splitlines(): of a str it also breaks at form feeds and U+2028, which end no Python line.
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


def apply_edits(source: bytes, edits: Sequence[Edit]) -> bytes:
    """Carry out all edits of one file.

    Args:
        source: the file as it is on disk; its encoding, newlines and indentation are kept.
        edits: in any order; edits at one anchor take effect in the order given.

    Returns:
        The instrumented file, with ``strip(result) == source``.

    Raises:
        UsageError: the source holds our marker already.
        ProofFailed: an edit cannot be carried out, or not without harm to other lines.
    """
    if MARKER.encode() in source:
        raise UsageError(
            f"the file holds the marker '{MARKER}': it is already instrumented",
            "instrument the original; `instrumentor.rewrite.engine.strip` gives it back",
        )
    if not edits:
        return source
    try:
        return _apply(source, edits, parse(source))
    except (RecursionError, MemoryError) as error:
        raise ProofFailed("the file nests too deeply to be rewritten") from error
    except (SyntaxError, ValueError) as error:
        raise ProofFailed(f"the file cannot be rewritten: {error}") from error


def _apply(source: bytes, edits: Sequence[Edit], tree: ast.Module) -> bytes:
    statements = _statements(tree)
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise ProofFailed(
            f"the file cannot be rewritten: LibCST stops at line {error.raw_line}, "
            f"column {error.raw_column}: {error.message}",
            "Python accepts indentation by tabs and spaces mixed, LibCST does not: "
            "`python3 -m tabnanny FILE` names such lines; indent by spaces alone.",
        ) from error
    actions = gather(edits, tree)
    for where in actions.keys() - statements.keys():
        raise ProofFailed(f"no statement starts at line {where.line}, column {where.column}")
    lines = _LINE.findall(source.decode(module.encoding))
    # LibCST takes a lone carriage return at the end for none
    module = module.with_changes(has_trailing_newline=source.endswith((b"\n", b"\r")))
    rewriter = Rewriter(module, lines, actions, pair(statements, module))
    result = _with_form_feeds(source, rewriter.rewritten())
    for left in rewriter.left.values():
        edit = next(e for e in (*left.before, left.off, *left.after) if e is not None)
        raise refusal(edit, "the statement is an elif, or inside of one that is taken out")
    check_reversible(source, result)
    _check_encoding(source, result)
    return result


def _with_form_feeds(source: bytes, rewritten: bytes) -> bytes:
    """Give back the page breaks of older files: LibCST 1.9 loses a form feed ahead of code."""
    if b"\f" not in source:
        return rewritten
    # It stays ahead of everything, of an inserted first line too.
    mark = codecs.BOM_UTF8 if source.startswith(codecs.BOM_UTF8) else b""
    originals = iter(source.removeprefix(mark).splitlines(keepends=True))
    lines = [mark]
    for kind, line in classify(rewritten.removeprefix(mark).splitlines(keepends=True)):
        original = b"" if kind is Line.OURS else next(originals, b"")
        whole = kind is Line.ORIGINAL and original.endswith((b"\n", b"\r"))
        lines.append(original if whole else line)
    return b"".join(lines)


def check_reversible(original: bytes, instrumented: bytes) -> None:
    """Check that taking the edits out gives the original back, byte for byte.

    Raises:
        ProofFailed: it does not.
    """
    stripped = strip(instrumented)
    if stripped == original:
        return
    back, wanted = (one.splitlines(keepends=True) for one in (stripped, original))
    pairs = zip(back, wanted, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    raise ProofFailed(
        f"proof 'reversible' failed at line {same + 1} of the original: "
        "taking the edits out does not give it back"
    )


def _check_encoding(source: bytes, result: bytes) -> None:
    """Any comment in the first two lines can declare one, of a statement that became one, too."""
    was, now = (tokenize.detect_encoding(io.BytesIO(t).readline)[0] for t in (source, result))
    if was != now:
        raise ProofFailed(f"a comment in the first two lines would declare an encoding: {now}")


def _statements(tree: ast.Module) -> dict[Statement, ast.stmt]:
    """The statements by address; refuses what would overflow LibCST's stack.

    That is a native one, and kills the process: CPython 3.13 parses expressions of twice the depth
    (7,000) that LibCST 1.9 survives.
    """
    found: dict[Statement, ast.stmt] = {}
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            raise ProofFailed("the file nests too deeply to be rewritten")
        found.update((address(node), node) for node in level if isinstance(node, ast.stmt))
        level = [child for node in level for child in children(node)]
    return found
