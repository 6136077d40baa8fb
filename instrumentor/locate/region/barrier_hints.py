"""What a region is given: the batch at its begin, and at its end what tells the device.

The barrier learns the device from the loss. Where the loss is no tensor for certain (a helper
that returns a number, or nothing), it also gets what holds the parameters: a model, or the object
whose method runs it. A batch is never asked: a helper may move it to the device.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from instrumentor.locate.gradients.forward import Forward
from instrumentor.locate.loop.loops import Candidate, Site
from instrumentor.locate.meaning import methods, spelling
from instrumentor.locate.meaning.calls import Knowledge, expression
from instrumentor.locate.meaning.roles import Kind, Role
from instrumentor.locate.region.modes import Region
from instrumentor.read.control_flow import OVER, START, Flow, flow_of
from instrumentor.read.names import external_name
from instrumentor.read.names_used import binds, reads
from instrumentor.read.program import Class, Function
from instrumentor.read.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    arguments,
    callee,
    dotted,
    header,
    is_main_guard,
    own_calls,
    own_nodes,
    parameters,
)
from instrumentor.read.values import Object, Value
from instrumentor_analysis.shared.caveats import Caveat

COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


# -- the batch -----------------------------------------------------------------------------------


def batch_names(knowledge: Knowledge, candidate: Candidate, begin: ast.stmt) -> tuple[str, ...]:
    """Names of the iteration's data: the loop's targets, or what `next(...)` was bound to."""
    flow, names = candidate.flow, _of_the_header(knowledge, candidate)
    ahead = [s for s in flow.statements if flow.path(flow.after(s), flow.before(begin))]
    for statement in () if names else ahead:
        if isinstance(statement, ast.Assign) and _fetches(knowledge, candidate, statement):
            names += _names(statement.targets[0])
    gone = {n for s in ahead if isinstance(s, ast.Delete) for t in s.targets for n in _names(t)}
    return tuple(n for n in dict.fromkeys(names) if n not in gone and n not in ("_", "self"))[:2]


def _of_the_header(knowledge: Knowledge, candidate: Candidate) -> list[str]:
    """What a loop over data binds; nothing where it only counts."""
    loop = candidate.loop
    if not isinstance(loop, ast.For):
        return []
    made = set(_makers(knowledge, candidate.source, candidate.scope, loop.iter))
    if any(map(methods.counts, made)):
        return []
    target = loop.target
    if "builtins.enumerate" in made and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    return _names(target)


def _makers(
    knowledge: Knowledge, source: Source, scope: ScopeNode, iterable: ast.expr
) -> Iterator[str]:
    """The calls one around the other of ``tqdm(enumerate(loader))``, not what fills them."""
    waiting, seen = [*knowledge.values(source, scope, iterable)], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen or not isinstance(value, Object):
            continue
        seen.add(value)
        if value.node is not None and value.where is not None:
            name = external_name(value.made_by)
            yield name
            given = value.node.args if name == "builtins.zip" else value.node.args[:1]
            waiting += [v for a in given for v in knowledge.values(*value.where, a)]


def _fetches(knowledge: Knowledge, candidate: Candidate, statement: ast.Assign) -> bool:
    return any(
        spelling.FETCH.fits(callee(call))
        or knowledge.role(candidate.source, candidate.scope, call) is Role.FETCH
        for call in own_calls(statement.value)
    )


def _names(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


# -- the end -------------------------------------------------------------------------------------


def find_hints(knowledge: Knowledge, region: Region) -> tuple[tuple[str, ...], tuple[Caveat, ...]]:
    """Names the barrier may look at to learn the device: the loss first, then a model.

    With a warning when none of them is a tensor or holds one for certain.
    """
    end = _End(knowledge, region.candidate, region)
    found = end.loss()
    if region.sites[0].chain or not any(found.values()):
        found |= end.model(region.forward)
    for more in (end.helpers, end.seen):
        if not any(found.values()):
            found |= more()
    unsure = Caveat(
        "no-tensor-in-sight",
        "Nothing here is certain to be a tensor or to hold one. If the barrier finds none, it "
        "waits for the accelerator that the script has opened; return the loss from the step as a "
        "tensor.",
        place=region.candidate.source.at(region.end.lineno),
    )
    return tuple(found), () if any(found.values()) else (unsure,)


def called_model(
    knowledge: Knowledge, source: Source, scope: ScopeNode, statement: ast.stmt
) -> tuple[str, ast.Call] | None:
    """The name of the model that a statement calls or hands on, with the call."""
    for call in own_calls(statement):
        asked: list[ast.expr] = [*arguments(call)]
        if isinstance(call.func, ast.Attribute):
            asked.insert(0, call.func.value)
        # a function of the program may be spelled like a model
        if not knowledge.program.resolve(source, scope, call):
            asked.insert(0, call.func)
        for name in map(dotted, asked):
            if knowledge.is_model_named(source, scope, name):
                return name, call
    return None


class _End(Struct, frozen=True, dict=True):
    """The variables of the loop's scope where a region ends: which tell the device, how surely."""

    knowledge: Knowledge
    candidate: Candidate
    region: Region

    @property
    def flow(self) -> Flow:
        return self.candidate.flow

    @property
    def where(self) -> tuple[Source, ScopeNode]:
        return self.candidate.source, self.candidate.scope

    @cached_property
    def ends(self) -> list[ast.stmt]:
        """Of each end the outermost `if` of the loop around it: it may close behind that."""
        found = []
        for end in (e.after for e in self.region.ends):
            around = [p for p in self.candidate.source.parents(end) if p in self.flow.begins]
            found.append(next((p for p in reversed(around) if isinstance(p, ast.If)), end))
        return found

    @cached_property
    def ahead(self) -> set[ast.stmt]:
        """Statements of the iteration that may run before the region ends."""
        points = {self.flow.after(end) for end in self.ends}
        return {
            s
            for s in self.flow.statements
            if self.flow.after(s) in points or self.flow.path(self.flow.after(s), points)
        }

    @cached_property
    def inside(self) -> set[ast.stmt]:
        """Those of them that run in the region."""
        begin = self.flow.before(self.region.begin)
        return {
            s
            for s in self.ahead
            if s is self.region.begin or self.flow.path(begin, self.flow.before(s))
        }

    @cached_property
    def bound(self) -> list[tuple[str, ast.stmt, bool]]:
        """Names of the iteration that a statement binds, or (True) deletes."""
        nodes = own_nodes(ast.Module(self.candidate.loop.body, []))
        names = [n for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
        owners = [(n, self.candidate.source.statement_of(n)) for n in names]
        return [(n.id, s, isinstance(n.ctx, ast.Del)) for n, s in owners if s is not None]

    @cached_property
    def made(self) -> set[str]:
        """Names that the region binds."""
        return {name for name, s, deleted in self.bound if not deleted and s in self.inside}

    @cached_property
    def gone(self) -> set[str]:
        """Names that are deleted before the region ends."""
        return {
            name
            for name, s, deleted in self.bound
            if deleted and s in (self.inside if name in self.made else self.ahead)
        }

    def has(self, name: str) -> bool:
        return bool(name) and name.partition(".")[0] not in self.gone

    def loss(self) -> dict[str, bool]:
        """What is differentiated, or what a helper is given and returns."""
        names, *others = [self._losses(site) for site in self.region.sites]
        common = [n for n in names if self.has(n) and all(n in other for other in others)]
        return {name: self._is_tensor(self.region.sites[0], name) for name in common[:2]}

    def _losses(self, site: Site) -> list[str]:
        found: list[str] = []
        expression: ast.AST = site.loss if not site.chain else site.statement
        for node in (expression, *own_nodes(expression)):
            if isinstance(node, ast.Name):
                taken = isinstance(node.ctx, ast.Store) or node.id in self.made
                found += [node.id] if taken else []
            elif isinstance(node, ast.Attribute) and not site.chain:
                name = dotted(node)
                found += [name] if name == f"self.{node.attr}" and "loss" in node.attr else []
        return [n for n in dict.fromkeys(found) if n != "_"]

    def _is_tensor(self, site: Site, name: str) -> bool:
        """Whether a name still stands for what was differentiated when the region ends."""
        bound = {s for n, s, deleted in self.bound if n == name and not deleted}
        order = self.flow.order
        if any(order[s] > order[site.statement] for s in bound & self.ahead):
            return False
        return not (site.chain and site.statement in bound) or _returns_loss(site)

    def model(self, forward: Forward) -> dict[str, bool]:
        """The model that the first statement of the region calls or hands on."""
        compound = isinstance(forward.unit, COMPOUND)
        found = None if compound else called_model(self.knowledge, *self.where, forward.unit)
        return {found[0]: True} if found is not None and found[0] in self.read else {}

    def helpers(self) -> dict[str, bool]:
        """What the calls of helpers show of the parameters."""
        first, *others = [self._helper(site) for site in self.region.sites]
        return {n: s for n, s in first.items() if self.has(n) and all(n in o for o in others)}

    def _helper(self, site: Site) -> dict[str, bool]:
        """What is given to a helper, its object, or what it reads from outside."""
        if not site.chain:
            return {}
        found = {n: True for n in map(dotted, arguments(site.call)) if self._holds(n)}
        function = site.call.func
        if isinstance(function, ast.Attribute):
            owner = dotted(function.value).partition("[")[0]
            if owner == "super()" and "self" in reads(self.candidate.scope):
                owner = "self"
            if owner and "(" not in owner and not self._is_code(owner):
                found[owner] = any(_keeps_parameters(self.knowledge, f) for f in site.chain)
        shared = list(self._shared_names(site.chain[0]))
        models = [n for n in shared if self.knowledge.is_model_named(*self.where, n)]
        return found | dict.fromkeys((models or list(filter(self._holds, shared)))[:1], True)

    def _holds(self, name: str) -> bool:
        return self.knowledge.holds_parameters(*self.where, name)

    def _is_code(self, name: str) -> bool:
        """Whether it is a function, class or module of the program, and no object."""
        node = expression(name)
        values = self.knowledge.values(*self.where, node) if node is not None else ()
        return any(isinstance(value, (Function, Class, Source)) for value in values)

    def _shared_names(self, helper: Function) -> Iterator[str]:
        """Names that a helper reads from outside and that are the same variable at the loop."""
        source, scope = self.where
        binder = self.knowledge.program.binder
        if helper.source is not source or helper.node in source.class_of:
            return
        read = [n for n in own_nodes(helper.node) if isinstance(n, ast.Name)]
        for name in dict.fromkeys(n.id for n in read if isinstance(n.ctx, ast.Load)):
            where = binder(source, helper.node, name)
            if where not in (None, helper.node) and where is binder(source, scope, name):
                if where is not None and _is_bound_for_sure(where, name):
                    yield name

    def seen(self) -> dict[str, bool]:
        """A model, else an optimizer, that the loop's function reads outright."""
        own = {name for name, _, _ in self.bound}
        names = [n for n in self.read if n.removeprefix("self.").isidentifier() and n not in own]
        for ask in (self.knowledge.is_model_named, self.knowledge.is_optimizer_named):
            for name in names:
                if ask(*self.where, name):
                    return {name: True}
        return {}

    @cached_property
    def read(self) -> list[str]:
        """Names that every way to the end of the region reads or binds."""
        flow = flow_of(self.candidate.scope)
        ends = {flow.after(end) for end in self.ends}
        met = _mentions(flow).items()
        return [n for n, at in met if self.has(n) and not flow.path(START, ends - at, at)]


def _mentions(flow: Flow) -> Mapping[str, set[int]]:
    """Where names are read, or bound by a statement that does nothing else."""
    found: dict[str, set[int]] = defaultdict(set)
    for statement in flow.statements:
        for node in header(statement):
            if isinstance(node, (ast.Name, ast.Attribute)):
                if isinstance(node.ctx, ast.Load) or not isinstance(statement, COMPOUND):
                    found[dotted(node)].add(flow.before(statement))
    return found


def _returns_loss(site: Site) -> bool:
    """Whether the helper returns the very tensor that it differentiates."""
    node, flow = site.chain[0].node, flow_of(site.chain[0].node)
    if len(site.chain) != 1:
        return False
    behind = flow.statements[flow.order[site.backward_statement] + 1 :]
    kept = reads(site.loss).difference(*map(binds, behind))
    values = [n.value for n in own_nodes(node) if isinstance(n, ast.Return)]
    parts = [v.elts if isinstance(v, ast.Tuple) else (v,) for v in values]
    return bool(parts) and all(
        any(isinstance(part, ast.Name) and part.id in kept for part in given) for given in parts
    )


def _keeps_parameters(knowledge: Knowledge, function: Function) -> bool:
    """Whether a method's object is a module, or has a model or an optimizer as attribute."""
    node = function.source.class_of.get(function.node)
    if node is None:
        return False
    cls = Class(function.source, node)
    return knowledge.kinds.of_class(cls) in (Kind.MODEL, Kind.LOSS) or any(
        knowledge.holds_parameters(owner.source, function.node, dotted(n))
        for owner in knowledge.program.bases(cls)
        for n in ast.walk(owner.node)
        if isinstance(n, ast.Attribute) and dotted(n) == f"self.{n.attr}"
    )


def _is_bound_for_sure(scope: ScopeNode, name: str) -> bool:
    """A parameter, or read or bound on every way through its scope."""
    if isinstance(scope, FUNCTIONS) and name in parameters(scope):
        return True
    flow = Flow(scope.body, lambda test: True if is_main_guard(test) else None)
    return not flow.path(START, OVER, _mentions(flow).get(name, ()))
