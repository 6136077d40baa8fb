"""Forward and backward inside a closure that the optimizer calls, several times per step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.catalogue import Kind
from instrumentor.locate.constants import is_ruled_out
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.syntax import ScopeNode, arguments, callee, own_calls


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    yield from _given_in(knowledge, candidate.scope)
    for site in candidate.sites:
        for function in site.chain:
            yield from _given_in(knowledge, function.node)


def closure_reason(knowledge: Knowledge) -> Reason | None:
    """A backward only inside a closure given to an optimizer (LBFGS), when no loop was found."""
    given = (r for scope in knowledge.program.calls for r in _given_in(knowledge, scope))
    return next(given, None)


def _given_in(knowledge: Knowledge, scope: ScopeNode) -> Iterator[Reason]:
    """Where a scope gives a closure to an optimizer: to its `step()`, or as its attribute."""
    source = knowledge.program.source_of_scope[scope]
    given: list[tuple[int, ast.expr]] = [
        (call.lineno, argument)
        for call, statement in knowledge.program.calls.get(scope, ())
        if callee(call) == "step" and isinstance(call.func, ast.Attribute)
        if not is_ruled_out(knowledge.program, scope, statement)
        for argument in arguments(call)
    ]
    given += [
        (put.owner.lineno, put.bound.value)
        for put in knowledge.program.names.puts(source)
        if put.scope is scope and knowledge.kinds.is_a(source, scope, put.owner, Kind.OPTIMIZER)
    ]
    for line, node in given:
        if _runs_backward(knowledge, scope, node):
            yield Reason(
                source.path,
                line,
                "closure",
                "forward and backward run inside a closure that the optimizer calls, several "
                "times per step",
                "Use an optimizer without closure (not LBFGS), or time the whole step by hand.",
            )


def _runs_backward(knowledge: Knowledge, scope: ScopeNode, node: ast.expr) -> bool:
    """Whether calling a value runs a backward."""
    source = knowledge.program.source_of_scope[scope]
    calls = own_calls(node.body) if isinstance(node, ast.Lambda) else [ast.Call(node, [], [])]
    return any(
        knowledge.is_backward(source, scope, call)
        or any(map(knowledge.has_backward, knowledge.program.resolve(source, scope, call)))
        for call in calls
    )
