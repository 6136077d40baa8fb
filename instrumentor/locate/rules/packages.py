"""Packages that run the step themselves, so that there is no loop or no torch backward to time."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.read.syntax import Source, callee

OWN_LOOP = (
    "Give a script with the loop written out "
    "(for batch in loader: loss.backward(); optimizer.step())."
)
AS_A_WHOLE = "`instrument profile` traces its device operations; --region times lines of it."

FOREIGN_RUNTIMES = {
    "forge": "tt-forge's compiled model runs its own backward",
    "pybuda": "PyBuda runs its own backward",
    "ttml": "ttml runs its own autograd",
    "tt_train": "tt-train runs its own autograd",
}


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


def foreign_imports(sources: Iterable[Source]) -> Iterator[Reason]:
    """Imports of a runtime with a step of its own."""
    for source in sources:
        roots = imported_roots(source)
        # tt-crank is none of them: its scripts are plain torch loops
        for root, why in FOREIGN_RUNTIMES.items():
            if root in roots:
                yield Reason.at(source, roots[root], "foreign-runtime", why, AS_A_WHOLE)


def foreign_runtime(candidate: Candidate) -> Iterator[Reason]:
    """A runtime that the entry imports, or a module that holds the loop or a backward."""
    backwards = (site.backward_source for site in candidate.sites)
    sources = (candidate.source, candidate.program.entry, *backwards)
    yield from foreign_imports(dict.fromkeys(sources))


def manual_backward(candidate: Candidate) -> Iterator[Reason]:
    """Lightning's `self.manual_backward(loss)`."""
    for site in candidate.sites:
        if callee(site.backward) == "manual_backward":
            told = "manual_backward: Lightning calls this step from its own loop"
            yield Reason.at(site.backward_source, site.backward, "lightning", told, OWN_LOOP)
