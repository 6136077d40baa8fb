"""The functions between the loop and the timed lines, which an iteration runs around its step.

`train_step(batch)` runs forward, backward and update, then validates and saves: what stands there
runs between the samples, as what stands in the loop does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from instrumentor.locate.loop.loops import Body, Candidate, Site
from instrumentor.locate.region.modes import Region
from instrumentor.locate.region.step_function import seen_from
from instrumentor.read.control_flow import START, flow_of
from instrumentor.read.program import Function, Program
from instrumentor.read.syntax import ScopeNode, Source, contains


class Helper(Struct, frozen=True):
    """A function that leads to the timed lines.

    anchor: the statement in it that calls the next one, or the last of these lines.
    """

    function: Function
    anchor: ast.stmt


class Helpers(Struct, eq=False, dict=True):
    """Those of one candidate; none where the loop holds its step itself."""

    candidate: Candidate
    regions: Sequence[Region]

    @property
    def _program(self) -> Program:
        return self.candidate.knowledge.everywhere.program

    @cached_property
    def found(self) -> list[Helper]:
        """From the loop inwards."""
        every = (
            helper
            for region in self.regions
            for timed in region.sites
            for site in self.candidate.sites
            if site.backward is timed.backward
            for helper in self._leading_to(region, site)
        )
        return list(dict.fromkeys(every))

    def _leading_to(self, region: Region, site: Site) -> Iterator[Helper]:
        if region.candidate.scope is self.candidate.scope:
            return
        for depth, function in enumerate(site.chain, 1):
            if function.node is region.candidate.scope:
                yield Helper(function, region.end)
                return
            inner = seen_from(self.candidate.knowledge, site, depth)
            if inner is not None:
                yield Helper(function, inner.statement)

    @cached_property
    def scopes(self) -> dict[ScopeNode, list[ast.stmt]]:
        """The functions with their anchors."""
        found: dict[ScopeNode, list[ast.stmt]] = {}
        for helper in self.found:
            found.setdefault(helper.function.node, []).append(helper.anchor)
        return found

    @cached_property
    def leading(self) -> list[tuple[Source, ast.stmt]]:
        """What leads to the timed lines in the functions, and the backwards there."""
        held = [(h.function.source, h.anchor) for h in self.found]
        for region in self.regions:
            if region.candidate.scope in self.scopes:
                held += [(region.candidate.source, site.statement) for site in region.sites]
        return held

    @cached_property
    def updates(self) -> list[ast.stmt]:
        """Statements in the functions that step an optimizer, or call what does."""
        functions = dict.fromkeys(h.function for h in self.found)
        bodies = (Body.of(self.candidate.knowledge, function) for function in functions)
        return [statement for body in bodies for statement in body.steps]

    def iterates(self, scope: ScopeNode, statement: ast.stmt) -> bool:
        """Whether a statement stands in the loop, or in one of the functions."""
        in_loop = scope is self.candidate.scope and contains(self.candidate.loop, statement)
        return in_loop or scope in self.scopes

    def called_beside(self, scope: ScopeNode, is_dead: Callable[[ScopeNode, ast.AST], bool]) -> str:
        """What else than the loop may run the functions that lead to the step; "" outside of them.

        Args:
            is_dead: whether nothing ever comes to a place.
        """
        if scope not in self.scopes:
            return ""
        for function in dict.fromkeys(h.function.node for h in self.found):
            calls = self._program.callers_of(function)
            beside: list[tuple[ScopeNode, ast.expr]] = []
            beside += [(where, c) for where, c, at in calls if not self.iterates(where, at)]
            beside += self._program.handed.get(function, ())
            for where, node in beside:
                if not is_dead(where, node):
                    place = self._program.source_of_scope[where].at(node.lineno)
                    return f"{function.name}() may also be called from {place}"
        return ""

    def runs_with_the_step(self, scope: ScopeNode, statement: ast.stmt) -> bool:
        """Whether a call of a function may come to a statement and to the step, in either order."""
        flow = flow_of(scope)
        return any(
            flow.path(flow.after(statement), flow.before(anchor))
            or flow.path(flow.after(anchor), flow.before(statement))
            for anchor in self.scopes[scope]
        )

    def may_come_first(self, scope: ScopeNode, statement: ast.stmt) -> bool:
        """Whether an iteration may come to a statement of it without having come by the step."""
        anchors, flow = self.scopes.get(scope, []), flow_of(scope)
        if scope is self.candidate.scope:
            anchors, flow = [s.statement for s in self.candidate.sites], self.candidate.flow
        steps = {flow.before(each) for each in anchors if each in flow.begins}
        at = flow.begins.get(statement)
        return at is not None and at not in steps and flow.path(START, at, steps)
