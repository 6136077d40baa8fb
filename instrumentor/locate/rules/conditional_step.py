"""A call that may be no step, where the clock cannot stand inside of the function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.conditions import tells_a_phase
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.step_function import departures, step_function
from instrumentor.locate.syntax import FUNCTIONS

_MESSAGES = {
    "conditional-step": "{}() may return before its backward: such a call would count as a sample",
    "train-and-eval": "{}() serves training and evaluation: the backward runs only in one of them",
    "": "{}() has another version without a backward, which runs in the same loop",
}


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """The first statement that makes a call of a helper no step."""
    for departure in departures(knowledge, candidate):
        told = departure.told
        if isinstance(told, ast.Return):
            kind = "conditional-step"
        elif isinstance(told, FUNCTIONS) or (isinstance(told, ast.If) and tells_a_phase(told.test)):
            kind = "train-and-eval"
        else:
            continue
        if step_function(knowledge, candidate) is None:
            text = _MESSAGES["" if isinstance(told, FUNCTIONS) else kind]
            message = text.format(departure.function.name)
            remedy = "Call the helper only when it makes a step."
            yield Reason(departure.source.path, told.lineno, kind, message, remedy)
        return
