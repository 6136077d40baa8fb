"""Carry out planned edits on a source file, such that the text alone gives the original back.

``ast`` addresses the statements, LibCST rewrites them: one parse, one transformer over the
blocks. See :mod:`instrumentor.marks` for the format of the result.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

import libcst as cst

from instrumentor.edits import Edit, Kind, Statement
from instrumentor.engine.actions import Gathered, gather, refusal
from instrumentor.engine.original_bytes import (
    check_encoding,
    readable,
    with_original_bytes,
    without_form_feeds,
)
from instrumentor.engine.pairs import pair
from instrumentor.engine.parsing import parse
from instrumentor.engine.rewriter import Rewriter
from instrumentor.errors import ProofFailed, UsageError
from instrumentor.locate.syntax import address
from instrumentor.marks import MARKER, OPAQUE, is_instrumented, strip

__all__ = ["MARKER", "apply_edits", "is_instrumented", "strip"]

_MAX_DEPTH = 1500


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
            "instrument the original; `instrumentor.engine.strip` gives it back",
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
    text, encoding = readable(source)
    try:
        module = cst.parse_module(without_form_feeds(text))
    except cst.ParserSyntaxError as error:
        raise ProofFailed(
            f"the file cannot be rewritten: LibCST stops at line {error.raw_line}, "
            f"column {error.raw_column}: {error.message}",
            "Python accepts indentation by tabs and spaces mixed, LibCST does not: "
            "`python3 -m tabnanny FILE` names such lines; indent by spaces alone.",
        ) from error
    gathered = gather(edits, tree)
    _refuse_impossible(gathered, statements, tree, text)
    around = [where for where, node in statements.items() if _first_inside(node, gathered)]
    rewriter = Rewriter(module, gathered, pair(statements, module), around)
    rewritten = module.visit(rewriter).code
    for number, block in reversed(list(enumerate(rewriter.opaque))):  # 10 before 1
        rewritten = rewritten.replace(f"{OPAQUE}{number}", block, 1)
    result = with_original_bytes(source, text, rewritten, encoding)
    check_encoding(result, encoding)
    if strip(result) != source:
        raise ProofFailed("proof 'reversible' failed: the edits cannot be taken out again")
    return result


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
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return found


def _refuse_impossible(
    gathered: Gathered, statements: Mapping[Statement, ast.stmt], tree: ast.Module, text: str
) -> None:
    of_module = {address(node) for node in tree.body}
    lines = text.split("\n")
    for where, actions in gathered.at.items():
        node = statements.get(where)
        if node is None:
            raise ProofFailed(f"no statement starts at line {where.line}, column {where.column}")
        rest = lines[where.line - 1].encode("utf-8", "surrogatepass")[where.column :]
        off = [] if actions.off is None else [actions.off]
        for edit in (*actions.before, *actions.after, *off):
            if isinstance(node, ast.If) and rest.startswith(b"elif"):
                raise refusal(edit, "the statement is an elif; address the if that it belongs to")
            if edit.kind is Kind.PRELUDE and where not in of_module:
                raise refusal(edit, "a prelude follows a statement of the module itself")
        for edit in off:
            inner = _first_inside(node, gathered)
            if inner is not None:
                raise refusal(edit, f"another edit lies inside the statement, at line {inner.line}")


def _first_inside(outer: ast.stmt, gathered: Gathered) -> Statement | None:
    start = address(outer)
    end = Statement(outer.end_lineno or outer.lineno, outer.end_col_offset or 0)
    return min((one for one in gathered.at if start < one < end), default=None)
