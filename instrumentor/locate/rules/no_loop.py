"""Why a script shows no training loop: who holds it instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.names import external_name
from instrumentor.locate.program import Program
from instrumentor.locate.rules.common import AS_A_WHOLE, OWN_LOOP, imported_roots
from instrumentor.locate.rules.compiled_step import handed_to_a_compiler
from instrumentor.locate.rules.foreign_runtime import FOREIGN_RUNTIMES
from instrumentor.locate.syntax import FUNCTIONS, Source, callee, dotted, last
from instrumentor.locate.values import Class, Member, Object

_LIGHTNING = ("pytorch_lightning", "lightning", "lightning_fabric")
#: Packages whose trainers hold the loop, with the kind of the reason.
_TRAINERS = {**dict.fromkeys(_LIGHTNING, "lightning"), "transformers": "hf-trainer"} | {
    "trl": "hf-trainer",
    "sentence_transformers": "hf-trainer",
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


class _Script(Struct, frozen=True):
    """What the questions look at; `stepless` are loops with a backward that nothing follows."""

    program: Program
    knowledge: Knowledge
    roots: dict[str, int]
    stepless: tuple[Candidate, ...]

    @property
    def source(self) -> Source:
        return self.program.entry


def no_loop(program: Program, knowledge: Knowledge, without_update: list[Candidate]) -> Reason:
    """The most telling reason why no training loop was found in the entry script."""
    roots = imported_roots(program.entry)
    script = _Script(program, knowledge, roots, tuple(without_update))
    found = (ask(script) for ask in _QUESTIONS)
    return next((reason for reason in found if reason is not None), None) or _nothing(script)


def _in_a_trainer(script: _Script) -> Reason | None:
    """`Trainer(...).fit()`, of a class of these packages or one derived from it."""
    for source in script.program.sources.values():
        for call in source.calls:
            if callee(call) not in ("fit", "train"):
                continue
            scope = script.program.scope_of(source, call)
            for value in script.knowledge.values(source, scope, call.func):
                library = _trainer_of(script.program, value)
                if library:
                    return Reason(
                        source.path,
                        call.lineno,
                        _TRAINERS[library],
                        f"the loop is inside {library}'s Trainer, an installed package",
                        OWN_LOOP,
                    )
    return None


def _trainer_of(program: Program, function: object) -> str:
    """The package whose trainer's method a value is; '' for any other."""
    if not isinstance(function, Member) or not isinstance(function.owner, Object):
        return ""
    made = function.owner.made_by
    names = program.external_bases(made) if isinstance(made, Class) else [external_name(made)]
    roots = (name.partition(".")[0] for name in names if last(name).endswith("Trainer"))
    return next((root for root in roots if root in _TRAINERS), "")


def _by_import(script: _Script) -> Reason | None:
    """What a package that the script imports says of it."""
    path, roots = script.source.path, script.roots
    for root in _LIGHTNING:
        if root in roots:
            told = "Lightning holds the training loop"
            return Reason(path, roots[root], "lightning", told, OWN_LOOP)
    for root, why in FOREIGN_RUNTIMES.items():
        if root in roots:
            return Reason(path, roots[root], "foreign-runtime", why, AS_A_WHOLE)
    return None


def _without_torch(script: _Script) -> Reason | None:
    """A script of another framework, itself or by the modules of its repository."""
    for source in script.program.sources.values():
        roots = imported_roots(source)
        for root, (kind, how) in _OTHERS.items():
            if root in roots and (root in script.roots or "torch" not in script.roots):
                return Reason(source.path, roots[root], kind, f"a {root} script: {how}", AS_A_WHOLE)
    return None


def _in_a_scaler(script: _Script) -> Reason | None:
    for call in script.source.calls:
        name = dotted(call.func)
        if re.search(r"(loss_)?scaler$", name) and len(call.args) >= 2:
            return Reason(
                script.source.path,
                call.lineno,
                "hidden-backward",
                f"backward and optimizer step are hidden in {name}(...) of another package",
                "Write loss.backward() and optimizer.step() in the loop.",
            )
    return None


def _in_a_package(script: _Script) -> Reason | None:
    for call in script.source.calls:
        if callee(call) in ("train_batch", "fit"):
            return Reason(
                script.source.path,
                call.lineno,
                "hidden-backward",
                f"the step is hidden in {dotted(call.func)}(...) of an installed package",
                OWN_LOOP,
            )
    return None


def _without_an_update(script: _Script) -> Reason | None:
    for candidate in script.stepless:
        return Reason(
            candidate.source.path,
            candidate.loop.lineno,
            "no-optimizer-step",
            "a backward runs in this loop, but no optimizer step follows it",
            "A training loop steps an optimizer; if this is one: "
            f"--loop {candidate.source.at(candidate.loop.lineno)}.",
        )
    return None


_QUESTIONS = (
    _in_a_trainer,
    _by_import,
    _without_torch,
    _in_a_scaler,
    _in_a_package,
    lambda script: handed_to_a_compiler(script.knowledge),
    _without_an_update,
)


def _nothing(script: _Script) -> Reason:
    """Nobody is seen to hold a loop: what is there instead, and what to give."""
    message = "no loop with forward, backward() and an optimizer step was found"
    remedy = (
        "Give the script that holds the loop, or one that reaches it through imports of its own "
        "repository."
    )
    apart = next(_backwards_apart(script), None)
    if apart is not None:
        message += f"; {apart} is not seen to be called by the script"
        remedy = "`instrument run` looks for the loop by running the script."
    elif _starts_nothing(script.source):
        message += ": a library module, which defines and starts nothing"
        remedy = "Give the script that imports it and trains."
    return Reason(script.source.path, 1, "no-loop", message, remedy)


def _backwards_apart(script: _Script) -> Iterator[str]:
    """Backwards of the repository that the script is not seen to come to."""
    program = script.program
    for source in program.sources.values():
        for function in source.functions:
            for call, _ in program.calls.get(function, ()):
                if function not in program.reached and script.knowledge.is_backward(
                    source, function, call
                ):
                    yield f"{function.name}(), which runs one at {source.at(call.lineno)},"


_DEFINES = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, *FUNCTIONS, ast.ClassDef)


def _starts_nothing(source: Source) -> bool:
    """Whether a module only defines: nothing in it is called or looped over when it is run."""
    body = source.tree.body
    return any(isinstance(s, (*FUNCTIONS, ast.ClassDef)) for s in body) and all(
        isinstance(s, _DEFINES) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in body
    )
