"""What the search asks of the program and of its step, each derived once."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct, field

from instrumentor.locate.changes.skips.objects import Objects
from instrumentor.locate.changes.skips.reader import EffectsReader
from instrumentor.locate.changes.skips.storage import Frame, Storage
from instrumentor.locate.gradients.forward import leading_to
from instrumentor.locate.loop.loops import Candidate, outwards
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.region.modes import Region
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import ScopeNode, Source, contains, own_calls
from instrumentor.read.values import Item, Object, Opaque, Value

#: A statement and where it stands.
Place = tuple[Source, ScopeNode, ast.stmt]


class Traits(Struct):
    """What a function does, as far as the search goes by it."""

    evaluates: bool = False
    runs_a_model: bool = False
    saves_weights: bool = False


class Facts(Struct, eq=False, dict=True):
    """One candidate in its program."""

    knowledge: Knowledge
    candidate: Candidate
    regions: Sequence[Region]
    _traits: dict[Function, Traits] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        return self.knowledge.program

    @cached_property
    def storage(self) -> Storage:
        return Storage(self.program)

    @cached_property
    def objects(self) -> Objects:
        return Objects(self.knowledge, self._called_by_the_step)

    @cached_property
    def reader(self) -> EffectsReader:
        return EffectsReader(self.program, self.storage, self.objects)

    @cached_property
    def of_the_step(self) -> set[ast.stmt]:
        """Statements of the timed regions and those that the differentiated losses come from."""
        found: set[ast.stmt] = set()
        for region in self.regions:
            suite = region.candidate.source.places[region.begin].suite
            found.update(
                s
                for s in suite[suite.index(region.begin) :]
                if (s.end_lineno or s.lineno) <= (region.end.end_lineno or region.end.lineno)
            )
            for site in region.sites:
                found |= leading_to(region.candidate, site)
        return found

    def holds_step(self, statement: ast.stmt) -> bool:
        """Whether the loop, a backward or an update stands below a statement."""
        candidate = self.candidate
        held = [s.statement for s in candidate.sites] + [u.statement for u in candidate.updates]
        return any(contains(statement, s) for s in [candidate.loop, *held])

    @cached_property
    def _called_by_the_step(self) -> frozenset[Value]:
        """Objects that the step calls, itself or in the program's functions."""
        source, scope, names = self.candidate.source, self.candidate.scope, self.program.names
        steps = list(self.of_the_step)
        calls = [(source, scope, c) for s in steps for c in own_calls(s)]
        for function in self.program.called_from(scope, steps):
            inside = self.program.source_of_scope[function]
            calls += [(inside, function, c) for c in own_calls(function)]
        values = (v for where, inside, c in calls for v in names.of(where, inside, c.func))
        return frozenset(v for v in values if isinstance(v, (Object, Opaque, Item)))

    @cached_property
    def anchors(self) -> list[Place]:
        """The loop, and in each caller the first statement that leads to it."""
        one = self.candidate
        first: dict[ScopeNode, Place] = {}
        for place in outwards(self.program, one.source, one.scope, one.loop):
            first.setdefault(place[1], place)
        return list(first.values())

    def does(self, function: Function) -> Traits:
        """What a function does, itself or through what it calls in the program's own files."""
        found = self._traits.get(function)
        if found is None:
            found = self._traits[function] = Traits()
            queue, seen = [function], {function}
            while queue:
                current = queue.pop()
                where = (current.source, current.node)
                found.evaluates |= self.knowledge.evaluates(current)
                for call in own_calls(current.node):
                    found.runs_a_model |= self.objects.is_module(*where, call.func)
                    found.saves_weights |= self.objects.saves_weights(*where, call)
                    called = self.reader.functions(Frame(*where), call)
                    queue += [f for f in called if f not in seen]
                    seen.update(called)
        return found
