"""What several rules ask, and remedies they share."""

from __future__ import annotations

import ast

from instrumentor.locate.syntax import Source, is_main_guard

OWN_LOOP = (
    "Give a script with the loop written out "
    "(for batch in loader: loss.backward(); optimizer.step())."
)
AS_A_WHOLE = "`instrument profile` traces its device operations; --region times lines of it."
SPLIT = "Name one loop with --loop, or give a script that trains one network at a time."


def imported_roots(source: Source) -> dict[str, int]:
    """Top-level packages that a module imports, with the line of the first import."""
    found: dict[str, int] = {}
    for statement in source.places:
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [a.name for a in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        for root in (name.split(".")[0] for name in names):
            found[root] = min(found.get(root, statement.lineno), statement.lineno)
    return found


def runs_as_script(source: Source, statement: ast.stmt) -> bool:
    """Whether a statement stands under the `__main__` guard: an import does not run it."""
    return any(isinstance(p, ast.If) and is_main_guard(p.test) for p in source.parents(statement))
