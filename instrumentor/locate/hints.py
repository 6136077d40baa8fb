"""What a region is given: the batch at its begin, and at its end what tells the device.

The barrier learns the device from the loss. Where the loss is no tensor for certain (a helper
that returns a number, or nothing), it also gets what holds the parameters: a model, or the object
whose method runs it. A batch is never asked: a helper may move it to the device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from instrumentor.locate.dataflow import binds, reads
from instrumentor.locate.forward import Forward
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site
from instrumentor.locate.program import Class, Function
from instrumentor.locate.syntax import (
    FUNCTIONS,
    arguments,
    callee,
    dotted,
    own_calls,
    own_nodes,
    parameters,
    root_name,
)
from instrumentor_analysis.caveats import Caveat

if TYPE_CHECKING:
    from instrumentor.locate.regions import Region

COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


# -- the batch -----------------------------------------------------------------------------------


def batch_names(candidate: Candidate, begin: ast.stmt) -> tuple[str, ...]:
    """Names of the iteration's data: the loop's targets, or what `next(...)` was bound to."""
    loop = candidate.loop
    names: list[str] = []
    if isinstance(loop, ast.For):
        target: ast.expr = loop.target
        made = [word for i in _iterables(candidate, loop.iter) for word in _wrapped(i)]
        if "enumerate" in made and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        if not any(word in ("range", "count", "trange") for word in made):
            names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
    if not names:
        for node in _nodes(loop.body):
            if isinstance(node, ast.Assign) and node.lineno < begin.lineno:
                if any(callee(c) in ("next", "get_batch") for c in own_calls(node.value)):
                    names += [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)]
    gone = {n.id for n in _deletions(loop.body) if n.lineno < begin.lineno}
    return tuple(n for n in dict.fromkeys(names) if n not in gone and n not in ("_", "self"))[:2]


def _wrapped(iterable: ast.expr) -> Iterator[str]:
    """Names of the calls one around the other: ``tqdm(enumerate(loader))``, not what fills them."""
    waiting = [iterable]
    while waiting:
        call = waiting.pop()
        if isinstance(call, ast.Call):
            word = callee(call)
            yield word
            waiting += call.args if word == "zip" else call.args[:1]


def _iterables(candidate: Candidate, iterable: ast.expr) -> Iterator[ast.expr]:
    """What a loop walks over; for a name (`pbar`) what the same function bound to it before."""
    yield iterable
    name = dotted(iterable)
    for node in own_nodes(candidate.scope) if name else ():
        if isinstance(node, ast.Assign) and node.lineno < candidate.loop.lineno:
            if any(dotted(t) == name for t in node.targets):
                yield node.value
        elif isinstance(node, ast.withitem) and dotted(node.optional_vars) == name:
            yield node.context_expr


# -- the end -------------------------------------------------------------------------------------


def find_hints(
    knowledge: Knowledge,
    candidate: Candidate,
    region: Region,
    forward: Forward,
) -> tuple[tuple[str, ...], Caveat | None]:
    """Names the barrier may look at to learn the device: the loss first, then a model.

    With a warning when none of them is a tensor or holds one for certain.
    """
    source = candidate.source
    limit = max(
        _branch_end(candidate, e) for e in (region.end, *(e.after for e in region.other_ends))
    )
    made = {
        n.id
        for n in _nodes(candidate.loop.body)
        if isinstance(n, ast.Name)
        and isinstance(n.ctx, ast.Store)
        and region.begin.lineno <= n.lineno <= limit
    }
    gone = {
        n.id
        for n in _deletions(candidate.loop.body)
        if n.lineno <= limit and (n.id not in made or n.lineno >= region.begin.lineno)
    }
    common: list[str] | None = None
    for site in region.sites:
        names = [n for n in dict.fromkeys(_losses(site, made)) if n not in gone and n != "_"]
        common = names if common is None else [n for n in common if n in names]
    hints = (common or [])[:2]
    certain = any(_is_tensor(candidate, s, n, limit) for s in region.sites[:1] for n in hints)
    if not certain or region.sites[0].chain:
        model = _model_of(knowledge, candidate, forward)
        if model and model.partition(".")[0] not in gone:
            hints.append(model)
            certain = True
    if not certain:
        held = [_holders(knowledge, candidate, s) for s in region.sites]
        for name, sure in held[0].items():
            if all(name in h for h in held[1:]) and name.partition(".")[0] not in gone:
                hints.append(name)
                certain = certain or sure
    if not certain:
        for name in ("self.model", "model", *_optimizers(candidate)):
            if name.partition(".")[0] not in gone and any(
                dotted(n) == name and isinstance(n.ctx, ast.Load) and n.lineno <= limit
                for n in own_nodes(candidate.scope)
                if isinstance(n, (ast.Name, ast.Attribute))
            ):
                hints.append(name)
                certain = True
                break
    unsure = Caveat(
        "no-tensor-in-sight",
        "nothing here is certain to be a tensor or to hold one: if the barrier finds none, "
        "it waits for the accelerator that the script has opened",
        place=source.at(region.end.lineno),
        hint="return the loss from the step as a tensor",
    )
    return tuple(dict.fromkeys(hints)), None if certain else unsure


def _losses(site: Site, made: set[str]) -> Iterator[str]:
    """Names of the loss: what is differentiated, or what a helper is given and returns."""
    expression: ast.AST = site.loss if not site.chain else site.statement
    for node in (expression, *own_nodes(expression)):
        if isinstance(node, ast.Name) and (isinstance(node.ctx, ast.Store) or node.id in made):
            yield node.id
        elif (
            isinstance(node, ast.Attribute)
            and not site.chain
            and dotted(node) == f"self.{node.attr}"
            and not isinstance(node.ctx, ast.Store)
            and "loss" in node.attr
        ):
            yield dotted(node)


def _is_tensor(candidate: Candidate, site: Site, name: str, limit: int) -> bool:
    """Whether a name still stands for what was differentiated when the region ends."""
    last = site.statement.end_lineno or site.statement.lineno
    if any(
        isinstance(n, ast.Name)
        and n.id == name
        and isinstance(n.ctx, ast.Store)
        and last < n.lineno <= limit
        for n in _nodes(candidate.loop.body)
    ):
        return False
    stored = any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        for n in own_nodes(site.statement)
    )
    return not (site.chain and stored) or _returns_loss(site)


def _returns_loss(site: Site) -> bool:
    """Whether the helper returns the very tensor that it differentiates."""
    node = site.chain[0].node
    losses = reads(site.loss)
    rebound = {
        n.id
        for n in own_nodes(node)
        if isinstance(n, ast.Name)
        and isinstance(n.ctx, ast.Store)
        and n.lineno > site.backward.lineno
    }
    values = [n.value for n in own_nodes(node) if isinstance(n, ast.Return)]
    return (
        len(site.chain) == 1
        and bool(values)
        and all(
            any(
                isinstance(part, ast.Name) and part.id in losses - rebound
                for part in (v.elts if isinstance(v, ast.Tuple) else (v,))
            )
            for v in values
        )
    )


def _model_of(knowledge: Knowledge, candidate: Candidate, forward: Forward) -> str:
    """The model that the first statement of the region calls or hands on, or ''."""
    source = candidate.source
    if isinstance(forward.unit, COMPOUND):
        return ""
    call = knowledge.forward_call(source, candidate.scope, forward.unit)
    for node in (call.func, *arguments(call)) if call is not None else ():
        name = dotted(node)
        if call is not None and node is call.func:
            # a function of the program may be spelled like a model
            helpers = knowledge.program.resolve(source, candidate.scope, call)
            if helpers or not knowledge.is_model_named(source, candidate.scope, name):
                name = name.rpartition(".")[0]
        if knowledge.is_model_named(source, candidate.scope, name):
            return name
    return ""


def _holders(knowledge: Knowledge, candidate: Candidate, site: Site) -> dict[str, bool]:
    """What a helper's call shows of the parameters: name -> whether it certainly holds some."""
    source, found = candidate.source, dict[str, bool]()

    def optimizer(name: str) -> bool:
        return knowledge.is_optimizer_named(source, candidate.scope, name)

    for argument in arguments(site.call) if site.chain else ():
        name = dotted(argument)
        if knowledge.is_model_named(source, candidate.scope, name) or optimizer(name):
            found[name] = True
    function = site.call.func
    if site.chain and isinstance(function, ast.Attribute):
        owner = dotted(function.value).partition("[")[0]
        if owner == "super()" and "self" in reads(candidate.scope):
            owner = "self"
        if owner and "(" not in owner and knowledge.program.lookup(source, owner) is None:
            found[owner] = any(_keeps_parameters(knowledge, f) for f in site.chain)
    shared = [n for f in site.chain[:1] for n in _shared_names(candidate, f)]
    models = [n for n in shared if knowledge.is_model_named(source, candidate.scope, n)]
    for name in (models or [n for n in shared if optimizer(n)])[:1]:
        found[name] = True
    return found


def _keeps_parameters(knowledge: Knowledge, function: Function) -> bool:
    """Whether a method's object is a module, or has a model or an optimizer as attribute."""
    node = function.source.class_of.get(function.node)
    if node is None:
        return False
    cls = Class(function.source, node)
    return knowledge.is_module_class(cls) or any(
        dotted(n) == f"self.{n.attr}"
        and (
            knowledge.is_model_named(owner.source, function.node, dotted(n))
            or knowledge.is_optimizer_named(owner.source, function.node, dotted(n))
        )
        for owner in knowledge.program.bases(cls)
        for n in ast.walk(owner.node)
        if isinstance(n, ast.Attribute)
    )


def _shared_names(candidate: Candidate, helper: Function) -> Iterator[str]:
    """Names that a helper reads from outside and that mean the same at the loop, bound for sure."""
    source, scope = candidate.source, candidate.scope
    if helper.source is not source or helper.node in source.class_of:
        return
    own = binds(ast.Module(helper.node.body, [])) | parameters(helper.node)
    where = source.scope_of(helper.node)
    local = (
        _bound_for_sure(scope) | binds(ast.Module(scope.body, [])) | parameters(scope)
        if isinstance(scope, FUNCTIONS)
        else set[str]()
    )
    if where is scope:
        visible = _bound_for_sure(scope)
    elif where is source.tree:
        visible = _bound_for_sure(source.tree) - local
    else:
        return
    for node in own_nodes(helper.node):
        if isinstance(node, ast.Name) and node.id in visible and node.id not in own:
            yield node.id


def _bound_for_sure(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that plain statements of a scope bind, and the parameters."""
    found = parameters(scope) if isinstance(scope, FUNCTIONS) else set()
    pending = list(scope.body)
    for statement in pending:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            found |= binds(statement)
        elif isinstance(statement, (ast.With, ast.If)) and (
            isinstance(statement, ast.With) or "__name__" in reads(statement.test)
        ):
            pending.extend(statement.body)
    return found


def _optimizers(candidate: Candidate) -> Iterator[str]:
    """Optimizers that the loop's own function steps by a plain name."""
    inside = {name for statement in candidate.loop.body for name in binds(statement)}
    for update in candidate.updates:
        name = update.optimizer
        if (
            update.scope is candidate.scope
            and update.helper is None
            and not update.manual
            and root_name(update.call) not in inside
            and "(" not in name
            and "[" not in name
        ):
            yield name


def _branch_end(candidate: Candidate, end: ast.stmt) -> int:
    """Last line of the outermost `if` of the loop around an end: the region may end behind it."""
    found = end.end_lineno or end.lineno
    for parent in candidate.source.parents(end):
        if parent is candidate.loop:
            break
        if isinstance(parent, ast.If):
            found = parent.end_lineno or found
    return found


def _nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield statement
        yield from own_nodes(statement)


def _deletions(body: list[ast.stmt]) -> Iterator[ast.Name]:
    return (n for n in _nodes(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del))
