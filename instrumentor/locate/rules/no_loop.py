"""Why a script shows no training loop: who holds it instead."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate, find_candidates
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.libraries import is_on_host
from instrumentor.locate.meaning.roles import Kind
from instrumentor.locate.rules.compiled_step import steps_handed_to_a_compiler
from instrumentor.locate.rules.decline import Decline
from instrumentor.locate.rules.frameworks import (
    OWN_LOOP,
    engines,
    imports,
    runtimes,
    trainers,
    without_torch,
)
from instrumentor.locate.rules.loops import BackwardOnly
from instrumentor.read.configured import INSTANTIATE
from instrumentor.read.program import Class, Program
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    callee,
    dotted,
    own_calls,
)
from instrumentor.read.values import External, Item, Member, Object
from instrumentor_analysis.shared.documents import listed


class HiddenInScaler(Decline):
    """A scaler of another package runs the backward and the step, as timm's does.

    ```python
    import torch
    from timm.utils import NativeScaler

    loss_scaler = NativeScaler()
    for x, y in loader:
        loss = model(x, y)
        loss_scaler(loss, optimizer, parameters=model.parameters())
    ```
    """

    kind = "hidden-backward"
    message = "backward and optimizer step are hidden in {name}(...) of another package"
    remedy = "Write loss.backward() and optimizer.step() in the loop."
    timeable = True


class HiddenInCall(Decline):
    """A call of an installed package makes whole steps, as DeepSpeed's pipeline does.

    ```python
    import deepspeed

    engine, *_ = deepspeed.initialize(model=model)
    for step in range(10):
        loss = engine.train_batch(data_iter=batches)
    ```
    """

    kind = "hidden-backward"
    message = "the step is hidden in {name}(...) of an installed package"
    remedy = OWN_LOOP
    timeable = True
    unseen = True


class NoLoop(Decline):
    """Nothing in the script, or in what it imports of its repository, trains.

    ```python
    print("loss.backward(); optimizer.step()")
    ```
    """

    kind = "no-loop"
    message = "no loop with forward, backward() and an optimizer step was found"
    remedy = (
        "Give the script that holds the loop, or one that reaches it through imports of its own "
        "repository."
    )
    timeable = True
    unseen = True


class Unreached(Decline):
    """There is a backward, in a function that the script is not seen to call.

    ```python
    import torch

    class Steps:
        def one(self, x):
            model(x).sum().backward()
            optimizer.step()

    run(Steps)
    ```
    """

    kind = "no-loop"
    message = f"{NoLoop.message}; {{apart}} is not seen to be called by the script"
    remedy = "`instrument run` looks for the loop by running the script."
    timeable = True

    @classmethod
    def function(cls, path: Path, name: str, what: str, made: str = "") -> Reason:
        """Of a function: what it holds, and where it is made if another one makes it."""
        parts = [f"which {what}", *([made] if made else [])]
        return cls.of(path, apart=f"{name}(), {' and '.join(parts)},")


class InNoLoop(Decline):
    """A forward and a backward run once, as in a test of gradients: there is nothing to sample.

    ```python
    import torch

    model(x).sum().backward()
    print(model.weight.grad)
    ```
    """

    kind = "no-loop"
    message = f"{NoLoop.message}: the backward at {{place}} stands in no loop"
    remedy = "Repeat the step in a loop, and give the script that does."
    timeable = True


class InNoSeenLoop(Decline):
    """A function with a forward and a backward is called once, or by somebody who is not seen.

    ```python
    import torch

    def step():
        model(x).sum().backward()
        print(model.weight.grad)

    step()
    ```
    """

    kind = "no-loop"
    message = (
        f"{NoLoop.message}: the backward at {{place}} is in no loop that can be seen{{called}}"
    )
    remedy = f"{Unreached.remedy} Where there is none, put one around {{call}}."
    timeable = True


class BackwardHidden(Decline):
    """An optimizer is stepped, and what runs the backward is not seen: a name chooses it, say.

    ```python
    import importlib
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = getattr(importlib.import_module(module), name)(model)
    for x in loader:
        loss.accumulate(x)
        optimizer.step()
    ```
    """

    kind = "no-loop"
    message = (
        f"{NoLoop.message}: {{optimizer}} is stepped at {{place}}, and no backward is seen there; "
        "it may be chosen at run time, or be an installed package's"
    )
    remedy = Unreached.remedy
    timeable = True


class ChosenAtRunTime(Decline):
    """What the script starts is named in a configuration, say: its file is not seen.

    ```python
    import importlib
    import sys

    task = importlib.import_module(sys.argv[1])
    task.start()
    ```
    """

    kind = "no-loop"
    message = f"{NoLoop.message}: what {{call}}() at {{place}} gives is chosen at run time"
    remedy = Unreached.remedy
    timeable = True


class ImportUnread(Decline):
    """What the script imports lies in a folder that its start puts on PYTHONPATH.

    ```python
    from steps import train

    train()
    ```

    ```python
    # lib/steps.py
    def train():
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
    ```
    """

    kind = "no-loop"
    message = (
        f"{NoLoop.message}; {{what}} of {{place}} is not read: no folder that is searched for "
        "imports has a module of that name, {folder} has one"
    )
    remedy = "Put on PYTHONPATH what the script's own start puts there: PYTHONPATH={folders}"
    timeable = True


class Library(Decline):
    """The file defines functions and classes, and starts none.

    ```python
    def evaluate(model, loader):
        return [model(x) for x in loader]
    ```
    """

    kind = "library-module"
    message = "{file} only defines functions and classes: nothing in it is started{held}"
    remedy = "Give the script that imports it and trains."
    observable = False
    timeable = True


def no_loop(
    knowledge: Knowledge, without_update: Sequence[Candidate], test: str | None = None
) -> Reason:
    """The most telling reason why no training loop was found in the entry script.

    Args:
        without_update: loops with a backward that no optimizer step follows.
        test: which tests of the script pytest runs; None where it is no test.
    """
    return next(_holders(knowledge, without_update), None) or _nothing(knowledge, test)


def _holders(knowledge: Knowledge, without_update: Sequence[Candidate]) -> Iterator[Reason]:
    """Everything that may hold the step, the most telling first."""
    program, entry = knowledge.program, knowledge.program.entry
    yield from trainers(knowledge)  # says where; an import only says that
    yield from imports(entry)
    yield from engines(knowledge)
    yield from runtimes([entry])
    yield from without_torch(program)
    for source, call in ((s, c) for s in program.sources.values() for c in s.calls):
        name = dotted(call.func)
        if re.search(r"(loss_)?scaler$", name) and _steps_by_itself(knowledge, source, call):
            yield HiddenInScaler.at(source, call, name=name)
    for call in entry.calls:
        if callee(call) in ("train_batch", "fit") and _is_installed(program, entry, call):
            yield HiddenInCall.at(entry, call, name=dotted(call.func))
    yield from steps_handed_to_a_compiler(knowledge)
    for candidate in without_update:
        # beside a loop that is not seen to be called, another module's says less
        if candidate.source is entry or _unreached(knowledge, program.reached) is None:
            place = candidate.source.at(candidate.loop.lineno)
            yield BackwardOnly.at(candidate.source, candidate.loop, place=place)


def _steps_by_itself(knowledge: Knowledge, source: Source, call: ast.Call) -> bool:
    """Whether a call that is not read is given a loss and an optimizer."""
    program = knowledge.program
    where = source, program.scope_of(source, call)
    given = any(knowledge.kinds.is_a(*where, a, Kind.OPTIMIZER) for a in call.args[1:])
    return given and not program.resolve(*where, call)


def _is_installed(program: Program, source: Source, call: ast.Call) -> bool:
    """Whether a call is known to be of a method of an installed package's, for models of torch."""
    names: list[str] = []
    for value in program.of(source, program.scope_of(source, call), call.func):
        while isinstance(value, (Item, Member, Object)):
            value = value.made_by if isinstance(value, Object) else value.owner
        names += program.external_bases(value) if isinstance(value, Class) else []
        names += [value.name] if isinstance(value, External) else []
    return bool(names) and not any(is_on_host(name.partition(".")[0]) for name in names)


def _unreached(knowledge: Knowledge, reached: Collection[ScopeNode]) -> Reason | None:
    """That a training loop is there, in a function that nothing is seen to call."""
    path = knowledge.program.entry.path
    for loop in find_candidates(knowledge):
        if loop.updates and loop.scope not in reached and isinstance(loop.scope, FUNCTIONS):
            what = f"holds one at {loop.source.at(loop.loop.lineno)}"
            made = _made(knowledge.program, loop.source, loop.scope)
            return Unreached.function(path, loop.scope.name, what, made)
    return None


def _nothing(knowledge: Knowledge, test: str | None) -> Reason:
    """Nothing is seen to hold a loop: what is there instead, and what to give."""
    program, path = knowledge.program, knowledge.program.entry.path
    reached = program.reached if test is None else program.reached_by_tests(test)
    calls = [
        (source, scope, call)
        for source in program.sources.values()
        for scope in (source.tree, *source.functions)
        for call, _ in program.calls.get(scope, ())
    ]
    backwards = [made for made in calls if knowledge.is_backward(*made)]
    if test is None and _starts_nothing(program.entry):
        return _only_defined(program.entry, backwards)
    apart_from_it = _unreached(knowledge, reached)
    if apart_from_it is not None:
        return apart_from_it
    for source, scope, call in backwards:
        if scope in reached:
            words = {"place": source.at(call.lineno)}
            if not isinstance(scope, FUNCTIONS):
                return InNoLoop.at(source, call, **words)
            return InNoSeenLoop.at(source, call, **words, **_calls_of(program, source, scope))
    for source, scope, call in backwards:
        if isinstance(scope, FUNCTIONS):
            what = f"runs a backward at {source.at(call.lineno)}"
            return Unreached.function(path, scope.name, what, _made(program, source, scope))
    for source, scope, call in calls:
        stepped = knowledge.optimizer_of(source, scope, call) if scope in reached else None
        at = source.statement_of(call)
        if stepped is not None and at is not None and source.loops_around(at):
            words = {"optimizer": dotted(stepped), "place": source.at(call.lineno)}
            return BackwardHidden.at(source, call, **words)
    for source, scope, call in calls:
        if scope in reached and _chooses(program, source, scope, call):
            place = source.at(call.lineno)
            return ChosenAtRunTime.at(source, call, call=dotted(call.func), place=place)
    return next(_unread_imports(program), NoLoop.of(path))


def _unread_imports(program: Program) -> Iterator[Reason]:
    """That a module of the repository is imported from a folder that is not searched."""
    for source in program.sources.values():
        missed = [*program.missed(source)]
        folders = dict.fromkeys(os.path.relpath(folder) for *_, folder in missed)
        for statement, name, folder in missed:
            words = {"what": name, "place": source.at(statement.lineno)}
            near = {"folder": os.path.relpath(folder), "folders": ":".join(folders)}
            yield ImportUnread.at(source, statement, **words, **near)


def _only_defined(entry: Source, backwards: Iterable[tuple[Source, ScopeNode, ast.Call]]) -> Reason:
    """A file that starts nothing, with its function that would train."""
    held = next(
        (
            f"; {scope.name}(), which runs a backward at {source.at(call.lineno)}, waits for a "
            "caller"
            for source, scope, call in backwards
            if source is entry and isinstance(scope, FUNCTIONS)
        ),
        "",
    )
    return Library.of(entry.path, file=entry.path.name, held=held)


def _places(program: Program, function: FunctionNode) -> str:
    """Where others call a function, its first places; empty where nobody is seen to."""
    calls = program.callers.get(function, ())
    found = [program.source_of_scope[s].at(c.lineno) for s, c, _ in calls if s is not function]
    return listed([*dict.fromkeys(found)], 3)


def _made(program: Program, source: Source, function: FunctionNode) -> str:
    """``is made by make_step() at train.py:21`` of a function that another one gives."""
    around = source.scope_of(function)
    if not isinstance(around, FUNCTIONS):
        return ""
    places = _places(program, around)
    return f"is made by {around.name}() at {places}" if places else ""


def _calls_of(program: Program, source: Source, function: FunctionNode) -> dict[str, str]:
    """Where a function is called, or made where its calls are not seen; what a loop may hold."""
    name, places = f"{function.name}()", _places(program, function)
    if places:
        return {"called": f"; {name} is called at {places}", "call": f"the call at {places}"}
    made = _made(program, source, function)
    told = f"; {name} {made}, and its call is not seen" if made else ""
    return {"called": told, "call": f"the call of {name}"}


#: They give a module, a class or what it makes by a name.
_BY_NAME = (
    *("importlib.import_module", "builtins.__import__", "importlib.util.spec_from_file_location"),
    *("pydoc.locate", "runpy.run_path", "runpy.run_module", "builtins.eval", "builtins.exec"),
    *INSTANTIATE,
)


def _chooses(program: Program, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
    """Whether a call gives what is named at run time, or runs it."""
    name = program.qualified(source, scope, call.func)
    if name == "builtins.getattr":
        written = call.args[1:2] and isinstance(call.args[1], ast.Constant)
        owners = program.of(source, scope, call.args[0]) if call.args else ()
        return not written and any(isinstance(owner, Source) for owner in owners)
    return name in _BY_NAME and not any(
        isinstance(value, Source | Class) for value in program.of(source, scope, call)
    )


_DEFINES = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, *FUNCTIONS, ast.ClassDef)


def _starts_nothing(source: Source) -> bool:
    """Whether a module only defines: no function of it is called, no loop runs when it is run."""
    body = source.tree.body
    own = {s.name for s in body if isinstance(s, FUNCTIONS)}
    if any(dotted(call.func) in own for call in own_calls(source.tree)):
        return False
    return any(isinstance(s, (*FUNCTIONS, ast.ClassDef)) for s in body) and all(
        isinstance(s, _DEFINES) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in body
    )
