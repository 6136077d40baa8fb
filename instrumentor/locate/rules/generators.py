"""A loop that yields in the middle of a step: its caller's time would be measured too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    own_nodes,
)


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    scopes: list[tuple[Source, ScopeNode, list[ast.stmt]]] = [
        (candidate.source, candidate.scope, candidate.loop.body)
    ]
    scopes += [(f.source, f.node, f.node.body) for s in candidate.sites for f in s.chain]
    for source, scope, body in scopes:
        if not isinstance(scope, FUNCTIONS):
            continue
        for top in body:
            for node in (top, *own_nodes(top)):
                if isinstance(node, (ast.Yield, ast.YieldFrom)):
                    yield Reason(
                        source.path,
                        node.lineno,
                        "generator",
                        "the loop yields in the middle of a step: its caller's time "
                        "would be measured too",
                        "Return after the step instead of yielding inside it.",
                    )
                    return
