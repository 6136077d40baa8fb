"""The edits of one file, gathered by the statement they are anchored at."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec import Struct, field

from instrumentor.edits import Edit, Kind, Statement
from instrumentor.errors import ProofFailed
from instrumentor.locate.syntax import address
from instrumentor.marks import MARKER


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


class Gathered(Struct):
    """All edits of one file.

    Attributes:
        at: the actions by anchor.
        alone: preludes of a module that has no statement to anchor them at.
    """

    at: dict[Statement, Actions] = field(default_factory=dict)
    alone: list[Edit] = field(default_factory=list)

    def on(self, statement: Statement) -> Actions:
        """The actions at a statement, made when there are none yet."""
        return self.at.setdefault(statement, Actions())


def gather(edits: Sequence[Edit], tree: ast.Module) -> Gathered:
    """Sort edits by anchor.

    A prelude without anchor goes before all code, which is after the docstring and the
    ``__future__`` imports where the module has them.

    Raises:
        ProofFailed: an edit is incomplete, or two edits contradict each other.
    """
    gathered = Gathered()
    for edit in edits:
        _add(gathered, edit, tree)
    for place, actions in gathered.at.items():
        moved = actions.off
        if moved is not None and moved.kind is Kind.MOVE_AFTER and moved.to == place:
            raise refusal(edit_of=moved, why="a statement cannot be moved behind itself")
    return gathered


def refusal(edit_of: Edit, why: str) -> ProofFailed:
    """The error for an edit that cannot be carried out."""
    line = edit_of.at.line if edit_of.at is not None else 1
    asked = f" (asked for by {edit_of.pass_name})" if edit_of.pass_name else ""
    return ProofFailed(f"edit '{edit_of.kind.value}' at line {line}{asked}: {why}")


def _add(gathered: Gathered, edit: Edit, tree: ast.Module) -> None:
    if MARKER in edit.code:
        raise refusal(edit, f"the inserted code holds the marker '{MARKER}'")
    if edit.kind is Kind.PRELUDE:
        _add_prelude(gathered, edit, tree)
        return
    if edit.at is None:
        raise refusal(edit, "it names no statement")
    actions = gathered.on(edit.at)
    if edit.kind is Kind.INSERT_BEFORE:
        actions.before.append(edit)
    elif edit.kind is Kind.INSERT_AFTER:
        actions.after.append(edit)
    else:
        if actions.off is not None:
            raise refusal(edit, "another edit already takes this statement out")
        actions.off = edit
        if edit.kind is Kind.MOVE_AFTER:
            if edit.to is None:
                raise refusal(edit, "it does not say where the statement goes")
            gathered.on(edit.to).after.append(edit)


def _add_prelude(gathered: Gathered, edit: Edit, tree: ast.Module) -> None:
    if edit.at is not None:
        gathered.on(edit.at).after.append(edit)
        return
    opening = None
    for index, node in enumerate(tree.body):
        if not _must_stay_first(node, index):
            break
        opening = node
    if opening is not None:
        gathered.on(address(opening)).after.append(edit)
    elif tree.body:
        gathered.on(address(tree.body[0])).before.append(edit)
    else:
        gathered.alone.append(edit)


def _must_stay_first(node: ast.stmt, index: int) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__" and node.level == 0
    return (
        index == 0
        and isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
