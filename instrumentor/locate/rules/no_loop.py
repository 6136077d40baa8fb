"""Why a script shows no training loop: who holds it instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.program import Program
from instrumentor.locate.rules.common import AS_A_WHOLE, OWN_LOOP, imported_roots
from instrumentor.locate.rules.compiled_step import handed_to_a_compiler
from instrumentor.locate.rules.foreign_runtime import FOREIGN_RUNTIMES
from instrumentor.locate.syntax import (
    FUNCTIONS,
    Source,
    callee,
    dotted,
    last,
    receiver,
)

_JAX = ("jax", "flax", "optax", "easydel")


_LIGHTNING = ("pytorch_lightning", "lightning", "lightning_fabric")


def no_loop(program: Program, knowledge: Knowledge, without_update: list[Candidate]) -> Reason:
    """The most telling reason why no training loop was found in the entry script."""
    source = program.entry
    path, roots = source.path, imported_roots(source)
    for call, line in _calls(source):
        word, owner = callee(call), receiver(call)
        if word in ("fit", "train") and _made_by(
            source, owner, ("Trainer", "SFTTrainer", "DPOTrainer", "Seq2SeqTrainer")
        ):
            library = next((r for r in roots if r in (*_LIGHTNING, "transformers", "trl")), "")
            if library:
                kind = "lightning" if library in _LIGHTNING else "hf-trainer"
                return Reason(
                    path,
                    line,
                    kind,
                    f"the loop is inside {library}'s Trainer, an installed package",
                    OWN_LOOP,
                )
    if any(r in roots for r in _LIGHTNING):
        line = next(roots[r] for r in _LIGHTNING if r in roots)
        return Reason(path, line, "lightning", "Lightning holds the training loop", OWN_LOOP)
    for root in _JAX:
        if root in roots:
            return Reason(
                path,
                roots[root],
                "jax",
                f"a {root} script: gradients come from transformations, not from backward()",
                AS_A_WHOLE,
            )
    for root, why in FOREIGN_RUNTIMES.items():
        if root in roots:
            return Reason(path, roots[root], "foreign-runtime", why, AS_A_WHOLE)
    for call, line in _calls(source):
        if re.search(r"(loss_)?scaler$", dotted(call.func)) and len(call.args) >= 2:
            return Reason(
                path,
                line,
                "hidden-backward",
                f"backward and optimizer step are hidden in {dotted(call.func)}(...) of "
                "another package",
                "Write loss.backward() and optimizer.step() in the loop.",
            )
        if callee(call) in ("train_batch", "fit"):
            return Reason(
                path,
                line,
                "hidden-backward",
                f"the step is hidden in {dotted(call.func)}(...) of an installed package",
                OWN_LOOP,
            )
    compiled = handed_to_a_compiler(program)
    if compiled is not None:
        return compiled
    for candidate in without_update:
        return Reason(
            candidate.source.path,
            candidate.loop.lineno,
            "no-optimizer-step",
            "a backward runs in this loop, but no optimizer step follows it",
            "A training loop steps an optimizer; if this is one: "
            f"--loop {candidate.source.at(candidate.loop.lineno)}.",
        )
    if "transformers" in roots and any(
        callee(c) == "train" and "trainer" in receiver(c).lower() for c, _ in _calls(source)
    ):
        return Reason(
            path,
            roots["transformers"],
            "hf-trainer",
            "the loop is inside transformers' Trainer, an installed package",
            OWN_LOOP,
        )
    message = "no loop with forward, backward() and an optimizer step was found"
    remedy = (
        "Give the script that holds the loop, or one that reaches it through imports of its own "
        "repository."
    )
    if _starts_nothing(source):
        message += ": a library module, which defines and starts nothing"
        remedy = "Give the script that imports it and trains."
    return Reason(path, 1, "no-loop", message, remedy)


_DEFINES = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, *FUNCTIONS, ast.ClassDef)


def _starts_nothing(source: Source) -> bool:
    """Whether a module only defines: nothing in it is called or looped over when it is run."""
    body = source.tree.body
    return any(isinstance(s, (*FUNCTIONS, ast.ClassDef)) for s in body) and all(
        isinstance(s, _DEFINES) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in body
    )


def _calls(source: Source) -> Iterator[tuple[ast.Call, int]]:
    for node in source.calls:
        yield node, node.lineno


def _made_by(source: Source, name: str, classes: tuple[str, ...]) -> bool:
    for node in source.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if last(dotted(node.value.func)).endswith(classes) and any(
                dotted(t) == name for t in node.targets
            ):
                return True
    return name.endswith("Trainer()")
