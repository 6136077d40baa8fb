"""What objects are: by their type, else by what the program does with them, else by their name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from instrumentor.locate.meaning import libraries, methods, spelling
from instrumentor.locate.meaning.roles import Evidence, Kind
from instrumentor.read.fixpoint import Answers
from instrumentor.read.names import external_name
from instrumentor.read.program import Program
from instrumentor.read.syntax import ScopeNode, Source, callee, dotted, last
from instrumentor.read.values import (
    Class,
    External,
    Free,
    Function,
    Group,
    Item,
    Member,
    Object,
    Opaque,
    Value,
    Values,
)

_PARAMETERS = ("parameters", "named_parameters")


class Kinds:
    """Kinds of the objects of a program; answers are kept."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._answers = Answers()

    def of(self, source: Source, scope: ScopeNode, node: ast.expr) -> tuple[Kind, Evidence] | None:
        """What an expression stands for, and how that is known; None when nothing tells."""
        values = self.program.of(source, scope, node)
        found = next(filter(None, map(self.of_value, values)), None)
        if found is not None or any(map(self._is_result, values)):
            return found
        unknown = [v for v in values if isinstance(v, (Object, Item, Member, Opaque, Free))]
        own = "" if isinstance(node, ast.Call) else last(dotted(node))
        for word in (own, *map(_origin, unknown)) if unknown else ():
            spelled = spelling.spelled_as(word.lower()) if word else None
            if spelled is not None:
                return (spelled, Evidence.SPELLING)
        return None

    def _is_result(self, value: Value) -> bool:
        """What a model has returned, a part of it, or what a method of that gives: none of these.

        It may go by the name of a model all the same: `encoder_output`.
        """
        while True:
            match value:
                case Item(owner=owner) | Member(owner=owner) | Object(made_by=Member(owner=owner)):
                    value = owner
                case Object(made_by=Object() as called):
                    return self.of_value(called) == (Kind.MODEL, Evidence.TYPE)
                case _:
                    return False

    def is_a(self, source: Source, scope: ScopeNode, node: ast.expr, *kinds: Kind) -> bool:
        found = self.of(source, scope, node)
        return found is not None and found[0] in kinds

    def of_value(self, value: Value) -> tuple[Kind, Evidence] | None:
        """What an object is, its spelling left out."""
        return self._answers.ask(value, lambda: self._of_value(value), None)

    def _of_value(self, value: Value) -> tuple[Kind, Evidence] | None:
        kind = self._typed(value)
        # what a model holds is a part of it, unless it is used as something else: `net.optim`
        if kind is not None and not isinstance(value, Member):
            return kind, Evidence.TYPE
        used = None if isinstance(value, (External, Class, Group)) else self._used(value)
        if used is not None:
            return used, Evidence.USE
        return None if kind is None else (kind, Evidence.TYPE)

    def _typed(self, value: Value) -> Kind | None:
        if isinstance(value, Item):
            return self._part(value)
        if isinstance(value, Member):
            owner = self.of_value(value.owner)
            inner = owner is not None and owner[0] is Kind.MODEL
            return Kind.MODEL if inner and value.name not in methods.NOT_FORWARD else None
        if not isinstance(value, Object):
            return None
        made = value.made_by
        if isinstance(made, Class):
            return self.of_class(made)
        name = external_name(made)
        return libraries.made_by(name) if name else None

    def _part(self, item: Item) -> Kind | None:
        """A part of what a call returned; what a loader yields is data."""
        made = item.owner.made_by if isinstance(item.owner, Object) else None
        parts = libraries.parts_of(external_name(made)) if made is not None else ()
        if item.index is not None and item.index < len(parts):
            return parts[item.index]
        owner = self.of_value(item.owner)
        return Kind.DATA if owner is not None and owner[0] is Kind.DATA else None

    def of_class(self, cls: Class) -> Kind | None:
        """What instances of a class of the program are."""
        # Once for each: modules that hold two of the next stand for any number of them.
        return self._answers.ask(("class", cls), lambda: self._of_class(cls), None)

    def _of_class(self, cls: Class) -> Kind | None:
        kind = libraries.derived_from(self.program.external_bases(cls))
        if kind is not Kind.MODEL or self._has_parameters(cls):
            return kind
        is_loss = spelling.spelled_as(cls.node.name.lower()) is Kind.LOSS
        tells = self._runs_unread_parts(cls), self._gives_parameters(cls)
        return kind if (all if is_loss else any)(tells) else Kind.LOSS

    def _gives_parameters(self, cls: Class) -> bool:
        """Whether anybody asks an object of the class for its parameters."""
        return any(
            isinstance(value, Object) and value.made_by == cls and not done.isdisjoint(_PARAMETERS)
            for value, done in self._uses.items()
        )

    def _runs_unread_parts(self, cls: Class) -> bool:
        """Whether it calls what some builder has given it: `self.body = build_body(config)`."""
        family = self.program.bases(cls)
        nodes = (node for each in family for node in ast.walk(each.node))
        called = {dotted(node.func) for node in nodes if isinstance(node, ast.Call)}
        return any(
            isinstance(value, Object)
            and not isinstance(value.made_by, (Class, External))
            and self.of_value(value) is None
            for source in dict.fromkeys(each.source for each in family)
            for put in self.program.bindings_of(source).puts
            if f"self.{put.name}" in called
            and isinstance(put.bound.value, ast.Call)
            and self.program.class_of_self(source, put.scope, put.owner) in family
            for value in self.program.of(source, put.scope, put.bound.value)
        )

    def _has_parameters(self, cls: Class) -> bool:
        """A module that makes no other module and no parameter computes a loss or a metric."""
        if "torch.nn.Module" not in self.program.external_bases(cls):
            return True  # the base brings its own
        made = (
            (base.source, node)
            for base in self.program.bases(cls)
            for node in ast.walk(base.node)
            if isinstance(node, ast.Call)
        )
        return any(self._makes_parameters(source, call, cls) for source, call in made) or any(
            self.of_value(value) in ((Kind.MODEL, Evidence.TYPE), (Kind.MODEL, Evidence.USE))
            for put in self.program.bindings_of(cls.source).puts
            if self.program.class_of_self(cls.source, put.scope, put.owner) == cls
            for value in self.program.of(cls.source, put.scope, put.bound.value)
        )

    def _makes_parameters(self, source: Source, call: ast.Call, cls: Class) -> bool:
        values = self.program.of(source, self.program.scope_of(source, call), call.func)
        return (bool(values) and callee(call) == "register_parameter") or any(
            external_name(value).startswith("torch.nn.Parameter")
            or (value != cls and self._typed(Object(value)) is Kind.MODEL)
            for value in values
        )

    # -- use -------------------------------------------------------------------------------

    def _used(self, value: Value) -> Kind | None:
        words = self._uses.get(value, frozenset[str]())
        made = value.node if isinstance(value, Object) else None
        if "step" in words and made is not None and isinstance(value, Object) and value.where:
            for argument in (*made.args, *(k.value for k in made.keywords)):
                if any(map(self._is_optimizer, self.program.of(*value.where, argument))):
                    return Kind.SCHEDULER
                if any(self.parameters_of(*value.where, argument)):
                    return Kind.OPTIMIZER
        return methods.used_as(words)

    def _is_optimizer(self, value: Value) -> bool:
        found = self.of_value(value)
        return found is not None and found[0] is Kind.OPTIMIZER

    @cached_property
    def _uses(self) -> dict[Value, set[str]]:
        """Attributes taken of each object, among those that tell; "()" when it is called."""
        found: dict[Value, set[str]] = defaultdict(set)
        for source in self.program.sources.values():
            for node in (n for word in methods.USED for n in source.mentions.get(word, ())):
                if isinstance(node, ast.Attribute):
                    for value in self._values(source, node.value):
                        found[value].add(node.attr)
        for source in self.program.sources.values():
            for call in source.calls:
                if isinstance(call.func, (ast.Name, ast.Attribute)):
                    for value in self._values(source, call.func):
                        if value in found:
                            found[value].add("()")
        return found

    def _values(self, source: Source, node: ast.expr) -> Values:
        return self.program.of(source, source.scope_of(node), node)

    # -- parameters ------------------------------------------------------------------------

    def parameters_of(self, source: Source, scope: ScopeNode, node: ast.expr) -> Iterator[Value]:
        """Models whose parameters an expression holds: `m.parameters()`, groups and lists of it."""
        stack, seen = list(self.program.of(source, scope, node)), set[Value]()
        for inner in ast.walk(node):  # filter(lambda p: p.requires_grad, m.parameters())
            if isinstance(inner, ast.Call) and inner is not node:
                stack.extend(self.program.of(source, scope, inner))
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value, Object) and isinstance(value.made_by, Member):
                if value.made_by.name in _PARAMETERS:
                    yield value.made_by.owner
            else:
                stack.extend(self._parts_of(value))

    def _parts_of(self, value: Value) -> Iterator[Value]:
        """What a value is made of: elements, the whole that it is taken from, arguments."""
        if isinstance(value, Group):
            yield from (v for items in value.items for v in items)
        elif isinstance(value, Item):
            yield value.owner
        elif isinstance(value, Object) and value.node is not None and value.where:
            for argument in value.node.args:
                yield from self.program.of(*value.where, argument)


def _origin(value: Value) -> str:
    """The word that something unknown goes by where it comes from."""
    while isinstance(value, Item):
        value = value.owner
    if isinstance(value, Object):
        value = value.made_by
    if isinstance(value, Opaque):
        return value.node.arg if isinstance(value.node, ast.arg) else last(dotted(value.node))
    if isinstance(value, Member) or (isinstance(value, Function) and value.owner is None):
        return value.name
    return last(external_name(value))
