"""Forward and backward inside a closure that the optimizer calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Kind
from instrumentor.locate.rules.decline import Decline
from instrumentor.read.constants import is_ruled_out
from instrumentor.read.syntax import ScopeNode, arguments, callee, own_calls


class Closure(Decline):
    """The optimizer runs forward and backward itself: LBFGS several times a step, most others once.

    ```python
    import torch

    optimizer = torch.optim.LBFGS(model.parameters())
    for epoch in range(10):
        def closure():
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            return loss

        optimizer.step(closure)
    ```
    """

    kind = "closure"
    message = "forward and backward run inside a closure that the optimizer calls"
    remedy = (
        "Put them ahead of `step()` where the optimizer needs no closure (LBFGS does), or time the "
        "whole step by hand."
    )
    timeable = True


def closure(candidate: Candidate) -> Iterator[Reason]:
    """One that the function of the loop, or a helper, gives to an optimizer."""
    for scope in (candidate.scope, *(helper.node for helper in candidate.helpers)):
        yield from _given_in(candidate.knowledge, scope)


def closures_anywhere(knowledge: Knowledge) -> Iterator[Reason]:
    """Closures of the whole program: where the backward is only in one, no loop is found."""
    for scope in knowledge.program.calls:
        yield from _given_in(knowledge, scope)


def _given_in(knowledge: Knowledge, scope: ScopeNode) -> Iterator[Reason]:
    """Where a scope gives a closure to an optimizer: to its `step()`, or as its attribute."""
    program = knowledge.program
    source = program.source_of_scope[scope]
    given: list[tuple[ast.AST, ast.expr]] = [
        (call, argument)
        for call, statement in program.calls.get(scope, ())
        if callee(call) == "step" and isinstance(call.func, ast.Attribute)
        if not is_ruled_out(program, scope, statement) and knowledge.may_run(source, statement)
        for argument in arguments(call)
    ]
    # some optimizers take it once: `optimizer.closure = closure`
    given += [
        (put.owner, put.bound.value)
        for put in program.bindings_of(source).puts
        if put.scope is scope and knowledge.kinds.is_a(source, scope, put.owner, Kind.OPTIMIZER)
    ]
    for at, value in given:
        calls = (
            own_calls(value.body) if isinstance(value, ast.Lambda) else [ast.Call(value, [], [])]
        )
        if any(
            knowledge.is_backward(source, scope, call)
            or any(map(knowledge.has_backward, program.resolve(source, scope, call)))
            for call in calls
        ):
            yield Closure.at(source, at)
