"""What runs of the program's classes that no call names: by syntax, by a module's call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.names import is_property
from instrumentor.locate.program import Function, Program
from instrumentor.locate.syntax import ScopeNode, Source, own_nodes
from instrumentor.locate.values import Class, Object

WALKS = ("__iter__", "__next__")
_RUN_BY: dict[type[ast.AST], tuple[str, ...]] = {
    ast.withitem: ("__enter__", "__exit__"),
    ast.Subscript: ("__getitem__", "__setitem__"),
}


def methods_run_by(
    program: Program,
    source: Source,
    scope: ScopeNode,
    node: ast.AST,
    owner: ast.expr,
    words: tuple[str, ...] = (),
) -> Iterator[Function]:
    """Methods that `with`, `[]` or an attribute that is a property runs on an object.

    Args:
        words: the methods, where the kind of the node does not tell.
    """
    attribute = node.attr if isinstance(node, ast.Attribute) and not words else ""
    for value in program.names.of(source, scope, owner):
        if not (isinstance(value, Object) and isinstance(value.made_by, Class)):
            continue
        for word in words or _RUN_BY.get(type(node), (attribute,)):
            for method in program.methods(value.made_by, word, overrides=value.node is None):
                if not attribute or is_property(method.node):
                    yield method


def counted(
    program: Program, source: Source, scope: ScopeNode, module: ast.expr, seen: set[ast.AST]
) -> Iterator[str]:
    """Attributes that modules of the program add to with each forward, whatever it computes."""
    for value in program.names.of(source, scope, module):
        if not (isinstance(value, Object) and isinstance(value.made_by, Class)):
            continue
        for forward in program.methods(value.made_by, "forward", overrides=False):
            if forward.node in seen:
                continue
            seen.add(forward.node)
            for node in own_nodes(forward.node):
                if isinstance(node, ast.Call):
                    yield from counted(program, forward.source, forward.node, node.func, seen)
                elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
                    if not _in_training(forward.source, node):
                        yield node.target.attr


def _in_training(source: Source, statement: ast.stmt) -> bool:
    """Below `if self.training:`, which an evaluation does not come to."""
    return any(
        isinstance(parent, ast.If) and ast.unparse(parent.test).endswith(".training")
        for parent in source.parents(statement)
    )
