"""A loop of a base class that subclasses run without a backward, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.program import Class, Function, Program
from instrumentor.locate.syntax import (
    FUNCTIONS,
    callee,
    dotted,
    last,
    receiver,
)


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """`self.step()` in a loop that instances of two classes run, one without a backward."""
    program = knowledge.program
    for site in candidate.sites:
        functions = list(site.chain)
        if isinstance(candidate.scope, FUNCTIONS):
            functions.insert(0, Function(candidate.source, candidate.scope))
        for caller, called in pairwise(functions):
            for other in _run_instead(program, knowledge, caller, called):
                if not knowledge.has_backward(other) and not _is_abstract(other):
                    yield Reason(
                        other.source.path,
                        other.node.lineno,
                        "train-and-eval",
                        f"{caller.name}() serves training and evaluation: this "
                        f"{other.name}() runs in its loop too, without a backward",
                        "Give training a loop of its own.",
                    )
                    return


def _run_instead(
    program: Program, knowledge: Knowledge, caller: Function, called: Function
) -> Iterator[Function]:
    """Methods that run in place of the called one, in instances of the classes that are made.

    Where none is made (a library's file by itself), those that switch gradients off.
    """
    owner = caller.source.class_of.get(caller.node)
    if owner is None or called.node not in called.source.class_of:
        return
    if not any(
        callee(c) == called.name and receiver(c) == "self"
        for c, _ in program.calls.get(caller.node, ())
    ):
        return
    family = [Class(caller.source, owner), *program.subclasses.get(owner, ())]
    made = [cls for cls in family if _is_made(program, cls)]
    for cls in made or family:
        running = program.methods(cls, caller.name, overrides=False)
        found = program.methods(cls, called.name, overrides=False)
        if not running or running[0].node is not caller.node or not found:
            continue
        if found[0].node is not called.node and (made or knowledge.evaluates(found[0])):
            yield found[0]


def _is_made(program: Program, cls: Class) -> bool:
    """Whether the program makes an instance of just this class."""
    for source in program.sources.values():
        for call in source.calls:
            name = dotted(call.func)
            if last(name) == cls.node.name or isinstance(call.func, ast.Name):
                target = program.lookup(source, name)
                if isinstance(target, Class) and target.node is cls.node:
                    return True
    return False


def _is_abstract(function: Function) -> bool:
    """A body that only raises, passes or documents."""
    return all(
        isinstance(s, (ast.Raise, ast.Pass))
        or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in function.node.body
    )
