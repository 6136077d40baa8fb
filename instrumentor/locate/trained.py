"""Which parameters are trained: given to optimizers, set to need a gradient or to need none."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from instrumentor.locate.catalogue import Evidence, Kind
from instrumentor.locate.kinds import Kinds
from instrumentor.locate.names import external_name
from instrumentor.locate.syntax import ScopeNode, Source
from instrumentor.locate.values import Group, Item, Member, Object, Value

#: Calls that put trained adapters into a frozen model.
_ADAPTS = frozenset({"add_adapter", "inject_adapter", "get_peft_model", "apply_lora"})


class Trained:
    """Models and tensors of a program by whether they are trained; answers are kept."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds, self.names, self.program = kinds, kinds.names, kinds.program

    @cached_property
    def leaves(self) -> frozenset[Value]:
        """Tensors that are trained: given to an optimizer, or made to need a gradient."""
        given = {v for v in self._given_to_optimizers() if isinstance(v, (Object, Item, Member))}
        made = {v for v in self._set_to_train() if isinstance(v, Object)}
        # a batch that needs a gradient, for a penalty, is no parameter
        return frozenset(given | {v for v in made if external_name(v.made_by).startswith("torch.")})

    def _given_to_optimizers(self) -> Iterator[Value]:
        for source, scope, call in self._optimizers:
            for group in self.names.of(source, scope, call.args[0]) if call.args else ():
                if isinstance(group, Group):
                    yield from (value for item in group.items for value in item)

    def _set_to_train(self) -> Iterator[Value]:
        """`x.requires_grad_()` and `x.requires_grad = True`."""
        for source, scope, call in self.program.calls_named("requires_grad_"):
            if isinstance(call.func, ast.Attribute) and not _is_set(call, False):
                yield from self.names.of(source, scope, call.func.value)
        for source, put in self.names.puts_of("requires_grad"):
            if getattr(put.bound.value, "value", False) is True:
                yield from self.names.of(source, put.scope, put.owner)

    @cached_property
    def _optimizers(self) -> list[tuple[Source, ScopeNode, ast.Call]]:
        """Calls that make an optimizer."""
        known = (Kind.OPTIMIZER, Evidence.TYPE)
        return [made for made in self.program.all_calls if self.kinds.of(*made) == known]

    # -- frozen models ---------------------------------------------------------------------

    @cached_property
    def frozen(self) -> frozenset[Value]:
        """Models whose parameters are all set to need no gradient, and none is set back."""
        off = {*self._switched_off(), *self._assigned_off()}
        return frozenset(off.difference(self._trained_again())) if off else frozenset()

    def _switched_off(self) -> Iterator[Value]:
        """`model.requires_grad_(False)`, `for p in model.parameters(): p.requires_grad_(False)`."""
        for source, scope, call in self.program.calls_named("requires_grad_"):
            if isinstance(call.func, ast.Attribute) and _is_set(call, False):
                owners = self.names.of(source, scope, call.func.value)
                yield from owners
                if not _tested(source, call):
                    yield from _models_of(owners)

    def _assigned_off(self) -> Iterator[Value]:
        """`for p in model.parameters(): p.requires_grad = False`."""
        for source, put in self.names.puts_of("requires_grad"):
            if _is_false(put.bound.value) and not _tested(source, put.owner):
                yield from self.kinds.parameters_of(source, put.scope, put.owner)

    def _trained_again(self) -> Iterator[Value]:
        """Models of which some parameters are trained: set back, adapted, given to an optimizer."""
        yield from self._switched_on()
        yield from self._assigned_on()
        for word in _ADAPTS:
            for source, scope, call in self.program.calls_named(word):
                owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
                for given in (*call.args, *owner):
                    yield from map(_root, self.names.of(source, scope, given))
        for source, scope, call in self._optimizers:
            for argument in (*call.args, *(k.value for k in call.keywords)):
                yield from map(_root, self.kinds.parameters_of(source, scope, argument))

    def _switched_on(self) -> Iterator[Value]:
        for source, scope, call in self.program.calls_named("requires_grad_"):
            if isinstance(call.func, ast.Attribute):
                owners = self.names.of(source, scope, call.func.value)
                if not _is_set(call, False):
                    yield from map(_root, (*owners, *_models_of(owners)))
                elif _tested(source, call):
                    yield from _models_of(owners)

    def _assigned_on(self) -> Iterator[Value]:
        """Also parts that are put into a model: those are new."""
        for source in self.program.sources.values():
            for put in self.names.puts(source):
                if put.name == "requires_grad" and isinstance(put.bound.value, ast.Constant):
                    if not _is_false(put.bound.value) or _tested(source, put.owner):
                        yield from self.kinds.parameters_of(source, put.scope, put.owner)
                elif put.name:
                    yield from map(_root, self.names.of(source, put.scope, put.owner))


def _is_set(call: ast.Call, value: bool) -> bool:
    """Whether `requires_grad_` is given this constant first."""
    return (
        bool(call.args)
        and isinstance(call.args[0], ast.Constant)
        and (bool(call.args[0].value) is value)
    )


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _models_of(values: Iterable[Value]) -> Iterator[Value]:
    """Models among whose parameters these values are."""
    for value in values:
        while isinstance(value, Item):
            value = value.owner
        if isinstance(value, Object) and isinstance(value.made_by, Member):
            if value.made_by.name in ("parameters", "named_parameters"):
                yield value.made_by.owner


def _root(value: Value) -> Value:
    """`model` of `model[1].head`."""
    while isinstance(value, (Member, Item)):
        value = value.owner
    return value


def _tested(source: Source, node: ast.expr) -> bool:
    """Whether an `if` stands between an expression and the loop around it."""
    statement = source.statement_of(node)
    for parent in source.parents(statement) if statement is not None else ():
        if isinstance(parent, (ast.For, ast.While)):
            return False
        if isinstance(parent, ast.If):
            return True
    return False
