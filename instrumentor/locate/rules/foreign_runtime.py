"""Runtimes that run a step of their own: there is no torch backward to time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.rules.common import AS_A_WHOLE, imported_roots
from instrumentor.locate.syntax import (
    receiver,
)

FOREIGN_RUNTIMES = {
    "forge": "tt-forge's compiled model runs its own backward",
    "pybuda": "PyBuda runs its own backward",
    "ttml": "ttml runs its own autograd",
    "tt_train": "tt-train runs its own autograd",
}


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    program = knowledge.program
    for source in dict.fromkeys((candidate.source, program.entry)):
        roots = imported_roots(source)
        for root, why in FOREIGN_RUNTIMES.items():
            if root in roots:
                yield Reason(source.path, roots[root], "foreign-runtime", why, AS_A_WHOLE)
                return
        for statement in source.places:
            if isinstance(statement, ast.ImportFrom) and re.search(
                r"(^|\.)(tt_train|ttml)(\.|$)", statement.module or ""
            ):
                yield Reason(
                    source.path,
                    statement.lineno,
                    "foreign-runtime",
                    f"{statement.module} runs the step itself",
                    AS_A_WHOLE,
                )
                return
    for site in candidate.sites:
        owner = receiver(site.backward)
        if (
            re.search(r"compiled_(model|fw)|framework_compiled|tt_model", owner)
            and not site.backward.args
        ):
            yield Reason(
                site.backward_source.path,
                site.backward.lineno,
                "foreign-runtime",
                f"{owner}.backward() is a compiled model's own backward",
                AS_A_WHOLE,
            )
            return
