"""Which reads of a name see the value that one statement gives it.

A backward analysis over the statements of one scope, for one name: what is live behind a
statement are the reads that some path reaches before the name is bound again. Exceptions count:
whatever a `try` guards may go on in its handlers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct, field

from instrumentor.locate.program import Program
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    LoopNode,
    ScopeNode,
    Source,
    callee,
    contains,
    parameters,
)

Reads = frozenset[ast.Name]
_NOTHING: Reads = frozenset()


def reads_of(
    program: Program,
    scope: ScopeNode,
    name: str,
    definitions: Collection[ast.stmt],
    removed: Collection[ast.stmt],
) -> Reads:
    """Reads of `name` that may see what one of `definitions` binds to it.

    Args:
        scope: the function or module that the definitions stand in.
        definitions: statements of the scope.
        removed: statements that are taken out: what they read and bind does not count.
    """
    source = program.source_of_scope[scope]
    here: dict[ast.stmt, set[ast.Name]] = {}
    anytime: set[ast.Name] = set()  # closures and lambdas, which may run whenever they like
    for statement, read in _reads_in(program, source, scope, name):
        if source.scope_of(statement) is scope and not _is_delayed(source, statement, read):
            here.setdefault(statement, set()).add(read)
        else:
            anytime.add(read)
    reads = {statement: frozenset(found) for statement, found in here.items()}
    analysis = _Liveness(name, frozenset(definitions), frozenset(removed), reads)
    analysis.suite(scope.body, _NOTHING)
    return analysis.found | anytime


def variables(program: Program, source: Source, scope: ScopeNode, name: str) -> list[ast.Name]:
    """Where a scope's variable is named, in it and in the functions inside of it."""
    return [
        node
        for node in source.mentions.get(name, ())
        if isinstance(node, ast.Name)
        and (program.names.binder(source, program.scope_of(source, node), name) or source.tree)
        is scope
        and not any(name in parameters(f) and contains(f.body, node) for f in source.lambdas)
    ]


def _reads_in(
    program: Program, source: Source, scope: ScopeNode, name: str
) -> list[tuple[ast.stmt, ast.Name]]:
    """Reads with the statement of each; `del` needs the name bound as well, and so does `+=`."""
    found = []
    for node in variables(program, source, scope, name):
        statement = source.statement_of(node)
        grows = isinstance(statement, ast.AugAssign) and statement.target is node
        if statement is not None and (grows or not isinstance(node.ctx, ast.Store)):
            found.append((statement, node))
    return found


def _is_delayed(source: Source, statement: ast.stmt, node: ast.Name) -> bool:
    """Below a lambda, or in the body of a class, which the analysis does not go through."""
    return any(contains(f, node) for f in source.lambdas) or any(
        isinstance(parent, ast.ClassDef) for parent in source.ancestors(statement)
    )


class _Liveness(Struct):
    name: str
    definitions: frozenset[ast.stmt]
    removed: frozenset[ast.stmt]
    #: Of each statement's own header, what stands in its suites left out.
    reads: Mapping[ast.stmt, Reads]
    found: Reads = _NOTHING
    breaks: Reads = _NOTHING
    continues: Reads = _NOTHING
    handlers: Reads = _NOTHING
    _heads: dict[ast.stmt, Reads] = field(default_factory=dict)

    def suite(self, statements: list[ast.stmt], behind: Reads) -> Reads:
        """What is live ahead of the statements, given what is live behind them."""
        for statement in reversed(statements):
            behind |= self.handlers
            if statement in self.definitions:
                self.found |= behind
            if statement not in self.removed:
                flow = _FLOWS.get(type(statement), _Liveness._simple)
                behind = flow(self, statement, behind) | self.reads.get(statement, _NOTHING)
        return behind | self.handlers

    def _if(self, statement: ast.If, behind: Reads) -> Reads:
        return self.suite(statement.body, behind) | self.suite(statement.orelse, behind)

    def _with(self, statement: ast.With | ast.AsyncWith, behind: Reads) -> Reads:
        outer = self.handlers
        if any(_suppresses(i.context_expr) for i in statement.items):
            self.handlers = outer | behind
        inside = self.suite(statement.body, behind)
        self.handlers = outer
        bound = any(
            i.optional_vars and _target(i.optional_vars, self.name) for i in statement.items
        )
        return _NOTHING if bound else inside

    def _match(self, statement: ast.Match, behind: Reads) -> Reads:
        return behind.union(*(self.suite(case.body, behind) for case in statement.cases))

    def _jump(self, statement: ast.stmt, behind: Reads) -> Reads:
        if isinstance(statement, ast.Break):
            return self.breaks
        return self.continues if isinstance(statement, ast.Continue) else self.handlers

    def _simple(self, statement: ast.stmt, behind: Reads) -> Reads:
        return _NOTHING if _binds(statement, self.name) else behind

    def _loop(self, loop: LoopNode, behind: Reads) -> Reads:
        """What is live at the head of a loop, until another turn adds nothing."""
        bound = not isinstance(loop, ast.While) and _target(loop.target, self.name)
        test = self.reads.get(loop, _NOTHING) if isinstance(loop, ast.While) else _NOTHING
        outer = self.breaks, self.continues
        ends = self.suite(loop.orelse, behind)
        head = self._heads.get(loop, _NOTHING)
        while True:
            self.breaks, self.continues = behind, head
            inside = self.suite(loop.body, head)
            grown = head | ends | test | (_NOTHING if bound else inside)
            if grown == head:
                break
            head = grown
        self._heads[loop] = head
        self.breaks, self.continues = outer
        return head

    def _try(self, statement: ast.Try, behind: Reads) -> Reads:
        outer = self.handlers
        final = self.suite(statement.finalbody, behind)
        handled = _NOTHING
        for handler in statement.handlers:
            handled |= self.suite(handler.body, final)
        ended = self.suite(statement.orelse, final)
        # an exception that no handler takes still runs `finally`
        self.handlers = outer | handled | (final if statement.finalbody else _NOTHING)
        inside = self.suite(statement.body, ended)
        self.handlers = outer
        return inside


_FLOWS: dict[type[ast.stmt], Callable[..., Reads]] = {
    ast.If: _Liveness._if,
    **dict.fromkeys(LOOPS, _Liveness._loop),
    **dict.fromkeys((ast.With, ast.AsyncWith), _Liveness._with),
    **dict.fromkeys((ast.Break, ast.Continue, ast.Return, ast.Raise), _Liveness._jump),
    ast.Try: _Liveness._try,
    ast.Match: _Liveness._match,
}
if sys.version_info >= (3, 11):
    _FLOWS[ast.TryStar] = _Liveness._try


def _suppresses(node: ast.expr) -> bool:
    """`contextlib.suppress`: what stands behind the block may run without what is in it."""
    return isinstance(node, ast.Call) and callee(node) == "suppress"


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a simple statement certainly binds a name anew: not in a branch of an expression."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return name in {a.asname or a.name.split(".")[0] for a in statement.names}
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return statement.name == name
    if isinstance(statement, (ast.Assign, ast.Delete)):
        return any(_target(target, name) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return False
    return isinstance(statement, (ast.AugAssign, ast.AnnAssign)) and _target(statement.target, name)


def _target(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_target(part, name) for part in node.elts)
    return isinstance(node, ast.Starred) and _target(node.value, name)
