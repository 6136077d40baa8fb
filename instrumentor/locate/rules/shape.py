"""An iteration that is not one forward + backward, made without other code in between."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.gradients.walk import Gradients
from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.region.conditions import tells_a_phase
from instrumentor.locate.region.step_function import departures, step_function
from instrumentor.read.syntax import FUNCTIONS, contains, own_nodes


def line_search(candidate: Candidate) -> Iterator[Reason]:
    """An update in a loop of the iteration that runs the forward again, beside the backwards."""
    gradients, sites = Gradients(candidate.knowledge), [s.statement for s in candidate.sites]
    for update in candidate.updates:
        source, scope = update.source, update.scope
        for loop in source.loops_around(update.statement):
            # a caller's loops are around the iteration, not inside
            if loop not in candidate.flow.begins or any(contains(loop, s) for s in sites):
                break
            if not any(gradients.forwards(source, scope, [loop]).values()):
                continue
            told = "a line search: the optimizer is stepped in a loop that runs the forward again"
            remedy = "Give a script with one optimizer step per backward."
            yield Reason.at(source, loop, "line-search", told, remedy)


def conditional_step(candidate: Candidate) -> Iterator[Reason]:
    """A call that may be no step, where the clock cannot stand inside of the function."""
    for departure in departures(candidate):
        told, name = departure.told, f"{departure.function.name}()"
        if isinstance(told, ast.Return):
            kind = "conditional-step"
            message = f"{name} may return before its backward: such a call would count as a sample"
        elif isinstance(told, FUNCTIONS):
            kind = "train-and-eval"
            message = f"{name} has another version without a backward, which runs in the same loop"
        elif isinstance(told, ast.If) and tells_a_phase(told.test):
            kind = "train-and-eval"
            message = (
                f"{name} serves training and evaluation: the backward runs only in one of them"
            )
        else:
            continue
        if step_function(candidate) is None:
            remedy = "Call the helper only when it makes a step."
            yield Reason.at(departure.source, told, kind, message, remedy)
        return


def generator(candidate: Candidate) -> Iterator[Reason]:
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


def asynchronous(candidate: Candidate) -> Iterator[Reason]:
    """The loop or its function is `async`: the event loop switches to other tasks."""
    source, loop = candidate.source, candidate.loop
    if isinstance(loop, ast.AsyncFor) or isinstance(candidate.scope, ast.AsyncFunctionDef):
        told = "the loop is asynchronous: other work runs between its statements"
        yield Reason.at(source, loop, "async", told, "Use a plain for or while loop.")
