"""A helper that may leave ahead of its backward: its calls would be samples of nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from instrumentor.locate.constants import along, decided
from instrumentor.locate.control import START, Flow
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """The first return that a call may come to past every backward."""
    backwards = [s.backward_statement for s in candidate.sites]
    for site in candidate.sites:
        for function, known in along(knowledge.program, site):
            if function is not site.chain[-1]:
                continue
            flow = Flow(function.node.body, partial(decided, known=known))
            # a loop of backwards is one: that it walks over nothing says nothing of the call
            met = {
                flow.before(s)
                for backward in backwards
                if backward in flow.begins
                for s in (backward, *function.source.loops_around(backward))
            }
            for statement in flow.statements:
                if isinstance(statement, ast.Return) and flow.path(
                    START, flow.before(statement), met
                ):
                    yield Reason(
                        function.source.path,
                        statement.lineno,
                        "conditional-step",
                        f"{function.name}() may return before its backward: such a call would "
                        "count as a sample",
                        "Call the helper only when it makes a step.",
                    )
                    return
