"""What a region is given: the batch at its begin, and the loss at its end where it has a name.

The barrier learns the device from the loss. One that a helper keeps to itself is seen by the
recorder when it is differentiated.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning import methods, spelling
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Role
from instrumentor.locate.region.modes import Region
from instrumentor.read.names import external_name
from instrumentor.read.syntax import (
    ScopeNode,
    Source,
    arguments,
    callee,
    dotted,
    own_calls,
    own_nodes,
)
from instrumentor.read.values import Object, Value

# -- the batch -----------------------------------------------------------------------------------


def batch_names(knowledge: Knowledge, candidate: Candidate, begin: ast.stmt) -> tuple[str, ...]:
    """Names of the iteration's data: the loop's targets, or what `next(...)` was bound to."""
    flow, names = candidate.flow, item_names(knowledge, candidate)
    ahead = [s for s in flow.statements if flow.path(flow.after(s), flow.before(begin))]
    for statement in () if names else ahead:
        if isinstance(statement, ast.Assign) and _fetches(knowledge, candidate, statement):
            names += _names(statement.targets[0])
    gone = {n for s in ahead if isinstance(s, ast.Delete) for t in s.targets for n in _names(t)}
    return tuple(n for n in dict.fromkeys(names) if n not in gone and n not in ("_", "self"))[:2]


def item_names(knowledge: Knowledge, candidate: Candidate) -> list[str]:
    """What a loop over data binds for each iteration; nothing where it only counts."""
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


def hands_nothing_out(knowledge: Knowledge, candidate: Candidate) -> bool:
    """Whether a loop's head only counts or asks: its batches are then fetched in its body."""
    loop = candidate.loop
    if isinstance(loop, ast.While):
        return not any(isinstance(node, ast.NamedExpr) for node in ast.walk(loop.test))
    if not isinstance(loop, ast.For):
        return False
    made = set(_makers(knowledge, candidate.source, candidate.scope, loop.iter))
    return "builtins.zip" not in made and any(map(methods.counts, made))


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


def loss_names(region: Region) -> tuple[str, ...]:
    """Names of the loop whose values every backward of a region differentiates, bound at its end.

    None where a helper runs the backward: the recorder sees what it has differentiated.
    """
    flow, source = region.candidate.flow, region.candidate.source
    if any(site.chain for site in region.sites):
        return ()
    inside = {s for s in flow.statements if s is region.begin or region.reaches(s)}
    nodes = own_nodes(ast.Module(region.candidate.loop.body, []))
    bound = [n for n in nodes if isinstance(n, ast.Name) and source.statement_of(n) in inside]
    made = {n.id for n in bound if isinstance(n.ctx, ast.Store)}
    losses = [own_names(site.loss) for site in region.sites]
    common = [n for n in losses[0] if n in made and all(n in other for other in losses)]
    return tuple(n for n in common if n != "_" and not _is_deleted(region, n, bound))[:2]


def own_names(node: ast.expr) -> list[str]:
    """Names that an expression reads, in its order."""
    found = (n.id for n in (node, *own_nodes(node)) if isinstance(n, ast.Name))
    return list(dict.fromkeys(found))


def _is_deleted(region: Region, name: str, nodes: list[ast.Name]) -> bool:
    """Whether one of these nodes deletes a name on a way to an end of the region."""
    flow, source = region.candidate.flow, region.candidate.source
    ends = {flow.after(_closing(region, end.after)) for end in region.ends}
    gone = (source.statement_of(n) for n in nodes if n.id == name and isinstance(n.ctx, ast.Del))
    return any(
        s is not None and (flow.after(s) in ends or flow.path(flow.after(s), ends)) for s in gone
    )


def _closing(region: Region, end: ast.stmt) -> ast.stmt:
    """The outermost `if` of the loop around an end: the region may close behind that."""
    candidate = region.candidate
    around = [p for p in candidate.source.parents(end) if p in candidate.flow.begins]
    return next((p for p in reversed(around) if isinstance(p, ast.If)), end)


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
        for node in asked:
            if knowledge.is_model_named(source, scope, node):
                return dotted(node), call
    return None
