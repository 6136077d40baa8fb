"""What a call gives to autograd: a new differentiable value, its arguments' own, or none.

How that is known goes with each answer. A value that is provably no differentiable one (an index,
a number, the result of NumPy) is never taken for one, whatever the call is named.
"""

from __future__ import annotations

import ast
import re

from msgspec import Struct

from instrumentor.locate import catalogue
from instrumentor.locate.catalogue import Evidence, Kind, Role
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.names import external_name
from instrumentor.locate.syntax import ScopeNode, Source, arguments, callee, dotted
from instrumentor.locate.values import (
    Class,
    External,
    Free,
    Item,
    Member,
    Object,
    Opaque,
    Value,
    Values,
)

#: Kinds whose methods run no model: what they return comes from what they are given.
_PASSING = frozenset(
    {Kind.DATA, Kind.LOGGER, Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER, Kind.LOSS}
)
#: Kinds that a forward may be run of.
_RUN = frozenset({Kind.MODEL, Kind.ENGINE, Kind.AVERAGE})
_PREPARES = re.compile(
    r"batch|data|load|sample|prepare|collate|transform|token|label|target|noise|mask|augment|"
    r"random|generate|shuffle|buffer|memory|replay|env|repackage|schedul|adjust|lr|seed|next|get|"
    r"time|step|train|eval|zero_grad|reset|update|set_|init|clear|configure|freeze|register|on_",
    re.I,
)


class Effect(Struct, frozen=True):
    """What a call does to gradients.

    Attributes:
        made: how it is known that it makes a differentiable value; None when it makes none.
        passes: whether its result is differentiable as far as what it is given is.
        what: the qualified name or type that tells, as a reader knows it.
    """

    made: Evidence | None = None
    passes: bool = True
    what: str = ""


NOTHING = Effect(passes=False)
PASSES = Effect()


def effect_of(knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call) -> Effect:
    """Of a call that leaves the program, or whose function runs a model by its type."""
    word = callee(call)
    role = knowledge.role(source, scope, call)
    if role in (Role.FORWARD, Role.ACTIVATION_CHECKPOINT):
        name = knowledge.program.names.qualified(source, scope, call.func)
        return Effect(Evidence.TYPE, what=name)
    called = _model(knowledge, source, scope, call.func)
    if called is not None:
        return called
    values = knowledge.values(source, scope, call.func)
    if isinstance(call.func, ast.Attribute):
        return _of_method(knowledge, source, scope, call, word)
    named = [v for v in values if isinstance(v, External)]
    if named:
        return _of_library(knowledge, source, scope, call, named[0].name)
    return _unread(knowledge, source, scope, call, word)


def _model(knowledge: Knowledge, source: Source, scope: ScopeNode, node: ast.expr) -> Effect | None:
    """What calling an object as a model gives; None when it is none."""
    found = knowledge.kinds.of(source, scope, node)
    if found is None or found[0] not in (Kind.MODEL, Kind.ENGINE, Kind.LOSS, Kind.AVERAGE):
        return None
    kind, evidence = found
    if kind is Kind.LOSS:
        return None if evidence is Evidence.SPELLING else PASSES
    if kind is Kind.AVERAGE:
        return PASSES
    if _is_gradless(knowledge, knowledge.values(source, scope, node)):
        return NOTHING
    what = type_name(knowledge, source, scope, node) or dotted(node)
    if not knowledge.is_model(source, scope, node):  # frozen, unless adapters are put into it
        return Effect(Evidence.UNREAD, what=what)
    return Effect(evidence, what=what)


def _is_gradless(knowledge: Knowledge, values: Values) -> bool:
    """Whether the `forward` of each of these objects runs with gradients off."""
    made = [v.made_by for v in values if isinstance(v, Object)]
    methods = [
        knowledge.program.methods(cls, "forward", overrides=False)
        for cls in made
        if isinstance(cls, Class)
    ]
    return len(methods) == len(values) > 0 and all(
        found and all(map(knowledge.is_gradless, found)) for found in methods
    )


def _of_method(
    knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call, word: str
) -> Effect:
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    qualified = knowledge.program.names.qualified(source, scope, call.func)
    if word.startswith("__") and word != "__call__":
        return PASSES
    if qualified and not _is_object(knowledge, source, scope, owner):
        return _of_library(knowledge, source, scope, call, qualified)
    kind, evidence = knowledge.kinds.of(source, scope, owner) or (None, None)
    if kind in _RUN and (kind, evidence) != (Kind.ENGINE, Evidence.SPELLING):
        return _of_model(knowledge, source, scope, owner, word)
    if word in catalogue.NOT_DIFFERENTIABLE:
        return NOTHING
    runs = any(knowledge.is_model(source, scope, a) for a in arguments(call))
    common = word in catalogue.COMMON_METHODS or word in catalogue.NOT_FORWARD
    if kind in _PASSING or (common and not runs):
        return PASSES
    return _unread(knowledge, source, scope, call, word)


def _of_model(
    knowledge: Knowledge, source: Source, scope: ScopeNode, owner: ast.expr, word: str
) -> Effect:
    """A method of a model, known by its name to run no forward or taken to run one."""
    if word in catalogue.RETURNS_SELF:
        return PASSES
    if word in catalogue.NOT_FORWARD:
        return NOTHING
    return _model(knowledge, source, scope, owner) or PASSES


def _is_object(knowledge: Knowledge, source: Source, scope: ScopeNode, owner: ast.expr) -> bool:
    """A value that is held, no module or class: `x` of `x.view(2)`, not `torch` of `torch.cat`."""
    values = knowledge.values(source, scope, owner)
    return not any(isinstance(v, External) for v in values)


def _of_library(
    knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call, name: str
) -> Effect:
    """A function of an installed package, by its qualified name."""
    root, word = name.partition(".")[0], name.rpartition(".")[2]
    if name in catalogue.PASSING_BUILTINS:
        return PASSES
    if name == "torch.autograd.grad":
        return PASSES if any(k.arg == "create_graph" for k in call.keywords) else NOTHING
    if root in catalogue.HOST_LIBRARIES or name.startswith("torch.utils.data."):
        return NOTHING
    if root == "torch":
        known = word in catalogue.NOT_DIFFERENTIABLE or word in catalogue.MAKES_DATA
        return NOTHING if known or catalogue.made_by(name) is Kind.OPTIMIZER else PASSES
    if catalogue.made_by(name) in _PASSING:
        return NOTHING
    return _unread(knowledge, source, scope, call, word)


def _unread(
    knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call, word: str
) -> Effect:
    """A function that cannot be read: what it is given and how it is named are all there is."""
    name = knowledge.program.names.qualified(source, scope, call.func) or dotted(call.func) or word
    if word in catalogue.NOT_DIFFERENTIABLE:
        return NOTHING
    prepares = catalogue.SPELLED_PREPARATION.search(word) or _PREPARES.search(word)
    if catalogue.SPELLED_FORWARD.search(word):
        return Effect(Evidence.SPELLING, what=name)
    if not prepares and any(knowledge.is_model(source, scope, a) for a in arguments(call)):
        return Effect(Evidence.SPELLING, what=name)
    return Effect(Evidence.PREPARATION if prepares else Evidence.UNREAD, what=name)


def is_parameter(knowledge: Knowledge, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
    """A leaf that needs a gradient: `nn.Parameter`, `requires_grad=True`, given to an optimizer."""
    values = knowledge.values(source, scope, node)
    return any(_needs_gradient(v) or v in knowledge.trained.leaves for v in values)


def _needs_gradient(value: Value) -> bool:
    if not isinstance(value, Object):
        return False
    if external_name(value.made_by).startswith("torch.nn.Parameter"):
        return True
    return value.node is not None and any(
        k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value is True
        for k in value.node.keywords
    )


def type_name(knowledge: Knowledge, source: Source, scope: ScopeNode, node: ast.expr) -> str:
    """`Net` or `torch.nn.Linear`: what an object was made by; '' when nothing tells."""
    for value in knowledge.values(source, scope, node):
        made = value.made_by if isinstance(value, Object) else value
        if isinstance(made, Class):
            return made.node.name
        if isinstance(value, Object) and external_name(made):
            return external_name(made)
        if isinstance(value, (Member, Item, Opaque, Free)):
            return ""
    return ""
