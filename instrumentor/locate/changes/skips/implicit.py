"""What runs of the program's classes that no call names: by syntax, by a library, by a module."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cached_property

from msgspec import Struct, field

from instrumentor.locate.changes.skips.objects import CONTAINERS
from instrumentor.read.handed_on import words
from instrumentor.read.program import Function, Program
from instrumentor.read.signatures import is_property
from instrumentor.read.syntax import (
    FunctionNode,
    ScopeNode,
    Source,
    arguments,
    contains,
    own_calls,
    path_to,
)
from instrumentor.read.values import Class, External, Group, Item, Member, Object, Value, Values

#: Special methods that run where an object is made, not where it is used.
_MAKING = ("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__")
#: Functions that are followed into from one call of a module.
_MOST = 200
#: By which a module gets at what it holds, or puts it there, other than by an attribute.
_OF_CONTAINERS = words(
    "_modules modules named_modules children named_children add_module register_module"
)
#: Functions that look an attribute up by its name, and that make such a function.
_LOOK_UP = ("builtins.getattr", "builtins.hasattr")
_LOOK_UP_LATER = ("operator.attrgetter", "operator.methodcaller")
_ATTRIBUTES: dict[type[ast.expr_context], tuple[str, ...]] = {
    ast.Load: ("__getattr__", "__getattribute__"),
    ast.Store: ("__getattr__", "__getattribute__", "__setattr__"),
    ast.Del: ("__getattribute__", "__delattr__"),
}
#: What runs where a property is set (`x.n += 1` reads it first) or deleted.
_SETS: dict[type[ast.expr_context], str] = {ast.Store: "setter", ast.Del: "deleter"}


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


def changed_operands(node: ast.AST) -> Iterator[ast.expr]:
    """What a node may change by special methods of a library."""
    match node:
        case ast.AugAssign(target=one):
            yield one
        case ast.withitem(context_expr=ast.Name() | ast.Attribute() as one):
            yield one


class Implicit(Struct, eq=False, dict=True):
    """Methods of a program's classes that run without a call of theirs."""

    program: Program
    _called: dict[ast.expr, list[Function]] = field(default_factory=dict)

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
        deciding = _ATTRIBUTES[type(node.ctx)]
        for method in self._of(source, scope, node.value, (node.attr, *deciding)):
            if method.name != node.attr or _is_accessor(method.node, node.ctx):
                yield method

    def looked_up(self, source: Source, scope: ScopeNode, call: ast.Call) -> Iterator[Function]:
        """What runs where a call looks an attribute up by its name, now or when it is called.

        `getattr(x, "total")`, `attrgetter("total")`, `methodcaller("add", 1)`.
        """
        made = [(source, scope, call)]
        for node in (call.func, *arguments(call)):
            for value in self.program.names.of(source, scope, node):
                if isinstance(value, Object) and value.node is not None and value.where is not None:
                    made.append((*value.where, value.node))
        for where, inside, each in made:
            name = self.program.names.qualified(where, inside, each.func)
            if name in _LOOK_UP and len(each.args) > 1:
                words = self._words(each.args[1:2])
                for method in self._of(where, inside, each.args[0], words):
                    if is_property(method.node):
                        yield method
            elif name in _LOOK_UP_LATER:
                called = name == "operator.methodcaller"
                for word in self._words(each.args[:1] if called else each.args):
                    for method in self.program.methods_by_name.get(word, ()):
                        if called or is_property(method.node):
                            yield method

    def _words(self, texts: list[ast.expr]) -> list[str]:
        """Names of methods that texts spell: any where one is not written out."""
        found: list[str] = []
        for text in texts:
            if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
                return [*self.program.methods_by_name]
            found += text.value.split(".")
        return found

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

    def applied(self, value: Value) -> list[Function]:
        """The forward of an own `torch.autograd.Function` whose `apply` it is."""
        if not (isinstance(value, Member) and value.name == "apply"):
            return []
        cls, names = value.owner, self.program.names
        if not isinstance(cls, Class) or not any(
            name.endswith((".autograd.Function", ".autograd.function.Function"))
            for name in names.external_bases(cls)
        ):
            return []
        return self.program.methods(cls, "forward", overrides=False)

    def run_by(self, source: Source, scope: ScopeNode, module: ast.expr) -> list[Function]:
        """Functions of the program that calling a module of the program runs, none twice."""
        found: dict[Function, None] = {}
        waiting = self.called(source, scope, module)
        while waiting and len(found) < _MOST:
            function = waiting.pop()
            if function in found:
                continue
            found[function] = None
            waiting = waiting + [
                inner
                for call in own_calls(function.node)
                if not in_training(function.source, call)
                for inner in self.called(function.source, function.node, call.func)
            ]
        return list(found)

    def called(self, source: Source, scope: ScopeNode, called: ast.expr) -> list[Function]:
        """Functions and forwards that a call runs, those in a library's container included."""
        known = self._called.get(called)
        if known is None:
            values = self.program.names.of(source, scope, called)
            known = self._called[called] = list(dict.fromkeys(self._forwards(values)))
        return [*known]

    def _forwards(self, values: Values) -> Iterator[Function]:
        waiting, seen = list(values), set[Value]()
        while waiting and len(seen) < _MOST:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            match value:
                case Function():
                    yield value
                case Object(made_by=Class() as cls):
                    yield from self.program.methods(cls, "forward", overrides=False)
                    waiting += self._put_by_name
                    if self._holds_layers(cls):  # which no name of it tells
                        waiting += [*self._made_in(cls), *self._given(value)]
                        waiting += self._put.get(value, ())
                case Group(items=items):
                    waiting += [v for each in (*items, self._put.get(value, ())) for v in each]
                case Item(owner=owner):
                    waiting.append(owner)
                case Object(made_by=External()):
                    waiting += [*self._given(value), *self._put.get(value, ())]
                    waiting += self._put_by_name

    def _given(self, value: Object) -> Iterator[Value]:
        """What may hold modules of what an object was made with."""
        if isinstance(value.node, ast.Call) and value.where:
            for argument in arguments(value.node):
                for given in self.program.names.of(*value.where, argument):
                    if isinstance(given, (Object, Group, Item)):
                        yield given

    def _holds_layers(self, cls: Class) -> bool:
        """Whether its objects run modules that they hold as a container does."""
        names = self.program.names
        return any(base in CONTAINERS for base in names.external_bases(cls)) or any(
            contains(own.node, node)
            for own in names.bases(cls)
            for word in _OF_CONTAINERS
            for node in own.source.mentions.get(word, ())
        )

    def _made_in(self, cls: Class) -> Iterator[Value]:
        """The modules that methods of a class make."""
        for own in self.program.names.bases(cls):
            for call in own.source.calls:
                if contains(own.node, call):
                    scope = own.source.scope_of(call)
                    made = self.program.names.of(own.source, scope, call)
                    yield from (value for value in made if _is_module(value))

    @cached_property
    def _put_by_name(self) -> list[Value]:
        """Modules that take the place of parts of whatever module, of any name.

        `module._modules[name] = Quantized(old)`, `setattr(module, name, Quantized(old))`.
        """
        names = self.program.names
        put = [
            (source, p.scope, p.bound.value)
            for source, p in names.puts_of("")
            if isinstance(p.owner, ast.Attribute) and p.owner.attr == "_modules"
        ]
        put += [
            (source, scope, call.args[2])
            for source, scope, call in self.program.calls_named("setattr")
            if len(call.args) == 3 and not isinstance(call.args[1], ast.Constant)
        ]
        return [v for where in put for v in _objects(names.of(*where)) if _is_module(v)]

    @cached_property
    def _put(self) -> dict[Value, list[Value]]:
        """What is appended to containers, stored in them, or added to lists."""
        found: dict[Value, list[Value]] = {}
        names = self.program.names
        filled = [(source, p.scope, p.owner, p.bound.value) for source, p in names.puts_of("")]
        filled += [
            (source, source.scope_of(s), s.target, s.value)
            for source in self.program.sources.values()
            for s in source.places
            if isinstance(s, ast.AugAssign) and isinstance(s.value, (ast.List, ast.ListComp))
        ]
        for source, scope, owner, value in filled:
            made = [v for v in _objects(names.of(source, scope, value)) if _is_module(v)]
            for each in names.of(source, scope, owner) if made else ():
                found.setdefault(each, []).extend(made)
        return found


def _is_module(value: Value) -> bool:
    return isinstance(value, Object) and isinstance(value.made_by, (Class, External))


def _objects(values: Values) -> Iterator[Object]:
    """Objects, those that a list or a dict holds included."""
    for value in values:
        if isinstance(value, Object):
            yield value
        elif isinstance(value, Group):
            for items in value.items:
                yield from _objects(items)


def _is_accessor(function: FunctionNode, context: ast.expr_context) -> bool:
    """What reads a property, what sets it, or what deletes it."""
    word = _SETS.get(type(context), "")
    return (word != "deleter" and is_property(function)) or any(
        isinstance(d, ast.Attribute) and d.attr == word for d in function.decorator_list
    )


def in_training(source: Source, node: ast.AST) -> bool:
    """Below `if self.training:`, or behind a return of evaluations, which do not come to it."""
    statement = node if isinstance(node, ast.stmt) else source.statement_of(node)
    if statement is None:
        return False
    for parent in source.parents(statement):
        if isinstance(parent, ast.If) and _asks_for_training(parent.test):
            if any(contains(s, statement) for s in parent.body):
                return True
    scope = source.scope_of(statement)
    return any(
        isinstance(before, ast.If) and _asks_for_evaluation(before)
        for suite, index in path_to(source, scope, statement)
        for before in suite[:index]
    )


def _asks_for_training(test: ast.expr) -> bool:
    """`self.training`, alone or with more."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_asks_for_training, test.values))
    return isinstance(test, ast.Attribute) and test.attr == "training"


def _asks_for_evaluation(statement: ast.If) -> bool:
    """`if not self.training: return x`"""
    match statement.test:
        case ast.UnaryOp(op=ast.Not(), operand=test):
            return _asks_for_training(test) and isinstance(statement.body[-1], ast.Return)
    return False
