"""What a call gives to autograd: a new differentiable value, its arguments' own, or none.

How that is known goes with each answer. A value that is provably no differentiable one (an index,
a number, the result of NumPy) is never taken for one, whatever the call is named.
"""

from __future__ import annotations

import ast

from msgspec import Struct

from instrumentor.locate.meaning import libraries, methods, spelling
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Evidence, Kind, Role
from instrumentor.read import handed_on
from instrumentor.read.names import external_name
from instrumentor.read.syntax import ScopeNode, Source, argument, arguments, below, callee, dotted
from instrumentor.read.values import (
    Class,
    External,
    Member,
    Object,
    Opaque,
    Values,
)

#: Kinds whose methods run no model: what they return comes from what they are given.
PASSING = frozenset(
    {Kind.DATA, Kind.LOGGER, Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER, Kind.LOSS}
)
#: Kinds that a forward may be run of.
_RUN = frozenset({Kind.MODEL, Kind.ENGINE, Kind.AVERAGE})
#: What `model_output` is taken for where nothing but its name tells.
_NAMED = (Kind.MODEL, Evidence.SPELLING)


class Effect(Struct, frozen=True):
    """What a call does to gradients.

    Attributes:
        made: how it is known that it makes a differentiable value; None when it makes none.
        passes: whether its result is differentiable as far as what it is given is.
        detaches: whether its result is computed from what it is given, and is not differentiable.
        frozen: how it is known that it runs a model without training it.
        what: the qualified name or type that tells, as a reader knows it.
    """

    made: Evidence | None = None
    passes: bool = True
    what: str = ""
    detaches: bool = False
    frozen: Evidence | None = None


NOTHING = Effect(passes=False)
PASSES = Effect()
DETACHES = Effect(passes=False, detaches=True)


def _not_differentiable(word: str) -> Effect:
    return DETACHES if word in methods.DETACHES else NOTHING


def effect_of(knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call) -> Effect:
    """Of a call that leaves the program, or whose function runs a model by its type."""
    return _Unread(knowledge, source, scope, call).effect()


class _Unread(Struct, frozen=True):
    """A call whose function is not read, and where it stands."""

    knowledge: Knowledge
    source: Source
    scope: ScopeNode
    call: ast.Call

    @property
    def word(self) -> str:
        return callee(self.call)

    @property
    def qualified(self) -> str:
        return self.knowledge.program.qualified(self.source, self.scope, self.call.func)

    def values(self, node: ast.expr) -> Values:
        return self.knowledge.values(self.source, self.scope, node)

    def effect(self) -> Effect:
        role = self.knowledge.role(self.source, self.scope, self.call)
        if role in (Role.FORWARD, Role.ACTIVATION_CHECKPOINT):
            return Effect(Evidence.TYPE, what=self.qualified)
        called = self.run(self.call.func)
        if called is not None:
            return called
        if _are_plain_lambdas(self.values(self.call.func)):
            return PASSES
        if isinstance(self.call.func, ast.Attribute):
            return self.method(self.call.func.value)
        named = [v.name for v in self.values(self.call.func) if isinstance(v, External)]
        effects = [self.library(name) for name in named] or [self.by_name()]
        return next((effect for effect in effects if effect.passes), effects[0])

    def run(self, node: ast.expr) -> Effect | None:
        """What calling an object as a model gives; None when it is none."""
        if self.knowledge.without_parameters.are(self.values(node)):
            return PASSES
        found = self.knowledge.kinds.of(self.source, self.scope, node)
        kind, evidence = found or (None, Evidence.SPELLING)
        if kind is Kind.LOSS:
            return None if evidence is Evidence.SPELLING else PASSES
        if kind not in _RUN or kind is Kind.AVERAGE:
            return PASSES if kind is Kind.AVERAGE else None
        if any(isinstance(value, Member) for value in self.values(node)):
            evidence = self.by_attribute()
        by_type = type_name(self.knowledge, self.source, self.scope, node)
        what = by_type if evidence is not Evidence.SPELLING else ""
        what = what or dotted(node) or by_type
        if self._is_gradless(self.values(node)):
            return Effect(passes=False, what=what, detaches=True, frozen=evidence)
        return Effect(evidence, what=what)

    def by_attribute(self) -> Evidence:
        """Of what an unread model holds only the name tells: a part of it, or a method."""
        prepares = spelling.PREPARATION.fits(self.word)
        return Evidence.PREPARATION if prepares else Evidence.SPELLING

    def _is_gradless(self, models: Values) -> bool:
        """Whether the `forward` of each of these objects runs with gradients off."""
        made = [v.made_by for v in models if isinstance(v, Object)]
        forwards = [
            self.knowledge.program.methods(cls, "forward", overrides=False)
            for cls in made
            if isinstance(cls, Class)
        ]
        return len(forwards) == len(models) > 0 and all(
            found and all(map(self.knowledge.is_gradless, found)) for found in forwards
        )

    def method(self, owner: ast.expr) -> Effect:
        word = self.word
        if word.startswith("__") and word != "__call__":
            return PASSES
        # `x` of `x.view(2)` is a value that is held, `torch` of `torch.cat` is none
        if self.qualified and any(isinstance(v, External) for v in self.values(owner)):
            return self.library(self.qualified)
        found = self.knowledge.kinds.of(self.source, self.scope, owner)
        kind = found[0] if found is not None else None
        if kind in _RUN and found != (Kind.ENGINE, Evidence.SPELLING):
            # a method of a model is known by its name to run no forward, or taken to run one
            if word in handed_on.RETURNS_SELF:
                return PASSES
            return NOTHING if word in methods.NOT_FORWARD else self.run(owner) or PASSES
        if word in methods.NOT_DIFFERENTIABLE:
            return _not_differentiable(word)
        plain = (handed_on.COMMON_METHODS, methods.NOT_FORWARD, methods.REARRANGES)
        common = any(word in each for each in plain)
        if kind in PASSING or (common and not self._is_given_a_model()):
            return PASSES
        return self.by_name()

    def _is_given_a_model(self, *, typed: bool = False) -> bool:
        """Whether an argument is a model: `typed` is more than named like one."""
        where = self.source, self.scope
        return any(
            self.knowledge.is_model(*where, given)
            and not (typed and self.knowledge.kinds.of(*where, given) == _NAMED)
            for given in arguments(self.call)
        )

    def library(self, name: str) -> Effect:
        """A function of an installed package, by its qualified name."""
        root, word = name.partition(".")[0], name.rpartition(".")[2]
        made = libraries.made_by(name)
        if name in methods.PASSING_BUILTINS or root in methods.HANDS_ON:
            return PASSES
        if name == "torch.autograd.grad":
            return DETACHES if argument(self.call, "create_graph") is None else PASSES
        if libraries.is_on_host(root) or name.startswith("torch.utils.data."):
            return NOTHING
        if root == "torch":
            if word in methods.NOT_DIFFERENTIABLE:
                return _not_differentiable(word)
            if word in methods.MAKES_DATA or made is Kind.OPTIMIZER:
                return NOTHING
            runs = made is None and name not in handed_on.RETURNS_ARGUMENT
            return self.by_name() if runs and self._is_given_a_model(typed=True) else PASSES
        return NOTHING if made in PASSING else self.by_name()

    def by_name(self) -> Effect:
        """What it is given and how it is named are all there is."""
        word, name = self.word, self.qualified or dotted(self.call.func) or self.word
        if word in methods.NOT_DIFFERENTIABLE:
            return _not_differentiable(word)
        if spelling.FORWARD.fits(word):
            return Effect(Evidence.SPELLING, what=name)
        if spelling.PREPARATION.fits(word):
            return Effect(Evidence.PREPARATION, what=name)
        by = Evidence.SPELLING if self._is_given_a_model() else Evidence.UNREAD
        return Effect(by, what=name)


def _are_plain_lambdas(functions: Values) -> bool:
    """Whether what is called are lambdas that call nothing: `lambda x: 2 * x - 1`."""
    return bool(functions) and all(
        isinstance(value, Opaque)
        and isinstance(value.node, ast.Lambda)
        and not any(isinstance(part, ast.Call) for part in below(value.node))
        for value in functions
    )


def type_name(knowledge: Knowledge, source: Source, scope: ScopeNode, node: ast.expr) -> str:
    """`Net` or `torch.nn.Linear`: what an object was made by; '' when nothing tells.

    Where it may be of several types, all of those that the script's options leave. What wraps a
    model is named only where nothing else is.
    """
    found: list[str] = []
    values = knowledge.values(source, scope, node)
    for value in [v for v in values if knowledge.may_be_made(v)] or values:
        made = value.made_by if isinstance(value, Object) else value
        if isinstance(made, Class):
            found.append(made.node.name)
        elif isinstance(value, Object) and external_name(made):
            found.append(external_name(made))
    names = [*dict.fromkeys(found)]
    names = [name for name in names if name not in handed_on.RETURNS_ARGUMENT] or names
    shown = names if len(names) <= _MOST_NAMES else [*names[: _MOST_NAMES - 1], "another"]
    return " or ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


#: So many types of one object are named.
_MOST_NAMES = 3
