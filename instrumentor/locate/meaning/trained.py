"""Which parameters are trained: given to optimizers, set to need a gradient or to need none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from instrumentor.locate.meaning.kinds import Kinds
from instrumentor.locate.meaning.roles import Evidence, Kind
from instrumentor.read.names import external_name
from instrumentor.read.syntax import LOOPS, ScopeNode, Source, arguments
from instrumentor.read.values import Group, Item, Member, Object, Value

#: Calls that put trained adapters into a frozen model.
_ADAPTS = ("add_adapter", "inject_adapter", "get_peft_model", "apply_lora")


class Trained:
    """Models and tensors of a program by whether they are trained; answers are kept."""

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
        of = self.program.of
        made = {v for s, c, n, on in self._switches if on for v in of(s, c, n)}
        # a batch that needs a gradient, for a penalty, is no parameter
        return frozenset(filter(_is_of_torch, made))

    def _given_to_optimizers(self) -> Iterator[Value]:
        for source, scope, call in self._optimizers:
            for group in self.program.of(source, scope, call.args[0]) if call.args else ():
                if isinstance(group, Group):
                    yield from (value for item in group.items for value in item)

    @cached_property
    def _optimizers(self) -> list[tuple[Source, ScopeNode, ast.Call]]:
        """Calls that make an optimizer."""
        known = (Kind.OPTIMIZER, Evidence.TYPE)
        return [made for made in self.program.all_calls if self.kinds.of(*made) == known]

    @cached_property
    def _switches(self) -> list[tuple[Source, ScopeNode, ast.expr, bool]]:
        """`x.requires_grad_(False)` and `x.requires_grad = True`: of what, and whether on."""
        found = []
        for source, scope, call in self.program.calls_named("requires_grad_"):
            if isinstance(call.func, ast.Attribute):
                given = [a.value for a in call.args[:1] if isinstance(a, ast.Constant)]
                found.append((source, scope, call.func.value, all(given)))
        for source, put in self.program.puts_of("requires_grad"):
            if isinstance(put.bound.value, ast.Constant):
                found.append((source, put.scope, put.owner, bool(put.bound.value.value)))
        return found

    @cached_property
    def frozen(self) -> frozenset[Value]:
        """Models whose parameters are all set to need no gradient, and none is set back."""
        off, again = set[Value](), set[Value]()
        for source, scope, node, on in self._switches:
            owners = self.program.of(source, scope, node)
            models = list(self.kinds.parameters_of(source, scope, node))
            if on:
                again.update(map(_root, (*owners, *models)))
            elif _is_tested(source, node):  # `if "head" not in name`: others stay as they are
                off.update(owners)
                again.update(models)
            else:
                off.update(owners, models)
        return frozenset(off - again.union(self._trained_again())) if off else frozenset()

    def _trained_again(self) -> Iterator[Value]:
        """Models that are adapted, get a new part, or are given to an optimizer."""
        for word in _ADAPTS:
            for source, scope, call in self.program.calls_named(word):
                owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
                for given in (*call.args, *owner):
                    yield from map(_root, self.program.of(source, scope, given))
        for source, scope, call in self._optimizers:
            for argument in arguments(call):
                yield from map(_root, self.kinds.parameters_of(source, scope, argument))
        for source in self.program.sources.values():
            for put in self.program.bindings_of(source).puts:
                if put.name not in ("", "requires_grad"):
                    yield from map(_root, self.program.of(source, put.scope, put.owner))


def _is_of_torch(value: Value) -> bool:
    return isinstance(value, Object) and external_name(value.made_by).startswith("torch.")


def _root(value: Value) -> Value:
    """`model` of `model[1].head`."""
    while isinstance(value, (Member, Item)):
        value = value.owner
    return value


def _is_tested(source: Source, node: ast.expr) -> bool:
    """Whether an `if` stands between an expression and the loop around it."""
    statement = source.statement_of(node)
    around = source.parents(statement) if statement is not None else ()
    nearest = next((p for p in around if isinstance(p, (*LOOPS, ast.If))), None)
    return isinstance(nearest, ast.If)
