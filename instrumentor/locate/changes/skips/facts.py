"""What the search asks of the program and of its step, each derived once."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile

from msgspec import Struct, field

from instrumentor.locate.changes.cleanup import cleanup_behind
from instrumentor.locate.changes.skips.helpers import Helpers
from instrumentor.locate.changes.skips.made_ahead import MadeAhead
from instrumentor.locate.changes.skips.objects import Objects
from instrumentor.locate.changes.skips.reader import EffectsReader
from instrumentor.locate.changes.skips.removal import Closed, Gone
from instrumentor.locate.changes.skips.storage import Frame, Storage
from instrumentor.locate.gradients.leading import leading_to
from instrumentor.locate.located import Stop
from instrumentor.locate.loop.loops import Candidate, Site, leaves_out_all, outwards
from instrumentor.locate.meaning import libraries, methods
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Kind
from instrumentor.locate.region.modes import Region
from instrumentor.read.names import external_name
from instrumentor.read.program import Class, Function, Program
from instrumentor.read.script_options import ScriptOptions
from instrumentor.read.signatures import suspends
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    ScopeNode,
    Source,
    arguments,
    callee,
    contains,
    own_calls,
    own_nodes,
    path_to,
)
from instrumentor.read.values import Item, Object, Opaque, Value

#: A statement and where it stands.
Place = tuple[Source, ScopeNode, ast.stmt]
#: A name or attribute where it stands.
Mention = tuple[Source, ScopeNode, ast.Name | ast.Attribute]


#: What may run an expression inside of it several times.
_REPEATS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_HOLDS = methods.PUTS | methods.TAKES


def _is_repeated(statement: ast.stmt, call: ast.Call) -> bool:
    """Whether a statement that runs once may run a call in it several times."""
    if isinstance(statement, ast.While) and contains(statement.test, call):
        return True
    return any(isinstance(n, _REPEATS) and contains(n, call) for n in own_nodes(statement))


def _is_below_a_case(source: Source, statement: ast.stmt) -> bool:
    """Whether it stands in a handler or a case, whose surroundings `parents` does not tell."""
    outermost = [statement, *source.parents(statement)][-1]
    return isinstance(source.places[outermost].parent, (ast.ExceptHandler, ast.match_case))


def _behind(place: Place) -> list[tuple[Source, ast.stmt]]:
    source, scope, statement = place
    path = path_to(source, scope, statement)
    return [(source, s) for suite, index in path for s in suite[index + 1 :]]


def _is_of_the_entry(test: ast.expr) -> bool:
    """`__name__ == "__main__"` and no more: what is only like it may run in any module."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[right]):
            return isinstance(right, ast.Constant) and right.value == "__main__"
    return False


class Traits(Struct):
    """What a function does, as far as the search goes by it."""

    evaluates: bool = False
    runs_a_model: bool = False
    saves_weights: bool = False


class Facts(Struct, eq=False, dict=True):
    """One candidate in its program.

    unread: why nothing can be shown of what stays: the step runs code that cannot be read.
    """

    knowledge: Knowledge
    candidate: Candidate
    regions: Sequence[Region]
    stops: Sequence[Stop]
    called_with: ScriptOptions
    unread: str = ""
    _traits: dict[Function, Traits] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        return self.knowledge.program

    @cached_property
    def options(self) -> ScriptOptions:
        known = self.called_with
        same = known.program is self.program
        return known if same else ScriptOptions(self.program, known.arguments)

    @cached_property
    def ruled_out(self) -> list[tuple[Source, ast.stmt]]:
        """What the script's options leave out, and what a module runs as a script alone."""
        guarded = [
            (source, statement)
            for source in self.program.sources.values()
            if source is not self.program.entry
            for test in source.tree.body
            if isinstance(test, ast.If) and _is_of_the_entry(test.test)
            for statement in test.body
        ]
        return guarded + [(source, statement) for statement, source in self._never.items()]

    @cached_property
    def _never(self) -> dict[ast.stmt, Source]:
        """Branches that the options leave out, or what is made ahead of the samples."""
        by_options = [(source, statement) for statement, source in self.options.never.items()]
        unused = Gone(self.program, [], by_options, self.closed).functions
        made = MadeAhead(self.program, self.anchors, unused).never()
        return {**self.options.never, **{statement: source for source, statement in made}}

    @cached_property
    def _dead(self) -> Gone:
        return Gone(self.program, [], self.ruled_out, self.closed)

    def is_dead(self, scope: ScopeNode, node: ast.AST) -> bool:
        """Whether nothing ever comes to a place."""
        source = self.program.source_of_scope[scope]
        return scope in self._dead.functions or self._dead.holds(source, node)

    @cached_property
    def storage(self) -> Storage:
        alive = {*(scope for _, scope, _ in self.anchors), *self.helpers.scopes}
        return Storage(
            self.program,
            self.options.plain,
            alive,
            self._is_loss,
        )

    def _is_loss(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """A loss of a library, whose value is new."""
        values = self.program.names.of(source, scope, node)
        return bool(values) and all(
            isinstance(v, Object) and libraries.made_by(external_name(v.made_by)) is Kind.LOSS
            for v in values
        )

    @cached_property
    def objects(self) -> Objects:
        return Objects(self.knowledge, self._called_by_the_step)

    @cached_property
    def closed(self) -> Closed:
        scopes = [scope for _, scope, _ in self.anchors]
        return Closed(self.program, self.program.entry.tree in scopes)

    @cached_property
    def reader(self) -> EffectsReader:
        return EffectsReader(self.program, self.storage, self.objects, self._never)

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
        held = [s.statement for s in self.candidate.sites] + self.updates
        held += [at for _, at in self.helpers.leading]
        return any(contains(statement, s) for s in [self.candidate.loop, *held])

    @cached_property
    def updates(self) -> list[ast.stmt]:
        """Statements that update, in the loop and in the functions that lead to its step."""
        return [u.statement for u in self.candidate.updates] + self.helpers.updates

    def leads_to_step(self, source: Source, statement: ast.stmt) -> bool:
        """Whether a backward, the loop, or a call that leads there stands below a statement."""
        one = self.candidate
        held = [s.statement for s in one.sites] if source is one.source else []
        held += [at for where, _, at in self.anchors if where is source]
        held += [at for where, at in self.helpers.leading if where is source]
        return any(contains(statement, s) for s in held)

    @cached_property
    def run_by_the_step(self) -> dict[ScopeNode, None]:
        """Functions of the program that the step runs."""
        found: dict[ScopeNode, None] = {}
        for scope, steps in self._step_by_scope.items():
            found |= self.program.called_from(scope, steps)
        return found

    @cached_property
    def _step_by_scope(self) -> dict[ScopeNode, list[ast.stmt]]:
        """The statements of the step, of the loop or of the function that makes it."""
        found: dict[ScopeNode, list[ast.stmt]] = {}
        for source in dict.fromkeys(region.candidate.source for region in self.regions):
            for statement in source.places:
                if statement in self.of_the_step:
                    found.setdefault(source.scope_of(statement), []).append(statement)
        return found

    @cached_property
    def _called_by_the_step(self) -> frozenset[Value]:
        """Objects that the step calls, itself or in the program's functions."""
        names, sources = self.program.names, self.program.source_of_scope
        steps = [(scope, s) for scope, each in self._step_by_scope.items() for s in each]
        calls = [(sources[scope], scope, c) for scope, s in steps for c in own_calls(s)]
        for function in self.run_by_the_step:
            inside = self.program.source_of_scope[function]
            calls += [(inside, function, c) for c in own_calls(function)]
        values = (v for where, inside, c in calls for v in names.of(where, inside, c.func))
        return frozenset(v for v in values if isinstance(v, (Object, Opaque, Item)))

    @cached_property
    def anchors(self) -> list[Place]:
        """The loop, and in each caller the first statement that leads to it."""
        one = self.candidate
        first: dict[ScopeNode, Place] = {}
        for place in outwards(self.program, one.source, one.scope, one.loop, one.sites):
            first.setdefault(place[1], place)
        return list(first.values())

    @cached_property
    def helpers(self) -> Helpers:
        return Helpers(self.candidate, self.regions)

    @cached_property
    def repeated(self) -> set[ScopeNode]:
        """Functions that lead to the step and are called several times: in a loop, or in places."""
        leading = {scope for _, scope, _ in self.anchors}
        found: set[ScopeNode] = set()
        for _, scope, _ in reversed(self.anchors):  # callers first
            callers = self.program.callers_of(scope) if isinstance(scope, FUNCTIONS) else ()
            calls = [(c, at) for c, _, at in callers if c in leading]
            if len(calls) > 1 or any(
                c in found or self.program.source_of_scope[c].loops_around(at) for c, at in calls
            ):
                found.add(scope)
        return found

    @cached_property
    def namespaces_given(self) -> list[tuple[Source, ast.Name | ast.Attribute]]:
        """Where what a parser of options gave is handed to a library: `vars(args)`.

        What the program's own code reads of it, in whatever class, it reads by name.
        """
        return [
            (source, given)
            for source in self.program.sources.values()
            for call in source.calls
            for given in arguments(call)
            if isinstance(given, (ast.Name, ast.Attribute))
            if self.objects.is_namespace(source, source.scope_of(call), given)
            if self.program.names.qualified(source, source.scope_of(call), call.func)
        ]

    def is_of_a_namespace(self, name: str) -> bool:
        """Whether an attribute of that name is set of what a parser of options gave."""
        every = self.program.names.puts_of(name)
        return any(self.objects.is_namespace(s, put.scope, put.owner) for s, put in every)

    # -- behind the last sample ----------------------------------------------------------------

    @cached_property
    def never(self) -> list[tuple[Source, ast.stmt]]:
        """Statements behind all loops, which do not run where something is skipped.

        The early stop does not come to them, and a loop that ends by itself to one of `endings`.
        """
        return [behind for place in self._left for behind in _behind(place)]

    def is_over_with(self, scope: ScopeNode) -> bool:
        """Whether nothing runs once a function that leads to the step is left."""
        return self._exits and any(place[1] is scope for place in self._left)

    @cached_property
    def endings(self) -> list[Stop]:
        """Stops that always hold: one ahead of each list of statements that `never` holds.

        So none of these runs in whatever way the loop is left: at its end, by `return`, by an
        exception that is handled.
        """
        found: list[Stop] = []
        for source, scope, loop in self._left:
            inside = loop.body[0] if isinstance(loop, LOOPS) else loop
            cleanup = cleanup_behind(self.knowledge, source, scope, inside)
            for suite, index in path_to(source, scope, loop):
                last, rest = suite[index], suite[index + 1 :]
                if all(s in cleanup or isinstance(s, (*FUNCTIONS, ast.Pass)) for s in rest):
                    continue
                here = tuple(s for s in cleanup if s.lineno >= rest[0].lineno)
                leave = self.stops[0].strategy if self._exits else "return"
                found.append(Stop(source, last, last, leave, cleanup=here))
        return found

    @cached_property
    def _left(self) -> list[Place]:
        """What no run goes on behind: the outermost loop, and what leads to it.

        With a stop that returns to its caller, in the function of the loop alone.
        """
        places = self._ending
        if not places or not isinstance(places[0][2], LOOPS):
            return []
        if not self._exits:
            own = isinstance(self.candidate.scope, FUNCTIONS)
            return [p for p in places if own and p[1] is self.candidate.scope]
        sources = self.candidate.program.sources.values()
        return [*takewhile(lambda place: place[0] in sources, places)]

    @cached_property
    def cleanup(self) -> list[tuple[Source, ast.stmt]]:
        """Statements that run once the last sample is taken."""
        found = [(stop.source, s) for stop in self.stops for s in stop.cleanup]
        for place in self._ending:
            source, scope, outermost = place
            for parent in source.parents(outermost):
                if isinstance(parent, ast.Try) and any(contains(s, outermost) for s in parent.body):
                    found += [(source, s) for s in parent.finalbody]
            if not self._exits and scope is not self.candidate.scope:
                found += _behind(place)
        return found

    @property
    def _exits(self) -> bool:
        """Whether the stop leaves the callers of the loop as well."""
        return all(stop.strategy != "return" for stop in self.stops)

    @cached_property
    def _ending(self) -> list[Place]:
        """What is left for good at the stop: of each scope around the step the outermost loop."""
        one = self.candidate
        return self.once(one.source, one.scope, one.loop, one.sites) if self.stops else []

    def once(
        self,
        source: Source,
        scope: ScopeNode,
        statement: ast.stmt,
        sites: Sequence[Site] = (),
    ) -> list[Place]:
        """A statement and those that lead to it, with all loops around them, which run once.

        Args:
            sites: backwards below the statement: of several calls that which comes to them leads.
        """
        found, chain = list[Place](), tuple[Function, ...]()
        while scope not in (place[1] for place in found) and not suspends(scope):
            if _is_below_a_case(source, statement):
                break
            loops = source.loops_around(statement)
            if loops:
                found.clear()  # what is further inside runs several times
            found.append((source, scope, loops[-1] if loops else statement))
            if not isinstance(scope, FUNCTIONS):
                return found
            every, chain = self.program.callers_of(scope), (Function(source, scope), *chain)
            callers = [
                each for each in every if not leaves_out_all(self.program, *each[:2], chain, sites)
            ]
            if len(callers) != 1 or scope in self.program.handed:
                break
            if len(every) > 1:
                found.clear()  # the function runs for others too
            scope, call, statement = callers[0]
            if _is_repeated(statement, call):
                break
            source = self.program.source_of_scope[scope]
        return []

    def runs(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """Calls a module, or a method of a library's that may run it, as `layers.append` does not.

        What a method of the program's own does is read in its body, `__call__` as well.
        """
        puts = isinstance(call.func, ast.Attribute) and call.func.attr in _HOLDS
        values = self.program.names.of(source, scope, call.func)
        own = bool(values) and all(
            isinstance(v, Object)
            and isinstance(v.made_by, Class)
            and self.program.methods(v.made_by, "__call__", overrides=False)
            for v in values
        )
        if puts or own:
            return False
        return self.objects.runs(source, scope, call) or self.objects.is_on_a_module(
            source, scope, call
        )

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
                    called = self.reader.functions(Frame(*where), call)
                    method = any(f.name == callee(call) != "forward" for f in called)
                    found.runs_a_model |= not method and self.runs(*where, call)
                    found.saves_weights |= self.objects.saves_weights(*where, call)
                    queue += [f for f in called if f not in seen]
                    seen.update(called)
        return found
