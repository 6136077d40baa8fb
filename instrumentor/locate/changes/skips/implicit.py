"""What runs of the program's classes that no call names: by syntax, by a library, by a module."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cached_property

from msgspec import Struct

from instrumentor.read.program import Function, Program
from instrumentor.read.signatures import is_property
from instrumentor.read.syntax import FunctionNode, ScopeNode, Source, contains, own_calls, own_nodes
from instrumentor.read.values import Class, Group, Object, Values

#: Special methods that run where an object is made, not where it is used.
_MAKING = ("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__")
#: Functions that are followed into from one call of a module.
_MOST = 200
_ATTRIBUTES = ("__getattr__", "__getattribute__", "__setattr__", "__delattr__")


def operands(node: ast.AST) -> Iterator[ast.expr]:
    """What a node does something with by special methods: which ones is not told apart."""
    match node:
        case ast.BinOp(left=one, right=other) | ast.AugAssign(target=one, value=other):
            yield from (one, other)
        case ast.Compare(left=one, comparators=others):
            yield from (one, *others)
        case ast.BoolOp(values=tests) | ast.comprehension(ifs=tests):
            yield from tests
        case ast.UnaryOp(operand=one) | ast.FormattedValue(value=one) | ast.Subscript(value=one):
            yield one
        case ast.If(test=one) | ast.While(test=one) | ast.IfExp(test=one) | ast.Assert(test=one):
            yield one
        case ast.match_case(guard=ast.expr() as one) | ast.withitem(context_expr=one):
            yield one


class Implicit(Struct, eq=False, dict=True):
    """Methods of a program's classes that run without a call of theirs."""

    program: Program

    @cached_property
    def _special(self) -> list[str]:
        named = self.program.methods_by_name
        return [w for w in named if w.startswith("__") and w not in _MAKING]

    def special(self, source: Source, scope: ScopeNode, owner: ast.expr) -> Iterator[Function]:
        """Special methods of an object: syntax runs them, and a library which is given it."""
        return self._of(source, scope, owner, self._special)

    def accessors(
        self, source: Source, scope: ScopeNode, node: ast.Attribute
    ) -> Iterator[Function]:
        """What runs where an attribute is read, set or deleted."""
        for method in self._of(source, scope, node.value, (node.attr, *_ATTRIBUTES)):
            if method.name != node.attr or _is_accessor(method.node):
                yield method

    def _of(
        self, source: Source, scope: ScopeNode, owner: ast.expr, words: Collection[str]
    ) -> Iterator[Function]:
        """What an object's class, its bases or, of any instance, subclasses define."""
        wanted = [w for w in words if w in self.program.methods_by_name]
        for value in _objects(self.program.names.of(source, scope, owner) if wanted else ()):
            if not isinstance(value.made_by, Class):
                continue
            family = {c.node for c in self.program.bases(value.made_by)}
            if value.node is None:
                family |= {c.node for c in self.program.subclasses.get(value.made_by.node, ())}
            for word in wanted:
                for method in self.program.methods_by_name[word]:
                    if method.source.class_of[method.node] in family:
                        yield method

    def counted(self, source: Source, scope: ScopeNode, module: ast.expr) -> Iterator[str]:
        """Attributes that modules of the program add to with each forward, whatever it computes."""
        for run in self.run_by(source, scope, module):
            for node in own_nodes(run.node):
                if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
                    if not in_training(run.source, node):
                        yield node.target.attr

    def run_by(self, source: Source, scope: ScopeNode, module: ast.expr) -> list[Function]:
        """Functions of the program that calling a module of the program runs, none twice."""
        found: dict[Function, None] = {}
        waiting = [(source, scope, module)]
        while waiting:
            where = waiting.pop()
            for function in self._called(*where) if len(found) < _MOST else ():
                if function not in found:
                    found[function] = None
                    waiting += [
                        (function.source, function.node, call.func)
                        for call in own_calls(function.node)
                        if not in_training(function.source, call)
                    ]
        return list(found)

    def _called(self, source: Source, scope: ScopeNode, called: ast.expr) -> Iterator[Function]:
        for value in self.program.names.of(source, scope, called):
            if isinstance(value, Function):
                yield value
            elif isinstance(value, Object) and isinstance(value.made_by, Class):
                yield from self.program.methods(value.made_by, "forward", overrides=False)


def _objects(values: Values) -> Iterator[Object]:
    """Objects, those that a list or a dict holds included."""
    for value in values:
        if isinstance(value, Object):
            yield value
        elif isinstance(value, Group):
            for items in value.items:
                yield from _objects(items)


def _is_accessor(function: FunctionNode) -> bool:
    return is_property(function) or any(
        isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter")
        for d in function.decorator_list
    )


def in_training(source: Source, node: ast.AST) -> bool:
    """Below `if self.training:`, which an evaluation does not come to."""
    statement = node if isinstance(node, ast.stmt) else source.statement_of(node)
    return statement is not None and any(
        isinstance(parent, ast.If)
        and isinstance(parent.test, ast.Attribute)
        and parent.test.attr == "training"
        and any(contains(s, statement) for s in parent.body)
        for parent in source.parents(statement)
    )
