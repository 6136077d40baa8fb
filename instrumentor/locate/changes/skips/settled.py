"""Whether a module is put into a mode anew before anything asks for the one it was left in.

`model.train()` ahead of the forward settles in which mode the step runs, however an evaluation
ahead of that has left the model. The paths are followed from the evaluation on, through the calls
and out to the callers; whatever may run a module, or is not told, ends the search.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct, field

from instrumentor.locate.changes.skips.facts import Facts, Place
from instrumentor.locate.changes.skips.implicit import Implicit, operands
from instrumentor.locate.changes.skips.modes import sometimes, switches_itself
from instrumentor.locate.changes.skips.removal import Gone
from instrumentor.locate.changes.skips.storage import Frame, Spelling
from instrumentor.locate.changes.skips.training_mode import switch
from instrumentor.locate.meaning import methods
from instrumentor.read.bindings import Bound, Parameter
from instrumentor.read.control_flow import END, RAISED, START, flow_of
from instrumentor.read.program import Function
from instrumentor.read.signatures import own_parameter, passed
from instrumentor.read.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    arguments,
    bound_by,
    dotted,
    header,
)
from instrumentor.read.values import Class, Free, Object, Opaque

_DEPTH = 8
#: Of a module what hangs on no mode.
_HARMLESS = methods.WALKS_MODULE | methods.MOVES | methods.READING_METHODS | methods.MODULE_SAVES
#: Look at what an object is, not at its mode.
_LOOKS = ("builtins.hasattr", "builtins.id", "builtins.isinstance", "builtins.type")
_CONTAINERS = methods.FILLS | methods.TAKES | methods.WRITES_FILE


class Way(Enum):
    """What the paths through something do first."""

    SETS = "each sets the mode"
    PASSES = "one comes to its end, none asks for the mode"
    ASKS = "one may ask for it"


class Settled(Struct, eq=False):
    """Of one piece; `gone` is what is taken out with it, and what no run comes to then."""

    facts: Facts
    gone: Gone
    _known: dict[tuple[Frame, Spelling], Way] = field(default_factory=dict)

    def holds(self, place: Place, module: Spelling) -> bool:
        """Whether what runs behind a statement sets the mode of a module, or never asks for it."""
        source, scope, statement = place
        flow = flow_of(scope)
        if statement not in flow.begins or not module.text or module.scope is None:
            return False
        return self._behind(source, scope, statement, module, _DEPTH)

    def _behind(
        self, source: Source, scope: ScopeNode, statement: ast.stmt, module: Spelling, depth: int
    ) -> bool:
        flow = flow_of(scope)
        way = self._along(Frame(source, scope), flow.after(statement), module, _DEPTH)
        if way is not Way.PASSES or not isinstance(scope, FUNCTIONS):
            return way is not Way.ASKS
        program = self.facts.program
        callers = program.callers.get(scope, ())
        if not depth or scope in program.handed or not callers:
            return False
        for where, call, at in callers:
            outside = program.source_of_scope[where]
            named = self._outside(outside, where, call, Function(source, scope), module)
            if named is None and self.facts.is_over_with(scope):
                continue
            if named is None or at not in flow_of(where).begins:
                return False
            if not self._behind(outside, where, at, named, depth - 1):
                return False
        return True

    def _outside(
        self, source: Source, scope: ScopeNode, call: ast.Call, function: Function, module: Spelling
    ) -> Spelling | None:
        """How a caller spells what is a parameter's, or a part of it."""
        first, dot, rest = module.text.partition(".")
        if module.scope is not function.node:
            return module
        names = self.facts.program.names
        given = dict(names.given(source, scope, call, function))
        if (own := own_parameter(function)) and isinstance(call.func, ast.Attribute):
            given.setdefault(own, call.func.value)
        bound = names.bound(function.source, function.node, first)
        text = dotted(given[first]) if first in given else ""
        if not text or not all(isinstance(b, Parameter) for b in bound):
            return None
        binder = self.facts.storage.owner(source, scope, text.partition(".")[0])
        return Spelling(f"{text}{dot}{rest}", binder)

    # -- paths ---------------------------------------------------------------------------------

    def _along(self, frame: Frame, start: int, module: Spelling, depth: int) -> Way:
        flow, passes = flow_of(frame.scope), False
        starts = {point: statement for statement, point in flow.begins.items()}
        waiting, seen = [*flow.following[start]] if start != START else [START], set[int]()
        while waiting:
            point = waiting.pop()
            if point in seen or point == RAISED:
                continue
            seen.add(point)
            passes |= point == END
            statement = starts.get(point)
            if statement is not None and self.gone.holds(frame.source, statement):
                point, statement = flow.after(statement), None
            way = Way.PASSES
            if statement is not None:
                way = self._does(frame, statement, module, depth)
            if way is Way.ASKS:
                return way
            if way is Way.PASSES:
                waiting += [*flow.following[point], *flow.failing.get(point, ())]
        return Way.PASSES if passes else Way.SETS

    def _does(self, frame: Frame, statement: ast.stmt, module: Spelling, depth: int) -> Way:
        """What a statement does first, those below it left out."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return Way.PASSES
        nodes, found = header(statement), {Way.PASSES}
        again = switches_itself(statement)  # the name of what it has
        if not again and any(self._changes(frame, node, module) for node in nodes):
            return Way.ASKS
        for node in nodes:
            if isinstance(node, ast.Call):
                found.add(self._calls(frame, node, module, depth))
            elif any(self._runs(f) for f in self._implicit(frame, node)):
                return Way.ASKS
        if Way.ASKS in found:
            return Way.ASKS
        return Way.SETS if Way.SETS in found and not sometimes(statement) else Way.PASSES

    def _changes(self, frame: Frame, node: ast.AST, module: Spelling) -> bool:
        """Whether a node asks for a mode, or may make the spelling that of another module."""
        first, *rest = module.text.split(".")
        if isinstance(node, ast.Attribute):
            return node.attr == "training" or (
                node.attr in rest and not isinstance(node.ctx, ast.Load)
            )
        return frame.scope is module.scope and first in bound_by(node)

    def _implicit(self, frame: Frame, node: ast.AST) -> Iterator[Function]:
        """Methods that no call names."""
        where, implicit = (frame.source, frame.scope), Implicit(self.facts.program)
        if isinstance(node, ast.Attribute):
            yield from implicit.accessors(*where, node)
        owners = [*operands(node)]
        owners += [node.iter] if isinstance(node, (ast.For, ast.comprehension)) else []
        for owner in owners:
            owner = self.facts.objects.within(*where, owner)
            yield from implicit.special(*where, owner)

    def _runs(self, function: Function) -> bool:
        return self.facts.does(function).runs_a_model

    # -- calls ---------------------------------------------------------------------------------

    def _calls(self, frame: Frame, call: ast.Call, module: Spelling, depth: int) -> Way:
        where, facts = (frame.source, frame.scope), self.facts
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("train", "eval"):
            if facts.objects.is_module(*where, call.func.value):
                is_set = switch(call) is not None and self._is_it(frame, call.func.value, module)
                return Way.SETS if is_set else Way.PASSES
        if facts.runs(*where, call):
            return Way.ASKS
        values = facts.program.names.of(*where, call.func)
        functions = facts.reader.functions(frame, call)
        made = any(isinstance(v, Class) for v in values)
        if facts.storage.leaves(frame, call) or not (functions or made):
            if self._may_ask(frame, call):
                return Way.ASKS
        found = {self._called(frame, call, f, module, depth) for f in functions}
        if Way.ASKS in found:
            return Way.ASKS
        return Way.SETS if found == {Way.SETS} else Way.PASSES

    def _called(
        self, frame: Frame, call: ast.Call, function: Function, module: Spelling, depth: int
    ) -> Way:
        if not depth:
            return Way.ASKS
        given = self.facts.storage.arguments(frame, call, function)
        inner = Frame(function.source, function.node, given, "called")
        if (inner, module) not in self._known:
            self._known[inner, module] = Way.PASSES  # it calls itself
            self._known[inner, module] = self._along(inner, START, module, depth - 1)
        return self._known[inner, module]

    def _may_ask(self, frame: Frame, call: ast.Call) -> bool:
        """Whether a call that leaves the program may run a module, or look at one."""
        where, facts = (frame.source, frame.scope), self.facts
        given = [*arguments(call)]
        if isinstance(call.func, ast.Attribute):
            word, owner = call.func.attr, call.func.value
            if word not in _HARMLESS and not facts.objects.is_library(*where, owner):
                given.append(owner)
                plain = facts.storage.of(frame, owner).plain
                if word not in _CONTAINERS and not plain:
                    if not self._is_told(frame, owner):
                        return True
        elif facts.program.names.qualified(*where, call.func) in _LOOKS:
            return False
        elif not self._is_told(frame, call.func):
            return True
        if any(self._runs(f) for f in facts.reader.handed_to(frame, call)):
            return True
        return any(facts.objects.is_module(*where, value) for value in given)

    def _is_told(self, frame: Frame, node: ast.expr) -> bool:
        """Whether it is known where something comes from."""
        values = self.facts.program.names.of(frame.source, frame.scope, node)
        return bool(values) and not any(isinstance(v, (Free, Opaque)) for v in values)

    # -- which module --------------------------------------------------------------------------

    def _is_it(self, frame: Frame, node: ast.expr, module: Spelling) -> bool:
        """Whether switching this switches the module: it is that, or holds it."""
        switched = self.facts.storage.of(frame, node).path
        if not switched.text or self._switches_otherwise(frame, node):
            return False
        return any(self._holds(switched, one) for one in self._spellings(module))

    def _holds(self, switched: Spelling, module: Spelling) -> bool:
        if switched.scope is not module.scope:
            return False
        rest = module.text.removeprefix(switched.text)
        known = self.facts.program.methods_by_name
        return module.text.startswith(switched.text) and (
            not rest or (rest[0] == "." and not any(w in known for w in rest[1:].split(".")))
        )

    def _switches_otherwise(self, frame: Frame, node: ast.expr) -> bool:
        """A `train()` of the program's own, which may leave parts as they are."""
        values = self.facts.program.names.of(frame.source, frame.scope, node)
        made = (v.made_by for v in values if isinstance(v, Object))
        methods_of = self.facts.program.methods
        return any(
            methods_of(cls, word, overrides=True)
            for cls in made
            if isinstance(cls, Class)
            for word in ("train", "eval")
        )

    def _spellings(self, module: Spelling) -> Iterator[Spelling]:
        """The module, and what an object that holds it was made with: `Evaluator(model)`."""
        yield module
        names, scope = self.facts.program.names, module.scope
        first, _, rest = module.text.partition(".")
        word, dot, further = rest.partition(".")
        if scope is None or not word:
            return
        source = self.facts.program.source_of_scope[scope]
        match names.bound(source, scope, first):
            case [Bound(value=ast.Call() as made, path=())]:
                pass
            case _:
                return
        given = self._kept_as(source, scope, made, word)
        at = source.statement_of(made)
        text = dotted(given) if given is not None else ""
        if not text or at is None or at not in flow_of(scope).begins:
            return
        root = text.partition(".")[0]
        if self.facts.storage.owner(source, scope, root) is not scope:
            return
        flow = flow_of(scope)
        for binding in names.bound(source, scope, root):
            sets = source.statement_of(binding.value) if isinstance(binding, Bound) else None
            if isinstance(binding, Parameter):
                continue
            if sets is None or sets not in flow.begins:
                return
            if flow.path(flow.after(at), flow.before(sets)) and not self._wraps(
                source, scope, sets, root
            ):
                return
        if "." not in text or not self._is_put_behind(source, scope, at, text):
            yield Spelling(f"{text}{dot}{further}", scope)

    def _is_put_behind(self, source: Source, scope: ScopeNode, at: ast.stmt, text: str) -> bool:
        """Whether an attribute on the way may be set once an object is made with it."""
        words = text.split(".")[1:]
        return any(
            put.scope is not scope or getattr(put.scope, "name", "") != "__init__"
            for word in words
            for _, put in self.facts.program.names.puts_of(word)
        )

    def _kept_as(
        self, source: Source, scope: ScopeNode, made: ast.Call, word: str
    ) -> ast.expr | None:
        """What a constructor is given and puts under a name, which nothing else sets."""
        program = self.facts.program
        match program.names.of(source, scope, made.func):
            case (Class() as cls,):
                pass
            case _:
                return None
        constructors = program.methods(cls, "__init__", overrides=False)
        if len(constructors) != 1 or word in program.methods_by_name:
            return None
        init = constructors[0]
        puts = [
            put
            for s, put in program.names.puts_of(word)
            if self._may_be_of(cls, program.names.of(s, put.scope, put.owner))
        ]
        named = [put.bound.value for put in puts if put.scope is init.node and not put.bound.path]
        if len(puts) != 1 or len(named) != 1 or not isinstance(named[0], ast.Name):
            return None
        bound = program.names.bound(init.source, init.node, named[0].id)
        if not all(isinstance(b, Parameter) for b in bound):
            return None
        return dict(passed(made, init.node, bound=True)).get(named[0].id)

    def _may_be_of(self, cls: Class, owners: tuple[object, ...]) -> bool:
        family = {cls, *self.facts.program.names.bases(cls)}
        family |= {*self.facts.program.names.subclasses.get(cls.node, ())}
        made = [v.made_by if isinstance(v, Object) else v for v in owners]
        return not made or not all(isinstance(m, Class) and m not in family for m in made)

    def _wraps(self, source: Source, scope: ScopeNode, statement: ast.stmt, name: str) -> bool:
        """`model = DataParallel(model)`, `model = model.cuda()`: the same, or one that has it."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=bound)], value=ast.Call() as call):
                if bound != name:
                    return False
            case _:
                return False
        if isinstance(call.func, ast.Attribute) and dotted(call.func.value) == name:
            return call.func.attr in (*methods.MOVES, "to", "float", "half", "double", "bfloat16")
        full = self.facts.program.names.qualified(source, scope, call.func)
        return full.startswith("torch.nn.parallel.") or full.startswith("torch.nn.DataParallel")
