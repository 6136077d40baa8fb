"""What runs of the program's classes that no call names: by syntax, by a library, by a module."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cached_property

from msgspec import Struct

from instrumentor.locate.program import Function, Program
from instrumentor.locate.signatures import is_property
from instrumentor.locate.syntax import FunctionNode, ScopeNode, Source, own_nodes
from instrumentor.locate.values import Class, Group, Object, Values


def _methods(words: str) -> frozenset[str]:
    return frozenset(f"__{word}__" for word in words.split())


WALKS = _methods("iter next")
_ARITHMETIC = "add sub mul matmul truediv floordiv mod pow lshift rshift and or xor"
_OPERATORS = frozenset(f"__{side}{w}__" for side in ("", "r", "i") for w in _ARITHMETIC.split())
_UNARY = _methods("neg pos invert")
_COMPARED = _methods("lt le eq ne gt ge contains")
_TRUTH = _methods("bool len")
_SHOWN = _methods("format str repr")
_ITEMS = _methods("getitem setitem delitem")
_ATTRIBUTES = _methods("getattr getattribute setattr delattr")
_ENTERED = _methods("enter exit aenter aexit")
#: Run where an object is made, not where it is used.
_MAKING = _methods("init new post_init init_subclass class_getitem set_name")


def operands(node: ast.AST) -> Iterator[tuple[ast.expr, Collection[str]]]:
    """What a node does something with, and the methods that it may run."""
    match node:
        case ast.BinOp(left=one, right=other) | ast.AugAssign(target=one, value=other):
            yield from ((one, _OPERATORS), (other, _OPERATORS))
        case ast.UnaryOp(op=op, operand=one):
            yield one, _TRUTH if isinstance(op, ast.Not) else _UNARY
        case ast.Compare(left=one, comparators=others):
            yield from ((side, _COMPARED) for side in (one, *others))
        case ast.BoolOp(values=tests) | ast.comprehension(ifs=tests):
            yield from ((test, _TRUTH) for test in tests)
        case ast.If(test=one) | ast.While(test=one) | ast.IfExp(test=one) | ast.Assert(test=one):
            yield one, _TRUTH
        case ast.match_case(guard=ast.expr() as one):
            yield one, _TRUTH
        case ast.FormattedValue(value=one):
            yield one, _SHOWN
        case ast.Subscript(value=one):
            yield one, _ITEMS
        case ast.Attribute(value=one, attr=attribute):
            yield one, {attribute, *_ATTRIBUTES}
        case ast.withitem(context_expr=one):
            yield one, _ENTERED


class Implicit(Struct, eq=False, dict=True):
    """Methods of a program's classes that run without a call of theirs."""

    program: Program

    @cached_property
    def by_libraries(self) -> frozenset[str]:
        """Methods that a library may run of an object which it is given."""
        named = self.program.methods_by_name
        return frozenset(w for w in named if w.startswith("__") and w not in _MAKING)

    def methods(
        self, source: Source, scope: ScopeNode, owner: ast.expr, words: Collection[str]
    ) -> Iterator[Function]:
        """Those of the words that an object's class, its bases or, of any instance, subclasses
        define; a word of another form is an attribute, and runs what is decorated as its property.
        """
        wanted = [w for w in words if w in self.program.methods_by_name]
        for value in _objects(self.program.names.of(source, scope, owner) if wanted else ()):
            if not isinstance(value.made_by, Class):
                continue
            family = {c.node for c in self.program.bases(value.made_by)}
            if value.node is None:
                family |= {c.node for c in self.program.subclasses.get(value.made_by.node, ())}
            for word in wanted:
                for method in self.program.methods_by_name[word]:
                    runs = word.startswith("__") or _is_accessor(method.node)
                    if runs and method.source.class_of[method.node] in family:
                        yield method

    def counted(
        self, source: Source, scope: ScopeNode, module: ast.expr, seen: set[ast.AST]
    ) -> Iterator[str]:
        """Attributes that modules of the program add to with each forward, whatever it computes."""
        for value in self.program.names.of(source, scope, module):
            if not (isinstance(value, Object) and isinstance(value.made_by, Class)):
                continue
            for forward in self.program.methods(value.made_by, "forward", overrides=False):
                if forward.node in seen:
                    continue
                seen.add(forward.node)
                for node in own_nodes(forward.node):
                    if isinstance(node, ast.Call):
                        yield from self.counted(forward.source, forward.node, node.func, seen)
                    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
                        if not _in_training(forward.source, node):
                            yield node.target.attr


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


def _in_training(source: Source, statement: ast.stmt) -> bool:
    """Below `if self.training:`, which an evaluation does not come to."""
    return any(
        isinstance(parent, ast.If) and ast.unparse(parent.test).endswith(".training")
        for parent in source.parents(statement)
    )
