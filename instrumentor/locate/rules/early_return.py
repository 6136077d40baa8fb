"""A helper that may leave ahead of its backward: its calls would be samples of nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.conditions import tells_a_phase
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.step_function import departures, step_function


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """The first call that may be no step, where the clock cannot stand inside of the function."""
    for _, function, told in departures(knowledge, candidate):
        leaves = isinstance(told, ast.Return)
        if leaves or (isinstance(told, ast.If) and tells_a_phase(told.test)):
            if step_function(knowledge, candidate) is None:
                yield Reason(
                    function.source.path,
                    told.lineno,
                    "conditional-step" if leaves else "train-and-eval",
                    f"{function.name}() may return before its backward: such a call would count "
                    "as a sample"
                    if leaves
                    else "one function serves training and evaluation: the backward runs only in "
                    "one of its phases",
                    "Call the helper only when it makes a step.",
                )
            return
