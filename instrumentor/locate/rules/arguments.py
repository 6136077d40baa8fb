"""What a script is called with may lead it past its training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.rules.decline import Decline
from instrumentor.read.control_flow import END, LEFT, Flow
from instrumentor.read.program import Function
from instrumentor.read.script_options import ScriptOptions
from instrumentor.read.syntax import FUNCTIONS, FunctionNode, ScopeNode, Source, own_calls

_Place = tuple[Source, ScopeNode, ast.stmt]


class OnlyEvaluates(Decline):
    """With the arguments that were given, the script evaluates and ends ahead of its loop.

    ```python
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--evaluate", action="store_true")
    args = parser.parse_args()

    def validate():
        with torch.no_grad():
            print(model(x))

    def main():
        if args.evaluate:
            validate()
            return
        for x in loader:
            model(x).sum().backward()
            optimizer.step()

    main()
    ```

    ```console
    $ instrument explain train.py --evaluate
    ```
    """

    kind = "not-reached"
    observable = False
    message = (
        "the script only evaluates with these arguments: what this test decides keeps it from its "
        "training loop at {place}"
    )
    remedy = "Give the arguments that the script trains with."


class PassesBy(Decline):
    """With the arguments that were given, the script does something else than to train.

    ```python
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--export", action="store_true")
    args = parser.parse_args()

    if args.export:
        print(model)
    else:
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
    ```

    ```console
    $ instrument explain train.py --export
    ```
    """

    kind = OnlyEvaluates.kind
    observable = False
    message = (
        "the script does not train with these arguments: what this test decides keeps it from its "
        "training loop at {place}"
    )
    remedy = OnlyEvaluates.remedy


def passed_by(candidate: Candidate, called_with: ScriptOptions) -> Iterator[Reason]:
    """The test by which what a script is called with keeps it from a loop; none without a word."""
    one = candidate
    place = (one.source, one.scope, one.loop)
    asked = bool(called_with.arguments)
    found = _kept_from(one.knowledge, called_with, place, set()) if asked else None
    if found is not None:
        source, test = found
        told = OnlyEvaluates if _evaluates(one.knowledge, called_with, source, test) else PassesBy
        yield told.at(source, test, place=one.source.at(one.loop.lineno))


def _kept_from(
    knowledge: Knowledge, called_with: ScriptOptions, place: _Place, seen: set[ScopeNode]
) -> tuple[Source, ast.If] | None:
    """The test that keeps a run from a statement: in its scope, or in those of all calls of it."""
    scope = place[1]
    found = _decides(called_with, *place)
    if found is not None or not isinstance(scope, FUNCTIONS) or scope in seen:
        return found
    program, seen = called_with.program, {*seen, scope}
    if scope in program.handed or _may_be_called_unseen(knowledge, scope):
        return None
    ways = [
        _kept_from(knowledge, called_with, (program.source_of_scope[caller], caller, at), seen)
        for caller, _, at in program.callers.get(scope, ())
        if caller not in seen
    ]
    return ways[0] if ways and all(ways) else None


def _may_be_called_unseen(knowledge: Knowledge, scope: FunctionNode) -> bool:
    """Whether a function is a method that is called on something of which nothing is known."""
    program = knowledge.program
    return scope in program.source_of_scope[scope].class_of and any(
        not program.resolve(*made)
        for made in program.calls_named(scope.name)
        if isinstance(made[2].func, ast.Attribute)
        and not knowledge.is_model(*made[:2], made[2].func.value)
    )


def _decides(
    called_with: ScriptOptions, source: Source, scope: ScopeNode, statement: ast.stmt
) -> tuple[Source, ast.If] | None:
    """The test in a scope without whose answer a path would come to a statement."""

    def reached(*tests: ast.If) -> bool:
        answers = {test.test: called_with.answer(source, test.test) for test in tests}
        returned = END if isinstance(scope, FUNCTIONS) else LEFT
        flow = Flow(scope.body, answers.get, returned=returned)
        return statement not in flow.unreached()

    tests = [s for s in Flow(scope.body).statements if isinstance(s, ast.If)]
    return next(((source, test) for test in tests if not reached(test)), None)


def _evaluates(
    knowledge: Knowledge, called_with: ScriptOptions, source: Source, test: ast.If
) -> bool:
    """Whether the branch that is taken runs a function with gradients off."""
    taken = test.body if called_with.answer(source, test.test) else test.orelse
    calls = (call for statement in taken for call in own_calls(statement))
    return any(
        isinstance(value, Function) and knowledge.evaluates(value)
        for call in calls
        for value in knowledge.program.resolve(source, source.scope_of(call), call)
    )
