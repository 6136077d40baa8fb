"""The whole step as one XLA graph: forward + backward cannot be separated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Role
from instrumentor.locate.rules.decline import Decline
from instrumentor.read.program import Function
from instrumentor.read.syntax import FUNCTIONS, FunctionNode, ScopeNode, Source, dotted


class CompiledStep(Decline):
    """The whole step is compiled into one graph: there is no line between backward and optimizer.

    ```python
    import torch
    import torch_xla

    def step(x, y):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

    compiled = torch_xla.compile(step, full_graph=True)
    for x, y in loader:
        compiled(x, y)
    ```
    """

    kind = "compiled-step"
    message = (
        "the whole step is one torch_xla.compile graph: forward + backward cannot be separated"
    )
    remedy = "Run without torch_xla.compile(full_graph)."
    timeable = True


class StepContext(Decline):
    """`with torch_xla.step():` cuts the graph where it begins and ends, and nowhere between.

    ```python
    import torch
    import torch_xla

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        with torch_xla.step():
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```
    """

    kind = "compiled-step"
    message = (
        "{name} runs its whole body as one graph and syncs at its end: forward + backward cannot "
        "be separated"
    )
    remedy = (
        "Time the whole step with --region {lines}, or call torch_xla.sync() after the step "
        "instead."
    )
    timeable = True


class StepDecorator(Decline):
    """The same as a decorator: all of the function is one graph.

    ```python
    import torch
    import torch_xla

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch_xla.step()
    def step(x, y):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

    for x, y in loader:
        step(x, y)
    ```
    """

    kind = "compiled-step"
    message = (
        "torch_xla.step() runs all of {name}() as one graph and syncs at its end: forward + "
        "backward cannot be separated"
    )
    remedy = "Call torch_xla.sync() after the step instead of decorating it."
    timeable = True


def compiled_step(candidate: Candidate) -> Iterator[Reason]:
    """By a decorator of a helper, a context around the backward, or a call that compiles it."""
    knowledge = candidate.knowledge
    if not candidate.program.uses_xla:
        return
    for source, scope, node, block in _blocks(candidate):
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        role = knowledge.role(source, scope, call)
        # `with torch_xla.compile():` is another spelling of the step context
        if role is Role.COMPILE and isinstance(block, FUNCTIONS):
            yield CompiledStep.at(source, block)
        elif role in (Role.STEP_CONTEXT, Role.COMPILE):
            yield _one_graph(source, block)
    for source, call, function in _compilations(knowledge):
        if function in candidate.helpers:
            yield CompiledStep.at(source, call)


def _blocks(
    candidate: Candidate,
) -> Iterator[tuple[Source, ScopeNode, ast.expr, ast.With | FunctionNode]]:
    """Decorators of the helpers, and contexts around the backwards, with what they stand for."""
    for site in candidate.sites:
        for function in site.chain:
            outside = function.source.scope_of(function.node)
            for decorator in function.node.decorator_list:
                yield function.source, outside, decorator, function.node
        around = candidate.source.parents(site.statement)
        for block in (p for p in around if isinstance(p, ast.With)):
            for item in block.items:
                yield candidate.source, candidate.scope, item.context_expr, block


def steps_handed_to_a_compiler(knowledge: Knowledge) -> Iterator[Reason]:
    """`self.step = torch_xla.compile(self.step_fn)`, where step_fn holds the backward."""
    for source, call, function in _compilations(knowledge):
        if knowledge.has_backward(function):
            yield CompiledStep.at(source, call)


def _compilations(knowledge: Knowledge) -> Iterator[tuple[Source, ast.Call, Function]]:
    """Calls that compile functions of the program."""
    program = knowledge.program
    for source in program.sources.values():
        for call in source.calls:
            scope = program.scope_of(source, call)
            if call.args and knowledge.role(source, scope, call) is Role.COMPILE:
                for function in program.resolve(source, scope, ast.Call(call.args[0], [], [])):
                    yield source, call, function


def _one_graph(source: Source, block: ast.With | FunctionNode) -> Reason:
    if isinstance(block, ast.With):
        lines = f"{source.path.name}:{block.lineno}-{block.end_lineno}"
        name = dotted(block.items[0].context_expr)
        return StepContext.at(source, block, name=name, lines=lines)
    return StepDecorator.at(source, block, name=block.name)
