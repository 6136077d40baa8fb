"""Other code runs between the statements of a step: its time would be measured too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.syntax import own_nodes


def generator(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """The loop, or a helper on the way to a backward, yields: its caller goes on in between."""
    bodies = [(candidate.source, candidate.loop.body)]
    bodies += [(helper.source, helper.node.body) for helper in candidate.helpers]
    for source, body in bodies:
        for node in own_nodes(ast.Module(body, [])):
            if isinstance(node, (ast.Yield, ast.YieldFrom)):
                told = (
                    "the loop yields in the middle of a step: its caller's time would be "
                    "measured too"
                )
                remedy = "Return after the step instead of yielding inside it."
                yield Reason.at(source, node, "generator", told, remedy)


def asynchronous(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """The loop or its function is `async`: the event loop switches to other tasks."""
    source, loop = candidate.source, candidate.loop
    if isinstance(loop, ast.AsyncFor) or isinstance(candidate.scope, ast.AsyncFunctionDef):
        told = "the loop is asynchronous: other work runs between its statements"
        yield Reason.at(source, loop, "async", told, "Use a plain for or while loop.")
