"""Why a script shows no training loop: who holds it instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.rules.compiled_step import steps_handed_to_a_compiler
from instrumentor.locate.rules.packages import AS_A_WHOLE, OWN_LOOP, foreign_imports, imported_roots
from instrumentor.read.names import external_name
from instrumentor.read.program import Program
from instrumentor.read.syntax import FUNCTIONS, SOURCE_BYTES, Source, callee, dotted, last
from instrumentor.read.values import Class, Member, Object
from instrumentor_analysis.shared.files import read_bytes

_LIGHTNING = ("pytorch_lightning", "lightning", "lightning_fabric")
#: Packages whose trainers hold the loop, with the kind of the reason.
_TRAINERS = {
    **dict.fromkeys(_LIGHTNING, "lightning"),
    **dict.fromkeys(("transformers", "trl", "sentence_transformers"), "hf-trainer"),
}
#: Packages that train without torch, with the kind of the reason and how they do it.
_OTHERS = {
    **dict.fromkeys(
        ("jax", "flax", "optax", "easydel"),
        ("jax", "gradients come from transformations, not from backward()"),
    ),
    **dict.fromkeys(
        ("tensorflow", "keras"), ("keras", "model.fit() or a gradient tape holds the step")
    ),
}


#: What a script of these has that trains with them.
_TRAINS_ALONE = (b"GradientTape", b".fit(", b"train_on_batch", b"jax.grad", b"value_and_grad")


def no_loop(knowledge: Knowledge, without_update: Sequence[Candidate]) -> Reason:
    """The most telling reason why no training loop was found in the entry script.

    Args:
        without_update: loops with a backward that no optimizer step follows.
    """
    return next(_holders(knowledge, without_update), None) or _nothing(knowledge)


def _holders(knowledge: Knowledge, without_update: Sequence[Candidate]) -> Iterator[Reason]:
    """Everything that may hold the step, the most telling first."""
    program, entry = knowledge.program, knowledge.program.entry
    yield from _trainers(knowledge)  # says where; an import only says that
    yield from _broken(program)
    roots = imported_roots(entry)
    for root in _LIGHTNING:
        if root in roots:
            told = "Lightning holds the training loop"
            yield Reason.at(entry, roots[root], "lightning", told, OWN_LOOP)
    yield from _engines(knowledge)
    yield from foreign_imports([entry])
    yield from _without_torch(program)
    for source, call in ((s, c) for s in program.sources.values() for c in s.calls):
        name = dotted(call.func)
        if re.search(r"(loss_)?scaler$", name) and len(call.args) >= 2:
            told = f"backward and optimizer step are hidden in {name}(...) of another package"
            remedy = "Write loss.backward() and optimizer.step() in the loop."
            yield Reason.at(source, call, "hidden-backward", told, remedy)
    for call in entry.calls:
        here = program.resolve(entry, program.scope_of(entry, call), call)
        if callee(call) in ("train_batch", "fit") and not here:
            told = f"the step is hidden in {dotted(call.func)}(...) of an installed package"
            yield Reason.at(entry, call, "hidden-backward", told, OWN_LOOP)
    yield from steps_handed_to_a_compiler(knowledge)
    for candidate in without_update:
        told = "a backward runs in this loop, but no optimizer step follows it"
        place = candidate.source.at(candidate.loop.lineno)
        remedy = f"A training loop steps an optimizer; if this is one: --loop {place}."
        yield Reason.at(candidate.source, candidate.loop, "no-optimizer-step", told, remedy)


def _trainers(knowledge: Knowledge) -> Iterator[Reason]:
    """`Trainer(...).fit()`, of a class of these packages or one derived from it."""
    program = knowledge.program
    for source in program.sources.values():
        for call in source.calls:
            if callee(call) not in ("fit", "train"):
                continue
            for value in knowledge.values(source, program.scope_of(source, call), call.func):
                library = _trainer_of(program, value)
                if library:
                    told = f"the loop is inside {library}'s Trainer, an installed package"
                    yield Reason.at(source, call, _TRAINERS[library], told, OWN_LOOP)


def _broken(program: Program) -> Iterator[Reason]:
    """Imported files that this Python cannot parse, and that speak of a backward."""
    for path, error in program.broken.items():
        if b"backward" in read_bytes(path, SOURCE_BYTES):
            told = f"an imported file with a backward does not parse: {error.msg}"
            remedy = "Fix the syntax, or run instrument under the Python that it is written for."
            yield Reason(path, error.lineno or 1, "syntax", told, remedy)


#: What an installed class is called that holds a loop, and the methods that start it.
_ENGINE = re.compile(r"(Engine|Trainer|Learner|Runner|Estimator)$")
_STARTS = ("fit", "fit_one_cycle", "run", "train")


def _engines(knowledge: Knowledge) -> Iterator[Reason]:
    """`Engine(update).run(loader)`, of any installed package."""
    program = knowledge.program
    for word in _STARTS:
        for source, scope, call in program.calls_named(word):
            for value in knowledge.values(source, scope, call.func):
                owner = value.owner if isinstance(value, Member) else None
                made = external_name(owner.made_by) if isinstance(owner, Object) else ""
                if _ENGINE.search(made):
                    told = f"the loop is inside {last(made)} of {made.partition('.')[0]}"
                    told += ", an installed package"
                    yield Reason.at(source, call, "hidden-backward", told, OWN_LOOP)


def _trainer_of(program: Program, function: object) -> str:
    """The package whose trainer's method a value is; '' for any other."""
    if not isinstance(function, Member) or not isinstance(function.owner, Object):
        return ""
    made = function.owner.made_by
    names = program.external_bases(made) if isinstance(made, Class) else [external_name(made)]
    roots = (name.partition(".")[0] for name in names if last(name).endswith("Trainer"))
    return next((root for root in roots if root in _TRAINERS), "")


def _without_torch(program: Program) -> Iterator[Reason]:
    """A script of another framework, itself or by the modules of its repository."""
    own = imported_roots(program.entry)
    for source in program.sources.values():
        roots = imported_roots(source)
        for root, (kind, how) in _OTHERS.items():
            # beside torch it may only bring data: `keras.datasets`
            if "torch" in roots and not any(word in source.data for word in _TRAINS_ALONE):
                continue
            if root in roots and (root in own or "torch" not in own):
                yield Reason.at(source, roots[root], kind, f"a {root} script: {how}", AS_A_WHOLE)


def _nothing(knowledge: Knowledge) -> Reason:
    """Nothing is seen to hold a loop: what is there instead, and what to give."""
    message = "no loop with forward, backward() and an optimizer step was found"
    remedy = (
        "Give the script that holds the loop, or one that reaches it through imports of its own "
        "repository."
    )
    apart = next(_backwards_apart(knowledge), None)
    if apart is not None:
        message += f"; {apart} is not seen to be called by the script"
        remedy = "`instrument run` looks for the loop by running the script."
    elif _starts_nothing(knowledge.program.entry):
        message += ": a library module, which defines and starts nothing"
        remedy = "Give the script that imports it and trains."
    return Reason(knowledge.program.entry.path, 1, "no-loop", message, remedy)


def _backwards_apart(knowledge: Knowledge) -> Iterator[str]:
    """Backwards of the repository that the script is not seen to come to."""
    program = knowledge.program
    for source in program.sources.values():
        for function in source.functions:
            for call, _ in program.calls.get(function, ()):
                is_backward = knowledge.is_backward(source, function, call)
                if is_backward and function not in program.reached:
                    yield f"{function.name}(), which runs one at {source.at(call.lineno)},"


_DEFINES = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, *FUNCTIONS, ast.ClassDef)


def _starts_nothing(source: Source) -> bool:
    """Whether a module only defines: nothing in it is called or looped over when it is run."""
    body = source.tree.body
    return any(isinstance(s, (*FUNCTIONS, ast.ClassDef)) for s in body) and all(
        isinstance(s, _DEFINES) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in body
    )
