"""Which reads of a name see the value that one statement gives it.

A backward analysis over the statements of one scope, for one name: what is live behind a
statement are the reads that some path reaches before the name is bound again. Exceptions count:
whatever a `try` guards may go on in its handlers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable

from msgspec import Struct, field

from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    LoopNode,
    ScopeNode,
    below,
    callee,
    own_nodes,
    parameters,
)

Reads = frozenset[ast.Name]
_NOTHING: Reads = frozenset()


def reads_of(
    scope: ScopeNode, name: str, definitions: Collection[ast.stmt], removed: Collection[ast.stmt]
) -> Reads:
    """Reads of `name` that may see what one of `definitions` binds to it.

    Args:
        scope: the function or module that the definitions stand in.
        definitions: statements of the scope.
        removed: statements that are taken out: what they read and bind does not count.
    """
    analysis = _Liveness(name, frozenset(definitions), frozenset(removed))
    analysis.suite(scope.body, _NOTHING)
    return analysis.found | _read_by_closures(scope, name, removed)


def _read_by_closures(scope: ScopeNode, name: str, removed: Collection[ast.stmt]) -> Reads:
    """Reads in nested functions that have no such name of their own: they may run at any time."""
    found: set[ast.Name] = set()
    for statement in own_nodes(scope):
        if isinstance(statement, (*FUNCTIONS, ast.Lambda)) and statement not in removed:
            if name not in parameters(statement) and not _binds_here(statement, name):
                found.update(loads(statement, name))
    return frozenset(found)


def loads(node: ast.AST, name: str) -> Iterable[ast.Name]:
    """Reads of a name below a node, nested scopes included; `del` needs it bound as well."""
    for child in below(node):
        if isinstance(child, ast.Name) and child.id == name:
            if not isinstance(child.ctx, ast.Store):
                yield child
        elif isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name):
            if child.target.id == name:
                yield child.target


def _binds_here(scope: ast.AST, name: str) -> bool:
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        for n in own_nodes(scope)
    ) and not any(isinstance(n, ast.Nonlocal) and name in n.names for n in own_nodes(scope))


class _Liveness(Struct):
    name: str
    definitions: frozenset[ast.stmt]
    removed: frozenset[ast.stmt]
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
                behind = self._statement(statement, behind)
        return behind | self.handlers

    def _statement(self, statement: ast.stmt, behind: Reads) -> Reads:
        if isinstance(statement, ast.If):
            inside = self.suite(statement.body, behind) | self.suite(statement.orelse, behind)
            return self._reads(statement.test) | inside
        if isinstance(statement, LOOPS):
            return self._loop(statement, behind)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            outer = self.handlers
            if any(_suppresses(i.context_expr) for i in statement.items):
                self.handlers = outer | behind
            inside = self.suite(statement.body, behind)
            self.handlers = outer
            targets = [i.optional_vars for i in statement.items if i.optional_vars is not None]
            if any(self._binds(t) for t in targets):
                inside = _NOTHING
            return self._reads(*(i.context_expr for i in statement.items), *targets) | inside
        if sys.version_info >= (3, 11) and isinstance(statement, ast.TryStar):
            parts = statement.body, statement.handlers, statement.orelse, statement.finalbody
            statement = ast.Try(*parts)
        if isinstance(statement, ast.Try):
            return self._try(statement, behind)
        if isinstance(statement, ast.Match):
            inside = behind
            for case in statement.cases:
                inside |= self.suite(case.body, behind)
            return self._reads(statement.subject) | inside
        return self._simple(statement, behind)

    def _simple(self, statement: ast.stmt, behind: Reads) -> Reads:
        if isinstance(statement, ast.Break):
            return self.breaks
        if isinstance(statement, ast.Continue):
            return self.continues
        if isinstance(statement, FUNCTIONS):  # what its body reads counts as a closure's
            outside = [*statement.decorator_list, *statement.args.defaults]
            return self._reads(*outside) | (_NOTHING if statement.name == self.name else behind)
        if isinstance(statement, (ast.Return, ast.Raise)):
            behind = self.handlers
        elif self._binds(statement):
            behind = _NOTHING
        return self._reads(statement) | behind

    def _loop(self, loop: LoopNode, behind: Reads) -> Reads:
        if isinstance(loop, ast.While):
            return self._turns(loop, self._reads(loop.test), None, behind)
        header = self._reads(loop.iter, loop.target)
        return self._turns(loop, _NOTHING, loop.target, behind) | header

    def _turns(self, loop: LoopNode, test: Reads, target: ast.expr | None, behind: Reads) -> Reads:
        """What is live at the head of a loop, until another turn adds nothing."""
        outer = self.breaks, self.continues
        ends = self.suite(loop.orelse, behind)
        head = self._heads.get(loop, _NOTHING)
        while True:
            self.breaks, self.continues = behind, head
            inside = self.suite(loop.body, head)
            if target is not None and self._binds(target):
                inside = _NOTHING
            grown = head | ends | inside | test
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

    def _reads(self, *nodes: ast.AST) -> Reads:
        return frozenset(read for node in nodes for read in loads(node, self.name))

    def _binds(self, node: ast.AST) -> bool:
        """Whether the name is certainly bound anew: not in a branch of an expression."""
        targets: list[ast.AST] = [node]
        if isinstance(node, ast.Assign):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target] if node.value is not None else []
        elif isinstance(node, ast.Delete):
            targets = list(node.targets)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            return self.name in {a.asname or a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ClassDef):
            return node.name == self.name
        elif isinstance(node, ast.stmt):
            return False
        return any(_target(t, self.name) for t in targets)


def _suppresses(node: ast.expr) -> bool:
    """`contextlib.suppress`: what stands behind the block may run without what is in it."""
    return isinstance(node, ast.Call) and callee(node) == "suppress"


def _target(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_target(part, name) for part in node.elts)
    return isinstance(node, ast.Starred) and _target(node.value, name)
