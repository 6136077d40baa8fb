"""``ast.parse`` without the warnings a source may deserve: they are the script's business."""

from __future__ import annotations

import ast
import warnings


def parse(source: str | bytes) -> ast.Module:
    """Parse a module.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as ``ast.parse`` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)
