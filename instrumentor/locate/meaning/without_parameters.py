"""Modules with nothing to train in them: augmentations, poolings, transforms of spectrograms.

What such a module makes is differentiable as far as what it is given is: of a batch it makes data.
In doubt a module has parameters: no part that cannot be read is taken for one without.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.meaning import libraries, spelling
from instrumentor.locate.meaning.methods import NOT_FORWARD
from instrumentor.locate.meaning.roles import Kind
from instrumentor.locate.meaning.trained import Trained
from instrumentor.read.fixpoint import Answers
from instrumentor.read.names import external_name
from instrumentor.read.syntax import ScopeNode, Source, callee, dotted
from instrumentor.read.values import (
    PLAIN_BASES,
    Class,
    External,
    Function,
    Group,
    Item,
    Member,
    Object,
    Value,
    Values,
)

#: Methods that give a module another part.
_ADDS = ("add_module", "append", "extend", "insert", "register_module", "register_parameter")


class WithoutParameters:
    """Which objects of a program are modules without parameters; answers are kept."""

    def __init__(self, trained: Trained) -> None:
        self.trained, self.kinds, self.program = trained, trained.kinds, trained.program
        self._answers = Answers()

    def are(self, values: Values) -> bool:
        """Whether all of these are, as far as the source tells; of nothing, no."""
        return bool(values) and all(map(self._is, values))

    def _is(self, value: Value) -> bool:
        return self._answers.ask(value, lambda: self._read(value), True)

    def _read(self, value: Value) -> bool:
        if isinstance(value, Group):
            return self.are(self.program.item(value, None))
        if isinstance(value, Item):
            return self._is(value.owner)
        if not isinstance(value, Object):
            return False
        if isinstance(value.made_by, Class):
            others = self.program.subclasses.get(value.made_by.node, []) if not value.node else []
            return all(map(self._is_of_class, [value.made_by, *others]))
        name = external_name(value.made_by)
        if libraries.has_no_parameters(name):
            return True
        return libraries.is_container(name) and self._holds_such(value)

    def _holds_such(self, container: Object) -> bool:
        """Whether a container is given such modules, and nothing else later on."""
        if container.node is None or container.where is None or not container.node.args:
            return False
        source, scope = container.where
        given = (
            tuple(self._elements(self.program.of(source, scope, node)))
            for node in container.node.args
        )
        return all(map(self.are, given)) and not any(
            container in self.program.of(at, within, call.func.value)
            for word in _ADDS
            for at, within, call in self.program.calls_named(word)
            if isinstance(call.func, ast.Attribute)
        )

    def _elements(self, values: Values) -> Iterator[Value]:
        """`*parts` and `[first, second]` are the modules in them."""
        for value in values:
            yield from self.program.item(value, None) if isinstance(value, Group) else (value,)

    # -- classes of the program ---------------------------------------------------------------

    def _is_of_class(self, cls: Class) -> bool:
        """Whether nothing that a module of the program makes or runs has parameters."""
        bases = self.program.external_bases(cls)
        modules = [base for base in bases if not _is_plain(base)]
        return (
            bool(modules)
            and all(
                base == "torch.nn.Module" or libraries.has_no_parameters(base) for base in modules
            )
            and all(self._runs_none(base.source, base.node) for base in self.program.bases(cls))
        )

    def _runs_none(self, source: Source, node: ast.AST) -> bool:
        calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
        return all(self._is_harmless(source, call) for call in calls)

    def _is_harmless(self, source: Source, call: ast.Call) -> bool:
        """Whether a call neither makes nor runs anything with parameters."""
        if callee(call) in _ADDS and dotted(call.func).startswith("self."):
            return False
        scope = source.scope_of(call)
        called = self.program.of(source, scope, call.func)
        return bool(called) and all(
            self._makes_none(value, source, scope, call) for value in called
        )

    def _makes_none(self, called: Value, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        if isinstance(called, Function):
            return self._answers.ask(
                called, lambda: self._runs_none(called.source, called.node), True
            )
        if isinstance(called, Member):
            return self._is_plain_method(called)
        if isinstance(called, Class):
            return not self._is_model(Object(called)) or self._is(Object(called))
        name = external_name(called)
        if not name:
            return self._is(called)
        made = self.program.of(source, scope, call)
        return self.are(made) or (_computes(name) and not any(map(self.trained.is_leaf, made)))

    def _is_plain_method(self, method: Member) -> bool:
        if method.name in NOT_FORWARD or method.name == "__init__":
            return True
        if isinstance(method.owner, Object) and isinstance(method.owner.made_by, Class):
            return False
        named = spelling.spelled_as(method.name.lower()) is Kind.MODEL
        return not named and (not self._is_model(method.owner) or self._is(method.owner))

    def _is_model(self, value: Value) -> bool:
        found = self.kinds.of_value(value)
        return found is not None and found[0] is Kind.MODEL


def _is_plain(base: str) -> bool:
    return External(base) in PLAIN_BASES


def _computes(name: str) -> bool:
    """Whether a function of a library, or Python's own, makes no module and no parameter."""
    root = name.partition(".")[0]
    known = root in ("builtins", "torch", "math", "random") or libraries.is_on_host(root)
    of_data = libraries.made_by(name) in (None, Kind.DATA)
    return known and of_data and not name.startswith("torch.nn.Parameter")
