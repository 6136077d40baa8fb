"""Which of several loops a run comes to first, where control flow shows it.

A loop goes ahead of another one where every way of a run to the other one meets it: in one scope
by the paths through it, else by those through the callers. Loops around it count as run, whatever
they run over, and a variable counts as what it is when a test asks it for the first time. Where a
function may be called out of sight, nothing is shown; nor of a warm-up of few turns, which a run
would outlive.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from instrumentor.locate.loop.loops import Candidate
from instrumentor.read.callers import are_in_sight, is_called_as_written
from instrumentor.read.constants import decided, written_out
from instrumentor.read.control_flow import END, LEFT, NEXT, START, Flow, flow_of
from instrumentor.read.program import Function, Program
from instrumentor.read.script_options import ScriptOptions
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    bound_by,
    callee,
    contains,
    header,
    is_main_guard,
    own_calls,
    own_nodes,
)

#: Turns that one run may take: a loop of no more may not be all that trains.
_FEW = 200
#: So many ways through a scope are told apart by what its variables are.
_WAYS = 4096
#: What may leave out a part of a statement, or run it at another time.
_MAY_PASS = (
    *(ast.IfExp, ast.BoolOp, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_COUNTS = ("range", "trange", "islice")
_Place = tuple[Source, ScopeNode, ast.stmt]
_Known = tuple[tuple[str, object], ...]


def first_of(candidates: Sequence[Candidate], called_with: ScriptOptions) -> Candidate | None:
    """The loop that begins ahead of all the others on every way to them; None in doubt."""
    for one in candidates:
        if _is_short(one, called_with):
            continue
        ahead = _Ahead(one, called_with)
        if all(other is one or ahead.of(other) for other in candidates):
            return one
    return None


def _is_short(candidate: Candidate, called_with: ScriptOptions) -> bool:
    """Whether a loop is over `range(5)`, or `islice(loader, 5)`: a count that one run may reach."""
    source, loop = candidate.source, candidate.loop
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    for call in own_calls(loop.iter):
        if callee(call) in _COUNTS and call.args:
            end = call.args[1] if call.args[1:] else call.args[0]
            told = written_out(end)
            most = told.value if told else called_with.value(source, end)
            if isinstance(most, (int, float)) and most <= _FEW:
                return True
    return False


class _Ahead:
    """What a run meets a loop by, and whether it does so on the way to another one."""

    def __init__(self, first: Candidate, called_with: ScriptOptions) -> None:
        self.program, self.called_with = first.program, called_with
        top = self.program.entry.tree
        self.reached: dict[ScopeNode, None] = {top: None}
        self.reached |= self.program.called_from(top, top.body, called_with.never)
        self.meets: dict[ScopeNode, set[ast.stmt]] = defaultdict(set)
        self._fill(first.source, first.scope, first.loop)

    def of(self, other: Candidate) -> bool:
        """Whether every way to another loop meets this one."""
        waiting: list[_Place] = [(other.source, other.scope, other.loop)]
        seen = set[ast.stmt]()
        while waiting:
            source, scope, statement = waiting.pop()
            if statement in seen or not self._is_open(source, scope, statement):
                continue
            seen.add(statement)
            callers = self._callers(source, scope)
            if not callers:
                return False
            waiting += callers
        return True

    # -- what runs the loop ------------------------------------------------------------------

    def _fill(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> None:
        """Statements each of which surely runs the loop, in its scope and in the callers'."""
        waiting = [(source, scope, statement)]
        while waiting:
            source, scope, statement = waiting.pop()
            if statement in self.meets[scope]:
                continue
            self.meets[scope].update(_whole(source, statement))
            if isinstance(scope, ast.FunctionDef) and self._surely(Function(source, scope)):
                waiting += self._calls_of(scope)

    def _surely(self, function: Function) -> bool:
        """Whether every call of a function that ends as it should runs the loop."""
        node, flow = function.node, flow_of(function.node)
        yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(node))
        ahead = {flow.before(s) for s in self.meets[node]}
        return is_called_as_written(function) and not yields and not flow.path(START, END, ahead)

    def _calls_of(self, function: FunctionNode) -> Iterator[_Place]:
        """Statements that call it whatever happens in them."""
        for scope, call, statement in self.program.callers_of(function):
            source = self.program.source_of_scope[scope]
            called = [f.node for f in self.program.resolve(source, scope, call)]
            parts = header(statement)
            if called == [function] and not any(
                isinstance(part, _MAY_PASS) and contains(part, call) for part in parts
            ):
                yield source, scope, statement

    # -- ways to another loop ----------------------------------------------------------------

    def _is_open(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
        """Whether a way from the begin of a scope to a statement may not meet the loop."""
        flow = Flow(scope.body, lambda test: self.called_with.answer(source, test), returned=END)
        goal = flow.before(statement)
        if not flow.path(START, goal):
            return True  # only an exception, or nothing that is seen, leads to it
        met = {flow.before(s) for s in self.meets[scope] if not contains(s, statement)}
        flags = {*_flags(self.program, source, scope)}
        return any(point == goal for point in _points(flow, met, flags))

    def _callers(self, source: Source, scope: ScopeNode) -> list[_Place]:
        """Who calls a function in this run; none where that may not be all."""
        if not isinstance(scope, FUNCTIONS):
            return []
        if not are_in_sight(self.program, Function(source, scope)):
            return []
        return [
            (where, caller, statement)
            for caller, _, statement in self.program.callers_of(scope)
            if self._may_run(where := self.program.source_of_scope[caller], caller, statement)
        ]

    def _may_run(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
        """Whether a run may come to a call; an import runs what no `__main__` guard keeps."""
        if self.called_with.rule_out(source, statement):
            return False
        if isinstance(scope, FUNCTIONS) or source is self.program.entry:
            return scope in self.reached
        tests = (p.test for p in source.parents(statement) if isinstance(p, ast.If))
        return not any(map(is_main_guard, tests))


def _whole(source: Source, statement: ast.stmt) -> Iterator[ast.stmt]:
    """A statement, and the loops around it each of whose iterations runs it."""
    yield statement
    for loop in source.loops_around(statement):
        flow = flow_of(loop)
        if flow.path(START, (END, NEXT, LEFT), {flow.before(statement)}):
            return
        yield loop
        statement = loop


def _flags(program: Program, source: Source, scope: ScopeNode) -> Iterator[str]:
    """Variables of a scope that a test of it asks, and that nothing else may set."""
    shared = {
        name
        for node in source.nodes
        if isinstance(node, (ast.Global, ast.Nonlocal))
        for name in node.names
    }
    tests = [n.test for n in own_nodes(scope) if isinstance(n, (ast.If, ast.While))]
    named = {n.id for test in tests for n in ast.walk(test) if isinstance(n, ast.Name)}
    for name in named - shared:
        if isinstance(scope, FUNCTIONS) or not any(
            program.class_of_self(where, put.scope, put.owner) is None
            for where, put in program.puts_of(name)
        ):
            yield name


def _points(flow: Flow, avoiding: set[int], flags: set[str]) -> Iterator[int]:
    """Points of a flow that ways from its start come to, by what the flags are on each.

    An avoided point ends a way. Where there are too many ways, all points are met.
    """
    at = {point: statement for statement, point in flow.begins.items()}
    waiting: list[tuple[int, _Known]] = [(START, ())]
    seen = {*waiting}
    while waiting:
        point, known = waiting.pop()
        yield point
        if point in avoiding:
            continue
        ways = flow.following[point]
        if (statement := at.get(point)) is not None:
            ways = _ways(statement, ways, dict(known))
            known = _after(statement, known, flags)
        more = {(way, known) for way in ways} - seen
        if len(seen) > _WAYS:
            yield from range(len(flow.following))
            return
        seen |= more
        waiting += more


def _ways(statement: ast.stmt, ways: list[int], known: dict[str, object]) -> list[int]:
    """The ways behind a statement that what is known leaves."""
    if not isinstance(statement, (ast.If, ast.While)) or len(ways) < 2:
        return ways
    said = decided(statement.test, known)
    return ways if said is None else [ways[0 if said else 1]]


def _after(statement: ast.stmt, known: _Known, flags: set[str]) -> _Known:
    """What the flags are once a statement, or the head of one, has run."""
    bound = {name for node in header(statement) for name in bound_by(node)} & flags
    if not bound:
        return known
    left = [(name, value) for name, value in known if name not in bound]
    match statement:
        case ast.Assign(targets=targets, value=value) if all(
            isinstance(target, ast.Name) for target in targets
        ):
            constant = written_out(value)
            left += [(name, constant.value) for name in bound] if constant is not None else []
    return tuple(sorted(left, key=lambda each: each[0]))
