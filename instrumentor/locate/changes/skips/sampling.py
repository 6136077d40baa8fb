"""Whether the samples that a data loader gives take random numbers in the process that trains.

With workers they are drawn elsewhere. What can be read of a data set, its transforms and what
collates is read here; the rest the recorder sees before the first sample
(:mod:`instrumentor.runtime.recorder.random_draws`). So of several things that may be meant all have
to draw, and of a number of workers it has to be known that it may be 0.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from instrumentor.locate.changes.skips.facts import Facts
from instrumentor.locate.changes.skips.storage import Spelling
from instrumentor.locate.meaning import libraries, methods
from instrumentor.read.constants import Constants, asked_of, decided, unreached
from instrumentor.read.names import external_name
from instrumentor.read.program import Class, Function
from instrumentor.read.signatures import default_of, passed
from instrumentor.read.syntax import (
    ScopeNode,
    Source,
    all_parameters,
    argument,
    arguments,
    below,
    own_calls,
    own_nodes,
    turns_off,
)
from instrumentor.read.values import Group, Item, Member, Object, Value

#: What walking over a loader runs of a data set, and of what that or a loader calls.
_RUN = ("__getitem__", "__getitems__", "__iter__", "__call__", "forward")
_MOST = 200
_NONE: Constants = {}
#: An expression where it stands.
Given = tuple[Source, ScopeNode, ast.expr]


class Made(Struct, frozen=True, eq=False):
    """An object of the program, and what it was made with, as its attributes hold it."""

    cls: Class | None = None
    attributes: dict[str, Given] = {}
    constants: dict[str, object] = {}


class Sampling(Struct, eq=False):
    """Random numbers that the samples of a data loader take."""

    facts: Facts
    _seen: set[tuple[Value, str]] = field(default_factory=set)

    def draws(self, loader: Spelling) -> bool:
        """Whether walking over a loader takes more of them than its own seeds."""
        if loader.scope is None or not loader.text:
            return False
        source = self.facts.program.source_of_scope[loader.scope]
        node = ast.parse(loader.text, mode="eval").body
        values = self.facts.program.names.of(source, loader.scope, node)
        return bool(values) and all(map(self._loader_draws, values))

    def _loader_draws(self, loader: Value) -> bool:
        if not isinstance(loader, Object) or loader.node is None or loader.where is None:
            return False
        if not external_name(loader.made_by).endswith("DataLoader"):
            return False
        source, scope = loader.where
        if not self._may_have_no_workers(source, scope, loader.node):
            return False
        given = loader.node
        parts = argument(given, "dataset", at=0), argument(given, "collate_fn", at=6)
        self._seen.clear()
        return any(self._part_draws((source, scope, part)) for part in parts if part is not None)

    def _may_have_no_workers(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        told = argument(call, "num_workers", at=5)
        if told is not None:
            return self._is_nothing(source, scope, told)
        return all(
            any(
                not isinstance(group, Group) or self._leaves_workers_out(source, scope, group)
                for group in self.facts.program.names.of(source, scope, k.value)
            )
            for k in call.keywords
            if k.arg is None
        )

    def _leaves_workers_out(self, source: Source, scope: ScopeNode, group: Group) -> bool:
        """`**{}`, `**{"num_workers": 0}`"""
        if "num_workers" not in group.keys or not isinstance(group.node, ast.Dict):
            return True
        told = group.node.values[group.keys.index("num_workers")]
        return self._is_nothing(source, scope, told)

    def _is_nothing(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return node.value == 0
        return self.facts.options.value(source, node) == 0

    # -- parts ---------------------------------------------------------------------------------

    def _part_draws(self, given: Given, made: Made | None = None) -> bool:
        """Of what is called, or walked over: the data set, a transform, a function."""
        source, scope, node = given
        if isinstance(node, ast.Lambda):
            return any(self._call_draws(source, scope, c, made) for c in _calls_below(node))
        values = self._meant(given, made)
        return bool(values) and all(map(self._value_draws, values))

    def _meant(self, given: Given, made: Made | None) -> tuple[Value, ...]:
        """What an expression means; of `self.transform` what this one object was made with."""
        source, scope, node = given
        if made is not None and isinstance(node, ast.Attribute) and _is_self(scope, node.value):
            own = made.attributes.get(node.attr)
            if own is not None:
                return self.facts.program.names.of(*own)
        return self.facts.program.names.of(source, scope, node)

    def _value_draws(self, value: Value) -> bool:
        if (value, "") in self._seen or len(self._seen) > _MOST:
            return False
        self._seen.add((value, ""))
        match value:
            case Function():
                return self._function_draws(value, Made(), _NONE)
            case Group(items=items):
                return any(each and all(map(self._value_draws, each)) for each in items)
            case Item(owner=owner) | Member(owner=owner):
                return self._value_draws(owner)
            case Object(made_by=Class() as cls):
                return self._own_draws(value, cls)
            case Object(node=ast.Call() as call) if value.where is not None:
                if libraries.draws_if_called(external_name(value.made_by)):
                    return not turns_off(call, "mlm")
                source, scope = value.where
                return self._any_draws((source, scope, a) for a in arguments(call))
        return False

    def _any_draws(self, given: Iterable[Given]) -> bool:
        return any(self._part_draws(each) for each in given)

    def _own_draws(self, value: Object, cls: Class) -> bool:
        program = self.facts.program
        made = self._made(value, cls)
        run = [f for word in _RUN for f in program.methods(cls, word, overrides=False)]
        if any(self._function_draws(function, made, made.constants) for function in run):
            return True
        if run or value.node is None or value.where is None:
            return False
        source, scope = value.where
        return self._any_draws((source, scope, a) for a in arguments(value.node))

    def _function_draws(self, function: Function, made: Made, known: Constants) -> bool:
        source, node = function.source, function.node
        out = unreached(function, known)
        for part in own_nodes(node):
            at = source.statement_of(part) if isinstance(part, ast.expr) else None
            if at is None or at in out:
                continue
            if isinstance(part, ast.Call) and self._call_draws(source, node, part, made):
                return True
            if isinstance(part, ast.Subscript):  # of a data set in a data set
                if self._part_draws((source, node, part.value), made):
                    return True
        return False

    def _call_draws(
        self, source: Source, scope: ScopeNode, call: ast.Call, made: Made | None
    ) -> bool:
        program, function = self.facts.program, call.func
        if _takes_numbers(program.names.qualified(source, scope, function), function):
            return True
        values = self._meant((source, scope, function), made)
        if any(isinstance(v, Member) and _is_generator(v.owner) for v in values):
            return True
        if objects := [v for v in values if not isinstance(v, Function)]:
            made_here = len(objects) == len(values) and all(isinstance(v, Object) for v in objects)
            return made_here and all(map(self._value_draws, objects))
        inside, every = Made(), program.resolve(source, scope, call)
        if isinstance(function, ast.Attribute) and _is_self(scope, function.value):
            inside = made or inside
            if inside.cls is not None:
                every = program.methods(inside.cls, function.attr, overrides=False) or every
        for called in every:
            if (called, "called") not in self._seen and len(self._seen) < _MOST:
                self._seen.add((called, "called"))
                given = asked_of(program, scope, call, called, _NONE)
                if self._function_draws(called, inside, {**given, **inside.constants}):
                    return True
        return False

    # -- what an object was made with ----------------------------------------------------------

    def _made(self, value: Object, cls: Class) -> Made:
        found = Made(cls, {}, {})
        if value.node is None or value.where is None:
            return found
        given = {k.arg: (*value.where, k.value) for k in value.node.keywords if k.arg}
        inits = self.facts.program.methods(cls, "__init__", overrides=False)
        if not inits:  # that of a library: `transform=` is `self.transform`
            found.attributes.update(given)
        for init in inits:
            passing = passed(value.node, init.node, bound=True)
            self._init(init, {name: (*value.where, node) for name, node in passing}, found)
        for attribute in [*found.attributes]:
            if not self._is_set_by_init_alone(attribute):
                del found.attributes[attribute]
                found.constants.pop(f"self.{attribute}", None)
        return found

    def _init(self, init: Function, given: dict[str, Given], found: Made, depth: int = 3) -> None:
        """Attributes that a constructor sets, those of the base that it calls included."""
        source, scope = init.source, init.node
        known: dict[str, object] = {}
        for parameter in all_parameters(scope)[1:]:
            default = default_of(scope, parameter.arg)
            if parameter.arg not in given and default is not None:
                given[parameter.arg] = (source, source.scope_of(scope), default)
            one = given.get(parameter.arg)
            if one is not None and isinstance(one[2], ast.Constant):
                known[parameter.arg] = one[2].value
        for statement in own_nodes(scope):
            for name, value in _attributes_set(scope, statement):
                answer = decided(value, known) if isinstance(value, ast.Compare) else None
                own = given.get(value.id) if isinstance(value, ast.Name) else None
                found.attributes[name] = own or (source, scope, value)
                if own is not None and isinstance(own[2], ast.Constant):
                    found.constants[f"self.{name}"] = own[2].value
                elif isinstance(value, ast.Constant):
                    found.constants[f"self.{name}"] = value.value
                elif answer is not None:
                    found.constants[f"self.{name}"] = answer
        for call in own_calls(scope) if depth else ():
            if not (isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"):
                continue
            handed = {
                k.arg: given.get(getattr(k.value, "id", ""), (source, scope, k.value))
                for k in call.keywords
                if k.arg
            }
            bases = self.facts.program.resolve(source, scope, call)
            for base in bases:
                inner = {
                    name: given.get(getattr(node, "id", ""), (source, scope, node))
                    for name, node in passed(call, base.node, bound=True)
                }
                self._init(base, inner, found, depth - 1)
            if not bases:
                found.attributes.update(handed)

    def _is_set_by_init_alone(self, attribute: str) -> bool:
        return all(
            getattr(put.scope, "name", "") == "__init__"
            for _, put in self.facts.program.puts_of(attribute)
        )


def _attributes_set(scope: ScopeNode, statement: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """`self.name = value`"""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and _is_self(scope, target.value):
                yield target.attr, statement.value


def _is_self(scope: ScopeNode, node: ast.expr) -> bool:
    """The first parameter; `self` is what constants are known by."""
    return isinstance(node, ast.Name) and node.id == "self" and not isinstance(scope, ast.Module)


def _takes_numbers(name: str, function: ast.expr) -> bool:
    word = function.attr if isinstance(function, ast.Attribute) and not name else ""
    return libraries.draws(name) or word in methods.DRAWING


def _is_generator(value: Value) -> bool:
    """A generator of the data set's own, that goes on where it was."""
    return isinstance(value, Object) and libraries.makes_generator(external_name(value.made_by))


def _calls_below(node: ast.AST) -> list[ast.Call]:
    return [n for n in below(node) if isinstance(n, ast.Call)]
