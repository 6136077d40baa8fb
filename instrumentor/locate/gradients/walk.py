"""Where what a backward differentiates is made: differentiable values, followed through a program.

A walk through the statements of a scope keeps for each variable which statements made what it
holds. A function is walked once: its summary says what its result, what it stores outside and
what its backwards differentiate are made of, in terms of what it is given; a call puts in what
that is there. Values made under `no_grad`, indices, numbers and what NumPy returns hold nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.locate.gradients.differentiable import PASSES, Effect, effect_of
from instrumentor.locate.gradients.tracked_values import (
    NO_VALUE,
    Given,
    Held,
    Key,
    Made,
    Value,
    attached,
    detached,
)
from instrumentor.locate.meaning import methods, spelling
from instrumentor.locate.meaning.calls import Knowledge, is_stub
from instrumentor.locate.meaning.roles import Evidence, Kind
from instrumentor.read.bindings import Bound
from instrumentor.read.fixpoint import Answers
from instrumentor.read.names import external_name
from instrumentor.read.names_used import binds
from instrumentor.read.program import Function
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    ScopeNode,
    Source,
    arguments,
    called_on,
    callee,
    children,
    dotted,
    parameters,
    receiver,
)
from instrumentor.read.values import Class, External, Object

_NAMES = (ast.Name, ast.Attribute, ast.Subscript)
_MODEL = Kind.MODEL, Evidence.TYPE
#: By the statement that runs a backward and the backward itself, in the order of what is made.
Differentiated: TypeAlias = Mapping[tuple[ast.stmt, ast.Call], tuple[Made, ...]]


class Summary(Struct, frozen=True):
    """What a function does with differentiable values, in terms of what it is given.

    stores: what it leaves in variables of outside, and in attributes of objects; filled: those it
    only adds elements to; runs: whether it runs a model without switching gradients off.
    """

    result: Value = NO_VALUE
    stores: dict[Key, Value] = field(default_factory=dict)
    filled: set[Key] = field(default_factory=set)
    backwards: dict[ast.Call, Value] = field(default_factory=dict)
    runs: bool = False


def gradients_of(knowledge: Knowledge) -> Gradients:
    """The differentiable values of a program, read once for all who ask."""
    found: Gradients | None = knowledge.__dict__.get("_gradients")
    if found is None:
        found = knowledge.__dict__["_gradients"] = Gradients(knowledge)
    return found


class Gradients(Struct, eq=False):
    """Differentiable values of a program; what its functions and iterations do is kept."""

    knowledge: Knowledge
    _summaries: Answers = field(default_factory=Answers)
    _asked: set[FunctionNode] = field(default_factory=set)
    _iterations: dict[tuple[tuple[ast.stmt, ...], tuple[str, ...]], Differentiated] = field(
        default_factory=dict
    )
    _states: dict[str, bool] = field(default_factory=dict)

    def differentiated(
        self, source: Source, scope: ScopeNode, body: Sequence[ast.stmt], fresh: Iterable[str] = ()
    ) -> Differentiated:
        """What each backward of an iteration differentiates, in the order in which it is made.

        Args:
            body: the statements of the iteration, in `scope`.
            fresh: names that the loop's header binds to data.
        Returns:
            By the statement of `scope` that runs the backward, and the backward itself.
        """
        key = tuple(body), tuple(fresh)
        found = self._iterations.get(key)
        if found is None:
            found = self._iterations[key] = self._iteration(source, scope, body, key[1])
        return found

    def _iteration(
        self, source: Source, scope: ScopeNode, body: Sequence[ast.stmt], fresh: Sequence[str]
    ) -> Differentiated:
        walk = _Walk(self, source, scope)
        for name in fresh:
            walk.held.values[(walk.held.binder(name), name)] = NO_VALUE
        walk.block(body)
        order = {unit: n for n, unit in enumerate(walk.visited)}
        return {
            place: tuple(
                sorted(
                    (m for m in value if isinstance(m, Made)),
                    key=lambda m: (order[m.unit], *_position(m)),
                )
            )
            for place, value in walk.backwards.items()
        }

    def forwards(
        self, source: Source, scope: ScopeNode, body: Sequence[ast.stmt]
    ) -> Mapping[ast.stmt, bool]:
        """Statements that run a model, themselves or by a call; whether gradients are on there."""
        walk = _Walk(self, source, scope)
        walk.block(body)
        return walk.runs

    def summary(self, function: Function) -> Summary:
        """What a function does; first what it calls, so that no chain of calls is too long."""
        program = self.knowledge.program
        if function.node not in self._asked:
            called = program.called_from(function.node, function.node.body)
            new = [n for n in called if isinstance(n, FUNCTIONS) and n not in self._asked]
            self._asked.update(new, (function.node,))
            for node in reversed(new):
                self.summary(Function(program.source_of_scope[node], node))
        return self._summaries.ask(function.node, lambda: self._read(function), Summary())

    def _read(self, function: Function) -> Summary:
        node = function.node
        walk = _Walk(self, function.source, node, inside=True)
        walk.enabled = not self.knowledge.is_no_grad_function(function)
        walk.block(node.body)
        backwards: dict[ast.Call, Value] = {}
        for (_, call), value in walk.backwards.items():
            backwards[call] = backwards.get(call, NO_VALUE) | value
        stores = {
            key: value
            for key, value in walk.held.values.items()
            if key[0] is not node or key in walk.held.filled or "." in key[1]
        }
        runs = any(walk.runs.values())
        return Summary(walk.result, stores, walk.held.filled, backwards, runs)

    def is_state(self, attribute: str) -> bool:
        """Whether an attribute of that name is set outside of constructors: by a step, perhaps."""
        if attribute not in self._states:
            scopes = (put.scope for _, put in self.knowledge.program.puts_of(attribute))
            self._states[attribute] = any(getattr(s, "name", "") != "__init__" for s in scopes)
        return self._states[attribute]


class _Walk:
    """One walk through the statements of a scope.

    at: the statement that is being walked; visited: all of them in order; enabled: whether
    gradients are recorded there; inside: whether the scope is a function that the iteration calls;
    met: calls that were walked over; loops: what a pass has left of a loop in loops, which gets its
    second pass with theirs.
    """

    def __init__(
        self, gradients: Gradients, source: Source, scope: ScopeNode, *, inside: bool = False
    ) -> None:
        binder = gradients.knowledge.program.binder
        self.gradients, self.knowledge = gradients, gradients.knowledge
        self.source, self.scope, self.inside = source, scope, inside
        self.held = Held(lambda name: binder(source, scope, name))
        self.result = NO_VALUE
        self.backwards: dict[tuple[ast.stmt, ast.Call], Value] = {}
        self.visited: dict[ast.stmt, None] = {}
        self.runs: dict[ast.stmt, bool] = {}
        self.met: set[ast.Call] = set()
        self.loops: dict[ast.stmt, dict[Key, Value]] = {}
        self.enabled = True

    # -- statements ------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.at = statement
            self.visited.setdefault(statement)
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            value = self.value(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
                    self._switched(target.value)
                elif node.value is not None:
                    self.held.bind(target, value)
        elif isinstance(node, ast.AugAssign):
            self.held.bind(node.target, self._computed(node))
        elif isinstance(node, LOOPS):
            self._loop(node)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            self._with(node)
        elif isinstance(node, ast.Return):
            self.result |= self.value(node.value)
        elif isinstance(node, ast.Expr):
            self._discarded(node.value)
        elif isinstance(node, (ast.If, ast.Match, ast.Try)):
            self._branches(node)

    def _loop(self, node: ast.For | ast.While | ast.AsyncFor) -> None:
        walked = self.value(node.test if isinstance(node, ast.While) else node.iter)
        before = dict(self.held.values)
        outermost, left = not self.loops, self.loops.get(node)
        if left is not None:
            self.held.join([before, left])
        self.loops[node] = before
        for _ in range(2 if outermost else 1):  # what one pass leaves, the next one finds
            start = dict(self.held.values)
            if not isinstance(node, ast.While):
                self.held.bind(node.target, walked)
            self.block(node.body)
            if start == self.held.values:
                break
        self.loops[node] = dict(self.held.values)
        if outermost:
            self.loops.clear()
        self.held.join([before, self.held.values])
        self.block(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        enabled = self.enabled
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is not None:
                self.held.bind(item.optional_vars, value)
            if self.knowledge.is_no_grad(self.source, self.scope, item.context_expr):
                self.enabled = False
            elif dotted(item.context_expr).endswith("enable_grad()"):
                self.enabled = True
        self.block(node.body)
        self.enabled = enabled

    def _branches(self, node: ast.If | ast.Match | ast.Try) -> None:
        """What any of the branches leaves."""
        if isinstance(node, ast.If):
            self.value(node.test)
            suites = [node.body, node.orelse]
        elif isinstance(node, ast.Match):
            self.value(node.subject)
            suites = [*(case.body for case in node.cases), []]
        else:
            self.block(node.body)
            suites = [node.orelse, *(handler.body for handler in node.handlers)]
        before, left = dict(self.held.values), []
        for suite in suites:
            self.held.values = dict(before)
            self.block(suite)
            left.append(self.held.values)
        self.held.join(left)
        if isinstance(node, ast.Try):
            self.block(node.finalbody)

    def _discarded(self, node: ast.expr) -> None:
        """A call for its effect: what an unread method makes, its object may keep."""
        value = self.value(node)
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return
        key = self.held.key(node.func.value)
        own = {m for m in attached(value) if isinstance(m, Made) and m.statement is self.at}
        if own and key is not None and not spelling.FORWARD.fits(node.func.attr):
            own = {replace(m, evidence=Evidence.PREPARATION) for m in own}
        if own and key is not None:
            self.held.values[key] = self.held.read(key) | own

    # -- expressions -----------------------------------------------------------------------

    def value(self, node: ast.AST | None) -> Value:
        """What an expression's value is made of; it is detached where gradients are off."""
        if node is None or isinstance(node, ast.Constant):
            return NO_VALUE
        found = self._value(node)
        return found if self.enabled else detached(found)

    def _value(self, node: ast.AST) -> Value:
        match node:
            case ast.Name() | ast.Attribute():
                return self._variable(node)
            case ast.Call():
                found = self._call(node)
                self.met.add(node)
                return found
            case ast.BinOp():
                return self._computed(node)
            case ast.Subscript(value=whole, slice=index):
                self.value(index)
                return self.value(whole)
            case ast.IfExp(test=test, body=one, orelse=other):
                self.value(test)
                return self.value(one) | self.value(other)
            case ast.NamedExpr(target=target, value=part):
                value = self.value(part)
                self.held.bind(target, value)
                return value
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.Compare() | ast.JoinedStr():
                return self._no_value(node)
            case ast.Lambda():  # until it is called
                return NO_VALUE
        return self._parts(node)

    def _parts(self, node: ast.AST) -> Value:
        return NO_VALUE.union(*[self.value(child) for child in children(node)])

    def _no_value(self, node: ast.AST) -> Value:
        self._parts(node)
        return NO_VALUE

    def _variable(self, node: ast.expr) -> Value:
        name = dotted(node)
        if isinstance(node, ast.Attribute):
            if node.attr in methods.NOT_DIFFERENTIABLE_ATTRIBUTES and not self._is_packed(node):
                data = node.attr == "data" and self.value(node.value)
                return detached(data) if data else self._no_value(node)
            if not name or "(" in name or "[" in name:
                return self.value(node.value)
        key = self.held.key(node)
        left = NO_VALUE
        if isinstance(node, ast.Attribute):
            left = self.left(node.value, node.attr) | self._of_properties(node)
        return left | self.held.read(key) if key is not None else left

    def _of_properties(self, node: ast.Attribute) -> Value:
        """What the properties return that reading an attribute may run."""
        functions = self.knowledge.program.properties(self.source, self.scope, node)
        return NO_VALUE.union(*(self._applied(f, ast.Call(node, [], [])) for f in functions))

    def left(self, owner: ast.expr, attribute: str) -> Value:
        """What a forward has put there: `loss = model.last_loss`, or `model.module.last_loss`."""
        return NO_VALUE.union(*map(self.held.read, self.attributes(owner, attribute)))

    def attributes(self, owner: ast.expr, attribute: str) -> list[Key]:
        """An attribute of the objects that an expression stands for; `self` goes by its name."""
        if dotted(owner) in ("self", "cls") or not self.gradients.is_state(attribute):
            return []
        values = self.knowledge.values(self.source, self.scope, owner)
        return [(value, attribute) for value in values if isinstance(value, Object)]

    def _is_packed(self, node: ast.Attribute) -> bool:
        """`data` of packed sequences is differentiable; that of a tensor is not."""
        values = self.knowledge.values(self.source, self.scope, node.value)
        return node.attr == "data" and any(
            isinstance(v, Object) and external_name(v.made_by) in methods.PACKS for v in values
        )

    def _computed(self, node: ast.AST) -> Value:
        """Arithmetic: with a parameter in it the result is differentiable."""
        parts = [part for part in children(node) if isinstance(part, _NAMES)]
        return self._parts(node) | self._of_parameters(parts, inside=False)

    def _of_parameters(self, nodes: Iterable[ast.AST], *, inside: bool) -> Value:
        """What is computed from these values, where a trained tensor is among them.

        Args:
            inside: whether one in a container, or in an object that is no model, counts.
        """
        for node in nodes:
            leaves = self._leaves(node, inside=inside) if isinstance(node, ast.expr) else []
            if leaves:
                made = self.made(Evidence.TYPE, dotted(node))
                if any(leaf in self.knowledge.trained.switched for leaf in leaves):
                    return frozenset(replace(part, is_of_switched=True) for part in made)
                return made
        return NO_VALUE

    def _leaves(self, node: ast.expr, *, inside: bool) -> list[object]:
        """The trained tensors that an expression stands for where the walk is."""
        values = self.knowledge.values(self.source, self.scope, node)
        trained = self.knowledge.trained
        found = [leaf for value in values for leaf in trained.leaves_in(value, inside=inside)]
        left = [leaf for leaf in found if not self._is_made_later(node, leaf)]
        here = self.value(node) if left else NO_VALUE
        return [] if here and not attached(here) else list[object](left)

    def _is_made_later(self, node: ast.expr, leaf: object) -> bool:
        """Whether what makes a leaf for a variable stands further down than this use of it.

        `x = x.to(device)`, then `x = Variable(x, requires_grad=True)`.
        """
        if not isinstance(leaf, Object) or leaf.where is None or leaf.where[1] is not self.scope:
            return False
        if leaf.node in self.met:
            return False
        key = self.held.key(node)
        if key is None or key[0] is not self.scope:
            return False
        # in the variables of a loop an earlier iteration may have left it, in those of a call none
        return self.inside or not any(
            "." in name or leaf in self._held_by(name)
            for part in self.held.read(key)
            if isinstance(part, Given)
            for _, name in (part.key,)
        )

    def _held_by(self, name: str) -> Iterator[object]:
        """The trained tensors that a variable stands for or holds, wherever it is bound."""
        for value in self.knowledge.program.names.named(self.source, self.scope, name):
            yield from self.knowledge.trained.leaves_in(value)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> Value:
        own = {name for one in node.generators for name in binds(one.target)}
        keys = [(self.held.binder(name), name) for name in own]
        hidden = {key: self.held.values.get(key) for key in keys}
        for one in node.generators:
            self.held.bind(one.target, self.value(one.iter))
            for test in one.ifs:
                self.value(test)
        found = self.value(node.value if isinstance(node, ast.DictComp) else node.elt)
        for key, value in hidden.items():  # its variables are none of the scope around it
            self.held.values.pop(key, None)
            if value is not None:
                self.held.values[key] = value
        return found

    def made(self, evidence: Evidence, what: str) -> frozenset[Made]:
        return frozenset({Made(self.at, self.at, self.source, evidence, what)})

    # -- calls -----------------------------------------------------------------------------

    def _call(self, call: ast.Call) -> Value:
        knowledge, source, scope = self.knowledge, self.source, self.scope
        given = NO_VALUE.union(*[self.value(a) for a in arguments(call)])
        if knowledge.is_backward(source, scope, call):
            place, loss = (self.at, call), self.value(knowledge.loss_of(source, scope, call))
            # `unknown.backward(loss)`: what a forward has made is the loss, not what wraps it
            if not any(isinstance(part, Made) for part in attached(loss)):
                loss |= given
            self.backwards[place] = self.backwards.get(place, NO_VALUE) | loss
            if not knowledge.is_gradient(source, scope, call):
                return NO_VALUE
        owner = self._owner(call.func)
        key = self.held.key(call.func.value) if isinstance(call.func, ast.Attribute) else None
        if isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_":
            self._switched(call.func.value)
            return _of_others(owner)
        if key is not None and callee(call) in methods.FILLS:
            self._fill(key, given)
        if key is not None and callee(call) == "step":
            self._trained(key, attached(given))
        functions = knowledge.program.resolve(source, scope, call)
        read = [self._applied(f, call) for f in functions if not is_stub(f)]
        if read and callee(call) != "forward" and not self._may_be_a_model(call.func):
            return NO_VALUE.union(*read)
        if knowledge.is_step(source, scope, call):
            return NO_VALUE
        effect = effect_of(knowledge, source, scope, call)
        found = NO_VALUE.union(*read)
        if _is_result(effect, call.func, owner):
            effect = PASSES
        found = self._new(call, effect, found)
        if effect.detaches:
            return found | detached(given | owner)
        if not effect.passes:
            return found
        # an unread method may make anything of values off the graph: the next state of a world
        if effect.made in (Evidence.UNREAD, Evidence.PREPARATION) and self._is_method(call):
            given = attached(given)
        return found | given | owner | self._of_given_parameters(call)

    def _of_given_parameters(self, call: ast.Call) -> Value:
        """What a call computes from trained tensors: from its arguments, or its method's object."""
        nodes = arguments(call)
        if isinstance(call.func, ast.Attribute):
            nodes.append(call.func)
        resolve = self.knowledge.program.resolve
        nodes = [
            node
            for node in nodes
            if not isinstance(node, ast.Call) or resolve(self.source, self.scope, node)
        ]
        return self._of_parameters(nodes, inside=not self._hands_on(call))

    def _may_be_a_model(self, called: ast.expr) -> bool:
        """Whether what is a class or a function may be a model just as well.

        `net = net_class(name)`, then `net = net(channels)`: what it returns is told by both.
        """
        meant = self.knowledge.values(self.source, self.scope, called)
        return any(isinstance(value, (Class, Function)) for value in meant) and any(
            isinstance(value, Object) and self.knowledge.kinds.of_value(value) == _MODEL
            for value in meant
        )

    def _hands_on(self, call: ast.Call) -> bool:
        """Whether it only gives back what it is given, in another order or container."""
        name = self.knowledge.program.qualified(self.source, self.scope, call.func)
        return name in methods.PASSING_BUILTINS or name.partition(".")[0] in methods.HANDS_ON

    def _is_method(self, call: ast.Call) -> bool:
        """Whether a call may be of a method: of no imported function, and no object itself."""
        meant = self.knowledge.values(self.source, self.scope, call.func)
        return not meant or not all(isinstance(value, (External, Object)) for value in meant)

    def _new(self, call: ast.Call, effect: Effect, found: Value) -> Value:
        """With the value that a call makes itself; where it runs a model, that is noted."""
        source, scope = self.source, self.scope
        made = self.made(effect.made, effect.what) if effect.made is not None else frozenset()
        if effect.frozen is not None:
            found |= detached(self.made(effect.frozen, effect.what))
        runs = effect is not PASSES and self.knowledge.is_model(source, scope, call.func)
        if runs or any(m.certain for m in made):
            self.runs[self.at] = self.enabled and effect.made is not None
        if effect.made is not None:
            found |= made | self._of_forward(call, effect)
        return found

    def _of_forward(self, call: ast.Call, effect: Effect) -> Value:
        """What the forward of a called model takes from objects; what it leaves there is noted."""
        program, found = self.knowledge.program, NO_VALUE
        for value in self.knowledge.values(self.source, self.scope, call.func):
            if not isinstance(value, Object) or not isinstance(value.made_by, Class):
                continue
            for forward in program.methods(value.made_by, "forward", overrides=False):
                summary, put = self.gradients.summary(forward), _Call(self, forward, call)
                for part in summary.result:
                    key = _of_object(part.key, value) if isinstance(part, Given) else None
                    if key is not None and self.gradients.is_state(key[1]):
                        kept = self.held.read(key)
                        found |= detached(kept) if part.detached else kept
                known = {"evidence": effect.made, "what": effect.what}
                for at, stored in summary.stores.items():
                    key = _of_object(at, value)
                    if key is not None and key is not at:
                        parts = [replace(p, **known) if isinstance(p, Made) else p for p in stored]
                        stored = frozenset(parts)
                    if key is not None:
                        self._leave(key, put.value(stored))
        return found

    def _leave(self, key: Key, value: Value) -> None:
        self.held.values[key] = value if self.enabled else detached(value)

    def _owner(self, function: ast.expr) -> Value:
        """What a method is called on, and what a called variable holds."""
        if isinstance(function, ast.Attribute):
            return self.value(function.value)
        return frozenset(part for part in self.value(function) if isinstance(part, Made))

    def _fill(self, key: Key, value: Value) -> None:
        # a container from before the iteration holds values of other iterations as well
        if self.inside or key in self.held.values:
            self.held.fill(key, value)

    def _trained(self, key: Key, loss: Value) -> None:
        """`fast, inner = adapted(net)`, `inner.step(loss)`: what came with it is made of the loss.

        A differentiable optimizer: the next forward runs with the weights that it has computed.
        """
        scope, name = key
        if isinstance(scope, Object) or not any(isinstance(part, Made) for part in loss):
            return
        tables = self.knowledge.program.bindings_of(self.source).scopes
        bound = {
            other: [b.value for b in each if isinstance(b, Bound) and b.path]
            for other, each in tables.get(scope or self.scope, {}).items()
        }
        for other, values in bound.items():
            if other != name and any(value in bound.get(name, ()) for value in values):
                self.held.values[scope, other] = self.held.read((scope, other)) | loss

    def _switched(self, node: ast.expr) -> None:
        """`delta.requires_grad = True`: only from here on it is a leaf of the graph.

        What was made of it further up, under whatever name, is data.
        """
        key = self.held.key(node)
        if key is None:
            return
        held = self.held.read(key)
        self.held.bind(node, _of_others(held))
        gone = held - _of_others(held)
        ahead = {p for p in gone if isinstance(p, Made) and p.unit.lineno < self.at.lineno}
        for other, value in self.held.values.items():
            self.held.values[other] = value - ahead

    def _applied(self, function: Function, call: ast.Call) -> Value:
        """What a function of the program does when it is called here."""
        summary = self.gradients.summary(function)
        if summary.runs:
            self.runs[self.at] = self.enabled
        put = _Call(self, function, call)
        for key, value in summary.stores.items():
            here = put.key(key)
            if isinstance(key[0], Object):
                self._leave(key, put.value(value))
                continue
            for attribute in put.attributes(key):
                self._leave(attribute, put.value(value))
            # what an object holds may be of any iteration: a replay memory, a queue
            stored = attached(put.value(value)) if self.enabled else NO_VALUE
            if here is None:
                continue
            if key in summary.filled:
                self._fill(here, stored)
            else:
                self.held.values[here] = stored
        for inner, value in summary.backwards.items():
            place, loss = (self.at, inner), put.value(value, inside=True)
            self.backwards[place] = self.backwards.get(place, NO_VALUE) | loss
        return put.value(summary.result)


def _position(made: Made) -> tuple[object, ...]:
    """Where in the program, then what is known best: values come as sets, in any order."""
    at = made.statement.lineno, made.statement.col_offset
    return str(made.source.path), *at, _CERTAINTY.index(made.evidence), made.what


_CERTAINTY = list(Evidence)


def _of_others(value: Value) -> Value:
    """What of a value is made of more than leaves that need a gradient only later on."""
    return frozenset(p for p in value if not (isinstance(p, Made) and p.is_of_switched))


def _is_result(effect: Effect, function: ast.expr, owner: Value) -> bool:
    """A method of what the walk has computed: `logits` of `policy(x)` is no policy."""
    if not isinstance(function, ast.Attribute):
        return False
    if effect.made is Evidence.SPELLING:
        return any(isinstance(part, Made) for part in owner)
    unread = effect.made in (Evidence.UNREAD, Evidence.PREPARATION)
    return unread and not any(isinstance(part, Given) for part in owner)


def _of_object(key: Key, value: Object) -> Key | None:
    """A method's variable as an attribute of its object, or of another one; None of no object."""
    scope, name = key
    if isinstance(scope, Object):
        return key
    attribute = name.removeprefix("self.")
    return (value, attribute) if scope is None and "." not in attribute else None


class _Call(Struct, frozen=True, dict=True):
    """A call as the bridge between a function's variables and those of the walk that meets it."""

    walk: _Walk
    function: Function
    call: ast.Call

    def value(self, inner: Value, *, inside: bool = False) -> Value:
        """A value of the function in terms of the caller; inside: it is used in the function."""
        parts: set[Given | Made] = set()
        for part in inner:
            if isinstance(part, Given):
                given = self._given(part.key)
                parts |= detached(given) if part.detached else given
            elif inside:
                parts.add(replace(part, unit=self.walk.at))
            else:
                (made,) = self.walk.made(part.evidence, part.what)
                kept = {"detached": part.detached, "is_of_switched": part.is_of_switched}
                parts.add(replace(made, **kept))
        return frozenset(parts)

    def _given(self, key: Key) -> Value:
        here = self.key(key)
        found = self.walk.value(self._outside(key)) if here is None else self.walk.held.read(here)
        return found.union(*map(self.walk.held.read, self.attributes(key)))

    def attributes(self, key: Key) -> list[Key]:
        """The same attributes of the objects whose method is called: `encoder.latent`."""
        scope, name = key
        owner = self._outside(key) if scope is None else None
        attribute = name.removeprefix("self.")
        if owner is None or "." in attribute:
            return []
        return self.walk.attributes(owner, attribute)

    def key(self, key: Key) -> Key | None:
        """The caller's variable behind one of the function's; None when there is no such name."""
        if key[0] is not None and key[0] is not self.function.node:
            return key
        outside = self._outside(key)
        if outside is None:
            return key if key[0] is None and self._shares_self() else None
        whole = self.walk.held.key(outside)
        if whole is None or isinstance(outside, ast.Subscript):
            return None
        rest = key[1].partition(".")[2]
        return (whole[0], f"{whole[1]}.{rest}" if rest else whole[1])

    def _shares_self(self) -> bool:
        """Whether `self` is the same object there and here."""
        if self.function.node.name == "__init__" and callee(self.call) != "__init__":
            return False  # of a class that is called: `self.block(8)`
        if receiver(self.call) in ("self", "cls", "super()"):
            return True
        own = parameters(self.function.node) & {"self", "cls"}
        return not own and self.function.source is self.walk.source

    def _outside(self, key: Key) -> ast.expr | None:
        """The caller's expression for `self`, or for a parameter; None when it has none."""
        node, root = self.function.node, key[1].partition(".")[0]
        if key[0] is None:
            if self._shares_self() or node.name == "__init__":
                return None
            return called_on(self.call)
        given = self._passed.get(root, ())
        return ast.Tuple(list(given), ast.Load()) if len(given) > 1 else next(iter(given), None)

    @cached_property
    def _passed(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        walk, program = self.walk, self.walk.knowledge.program
        for name, value in program.given(walk.source, walk.scope, self.call, self.function):
            found.setdefault(name, []).append(value)
        return found
