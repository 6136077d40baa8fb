"""How it is known what the parts of a step are: by type, by use, or by their spelling alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from instrumentor.locate.gradients.differentiable import type_name
from instrumentor.locate.gradients.forward import Forward, needed
from instrumentor.locate.located import Located
from instrumentor.locate.loop.loops import Site, Update
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Evidence
from instrumentor.read.program import Function
from instrumentor.read.syntax import ScopeNode, Source, callee, dotted


class Finding(Struct, frozen=True):
    """A part of the step and what tells that it is one.

    Attributes:
        part: `forward`, `backward` or `step`.
        name: the type, the qualified name, or the spelling.
    """

    part: str
    source: Source
    line: int
    by: Evidence
    name: str


def findings(located: Located) -> Iterator[Finding]:
    """Every forward, backward and step of the timed regions, each line once.

    The first of each kind is what the plan was made from. Nothing for lines of the user's choice.
    """
    site = next(iter(located.regions[0].sites), None)
    if site is None:
        return
    forward = located.regions[0].forward
    if forward.evidence is Evidence.RUN:
        yield from _seen(located, forward, site)
        return
    found = [*_forwards(located), *_backwards(located)]
    found += [_step(located.knowledge, update) for update in located.candidate.updates]
    once: dict[tuple[str, Path, int], Finding] = {}
    for each in found:
        once.setdefault((each.part, each.source.path, each.line), each)
    yield from once.values()


def _forwards(located: Located) -> Iterator[Finding]:
    """What begins the regions, then the further calls of models that their backwards need."""
    for region in located.regions:
        further = needed(located.knowledge, region.candidate, region.sites)
        inside = [m for m in further if m.is_typed and m.unit.lineno >= region.begin.lineno]
        for made in (region.forward, *inside):
            line = made.statement.lineno
            yield Finding("forward", made.source, line, made.evidence, made.what)


def _backwards(located: Located) -> Iterator[Finding]:
    for region in located.regions:
        for site in region.sites:
            yield _backward(located.knowledge, site, region.forward)


def _seen(located: Located, forward: Forward, site: Site) -> Iterator[Finding]:
    """Of a step that a run has shown: by the text of the calls that ran it."""
    update = located.candidate.updates[0]
    step = update.statement if update.call is None else update.call
    parts: tuple[tuple[str, Source, ast.expr | ast.stmt], ...] = (
        ("forward", forward.source, forward.statement),
        ("backward", site.backward_source, site.backward),
        ("step", update.source, step),
    )
    for part, source, node in parts:
        yield Finding(part, source, node.lineno, Evidence.RUN, "")


def _backward(knowledge: Knowledge, site: Site, forward: Forward) -> Finding:
    source, call = site.backward_source, site.backward
    scope = knowledge.program.scope_of(source, call)
    by = Evidence.USE if forward.is_typed else Evidence.SPELLING
    name = dotted(call.func) or callee(call)
    qualified = knowledge.program.names.qualified(source, scope, call.func)
    if qualified.startswith("torch.autograd."):
        by, name = Evidence.TYPE, qualified
    elif isinstance(call.func, ast.Attribute):
        owner = knowledge.kinds.of(source, scope, call.func.value)
        made = type_name(knowledge, source, scope, call.func.value)
        if owner is not None and call.args:
            by, name = owner[1], f"{made}.backward" if made else name
    return Finding("backward", source, call.lineno, by, name)


def _step(knowledge: Knowledge, update: Update) -> Finding:
    if update.call is None:
        line = update.statement.lineno
        return Finding("step", update.source, line, Evidence.USE, update.optimizer)
    at: tuple[Source, ScopeNode, ast.Call] = (update.source, update.scope, update.call)
    if update.helper is not None:
        at = next(_steps(knowledge, update.helper, set()), at)
    source, scope, call = at
    optimizer = knowledge.optimizer_of(source, scope, call)
    found = knowledge.kinds.of(source, scope, optimizer) if optimizer is not None else None
    name = type_name(knowledge, source, scope, optimizer) if optimizer is not None else ""
    by = found[1] if found is not None else Evidence.SPELLING
    return Finding("step", source, call.lineno, by, name or update.optimizer)


def _steps(
    knowledge: Knowledge, function: Function, seen: set[ast.AST]
) -> Iterator[tuple[Source, ScopeNode, ast.Call]]:
    """Calls that step an optimizer in a function, or in those that it calls."""
    source, scope = function.source, function.node
    calls = [call for call, _ in knowledge.program.calls.get(scope, ())]
    yield from ((source, scope, c) for c in calls if knowledge.is_step(source, scope, c))
    seen.add(scope)
    for call in calls:
        for inner in knowledge.program.resolve(source, scope, call):
            if inner.node not in seen:
                yield from _steps(knowledge, inner, seen)
