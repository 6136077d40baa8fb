"""Where statements lie relative to each other: paths of suites, containment, branches."""

from __future__ import annotations

import ast
from collections.abc import Collection

from instrumentor.locate.syntax import LoopNode, Source, callee, suites


def path_to(
    source: Source, loop: LoopNode | ast.AST, statement: ast.stmt
) -> list[tuple[list[ast.stmt], int]]:
    """Suites and indices from the loop's body (outermost) down to a statement."""
    path: list[tuple[list[ast.stmt], int]] = []
    current: ast.AST = statement
    while isinstance(current, ast.stmt) and current is not loop:
        place = source.places[current]
        path.append((place.suite, place.index))
        current = place.parent
        if isinstance(current, (ast.ExceptHandler, ast.match_case)):
            break
    return path[::-1]


def contains(outer: ast.AST, inner: ast.AST) -> bool:
    """Whether a node of the same file lies within another, judged by position (constant time)."""
    if outer is inner:
        return True
    return _span(outer)[0] <= _span(inner)[0] and _span(inner)[1] <= _span(outer)[1]


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    start = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    end = (getattr(node, "end_lineno", None) or 1 << 30, getattr(node, "end_col_offset", None) or 0)
    return start, end


def exclusive(source: Source, first: ast.stmt, second: ast.stmt) -> bool:
    """Whether two statements lie in different branches of one `if`, `match` or `try`."""
    chain = [first, *source.ancestors(first)]
    other = [second, *source.ancestors(second)]
    for parent in chain:
        if parent not in other:
            continue
        if not isinstance(parent, (ast.If, ast.Match)) or parent in (first, second):
            return False
        return _branch_of(parent, first) != _branch_of(parent, second)
    return False


def _branch_of(parent: ast.stmt, statement: ast.stmt) -> int:
    for number, suite in enumerate(suites(parent)):
        if any(contains(s, statement) for s in suite):
            return number
    return -1


def between(source: Source, loop: ast.AST, first: ast.stmt, second: ast.stmt) -> list[ast.stmt]:
    """Statements of the common suites that run after `first` and before `second`."""
    found: list[ast.stmt] = []
    for suite, index in reversed(path_to(source, loop, first)):
        for statement in suite[index + 1 :]:
            if contains(statement, second):
                return found
            found.append(statement)
    return found


def always_meets(suite: list[ast.stmt], wanted: Collection[ast.stmt]) -> bool:
    """Whether every path through a suite, but those that leave it, runs one of the statements."""
    for statement in suite:
        if statement in wanted or isinstance(statement, _LEAVES):
            return True
        if isinstance(statement, ast.If):
            branches = [statement.body, statement.orelse]
        elif isinstance(statement, ast.Match):
            branches = [case.body for case in statement.cases]
            if not any(_takes_all(case) for case in statement.cases):
                continue
        elif isinstance(statement, (ast.With, ast.AsyncWith, ast.Try)):
            branches = [statement.body]
        else:
            continue
        if all(always_meets(branch, wanted) for branch in branches):
            return True
    return False


_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)


def _takes_all(case: ast.match_case) -> bool:
    """`case _:` or `case name:`."""
    pattern = case.pattern
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None and case.guard is None


def callee_of(node: ast.expr) -> str:
    return callee(node) if isinstance(node, ast.Call) else ""
