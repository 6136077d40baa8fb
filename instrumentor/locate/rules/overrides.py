"""A loop of a base class that subclasses run without a backward, too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from instrumentor.locate.knowledge import Knowledge, is_stub
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.program import Class, Function, Program
from instrumentor.locate.syntax import FUNCTIONS, callee, receiver


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """`self.step()` in a loop that instances of two classes run, one without a backward."""
    scope = candidate.scope
    own = [Function(candidate.source, scope)] if isinstance(scope, FUNCTIONS) else []
    for site in candidate.sites:
        for caller, called in pairwise((*own, *site.chain)):
            for other in _run_instead(knowledge, caller, called):
                if not knowledge.has_backward(other) and not is_stub(other):
                    yield Reason(
                        other.source.path,
                        other.node.lineno,
                        "train-and-eval",
                        f"{caller.name}() serves training and evaluation: this "
                        f"{other.name}() runs in its loop too, without a backward",
                        "Give training a loop of its own.",
                    )


def _run_instead(knowledge: Knowledge, caller: Function, called: Function) -> Iterator[Function]:
    """Methods that run in place of the called one, in instances of the classes that are made.

    Where none is made (a library's file by itself), those that switch gradients off.
    """
    program = knowledge.program
    owner = caller.source.class_of.get(caller.node)
    if owner is None or not any(
        callee(c) == called.name and receiver(c) == "self"
        for c, _ in program.calls.get(caller.node, ())
    ):
        return
    family = [Class(caller.source, owner), *program.subclasses.get(owner, ())]
    made = [cls for cls in family if _is_made(program, cls)]
    for cls in made or family:
        running, found = (
            next(iter(program.methods(cls, f.name, overrides=False)), None)
            for f in (caller, called)
        )
        if running == caller and found is not None and found != called:
            if made or knowledge.evaluates(found):
                yield found


def _is_made(program: Program, cls: Class) -> bool:
    """Whether the program makes an instance of just this class."""
    return any(
        cls in program.names.of(source, program.scope_of(source, call), call.func)
        for source in program.sources.values()
        for call in source.calls
    )
