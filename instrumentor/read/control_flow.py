"""Control flow of one iteration, or of one call: which statements a path meets, and in what order.

The graph holds two points of every statement: where it begins and where it is complete, one and
the same for a simple statement. Its ends are END (off the end of the body; in a function also
`return`), NEXT (`continue`), LEFT (`break`, a loop's `return`) and RAISED (`raise`, `sys.exit()`).
One question answers all others: whether a path leads from one point to another without meeting
certain points. What cannot be reached without a point is dominated by it; what no path to the end
avoids post-dominates. An exception counts as a path only where it is asked whether two statements
exclude each other: that every call may fail says nothing about a step.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.read.syntax import FUNCTIONS, LOOPS, FunctionNode, LoopNode, dotted, own_nodes

START, END, NEXT, LEFT, RAISED = range(5)
#: Where an iteration is over without leaving its loop.
OVER = (END, NEXT)


class _Jumps(Struct, frozen=True):
    """Where `continue`, `break` and `raise` lead to."""

    again: int = NEXT
    out: int = LEFT
    raised: tuple[int, ...] = (RAISED,)


class Flow:
    """The statements of a body, in the order of the source, and the paths between them.

    Args:
        decided: what the test of an `if` or `while` is known to come to, None when it is not.
        returned: where a `return` leads: END where the body is a function's.
    """

    def __init__(
        self,
        body: list[ast.stmt],
        decided: Callable[[ast.expr], bool | None] | None = None,
        returned: int = LEFT,
    ) -> None:
        self.decided, self.returned = decided or _constant, returned
        self.following: list[list[int]] = [[] for _ in range(5)]
        self.failing: dict[int, list[int]] = defaultdict(list)  # points -> handlers
        self.begins: dict[ast.stmt, int] = {}
        self.completes: dict[ast.stmt, int] = {}
        self._ahead: dict[tuple[int, bool], set[int]] = {}
        self.following[START] = [self._suite(body, END, _Jumps())]
        self.statements = list(self.begins)[::-1]
        self.order = {s: n for n, s in enumerate(self.statements)}

    # -- questions ---------------------------------------------------------------------------

    def before(self, statement: ast.stmt) -> int:
        """The point where a statement begins; END for one that is not in the body."""
        return self.begins.get(statement, END)

    def after(self, statement: ast.stmt) -> int:
        """The point where a statement is complete; END for one that is not in the body."""
        return self.completes.get(statement, END)

    def path(
        self,
        start: int,
        goals: Iterable[int] | int,
        avoiding: Collection[int] = (),
        *,
        failing: bool = False,
    ) -> bool:
        """Whether a path leads from a point to another without meeting the avoided ones."""
        wanted = (goals,) if isinstance(goals, int) else goals
        if avoiding:
            return start not in avoiding and not self._met(start, avoiding, failing).isdisjoint(
                wanted
            )
        met = self._ahead.get((start, failing))
        if met is None:
            met = self._ahead[start, failing] = self._met(start, (), failing)
        return not met.isdisjoint(wanted)

    def _met(self, start: int, avoiding: Collection[int], failing: bool) -> set[int]:
        """Points that paths from a point meet; an avoided one ends a path."""
        waiting, met = [start], set[int]()
        while waiting:
            point = waiting.pop()
            more = self.failing.get(point, ()) if failing else ()
            for following in (*self.following[point], *more):
                if following not in met:
                    met.add(following)
                    if following not in avoiding:
                        waiting.append(following)
        return met

    def unreached(self) -> list[ast.stmt]:
        """Statements that no path comes to, exceptions included."""
        met = self._met(START, (), failing=True)
        return [s for s in self.statements if self.begins[s] not in met]

    def reaches(self, first: ast.stmt, second: ast.stmt) -> bool:
        """Whether the second statement may run once the first has begun."""
        return self.path(self.before(first), self.before(second), failing=True)

    def exclusive(self, first: ast.stmt, second: ast.stmt) -> bool:
        """Whether at most one of two statements runs in an iteration."""
        if first is second or not (first in self.begins and second in self.begins):
            return False
        return not (self.reaches(first, second) or self.reaches(second, first))

    def always(self, start: int, met: Iterable[ast.stmt], goals: Iterable[int] = OVER) -> bool:
        """Whether every path from a point to the end of the iteration completes one of these."""
        return not self.path(start, goals, {self.after(s) for s in met})

    def deciders(self, start: int, *goals: int) -> list[ast.If]:
        """Tests from a point on, one way of which comes to one of the goals and one to none."""
        return [
            s
            for s in self.statements
            if isinstance(s, ast.If)
            and self.path(start, self.before(s))
            and len(set(self.ways(s, goals))) > 1
        ]

    def ways(self, test: ast.If, goals: Collection[int]) -> list[bool]:
        """Whether the body of an `if` comes to one of the goals, and whether its other way does."""
        ways = self.following[self.before(test)]
        return [way in goals or self.path(way, goals) for way in ways]

    def later(self, statement: ast.stmt) -> list[ast.stmt]:
        """Statements that may run once one is complete; none inside of another."""
        start, inside, found = self.after(statement), set[ast.AST](), list[ast.stmt]()
        for each in self.statements:
            if each not in inside and self.path(start, self.before(each)):
                found.append(each)
                inside.update(own_nodes(each))
        return found

    def between(self, first: ast.stmt, second: ast.stmt) -> list[ast.stmt]:
        """Statements on a path from the end of the first to the second."""
        return [
            s
            for s in self.statements
            if s is not second
            and self.path(self.after(first), self.before(s))
            and self.path(self.before(s), self.before(second))
        ]

    # -- the graph, from its end to its start --------------------------------------------------

    def _point(self, *following: int) -> int:
        self.following.append(list(following))
        return len(self.following) - 1

    def _suite(self, suite: list[ast.stmt], then: int, jumps: _Jumps) -> int:
        """The point where a list of statements begins."""
        for statement in reversed(suite):
            then = self._statement(statement, then, jumps)
        return then

    def _statement(self, statement: ast.stmt, then: int, jumps: _Jumps) -> int:
        end = begin = self._point()
        if isinstance(statement, ast.Continue):
            self.following[begin] = [jumps.again]
        elif isinstance(statement, ast.Break):
            self.following[begin] = [jumps.out]
        elif isinstance(statement, ast.Return):
            self.following[begin] = [self.returned]
        elif isinstance(statement, ast.Raise) or ends_the_run(statement):
            self.following[begin] = [*jumps.raised]
        else:
            self.following[end] = [then]
        if isinstance(statement, _COMPOUND):
            begin = self._point()
            self.following[begin] = self._inside(statement, begin, end, jumps)
        self.begins[statement], self.completes[statement] = begin, end
        return begin

    def _inside(self, statement: ast.stmt, begin: int, end: int, jumps: _Jumps) -> list[int]:
        """Where a compound statement may go from its begin."""
        if isinstance(statement, _TRY):
            return [self._try(statement, end, jumps)]
        if isinstance(statement, ast.Match):
            entries = [self._suite(case.body, end, jumps) for case in reversed(statement.cases)]
            return entries if any(map(_takes_all, statement.cases)) else [*entries, end]
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return [self._suite(statement.body, end, jumps)]
        assert isinstance(statement, (ast.If, *LOOPS))
        other = self._suite(statement.orelse, end, jumps)
        test = None if isinstance(statement, (ast.For, ast.AsyncFor)) else statement.test
        if isinstance(statement, ast.If):
            entry = self._suite(statement.body, end, jumps)
        else:
            entry = self._suite(statement.body, begin, replace(jumps, again=begin, out=end))
        answer = None if test is None else self.decided(test)
        return [entry, other] if answer is None else [entry if answer else other]

    def _try(self, statement: ast.Try, end: int, jumps: _Jumps) -> int:
        """The point where a `try` begins; a `finally` is met on the way that leaves nothing."""
        final = self._suite(statement.finalbody, end, jumps)
        then = self._suite(statement.orelse, final, jumps)
        caught = [self._suite(h.body, final, jumps) for h in reversed(statement.handlers)]
        first = len(self.following)
        raised = tuple(caught) or jumps.raised
        entry = self._suite(statement.body, then, replace(jumps, raised=raised))
        for point in range(first, len(self.following)):
            self.failing[point] += caught
        return entry


_TRY: tuple[type[ast.Try], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))
_COMPOUND = (ast.If, ast.Match, ast.With, ast.AsyncWith, *_TRY, *LOOPS)


def ends_the_run(statement: ast.stmt) -> bool:
    """`sys.exit(1)` as a statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and dotted(call.func) in _EXITS


_EXITS = ("sys.exit", "exit", "quit", "os._exit")


def _constant(test: ast.expr) -> bool | None:
    return bool(test.value) if isinstance(test, ast.Constant) else None


def _takes_all(case: ast.match_case) -> bool:
    """`case _:` or `case name:`."""
    pattern = case.pattern
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None and case.guard is None


def flow_of(node: LoopNode | FunctionNode | ast.Module) -> Flow:
    """The graph of a loop's or function's body, made once."""
    found: Flow | None = node.__dict__.get("_flow")
    if found is None:
        returned = END if isinstance(node, FUNCTIONS) else LEFT
        found = node.__dict__["_flow"] = Flow(node.body, returned=returned)
    return found
