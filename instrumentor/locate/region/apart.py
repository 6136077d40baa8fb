"""Statements on the way to a backward that its loss is not made from, as far as reading tells.

A run that sees a model there (`runtime/recorder/witness.py`) has seen work that is no part of the
step. What a teacher makes, a target network or a generator whose images are detached leads to the
loss by names: no backward comes to it, and it belongs to the step all the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from instrumentor.locate.gradients.leading import leading_to
from instrumentor.locate.loop.loops import Candidate, Site
from instrumentor.locate.meaning.changed_names import changed, effects, uses
from instrumentor.locate.region.modes import Region
from instrumentor.locate.region.step_function import seen_from
from instrumentor.read.names_used import binds
from instrumentor.read.program import Function
from instrumentor.read.syntax import (
    contains,
    own_calls,
    parameters,
    receiver,
)

#: A file with the first and the last of its lines that are meant.
Lines: TypeAlias = tuple[Path, int, int]

#: Calls in calls that are looked into for what they change.
_DEPTH = 3


def apart_from_the_loss(regions: Iterable[Region]) -> tuple[Lines, ...]:
    """Statements of the loop, and of the helpers down to each backward, that no loss comes from."""
    found = dict[Lines, None]()
    for region in regions:
        for body, sites in _bodies(region.candidate, region.sites):
            found.update(dict.fromkeys(_of_body(body, sites)))
    return tuple(found)


def _bodies(body: Candidate, sites: Iterable[Site]) -> Iterator[tuple[Candidate, list[Site]]]:
    """The region's own body, and that of each helper on the way to a backward."""
    here = [*sites]
    if here:
        yield body, here
    for function in dict.fromkeys(site.chain[0] for site in here if site.chain):
        inner = [site for site in here if site.chain[:1] == (function,)]
        within = [s for site in inner if (s := seen_from(body.knowledge, site, 1)) is not None]
        at = function.source, function.node, function.node
        yield from _bodies(Candidate(body.knowledge, *at), within)


def _of_body(body: Candidate, sites: list[Site]) -> Iterator[Lines]:
    flow, held, changes = body.flow, [site.statement for site in sites], partial(_changes, body)
    leading = {s for each in sites for s in leading_to(body, each, changes, _read_by(each))}
    apart = list[ast.stmt]()
    for statement in flow.statements:
        around = {statement, *body.source.parents(statement)}
        known = around.isdisjoint(leading) and around.isdisjoint(apart)
        if known and own_calls(statement) and not any(contains(statement, s) for s in held):
            after = flow.after(statement)
            if any(flow.path(after, flow.before(each)) for each in held):
                apart.append(statement)
    yield from ((body.source.path, s.lineno, s.end_lineno or s.lineno) for s in apart)


def _read_by(site: Site) -> set[str]:
    """Names that the helpers of a backward read from outside."""
    nodes = [function.node for function in site.chain]
    return set[str]().union(*(uses(n) - binds(n) - parameters(n) for n in nodes))


# -- what a statement may change ------------------------------------------------------------------


def _changes(body: Candidate, statement: ast.stmt, depth: int = 0) -> set[str]:
    """Names that it binds or changes, itself or in functions of the program that it calls."""
    found = effects(statement)
    for call in own_calls(statement):
        for function in body.called(call):
            found |= _by_call(body, call, function, depth)
    return found


def _by_call(body: Candidate, call: ast.Call, function: Function, depth: int) -> set[str]:
    """The caller's names that a call of a function changes."""
    inner = Candidate(body.knowledge, function.source, function.node, function.node)
    found = set[str]()
    if receiver(call) in ("self", "super()") and depth < _DEPTH:
        inside = (_changes(inner, s, depth + 1) for s in function.node.body)
        found = {name for names in inside for name in names if name.startswith("self.")}
    filled = changed(function.node, modes=False)
    for name, value in body.program.given(body.source, body.scope, call, function):
        if name in filled:
            found |= uses(value)
    return found
