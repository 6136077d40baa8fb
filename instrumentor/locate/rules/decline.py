"""A way in which a script is declined: its kind, what is said, what would work, an example."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import ClassVar

from instrumentor.locate.located import Reason
from instrumentor.read.syntax import Source


class Decline:
    """What a reason says; the docstring of a subclass says why, with a script that shows it.

    docs/declines.md is made from these classes. The example is a block of Python, further files
    are blocks that begin with their name (`# helper.py`), and what is typed is a block of console
    where it is more than `instrument explain train.py`.

    Attributes:
        kind: a stable word for documents and for who reads them; several declines may share one.
        message, remedy: templates, filled in by what is given to `at` or `of`.
        observable: whether running the unmodified script may find its step all the same.
        timeable: whether lines around it may be timed with `--region`.
        unseen: whether a file that was not read may hold what is missed.
    """

    kind: ClassVar[str]
    message: ClassVar[str]
    remedy: ClassVar[str]
    observable: ClassVar[bool] = True
    timeable: ClassVar[bool] = False
    unseen: ClassVar[bool] = False

    @classmethod
    def of(cls, path: Path, line: int = 1, /, **words: object) -> Reason:
        """The reason against a line of a file."""
        return Reason(path, line, cls.kind, cls.message.format(**words), cls.remedy.format(**words))

    @classmethod
    def at(cls, source: Source, node: ast.AST, /, **words: object) -> Reason:
        """The reason against a node of a file."""
        return cls.of(source.path, getattr(node, "lineno", 1), **words)
