"""One loop or function for training and evaluation: the backward runs in one phase only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from instrumentor.locate.constants import Constants, along, decided, may_run
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.syntax import (
    Source,
    contains,
    dotted,
    path_to,
)

_PHASE = re.compile(
    r"(^|\.|_)(phase|split|mode|is_train|is_training|training|train|do_train|train_mode)$", re.I
)


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    program = knowledge.program
    for site in candidate.sites:
        found = _phase_of(candidate.source, candidate.loop, site.statement, {})
        if found is not None:
            yield _two_phases(candidate.source, found, "loop")
            return
        for function, known in along(program, site):
            innermost = function is site.chain[-1]
            at = site.backward_statement if innermost else function.node.body[0]
            found = _phase_of(function.source, function.node, at, known)
            if found is not None:
                yield _two_phases(function.source, found, "function")
                return


def _phase_of(source: Source, top: ast.AST, at: ast.stmt, known: Constants) -> ast.If | None:
    """The `if` on a phase that the statement stands in, or that leaves ahead of it.

    One that the call's own arguments decide in favour of the statement is none.
    """
    for parent in source.parents(at):
        if parent is top:
            break
        if isinstance(parent, ast.If) and _is_phase_test(parent.test):
            answer = decided(parent.test, known)
            if answer is None or not any(contains(s, at) for s in may_run(parent, known)):
                return parent
    for suite, index in path_to(source, top, at):
        for statement in suite[:index]:
            if isinstance(statement, ast.If) and _is_phase_test(statement.test):
                if decided(statement.test, known) is False:
                    continue
                if isinstance(statement.body[-1], (ast.Continue, ast.Return)):
                    return statement
    return None


def _two_phases(source: Source, test: ast.If, what: str) -> Reason:
    return Reason(
        source.path,
        test.lineno,
        "train-and-eval",
        f"one {what} serves training and evaluation: the backward runs only in one of its phases",
        f"Give training a {what} of its own.",
    )


def _is_phase_test(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare):
        names = [test.left, *test.comparators]
        if any(
            isinstance(n, ast.Constant) and n.value in ("train", "training", "Train") for n in names
        ):
            return True
        if (
            len(names) == 2
            and isinstance(test.ops[0], ast.IsNot)
            and "optim" in dotted(names[0]).lower()
        ):
            return isinstance(names[1], ast.Constant) and names[1].value is None
        return False
    return (
        bool(dotted(test)) and bool(_PHASE.search(dotted(test))) and not dotted(test).endswith("()")
    )
