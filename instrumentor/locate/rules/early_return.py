"""A helper that may leave ahead of its backward: its calls would be samples of nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.constants import Constants, along, may_run
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.tree import path_to


def _leaves(test: ast.If, known: Constants) -> bool:
    """Whether a branch of an `if` that may run with these constants returns."""
    return any(
        isinstance(s, ast.Return) or (isinstance(s, ast.If) and _leaves(s, known))
        for s in may_run(test, known)
    )


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """A helper that leaves ahead of its backward: its calls would be samples of nothing."""
    program = knowledge.program
    for site in candidate.sites:
        for function, known in along(program, site):
            if function is not site.chain[-1]:
                continue
            for suite, index in path_to(function.source, function.node, site.backward_statement):
                for statement in suite[:index]:
                    if isinstance(statement, ast.If) and _leaves(statement, known):
                        yield Reason(
                            function.source.path,
                            statement.lineno,
                            "conditional-step",
                            f"{function.name}() may return before its backward: such a call "
                            "would count as a sample",
                            "Call the helper only when it makes a step.",
                        )
                        return
