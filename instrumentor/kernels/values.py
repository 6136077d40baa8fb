"""Which kernels and functions an expression may mean: names, factories, containers, imports.

An answer is a set, because a name may be bound in several branches. Factories are followed
through what they return, and ``functools.partial`` through its first argument.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from instrumentor.kernels.model import Kernel
from instrumentor.locate.program import Program
from instrumentor.locate.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    dotted,
    own_nodes,
)

_DEPTH = 14


@dataclass(frozen=True)
class Plain:
    """A function that is no kernel."""

    source: Source
    node: FunctionNode

    def __hash__(self) -> int:
        return id(self.node)


Value: TypeAlias = Kernel | Plain
Values: TypeAlias = frozenset[Value]
NOTHING: Values = frozenset()


class Meanings:
    """Resolves expressions of a program's files."""

    def __init__(self, program: Program, kernels: Iterable[Kernel]) -> None:
        self.program = program
        self.kernel_of: dict[ast.stmt, Kernel] = {k.statement: k for k in kernels}
        self.bound: dict[ScopeNode, dict[str, list[ast.AST]]] = {}
        for source in program.sources.values():
            self._bind(source)

    def _bind(self, source: Source) -> None:
        """What each scope binds: expressions, definitions, imports; ``self.k`` at the module."""
        for statement, place in source.places.items():
            table = self.bound.setdefault(place.scope, defaultdict(list))
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                targets = (
                    statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                )
                value: ast.AST = statement if statement in self.kernel_of else statement.value
                for target in targets:
                    self._bind_target(source, table, target, value)
            elif isinstance(statement, FUNCTIONS) and statement not in source.class_of:
                table[statement.name].append(statement)
                self._bind_parameters(statement)
            elif isinstance(statement, FUNCTIONS):
                self._bind_parameters(statement)
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                for alias in statement.names:
                    table[alias.asname or alias.name.partition(".")[0]].append(statement)
            elif isinstance(statement, (ast.For, ast.AsyncFor)):
                self._bind_target(source, table, statement.target, statement.iter)

    def _bind_parameters(self, function: FunctionNode) -> None:
        """Parameters hide outer names; what they mean is not known."""
        given = function.args
        others = filter(None, (given.vararg, given.kwarg))
        table = self.bound.setdefault(function, defaultdict(list))
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, *others):
            table[argument.arg].append(argument)

    def _bind_target(
        self, source: Source, table: dict[str, list[ast.AST]], target: ast.expr, value: ast.AST
    ) -> None:
        if isinstance(target, ast.Name):
            table[target.id].append(value)
        elif isinstance(target, ast.Subscript):
            name = dotted(target.value)
            if name and "(" not in name and "." not in name:
                table[name].append(value)
        elif isinstance(target, ast.Attribute):
            whole = self.bound.setdefault(source.tree, defaultdict(list))
            whole[dotted(target)].append(value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else None
            for at, element in enumerate(target.elts):
                same = parts is not None and len(parts) == len(target.elts)
                part = parts[at] if parts is not None and same else value
                self._bind_target(source, table, element, part)

    def of(self, source: Source, scope: ScopeNode, node: ast.AST, depth: int = _DEPTH) -> Values:
        """What an expression may mean."""
        if depth <= 0:
            return NOTHING
        if isinstance(node, ast.Name):
            return self.named(source, scope, node.id, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(source, scope, node, depth)
        if isinstance(node, ast.Call):
            return self._result(source, scope, node, depth)
        if isinstance(node, (ast.Subscript, ast.Starred, ast.Await)):
            return self.of(source, scope, node.value, depth - 1)
        parts: list[ast.expr] = []
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            parts = node.elts
        elif isinstance(node, (ast.Dict, ast.BoolOp)):
            parts = node.values
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            parts = [node.elt]
        elif isinstance(node, (ast.NamedExpr, ast.DictComp)):
            parts = [node.value]
        return _union(self.of(source, scope, part, depth - 1) for part in parts)

    def named(self, source: Source, scope: ScopeNode, name: str, depth: int = _DEPTH) -> Values:
        """What a name may mean where it is read."""
        current: ScopeNode = scope
        while True:
            found = self.bound.get(current, {}).get(name)
            if found:
                values = (self._bound(source, current, name, one, depth - 1) for one in found)
                return _union(values)
            if not isinstance(current, FUNCTIONS):
                return NOTHING
            current = source.places[current].scope

    def _bound(
        self, source: Source, scope: ScopeNode, name: str, node: ast.AST, depth: int
    ) -> Values:
        if isinstance(node, ast.stmt) and node in self.kernel_of:
            return frozenset({self.kernel_of[node]})
        if isinstance(node, FUNCTIONS):
            return frozenset({Plain(source, node)})
        if isinstance(node, ast.ImportFrom):
            origin = self.program.find_module(node.module or "", source.path, node.level)
            target = self.program.sources.get(origin) if origin else None
            wanted = next((a.name for a in node.names if (a.asname or a.name) == name), "")
            if target is None or not wanted or depth <= 0:
                return NOTHING
            return self.named(target, target.tree, wanted, depth)
        if isinstance(node, ast.expr):
            return self.of(source, scope, node, depth)
        return NOTHING

    def _attribute(
        self, source: Source, scope: ScopeNode, node: ast.Attribute, depth: int
    ) -> Values:
        name = dotted(node)
        assigned = self.bound.get(source.tree, {}).get(name, [])
        found = _union(self._bound(source, scope, name, one, depth - 1) for one in assigned)
        if found:
            return found
        owner = name.rpartition(".")[0]
        module = self._module(source, owner) if owner else None
        if module is None:
            return NOTHING
        return self.named(module, module.tree, node.attr, depth - 1)

    def _module(self, source: Source, name: str) -> Source | None:
        target = self.program.lookup(source, name)
        if isinstance(target, Source):
            return target
        imports = self.bound.get(source.tree, {}).get(name.partition(".")[0], [])
        named = [a.name for one in imports if isinstance(one, ast.Import) for a in one.names]
        path = self.program.find_module(name, source.path) if name in named else None
        return self.program.sources.get(path) if path else None

    def _result(self, source: Source, scope: ScopeNode, call: ast.Call, depth: int) -> Values:
        if dotted(call.func).rpartition(".")[2] == "partial" and call.args:
            return self.of(source, scope, call.args[0], depth - 1)
        results = []
        for value in self.of(source, scope, call.func, depth - 1):
            if isinstance(value, Plain):
                results.append(self._returned(value, depth - 1))
        return _union(results)

    def _returned(self, function: Plain, depth: int) -> Values:
        values = [
            node.value
            for node in own_nodes(function.node)
            if isinstance(node, ast.Return) and node.value is not None
        ]
        return _union(self.of(function.source, function.node, value, depth) for value in values)


def _union(parts: Iterable[Values]) -> Values:
    return NOTHING.union(*parts)
