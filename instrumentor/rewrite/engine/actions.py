"""The edits of one file, gathered by the statement they are anchored at."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct, field

from instrumentor.read.syntax import address
from instrumentor.rewrite.line_format import MARKER
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import ProofFailed


class Actions(Struct):
    """What happens at one statement, each list in the order of the plan.

    Attributes:
        before: insertions before it.
        off: the edit that disables it or moves it away, if any.
        after: insertions, preludes and moved statements that follow it.
    """

    before: list[Edit] = field(default_factory=list)
    off: Edit | None = None
    after: list[Edit] = field(default_factory=list)


def gather(edits: Sequence[Edit], tree: ast.Module) -> dict[Statement, Actions]:
    """Sort edits by anchor.

    A prelude without anchor goes before all code, which is after the docstring and the
    ``__future__`` imports where the module has them.

    Raises:
        ProofFailed: an edit is incomplete, or two edits contradict each other.
    """
    found: dict[Statement, Actions] = defaultdict(Actions)
    for edit in edits:
        if MARKER in edit.code:
            raise refusal(edit, f"the inserted code holds the marker '{MARKER}'")
        if edit.kind is Kind.PRELUDE and edit.at is None:
            _add_first(found, edit, tree)
        elif edit.at is None or (edit.kind is Kind.MOVE_AFTER and edit.to is None):
            raise refusal(edit, "it does not say where")
        elif edit.kind is Kind.INSERT_BEFORE:
            found[edit.at].before.append(edit)
        elif edit.kind in (Kind.INSERT_AFTER, Kind.PRELUDE):
            found[edit.at].after.append(edit)
        elif found[edit.at].off is not None:
            raise refusal(edit, "another edit already takes this statement out")
        else:
            found[edit.at].off = edit
            if edit.to is not None:
                found[edit.to].after.append(edit)
    return dict(found)


def refusal(edit: Edit, why: str) -> ProofFailed:
    """The error for an edit that cannot be carried out."""
    line = edit.at.line if edit.at is not None else 1
    asked = f" (asked for by {edit.pass_name})" if edit.pass_name else ""
    return ProofFailed(f"edit '{edit.kind.value}' at line {line}{asked}: {why}")


def _add_first(found: dict[Statement, Actions], edit: Edit, tree: ast.Module) -> None:
    body = tree.body
    opening = int(ast.get_docstring(tree, clean=False) is not None)
    while opening < len(body) and _is_future(body[opening]):
        opening += 1
    if opening:
        found[address(body[opening - 1])].after.append(edit)
    elif body:
        found[address(body[0])].before.append(edit)
    else:
        raise refusal(edit, "the module has no statement")


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level
