"""Carry out planned edits on a source file, such that the text alone gives the original back.

``ast`` addresses the statements, LibCST rewrites them: one parse, one pass over the blocks that
hold an edit. See :mod:`instrumentor.engine.marks` for the format of the result.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst

from instrumentor.edits import Edit, Kind
from instrumentor.engine.actions import Gathered, gather, refusal
from instrumentor.engine.marks import MARKER, is_instrumented, strip
from instrumentor.engine.places import Places, find_places, first_line
from instrumentor.engine.rebuild import Rebuilder
from instrumentor.engine.weave import readable, weave
from instrumentor.errors import ProofFailed, UsageError

__all__ = ["MARKER", "apply_edits", "is_instrumented", "strip"]


def apply_edits(source: bytes, edits: Sequence[Edit], *, tree: ast.Module | None = None) -> bytes:
    """Carry out all edits of one file.

    Args:
        source: the file as it is on disk; its encoding, newlines and indentation are kept.
        edits: in any order; edits at one anchor take effect in the order given.
        tree: ``ast.parse(source)`` where the caller has it already.

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
        return _apply(source, edits, ast.parse(source) if tree is None else tree)
    except RecursionError as error:
        raise ProofFailed("the file nests too deeply to be rewritten") from error
    except (SyntaxError, ValueError) as error:
        raise ProofFailed(f"the file cannot be rewritten: {error}") from error


def _apply(source: bytes, edits: Sequence[Edit], tree: ast.Module) -> bytes:
    text, encoding = readable(source)
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise ProofFailed(
            f"the file cannot be rewritten: LibCST stops at line {error.raw_line}, "
            f"column {error.raw_column}: {error.message}"
        ) from error
    gathered = gather(edits, tree)
    places = find_places(tree, module, gathered.at)
    _refuse_impossible(gathered, places)
    rewritten = Rebuilder(module, gathered, places).rebuild().code
    result = weave(source, text, rewritten, encoding)
    if strip(result) != source:
        raise ProofFailed("proof 'reversible' failed: the edits cannot be taken out again")
    return result


def _refuse_impossible(gathered: Gathered, places: Places) -> None:
    for where, actions in gathered.at.items():
        place = places.at[where]
        for edit in (*actions.before, *actions.after, *([actions.off] if actions.off else [])):
            if place.is_elif:
                raise refusal(edit, "the statement is an elif; address the if that it belongs to")
            if edit.kind is Kind.PRELUDE and place.depth:
                raise refusal(edit, "a prelude follows a statement of the module itself")
        if actions.off is not None:
            node = place.statement
            first, last = first_line(node), node.end_lineno or node.lineno
            for other in gathered.at:
                inside = (other.line, other.column) > (node.lineno, node.col_offset) and (
                    (other.line, other.column) < (last, node.end_col_offset or 0)
                )
                if inside and first <= other.line:
                    raise refusal(
                        actions.off, f"another edit lies inside the statement, at line {other.line}"
                    )
