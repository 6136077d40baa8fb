"""Which tensors are trained: given to optimizers, or made to need a gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from instrumentor.locate.meaning.kinds import Kinds
from instrumentor.locate.meaning.roles import Evidence, Kind
from instrumentor.read.names import external_name
from instrumentor.read.syntax import ScopeNode, Source
from instrumentor.read.values import Group, Item, Member, Object, Value


class Trained:
    """Tensors of a program by whether they are trained; answers are kept."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds, self.program = kinds, kinds.program

    @cached_property
    def leaves(self) -> frozenset[Value]:
        """Tensors that are trained: given to an optimizer, or made to need a gradient."""
        given = {v for v in self._given_to_optimizers() if isinstance(v, (Object, Item, Member))}
        return self.switched.union(given)

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
