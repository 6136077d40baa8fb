"""An iteration that is not one forward + backward, made without other code in between."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from instrumentor.locate.gradients.walk import gradients_of
from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Body, Candidate
from instrumentor.locate.meaning.roles import Evidence, Kind
from instrumentor.locate.region.conditions import tells_a_phase
from instrumentor.locate.region.step_function import (
    Departure,
    departures,
    seen_from,
    step_function,
)
from instrumentor.locate.rules.decline import Decline
from instrumentor.read.program import Function
from instrumentor.read.syntax import FUNCTIONS, ScopeNode, contains, own_nodes


class LineSearch(Decline):
    """The optimizer is stepped until the loss is small enough: how often is not known before.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        while criterion(model(x), y) > loss:
            optimizer.step()
    ```
    """

    kind = "line-search"
    message = (
        "the optimizer is stepped in a loop of the iteration that runs the forward again, as a "
        "line search does"
    )
    remedy = "Give a script with one optimizer step per backward."
    timeable = True


class MayReturn(Decline):
    """The function with the backward may leave before it, and the forward is not in it.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def finish(loss):
        if not torch.isfinite(loss):
            return
        loss.backward()
        optimizer.step()

    for x, y in loader:
        finish((model(x) - y).pow(2).mean())
    ```
    """

    kind = "conditional-step"
    message = "{name} may end without its backward: such a call would count as a sample"
    remedy = "Call the helper only when it makes a step."
    timeable = True


class OtherVersion(Decline):
    """The same call runs a version of the method that only evaluates, for another class.

    ```python
    import torch

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Epoch:
        def run(self, loader):
            for x, y in loader:
                self.update((model(x) - y).sum())

    class Train(Epoch):
        def update(self, loss):
            loss.backward()
            optimizer.step()

    class Evaluate(Epoch):
        def update(self, loss):
            print(loss.item())

    for epoch in Train(), Evaluate():
        epoch.run(loader)
    ```
    """

    kind = "train-and-eval"
    message = "{name} has another version without a backward, which runs in the same loop"
    remedy = MayReturn.remedy
    timeable = True


class BothPhases(Decline):
    """The function with the backward runs it in training alone, and the forward is not in it.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def finish(loss, train):
        if train:
            loss.backward()
            optimizer.step()

    for x, y in loader:
        finish((model(x) - y).pow(2).mean(), flag)
    ```
    """

    kind = "train-and-eval"
    message = "{name} serves training and evaluation: the backward runs only in one of them"
    remedy = MayReturn.remedy
    timeable = True


class GradientsUnseen(Decline):
    """An optimizer is stepped ahead of every backward that is seen: another one is hidden.

    ```python
    import torch
    from search import Search

    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    outer = torch.optim.Adam(weights.parameters())
    search = Search(model, weights)
    for x, y in loader:
        search.look_ahead(x, y)
        outer.step()
        inner.zero_grad()
        criterion(model(x), y).backward()
        inner.step()
    ```
    """

    kind = "gradients-unseen"
    message = (
        "nothing ahead of this step is seen to give {optimizer} its gradients: a sample would "
        "leave that part of the iteration out"
    )
    remedy = "Give a script in whose files both backwards are to be seen."
    timeable = True
    unseen = True


class Generator(Decline):
    """The code that walks over the generator runs in the middle of the step.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(loader):
        for x, y in loader:
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            yield loss

    for loss in steps(loader):
        print(loss.item())
    ```
    """

    kind = "generator"
    message = "the loop yields in the middle of a step: its caller's time would be measured too"
    remedy = "Return after the step instead of yielding inside it."
    timeable = True


class Asynchronous(Decline):
    """The event loop may switch to another task wherever the loop awaits.

    ```python
    import torch

    async def train(model, stream, optimizer):
        async for x, y in stream:
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
    ```
    """

    kind = "async"
    message = "the loop is asynchronous: other work runs between its statements"
    remedy = "Use a plain for or while loop."
    timeable = True


def line_search(candidate: Candidate) -> Iterator[Reason]:
    """An update in a loop of the iteration that runs the forward again, beside the backwards."""
    gradients, sites = gradients_of(candidate.knowledge), [s.statement for s in candidate.sites]
    for update in candidate.updates:
        source, scope = update.source, update.scope
        for loop in source.loops_around(update.statement):
            # a caller's loops are around the iteration, not inside
            if loop not in candidate.flow.begins or any(contains(loop, s) for s in sites):
                break
            if not any(gradients.forwards(source, scope, [loop]).values()):
                continue
            yield LineSearch.at(source, loop)


def conditional_step(candidate: Candidate) -> Iterator[Reason]:
    """A call that may be no step, where the clock cannot stand inside of the function."""
    found = [*departures(candidate)]
    for departure in found:
        told, name = departure.told, f"{departure.function.name}()"
        if isinstance(told, ast.Return):
            decline: type[Decline] = MayReturn
        elif isinstance(told, FUNCTIONS):
            decline = OtherVersion
        elif isinstance(told, ast.If) and tells_a_phase(told.test):
            decline = BothPhases
        else:
            continue
        if decline is MayReturn and _is_a_part(candidate, departure, found):
            continue
        if step_function(candidate) is None:
            yield decline.at(departure.source, told, name=name)
        return


def _is_a_part(candidate: Candidate, left: Departure, found: Sequence[Departure]) -> bool:
    """Whether a helper returns ahead of its part of a step, and another part runs anyhow.

    Iterations with and without it are steps, and figures tell them apart.
    """
    knowledge, function = candidate.knowledge, left.function
    departing = {departure.site.statement for departure in found}
    if not any(
        other.statement not in departing
        and not candidate.flow.exclusive(other.statement, left.site.statement)
        for other in candidate.sites
    ):
        return False
    runs = gradients_of(knowledge).forwards(function.source, function.node, function.node.body)
    flow = Body.of(knowledge, function).flow
    return not any(s is left.told or flow.reaches(s, left.told) for s in runs)


def gradients_unseen(candidate: Candidate) -> Iterator[Reason]:
    """An optimizer that is stepped ahead of every backward, and not again behind one."""
    flow, knowledge = candidate.flow, candidate.knowledge
    own = [u for u in candidate.own_updates if u.call is not None and u.statement in flow.begins]
    behind = [
        update
        for update in own
        if any(
            s.statement is update.statement
            or contains(update.statement, s.statement)
            or flow.path(flow.after(s.statement), flow.before(update.statement))
            for s in candidate.sites
        )
    ]
    seen = {update.optimizer for update in behind}
    for update in own if behind else ():
        assert update.call is not None
        optimizer = knowledge.optimizer_of(update.source, update.scope, update.call)
        kind = optimizer and knowledge.kinds.of(update.source, update.scope, optimizer)
        if update.optimizer not in seen and kind == (Kind.OPTIMIZER, Evidence.TYPE):
            yield GradientsUnseen.at(update.source, update.statement, optimizer=update.optimizer)


def generator(candidate: Candidate) -> Iterator[Reason]:
    """The loop, or a helper on the way to a backward, yields: its caller goes on in between.

    A helper may where that is a part of the step: a loop that runs a backward for each piece.
    """
    bodies = [(candidate.source, candidate.loop.body)]
    bodies += [
        (helper.source, helper.node.body)
        for helper in candidate.helpers
        if not _feeds_backwards(candidate, helper)
    ]
    for source, body in bodies:
        for node in own_nodes(ast.Module(body, [])):
            if isinstance(node, (ast.Yield, ast.YieldFrom)):
                yield Generator.at(source, node)


def _feeds_backwards(candidate: Candidate, helper: Function) -> bool:
    """Whether every loop that walks over what a helper yields runs a backward of the step."""
    knowledge, inside = candidate.knowledge, defaultdict[ScopeNode, list[ast.stmt]](list)
    for site in candidate.sites:
        inside[candidate.scope].append(site.statement)
        for depth, function in enumerate(site.chain, 1):
            seen = seen_from(knowledge, site, depth)
            inside[function.node] += [seen.statement] if seen is not None else []
    walks = [
        isinstance(at, ast.For)
        and at.iter is call
        and any(contains(part, held) for part in at.body for held in inside[scope])
        for scope, call, at in candidate.program.callers_of(helper.node)
        if scope in inside
    ]
    return bool(walks) and all(walks)


def asynchronous(candidate: Candidate) -> Iterator[Reason]:
    """The loop awaits: the event loop switches to other tasks. One that never does runs through."""
    source, loop = candidate.source, candidate.loop
    inside = list(own_nodes(loop))
    switches = any(isinstance(each, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for each in inside)
    walks = any(isinstance(each, ast.comprehension) and each.is_async for each in inside)
    if isinstance(loop, ast.AsyncFor) or switches or walks:
        yield Asynchronous.at(source, loop)
