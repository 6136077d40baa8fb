"""Which tensors are trained: given to optimizers, or made to need a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from itertools import chain

from instrumentor.locate.meaning.kinds import Kinds
from instrumentor.locate.meaning.methods import NOT_DIFFERENTIABLE_ATTRIBUTES
from instrumentor.locate.meaning.roles import Evidence, Kind
from instrumentor.read.names import external_name
from instrumentor.read.syntax import ScopeNode, Source, argument
from instrumentor.read.values import Class, Group, Item, Member, Object, Value


class Trained:
    """Tensors of a program by whether they are trained; answers are kept."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds, self.program = kinds, kinds.program

    @cached_property
    def leaves(self) -> frozenset[Value]:
        """Tensors that are trained: given to an optimizer, or made to need a gradient."""
        given = {v for v in self._given_to_optimizers() if isinstance(v, (Object, Item, Member))}
        return self.switched.union(given)

    def leaves_in(self, value: Value, *, inside: bool = True) -> Iterator[Value]:
        """The trained tensors that a value is, is a part of or, inside, holds.

        Of an object that is no model but has such a tensor as an attribute: the object itself.
        """
        if self.is_leaf(value) or (inside and self._is_holder(value)):
            yield value
        elif isinstance(value, Group) and inside:
            for part in chain.from_iterable(value.items):
                yield from () if isinstance(part, Group) else self.leaves_in(part)
        elif isinstance(value, Item):
            yield from self.leaves_in(value.owner, inside=False)
        elif isinstance(value, Member) and value.name not in NOT_DIFFERENTIABLE_ATTRIBUTES:
            yield from self.leaves_in(value.owner, inside=inside)

    def is_leaf(self, value: Value) -> bool:
        """Whether a value is a tensor that is trained."""
        return value in self.leaves or _needs_gradient(value)

    def _is_holder(self, value: Value) -> bool:
        if not isinstance(value, Object):
            return False
        made, kind = value.made_by, self.kinds.of_value(value)
        held = isinstance(made, Class) and not self._holding.isdisjoint(self.program.bases(made))
        return (held or value in self._holding) and (kind is None or kind[0] is not Kind.MODEL)

    @cached_property
    def _holding(self) -> frozenset[Value]:
        """Objects, and classes of the program, with a trained tensor as an attribute."""
        found: set[Value] = {leaf.owner for leaf in self.leaves if isinstance(leaf, Member)}
        for source in self.program.sources.values():
            for put in self.program.bindings_of(source).puts:
                cls = self.program.class_of_self(source, put.scope, put.owner)
                if cls is None or cls in found or not isinstance(put.bound.value, ast.Call):
                    continue
                if any(map(self.is_leaf, self.program.of(source, put.scope, put.bound.value))):
                    found.add(cls)
        return frozenset(found)

    @cached_property
    def switched(self) -> frozenset[Value]:
        """Tensors made to need a gradient, which before that are data."""
        made = {value for each in self._switched_on() for value in self.program.of(*each)}
        # a batch that needs a gradient, for a penalty, is no parameter
        return frozenset(
            value
            for value in made
            if isinstance(value, Object) and external_name(value.made_by).startswith("torch.")
        )

    def _switched_on(self) -> Iterator[tuple[Source, ScopeNode, ast.expr]]:
        """`x.requires_grad_()` and `x.requires_grad = True`: of what."""
        for source, scope, call in self.program.calls_named("requires_grad_"):
            given = [a.value for a in call.args[:1] if isinstance(a, ast.Constant)]
            if isinstance(call.func, ast.Attribute) and all(given):
                yield source, scope, call.func.value
        for source, put in self.program.puts_of("requires_grad"):
            if isinstance(put.bound.value, ast.Constant) and put.bound.value.value:
                yield source, put.scope, put.owner

    def _given_to_optimizers(self) -> Iterator[Value]:
        known = (Kind.OPTIMIZER, Evidence.TYPE)
        for source, scope, call in self.program.all_calls:
            if call.args and self.kinds.of(source, scope, call) == known:
                for group in self.program.of(source, scope, call.args[0]):
                    if isinstance(group, Group):
                        yield from (value for item in group.items for value in item)


def _needs_gradient(value: Value) -> bool:
    if not isinstance(value, Object):
        return False
    told = argument(value.node, "requires_grad") if value.node is not None else None
    return external_name(value.made_by).startswith("torch.nn.Parameter") or (
        isinstance(told, ast.Constant) and told.value is True
    )
