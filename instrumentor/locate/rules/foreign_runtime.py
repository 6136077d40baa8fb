"""Runtimes that run a step of their own: there is no torch backward to time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.names import external_name
from instrumentor.locate.rules.common import AS_A_WHOLE, imported_roots
from instrumentor.locate.syntax import receiver
from instrumentor.locate.values import Object

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
    for site in candidate.sites:
        source, call = site.backward_source, site.backward
        scope = program.scope_of(source, call)
        if isinstance(call.func, ast.Attribute):
            for value in knowledge.values(source, scope, call.func.value):
                made = external_name(value.made_by) if isinstance(value, Object) else ""
                if made.partition(".")[0] in FOREIGN_RUNTIMES:
                    what = f"{receiver(call)}.backward() is a compiled model's own backward"
                    yield Reason(source.path, call.lineno, "foreign-runtime", what, AS_A_WHOLE)
