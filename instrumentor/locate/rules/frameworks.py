"""Packages that run the step themselves, so that there is no loop or no torch backward to time.

Which they are stands in `meaning/libraries/`, a module each; what is said of them stands here, by
kinds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.libraries import LIBRARIES
from instrumentor.locate.meaning.libraries.library import Library
from instrumentor.locate.rules.decline import Decline
from instrumentor.read.names import external_name
from instrumentor.read.program import Program
from instrumentor.read.syntax import Source, callee, last
from instrumentor.read.values import Class, Member, Object

OWN_LOOP = (
    "Give a script with the loop written out "
    "(for batch in loader: loss.backward(); optimizer.step())."
)
AS_A_WHOLE = (
    "--region times lines of it; with Tracy, `instrument profile` traces its device operations."
)


class InTrainer(Decline):
    """A trainer or engine of an installed package holds the loop, and the script only starts it.

    ```python
    from ignite.engine import Engine

    def update(engine, batch):
        loss = criterion(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()

    trainer = Engine(update)
    trainer.run(loader, max_epochs=3)
    ```
    """

    kind = "hidden-backward"
    message = "the loop is inside {trainer} of {library}, an installed package"
    remedy = OWN_LOOP
    timeable = True
    unseen = True


class HfTrainer(Decline):
    """A trainer of transformers, trl or sentence-transformers, or a class derived from one.

    ```python
    from trl import SFTTrainer

    trainer = SFTTrainer(model="m", train_dataset=data)
    trainer.train()
    ```
    """

    kind = "hf-trainer"
    message = "the loop is inside {library}'s Trainer, an installed package"
    remedy = OWN_LOOP


class LightningTrainer(Decline):
    """Lightning's trainer runs the steps of a module.

    ```python
    import lightning

    trainer = lightning.Trainer(max_epochs=3)
    trainer.fit(Module(), loader)
    ```
    """

    kind = "lightning"
    message = HfTrainer.message
    remedy = OWN_LOOP


class Lightning(Decline):
    """A Lightning module: whoever starts it, Lightning calls its steps.

    ```python
    import lightning

    class Module(lightning.LightningModule):
        def training_step(self, batch, index):
            return self.model(batch).loss
    ```
    """

    kind = "lightning"
    message = "Lightning holds the training loop"
    remedy = OWN_LOOP


class ManualBackward(Decline):
    """Lightning calls the step that holds `self.manual_backward(loss)`.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        trainer.manual_backward(model(x).sum())
        optimizer.step()
    ```
    """

    kind = "lightning"
    message = "manual_backward: Lightning calls this step from its own loop"
    remedy = OWN_LOOP


class ForeignRuntime(Decline):
    """A runtime that computes gradients without torch's autograd: no backward would be seen.

    ```python
    import ttml

    for batch in loader:
        loss = model(batch)
        loss.backward(False)
        optimizer.step()
    ```
    """

    kind = "foreign-runtime"
    message = "{why}"
    remedy = AS_A_WHOLE
    observable = False
    unseen = True


class Jax(Decline):
    """A script of JAX or of what is built on it.

    ```python
    import jax

    for batch in batches:
        loss, gradients = jax.value_and_grad(loss_fn)(params, batch)
        params = update(params, gradients)
    ```
    """

    kind = "jax"
    message = "a {library} script: {why}"
    remedy = AS_A_WHOLE
    observable = False
    unseen = True


class Keras(Decline):
    """A script of TensorFlow or Keras.

    ```python
    import tensorflow as tf

    model = tf.keras.Sequential()
    model.fit(x, y)
    ```
    """

    kind = "keras"
    message = "a {library} script: {why}"
    remedy = AS_A_WHOLE
    unseen = True


#: What is said where a library holds the loop, by the kind that its module names.
_BY_KIND: dict[str, type[Decline]] = {
    each.kind: each for each in (InTrainer, HfTrainer, Lightning, ForeignRuntime, Jax, Keras)
}
#: The same where a script starts a class `*Trainer`.
_TRAINERS = {**_BY_KIND, LightningTrainer.kind: LightningTrainer}
#: What an installed class is called that holds a loop, and the methods that start it.
_ENGINE = re.compile(r"(Engine|Trainer|Learner|Runner|Estimator)$")
_STARTS = ("fit", "fit_one_cycle", "run", "train")


def imported_roots(source: Source) -> dict[str, ast.stmt]:
    """Top-level packages that a module imports, each with its first import."""
    found: dict[str, ast.stmt] = {}
    for statement in sorted(source.places, key=lambda s: s.lineno):
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [a.name for a in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        for name in names:
            found.setdefault(name.partition(".")[0], statement)
    return found


# -- where there is a loop -----------------------------------------------------------------------


def foreign_runtime(candidate: Candidate) -> Iterator[Reason]:
    """A runtime that the entry imports, or a module that holds the loop or a backward."""
    backwards = (site.backward_source for site in candidate.sites)
    sources = (candidate.source, candidate.program.entry, *backwards)
    yield from runtimes(dict.fromkeys(sources))


def manual_backward(candidate: Candidate) -> Iterator[Reason]:
    """Lightning's `self.manual_backward(loss)`."""
    for site in candidate.sites:
        if callee(site.backward) == "manual_backward":
            yield ManualBackward.at(site.backward_source, site.backward)


# -- where there is none -------------------------------------------------------------------------


def runtimes(sources: Iterable[Source]) -> Iterator[Reason]:
    """Imports of a runtime with a step of its own."""
    for source in sources:
        for each, name, statement in _imports(source):
            if each.runtime:
                why = each.why.format(library=name)
                yield _BY_KIND[each.runtime].at(source, statement, why=why)


def imports(entry: Source) -> Iterator[Reason]:
    """Frameworks that hold the loop of every script that makes what they run."""
    for each, _, statement in _imports(entry):
        if each.imported and any(word in entry.data for word in each.trains):
            yield _BY_KIND[each.imported].at(entry, statement)


def without_torch(program: Program) -> Iterator[Reason]:
    """A script of another framework, itself or by the modules of its repository."""
    own = imported_roots(program.entry)
    by_torch = any(b".backward(" in source.data for source in program.sources.values())
    for source in program.sources.values():
        torch = "torch" in imported_roots(source)
        for each, name, statement in _imports(source):
            # beside torch it may only bring data: `keras.datasets`
            if torch and (by_torch or not any(word in source.data for word in each.trains)):
                continue
            if each.without_torch and (name in own or "torch" not in own):
                decline = _BY_KIND[each.without_torch]
                yield decline.at(source, statement, library=name, why=each.why)


def _imports(source: Source) -> Iterator[tuple[Library, str, ast.stmt]]:
    """Libraries that a module imports, by which package of theirs and where."""
    roots = imported_roots(source)
    for each in LIBRARIES:
        for name in each.packages:
            if name in roots:
                yield each, name, roots[name]


def trainers(knowledge: Knowledge) -> Iterator[Reason]:
    """`Trainer(...).fit()`, of a class of these packages or one derived from it."""
    program = knowledge.program
    for source in program.sources.values():
        for call in source.calls:
            if callee(call) not in ("fit", "train") or not _may_run(program, source, call):
                continue
            for value in knowledge.values(source, program.scope_of(source, call), call.func):
                for name, trainer, decline in _trainer_of(program, value):
                    yield decline.at(source, call, library=name, trainer=trainer)


def _may_run(program: Program, source: Source, call: ast.Call) -> bool:
    """Whether a call is the entry's own, or in what that is seen to run."""
    return source is program.entry or program.scope_of(source, call) in program.reached


def _trainer_of(program: Program, function: object) -> Iterator[tuple[str, str, type[Decline]]]:
    """The package whose trainer's method a value is, the trainer, and what is said of it."""
    if not isinstance(function, Member) or not isinstance(function.owner, Object):
        return
    made = function.owner.made_by
    names = program.external_bases(made) if isinstance(made, Class) else [external_name(made)]
    for name in (name for name in names if last(name).endswith("Trainer")):
        root = name.partition(".")[0]
        kinds = (each.trainer for each in LIBRARIES if root in each.packages)
        yield from ((root, last(name), _TRAINERS[kind]) for kind in kinds if kind)


def engines(knowledge: Knowledge) -> Iterator[Reason]:
    """`Engine(update).run(loader)`, of any installed package."""
    for word in _STARTS:
        for source, scope, call in knowledge.program.calls_named(word):
            if not _may_run(knowledge.program, source, call):
                continue
            for value in knowledge.values(source, scope, call.func):
                owner = value.owner if isinstance(value, Member) else None
                made = external_name(owner.made_by) if isinstance(owner, Object) else ""
                if _ENGINE.search(made):
                    library = made.partition(".")[0]
                    yield InTrainer.at(source, call, trainer=last(made), library=library)
