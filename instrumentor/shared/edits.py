"""The vocabulary between the plan and the rewrite: edits, addressed by original statement.

An edit names the statement it touches by the position at which that statement starts in the
original source (``ast``'s ``lineno`` and ``col_offset``), so a plan can be printed, filtered and
compared without holding a syntax tree.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from msgspec import Struct


class Statement(Struct, frozen=True, order=True):
    """Address of an original statement: 1-based line, 0-based UTF-8 byte column (as in ast)."""

    line: int
    column: int


class Kind(str, Enum):
    """What an edit does to the statement it addresses."""

    INSERT_BEFORE = "insert-before"
    INSERT_AFTER = "insert-after"
    DISABLE = "disable"  # stays visible as a comment; `code` replaces it when given
    MOVE_AFTER = "move-after"  # disabled where it stands, repeated after `to`
    PRELUDE = "prelude"  # module-level block after statement `at`; before all code when at is None


class Edit(Struct, frozen=True):
    """One change of one file.

    Attributes:
        kind: what is done.
        at: the statement it is done to; None only for a prelude at the top of the module.
        code: source of the inserted statements, flush left, newline-separated, may be several
            statements or a compound one; for DISABLE the optional replacement.
        to: for MOVE_AFTER the statement behind which the moved one is repeated.
        pass_name: the pass that asked for it.
        reason: one sentence for a reader of the plan.
        file: the module that is edited; the plan and its readers alone need it.
    """

    kind: Kind
    at: Statement | None
    code: str = ""
    to: Statement | None = None
    pass_name: str = ""
    reason: str = ""
    file: Path = Path()
