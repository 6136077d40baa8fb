"""``ast.parse`` without the warnings a source may deserve: they are the script's business."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache


# The same snippets are inserted, proven and compared again and again.
@lru_cache(maxsize=64)
def parse(source: str | bytes) -> ast.Module:
    """Parse a module; all who ask for the same text share the tree: never change it.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as ``ast.parse`` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)
