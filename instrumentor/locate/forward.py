"""Where a forward starts: at the first statement that makes what its backward differentiates."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from msgspec import Struct

from instrumentor.locate.catalogue import Evidence
from instrumentor.locate.counter import runs_once
from instrumentor.locate.dataflow import binds, effects, uses
from instrumentor.locate.gradients import SURE, Gradients
from instrumentor.locate.held import Made
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site
from instrumentor.locate.program import Function
from instrumentor.locate.syntax import (
    LOOPS,
    ScopeNode,
    Source,
    beside,
    callee,
    contains,
    own_calls,
    own_nodes,
    path_to,
    receiver,
)


class Forward(Struct, frozen=True):
    """Where the forward of a backward starts.

    Attributes:
        unit: statement of the loop's scope, before which a region may begin.
        statement: the statement that runs the model, maybe in a helper, in `source`.
        evidence: how it is known to make what the backward differentiates.
        what: the type, the qualified name or the spelling that tells.
    """

    unit: ast.stmt
    statement: ast.stmt
    source: Source
    evidence: Evidence = Evidence.TYPE
    what: str = ""

    @property
    def certain(self) -> bool:
        """Whether a model or a parameter was seen, not only a call that cannot be read."""
        return self.evidence in SURE

    @property
    def is_typed(self) -> bool:
        """Whether no name had to be guessed from."""
        return self.evidence in (Evidence.TYPE, Evidence.USE)


#: The first of these groups that has any is asked; in it the first statement is the start.
_SURE = (SURE, (Evidence.UNREAD,), (Evidence.PREPARATION,))


def find_forwards(knowledge: Knowledge, candidate: Candidate) -> dict[Site, Forward]:
    """The start of the forward of each backward; left out where it is not in the iteration."""
    loop = candidate.loop
    fresh = binds(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else set[str]()
    made = Gradients(knowledge).differentiated(
        candidate.source, candidate.scope, loop.body, sorted(fresh)
    )
    found: dict[Site, Forward] = {}
    for site in candidate.sites:
        values = made.get((site.statement, site.backward), ())
        each_time = [m for m in values if not runs_once(loop, candidate.source, m.unit)]
        first = _first(each_time or values)
        if first is None:
            continue
        unit = beside(candidate.source, first.unit, site.statement)
        rollout = not contains(unit, site.statement) and _is_rollout(
            knowledge, candidate.source, candidate.scope, unit
        )
        if not rollout:
            found[site] = Forward(unit, first.statement, first.source, first.evidence, first.what)
    return found


def _first(made: Sequence[Made]) -> Made | None:
    return next((m for group in _SURE for m in made if m.evidence in group), None)


_WORLD = re.compile(r"(^|[._])(envs?|environment|game|sim|simulator|world|gym)$", re.I)


def _is_rollout(
    knowledge: Knowledge, source: Source, scope: ScopeNode, unit: ast.stmt, depth: int = 0
) -> bool:
    """A loop that runs the model against an environment, here or in a function called here."""
    nodes = (unit, *own_nodes(unit)) if depth else (unit,)
    if any(
        callee(c) in ("step", "act", "reset", "render") and _WORLD.search(receiver(c))
        for loop in nodes
        if isinstance(loop, LOOPS)
        for c in own_calls(loop)
    ):
        return True
    return depth < 3 and any(
        _is_rollout(knowledge, function.source, function.node, function.node, depth + 1)
        for call in own_calls(unit)
        for function in knowledge.program.resolve(source, scope, call)
    )


def leading_to(candidate: Candidate, site: Site) -> set[ast.stmt]:
    """Statements of the iteration that a backward's loss, or a helper's arguments, come from."""
    expression = site.loss if not site.chain else site.call
    live = uses(expression)
    found: set[ast.stmt] = set()
    for suite, index in reversed(path_to(candidate.source, candidate.loop, site.statement)):
        for target, value in _bound_by_header(suite[index]):
            if binds(target) & live:
                live |= uses(value)
        for statement in reversed(suite[:index]):
            if effects(statement) & live:
                found.add(statement)
                live |= uses(statement)
    return found


def call_of(
    knowledge: Knowledge, caller: Function, function: Function
) -> tuple[ast.Call, ast.stmt] | None:
    for call, statement in knowledge.program.calls.get(caller.node, ()):
        if any(
            t.node is function.node
            for t in knowledge.program.resolve(caller.source, caller.node, call)
        ):
            return call, statement
    return None


def _bound_by_header(around: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """`for loss in losses`, `with scale_loss(loss) as scaled`: what is bound, and from what."""
    if isinstance(around, (ast.For, ast.AsyncFor)):
        return [(around.target, around.iter)]
    if isinstance(around, (ast.With, ast.AsyncWith)):
        return [(i.optional_vars, i.context_expr) for i in around.items if i.optional_vars]
    return []
