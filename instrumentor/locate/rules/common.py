"""What several rules ask, and remedies they share."""

from __future__ import annotations

import ast

from instrumentor.locate.program import Program
from instrumentor.locate.syntax import (
    FUNCTIONS,
    FunctionNode,
    Source,
)


def imported_roots(source: Source) -> dict[str, int]:
    """Top-level packages that a module imports, with the line of the first import."""
    found: dict[str, int] = {}
    for statement in source.places:
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [a.name for a in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        for name in names:
            line = found.get(name.split(".")[0], statement.lineno)
            found[name.split(".")[0]] = min(line, statement.lineno)
    return found


def runs_as_script(source: Source, statement: ast.stmt) -> bool:
    """Whether a statement stands under the `__main__` guard: an import does not run it."""
    return any(isinstance(p, ast.If) and is_main_guard(p) for p in source.parents(statement))


def is_main_guard(statement: ast.If) -> bool:
    """`if __name__ == "__main__":`"""
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(statement.test))


OWN_LOOP = (
    "Give a script with the loop written out "
    "(for batch in loader: loss.backward(); optimizer.step())."
)


AS_A_WHOLE = "`instrument profile` traces its device operations; --region times lines of it."


SPLIT = "Name one loop with --loop, or give a script that trains one network at a time."


def conditional(program: Program, source: Source, node: ast.AST, depth: int = 0) -> bool:
    """Whether a statement runs only under an `if` (the `__main__` guard does not count)."""
    statement = node if isinstance(node, ast.stmt) else source.statement_of(node)
    if statement is None:
        return False
    for parent in source.parents(statement):
        if isinstance(parent, ast.If) and not is_main_guard(parent):
            return True
    scope = source.scope_of(statement)
    if isinstance(scope, FUNCTIONS) and depth < 5:
        calls = program.callers.get(scope, [])
        here = [(program.source_of_scope[s], h) for s, _, h in calls if s is not scope]
        if here:
            return all(conditional(program, where, holder, depth + 1) for where, holder in here)
        return _passed_conditionally(source, scope)
    return False


def _passed_conditionally(source: Source, function: FunctionNode) -> bool:
    """A function only handed over (`mp.spawn(main_worker)`): conditional when that is."""
    uses = [
        source.statement_of(n)
        for n in source.nodes
        if isinstance(n, ast.Name) and n.id == function.name and isinstance(n.ctx, ast.Load)
    ]
    held = [u for u in uses if u is not None]
    return bool(held) and all(
        any(isinstance(p, ast.If) and not is_main_guard(p) for p in source.parents(u)) for u in held
    )
