"""From the copy's text with its marks to the text that a user would write: the same changes, bare.

What was switched off goes, what was inserted loses its mark. That both mean the same is proven on
their syntax trees.
"""

from __future__ import annotations

import ast

from instrumentor.errors import ProofFailed
from instrumentor.marks import BEGIN, END, MARKER, Line, classify

_MARK = MARKER.encode()
_FRAME = (BEGIN.encode(), END.encode())


def accept(instrumented: bytes) -> bytes:
    """The file with its edits made for good.

    Raises:
        ProofFailed: the result would not mean the same.
    """
    kept: list[bytes] = []
    for kind, line in classify(instrumented.splitlines(keepends=True)):
        if kind is Line.OFF:
            continue
        if kind is Line.OURS:
            if line.strip() in _FRAME:
                continue
            line = _unmarked(line)
        kept.append(line)
    accepted = b"".join(kept)
    if ast.dump(ast.parse(accepted)) != ast.dump(ast.parse(instrumented)):
        raise ProofFailed("proof 'accepted' failed: the patch would not mean what was measured")
    return accepted


def _unmarked(line: bytes) -> bytes:
    body = line.rstrip(b"\r\n")
    newline = line[len(body) :]
    return body[: -len(_MARK)].rstrip() + newline if body.endswith(_MARK) else line
