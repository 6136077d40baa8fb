"""Values that a call passes without arguments: attributes of the object, names of the module.

`self.out = self.net(x)` and then `self.compute_loss()` hand the output over through the object;
a plain function that reads a global does the same through the module.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from instrumentor.locate.dataflow import binds, effects, reads, self_attributes, self_stores
from instrumentor.locate.program import Function, Program
from instrumentor.locate.syntax import (
    FunctionNode,
    ScopeNode,
    Source,
    own_calls,
    own_nodes,
    parameters,
    receiver,
)

_DEPTH = 6


@dataclass
class _Footprint:
    """Names of outside that a function and what it calls read and rebind, as it spells them."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)


@dataclass(eq=False)
class State:
    """What the calls of a statement read and write beside their arguments and results."""

    program: Program

    def read(self, source: Source, scope: ScopeNode, node: ast.AST) -> set[str]:
        """Names of the caller's scope that the functions called below a node read."""
        return self._seen(source, scope, node, 0).reads

    def written(self, source: Source, scope: ScopeNode, node: ast.AST) -> set[str]:
        """Names of the caller's scope that the functions called below a node rebind."""
        return self._seen(source, scope, node, 0).writes

    def _seen(self, source: Source, scope: ScopeNode, node: ast.AST, depth: int) -> _Footprint:
        found = _Footprint()
        for call in own_calls(node):
            for function in self.program.resolve(source, scope, call):
                inner = self._footprint(function, depth + 1)
                found.reads |= as_caller(inner.reads, source, call, function)
                found.writes |= as_caller(inner.writes, source, call, function)
        return found

    def _footprint(self, function: Function, depth: int) -> _Footprint:
        cached = self._footprints.get(function.node)
        if cached is not None:
            return cached
        found = self._footprints[function.node] = _Footprint()
        if depth > _DEPTH:
            return found
        node = function.node
        shared = {
            name
            for child in own_nodes(node)
            if isinstance(child, (ast.Global, ast.Nonlocal))
            for name in child.names
        }
        local = parameters(node) | (binds(node) - shared)
        found.reads |= (reads(node) - local) | self_attributes(node)
        for statement in node.body:
            found.writes |= self_stores(statement) | (effects(statement) & shared)
            inner = self._seen(function.source, node, statement, depth)
            found.reads |= inner.reads - local
            found.writes |= inner.writes - local
        return found

    @cached_property
    def _footprints(self) -> dict[FunctionNode, _Footprint]:
        return {}


def as_caller(names: set[str], source: Source, call: ast.Call, function: Function) -> set[str]:
    """Names of a function's outside as its caller spells them; those it cannot see left out."""
    found: set[str] = set()
    attributes = {n for n in names if n.startswith("self.")}
    if "self" not in parameters(function.node):
        found |= attributes if function.source is source else set()
    elif attributes and function.node.name != "__init__":
        owner = receiver(call)
        if owner in ("self", "cls", "super()"):
            found |= attributes
        elif owner.startswith("self."):
            found.add(".".join(owner.split(".")[:2]).split("(")[0].split("[")[0])
        elif owner:
            found.add(owner.split(".")[0].split("(")[0].split("[")[0])
    if function.source is source:
        found |= names - attributes
    return found - {"self", "cls", ""}


def outside(function: Function, names: set[str]) -> set[str]:
    """Of names needed at a function's start, those that are neither its own nor its parameters."""
    return names - parameters(function.node) - binds(function.node)
