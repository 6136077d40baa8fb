"""An asynchronous loop: other work runs between its statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    if isinstance(candidate.loop, ast.AsyncFor) or isinstance(
        candidate.scope, ast.AsyncFunctionDef
    ):
        yield Reason(
            candidate.source.path,
            candidate.loop.lineno,
            "async",
            "the loop is asynchronous: other work runs between its statements",
            "Use a plain for or while loop.",
        )
