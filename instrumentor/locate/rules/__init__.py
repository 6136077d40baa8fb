"""Why a chosen loop is declined: one module for each reason, in the order in which they are told.

A rule looks at a candidate and yields reasons; nothing is instrumented as long as one stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.rules import (
    asynchronous,
    closures,
    compiled_step,
    conditional_step,
    foreign_runtime,
    generators,
    line_search,
    manual_backward,
    own_process,
)

RULES = (
    foreign_runtime,
    closures,
    generators,
    compiled_step,
    line_search,
    own_process,
    conditional_step,
    asynchronous,
    manual_backward,
)


def reasons_against(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """The first reason of every rule against a loop."""
    for rule in RULES:
        yield from islice(rule.reasons(knowledge, candidate), 1)
