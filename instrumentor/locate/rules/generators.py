"""A loop that yields in the middle of a step: its caller's time would be measured too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.syntax import own_nodes


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    bodies = [(candidate.source, candidate.loop.body)]
    bodies += [(f.source, f.node.body) for s in candidate.sites for f in s.chain]
    for source, body in bodies:
        for node in own_nodes(ast.Module(body, [])):
            if isinstance(node, (ast.Yield, ast.YieldFrom)):
                yield Reason(
                    source.path,
                    node.lineno,
                    "generator",
                    "the loop yields in the middle of a step: its caller's time would be "
                    "measured too",
                    "Return after the step instead of yielding inside it.",
                )
