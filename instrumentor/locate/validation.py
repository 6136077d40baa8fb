"""Validation and checkpoints that would run before or between the measured steps.

A validation is skipped together with what only depends on it: the `model.eval()` before it and
the logging of its result. A name that is read later keeps its earlier binding or gets nan; when
nan could not stand in (items, attributes, iteration), the validation is kept, with a warning.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from instrumentor.locate.dataflow import binds, reads, simple_targets
from instrumentor.locate.forward import leading_to
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Skipped
from instrumentor.locate.regions import Region
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    LoopNode,
    ScopeNode,
    Source,
    below,
    callee,
    dotted,
    own_calls,
    own_nodes,
    receiver,
    suites,
)
from instrumentor.locate.tree import contains, path_to
from instrumentor.locate.vocabulary import (
    is_eval_switch,
    is_logging,
    is_train_switch,
    is_validation_name,
)

_SETTINGS = re.compile(r"config|cfg|args|schema|parser|option|hparams|self\.config", re.I)
_VALIDATION_DATA = re.compile(r"val|test|eval|dev", re.I)


@dataclass(eq=False)
class Validations:
    """Finds what is skipped for one candidate; `warnings` names what had to stay."""

    knowledge: Knowledge
    candidate: Candidate
    warnings: list[str]
    regions: list[Region]
    gone: set[ast.stmt] = field(default_factory=set)

    def find(self) -> list[Skipped]:
        """Everything to skip; what one skipped piece needs may be gone with another."""
        hits: list[tuple[Source, ScopeNode, ast.stmt, bool]] = []
        for source, scope, statement, initial in self._places():
            for hit in self._hits(source, scope, statement):
                if not any(h[0] is source and contains(h[2], hit) for h in hits):
                    hits.append((source, scope, hit, initial))
        while True:
            self.gone = set()
            for source, scope, hit, _ in hits:
                self.gone.update((hit, *self._dependents(source, scope, hit, _bound(hit) or ())))
            kept_back = [h for h in hits if self._unsafe(h[0], h[1], h[2]) is not None]
            if not kept_back:
                break
            for source, scope, hit, _ in kept_back:
                self._keep(source, hit, self._unsafe(source, scope, hit) or "")
            hits = [h for h in hits if h not in kept_back]
        found: list[Skipped] = []
        taken: set[ast.stmt] = set()
        for source, scope, hit, initial in hits:
            if hit in taken or any(contains(t, hit) for t in taken):
                continue
            skipped = self._skip(source, scope, hit, initial)
            taken.update((hit, *skipped.dependents))
            found.append(skipped)
        return found

    def name_between_epochs(self) -> None:
        """Validation in loops around the steps stays, and runs between samples of short epochs."""
        for source, scope, body in self._outer_bodies():
            for statement in body:
                for hit in self._hits(source, scope, statement):
                    self._between(source, hit, "validation")
                for leaf in _leaves(statement):
                    if any(self.knowledge.is_save(source, scope, c) for c in own_calls(leaf)):
                        self._between(source, leaf, "a checkpoint")

    def _between(self, source: Source, statement: ast.stmt, what: str) -> None:
        text = (
            f"{source.path.name}:{statement.lineno}: {what} between epochs stays: it matters only "
            "where an epoch has fewer steps than --steps"
        )
        if text not in self.warnings:
            self.warnings.append(text)

    def _outer_bodies(self) -> Iterator[tuple[Source, ScopeNode, list[ast.stmt]]]:
        """Bodies of the loops around the one of whole steps, in this scope and the callers'."""
        candidate = self.candidate
        loops = [candidate.loop, *candidate.source.loops_around(candidate.loop)]
        steps = self._loop_of_update(loops)
        for loop in loops[loops.index(steps) + 1 :]:
            inner = next(s for s in loop.body if contains(s, candidate.loop))
            yield candidate.source, candidate.scope, [s for s in loop.body if s is not inner]
        if isinstance(candidate.scope, FUNCTIONS):
            for caller, _, holder in self.knowledge.program.callers.get(candidate.scope, ()):
                where = self.knowledge.program.source_of_scope[caller]
                for loop in where.loops_around(holder):
                    body = [s for s in loop.body if not contains(s, holder)]
                    yield where, caller, body

    def checkpoints(self, taken: set[ast.stmt]) -> list[Skipped]:
        """Saves inside the loops; results that are used elsewhere keep theirs."""
        found: list[Skipped] = []
        for source, scope, statement, initial in self._places():
            if initial:
                continue
            for inner in _leaves(statement):
                if inner in taken or any(contains(t, inner) for t in taken):
                    continue
                if any(self.knowledge.is_save(source, scope, c) for c in own_calls(inner)):
                    if isinstance(inner, ast.Expr):
                        found.append(Skipped(source, inner, (), (), False, "checkpoint"))
                    elif isinstance(inner, ast.Assign):
                        dependents = self._logging_after(source, inner, _bound(inner), taken)
                        if not self._read_elsewhere(
                            source, scope, inner, dependents, _bound(inner)
                        ):
                            found.append(
                                Skipped(source, inner, tuple(dependents), (), False, "checkpoint")
                            )
        return found

    # -- where to look -----------------------------------------------------------------------

    def _places(self) -> Iterator[tuple[Source, ScopeNode, ast.stmt, bool]]:
        """Statements before the loops (initial) and inside the loops (not), callers included."""
        seen: set[ScopeNode] = set()
        queue: list[tuple[Source, ScopeNode, ast.stmt]] = [
            (self.candidate.source, self.candidate.scope, self.candidate.loop)
        ]
        while queue:
            source, scope, anchor = queue.pop(0)
            if scope in seen:
                continue
            seen.add(scope)
            outermost = [*source.loops_around(anchor)]
            loops = ([anchor] if isinstance(anchor, LOOPS) else []) + list(outermost)
            if loops and scope is self.candidate.scope:
                for statement in self._loop_of_update(loops).body:
                    yield source, scope, statement, False
            top: ast.stmt = loops[-1] if loops else anchor
            for suite, index in path_to(source, scope, top):
                for statement in suite[:index]:
                    yield source, scope, statement, True
            if isinstance(scope, FUNCTIONS):
                program = self.knowledge.program
                for caller, _, holder in program.callers.get(scope, ()):
                    queue.append((program.source_of_scope[caller], caller, holder))

    def _loop_of_update(self, loops: list[LoopNode]) -> LoopNode:
        """The loop whose iterations are whole steps: with nested micro-steps the one around."""
        for loop in loops:
            if any(contains(loop, u.statement) for u in self.candidate.updates):
                return loop
        return loops[0]

    @cached_property
    def _of_the_step(self) -> set[ast.stmt]:
        """Statements of the timed regions and those that the differentiated losses come from."""
        found: set[ast.stmt] = set()
        candidate = self.candidate
        for region in self.regions:
            suite = candidate.source.places[region.begin].suite
            found.update(
                s
                for s in suite[suite.index(region.begin) :]
                if (s.end_lineno or s.lineno) <= (region.end.end_lineno or region.end.lineno)
            )
            for site in region.sites:
                found |= leading_to(candidate, site)
        return found

    def _hits(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> Iterator[ast.stmt]:
        """Validation statements in or below a statement, outermost first."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return
        if statement in self._of_the_step and source is self.candidate.source:
            if not any(contains(statement, s.statement) for s in self.candidate.sites):
                return
        if any(contains(statement, site.statement) for site in self.candidate.sites):
            if isinstance(statement, (ast.If, *LOOPS, ast.With, ast.Try)):
                for suite in suites(statement):
                    for inner in suite:
                        yield from self._hits(source, scope, inner)
            return
        if self.knowledge.without_gradients(source, statement) and self._inline(
            source, scope, statement
        ):
            yield statement
            return
        if isinstance(statement, (ast.If, *LOOPS, ast.With, ast.Try, ast.Match)):
            for suite in suites(statement):
                for inner in suite:
                    yield from self._hits(source, scope, inner)
            return
        if isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
            if any(self._is_validation(source, scope, call) for call in own_calls(statement)):
                yield statement

    def _is_validation(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        if is_eval_switch(call) or (isinstance(call.func, ast.Name) and call.func.id == "eval"):
            return False
        if _SETTINGS.search(receiver(call)) or callee(call) in ("append", "print"):
            return False
        targets = self.knowledge.program.resolve(source, scope, call)
        if targets:
            if any(self.knowledge.has_backward(t) for t in targets):
                return False
            if is_validation_name(callee(call)):
                certain = re.match(
                    r"_*(run_|do_)?(validate|evaluate|validation|evaluation)$", callee(call), re.I
                )
                return bool(certain) or any(
                    self.knowledge.evaluates(t) or _loops(t.node) for t in targets
                )
            return any(self.knowledge.is_validation_function(t) for t in targets) and bool(
                _VALIDATION_DATA.search(ast.unparse(call))
            )
        return is_validation_name(callee(call))

    def _inline(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
        """`with torch.no_grad(): for batch in val_loader: ...` written out in place."""
        place = source.places[statement]
        if any(
            isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and is_eval_switch(s.value)
            for s in place.suite[: place.index]
        ):
            return not any(contains(statement, s.statement) for s in self.candidate.sites)
        for node in own_nodes(statement):
            if isinstance(node, ast.For) and _VALIDATION_DATA.search(ast.unparse(node.iter)):
                return not any(contains(statement, s.statement) for s in self.candidate.sites)
        return False

    # -- what goes with it -------------------------------------------------------------------

    def _unsafe(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> str | None:
        """Why a validation has to stay, or None."""
        bound = _bound(statement)
        if isinstance(statement, ast.AugAssign) or bound is None:
            return "its result is stored where nan could not stand in"
        for name in bound:
            if self._needs_nan(source, scope, statement, name):
                for use in self._uses(scope, name):
                    if self._compared_between_epochs(source, use):
                        return (
                            f"{name} is compared at line {use.lineno} with a validation that stays"
                        )
                    if _needs_structure(source, use):
                        return f"{name} is read at line {use.lineno} in a way nan cannot serve"
        return None

    def _compared_between_epochs(self, source: Source, use: ast.Name) -> bool:
        """nan loses every comparison: early stopping between epochs would count it as no gain."""
        for where, scope, body in self._outer_bodies():
            if where is not source or not any(
                next(self._hits(where, scope, s), None) is not None for s in body
            ):
                continue
            for top in body:
                for node in (top, *own_nodes(top)):
                    if isinstance(node, ast.Compare) and any(n is use for n in below(node)):
                        return True
        return False

    def _needs_nan(self, source: Source, scope: ScopeNode, statement: ast.stmt, name: str) -> bool:
        uses = [u for u in self._uses(scope, name) if not self._rebound(source, scope, u)]
        if not uses:
            return False
        earlier = _earlier_binding(source, scope, statement, name, self.gone)
        return earlier is None or _none_that_is_formatted(earlier, uses)

    def _rebound(self, source: Source, scope: ScopeNode, use: ast.Name) -> bool:
        """A loop or assignment that stays binds the name anew ahead of this read."""
        return _bound_before(source, scope, use, self.gone, parameters=False)

    def _skip(
        self, source: Source, scope: ScopeNode, statement: ast.stmt, initial: bool
    ) -> Skipped:
        bound = _bound(statement) or ()
        return Skipped(
            source,
            statement,
            (
                *self._eval_switches(source, statement),
                *self._dependents(source, scope, statement, bound),
            ),
            tuple(n for n in bound if self._needs_nan(source, scope, statement, n)),
            initial,
            "validation",
        )

    def _keep(self, source: Source, statement: ast.stmt, why: str) -> None:
        text = f"{source.path.name}:{statement.lineno}: validation is kept: {why}"
        if text not in self.warnings:
            self.warnings.append(text)

    def _eval_switches(self, source: Source, statement: ast.stmt) -> list[ast.stmt]:
        place = source.places[statement]
        found: list[ast.stmt] = []
        for previous in reversed(place.suite[: place.index]):
            if isinstance(previous, ast.Expr) and isinstance(previous.value, ast.Call):
                if is_eval_switch(previous.value):
                    found.append(previous)
                    continue
                if is_logging(previous.value):
                    continue
            break
        return found

    def _dependents(
        self, source: Source, scope: ScopeNode, statement: ast.stmt, bound: tuple[str, ...]
    ) -> list[ast.stmt]:
        """What follows in the same suite and exists only for the result, best scores included."""
        names = set(bound)
        found: list[ast.stmt] = []
        place = source.places[statement]
        inside_guard = isinstance(place.parent, ast.If)
        for following in place.suite[place.index + 1 :]:
            if any(contains(following, s.statement) for s in self.candidate.sites):
                break
            if contains(following, self.candidate.loop):
                break
            if not names & reads(following):
                continue
            if self._droppable(source, scope, following, loose=inside_guard):
                found.append(following)
                names |= binds(following)
        return found

    def _droppable(
        self,
        source: Source,
        scope: ScopeNode,
        statement: ast.stmt,
        *,
        loose: bool,
        whole: ast.stmt | None = None,
    ) -> bool:
        """Only logging, saving and bookkeeping, none of it needed by what stays.

        loose: also early stopping on the result (`break`): a guard makes it validation's own;
        whole: the outermost statement that would go.
        """
        if isinstance(statement, ast.Pass):
            return True
        if isinstance(statement, (ast.Break, ast.Raise)):
            return loose
        whole = whole or statement
        if isinstance(statement, (ast.If, ast.For)):
            return all(
                self._droppable(source, scope, inner, loose=loose, whole=whole)
                for suite in suites(statement)
                for inner in suite
            )
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if is_train_switch(call):
                return False
            return loose or is_logging(call) or self.knowledge.is_save(source, scope, call)
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            bound = binds(statement)
            if not bound and not loose:
                return False
            outside = [
                node
                for node in own_nodes(scope)
                if isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and node.id in bound
                and not contains(whole, node)
            ]
            gone = {whole, statement}
            return all(_bound_before(source, scope, use, gone) for use in outside)
        return False

    def _logging_after(
        self,
        source: Source,
        statement: ast.stmt,
        names: tuple[str, ...] | None,
        taken: set[ast.stmt],
    ) -> list[ast.stmt]:
        place = source.places[statement]
        return [
            s
            for s in place.suite[place.index + 1 :]
            if s not in taken
            and isinstance(s, ast.Expr)
            and isinstance(s.value, ast.Call)
            and is_logging(s.value)
            and set(names or ()) & reads(s)
        ]

    def _read_elsewhere(
        self,
        source: Source,
        scope: ScopeNode,
        statement: ast.stmt,
        dependents: list[ast.stmt],
        names: tuple[str, ...] | None,
    ) -> bool:
        if names is None:
            return True
        gone = {statement, *dependents}
        return any(
            any(not any(contains(g, use) for g in gone) for use in self._uses(scope, name))
            and _earlier_binding(source, scope, statement, name, set()) is None
            for name in names
        )

    def _uses(self, scope: ScopeNode, name: str) -> Iterator[ast.Name]:
        """Reads of a name in the scope, those in skipped statements left out."""
        for node in below(scope):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id == name:
                if not any(contains(g, node) for g in self.gone):
                    yield node


def _bound(statement: ast.stmt) -> tuple[str, ...] | None:
    """Names bound by a validation statement; () for none; None when a target is no plain name."""
    if isinstance(statement, ast.Expr):
        return () if not isinstance(statement.value, ast.NamedExpr) else None
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return tuple(sorted(binds(statement)))
    names = simple_targets(statement)
    return None if names is None else tuple(names)


def _loops(node: ast.AST) -> bool:
    return any(isinstance(n, LOOPS) for n in own_nodes(node))


def _leaves(statement: ast.stmt) -> Iterator[ast.stmt]:
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return
    inner = [s for suite in suites(statement) for s in suite]
    if not inner:
        yield statement
    for child in inner:
        yield from _leaves(child)


def _earlier_binding(
    source: Source, scope: ScopeNode, statement: ast.stmt, name: str, gone: set[ast.stmt]
) -> ast.AST | None:
    """An unconditional binding ahead of the statement that stays, or a parameter."""
    if isinstance(scope, FUNCTIONS):
        arguments = scope.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg == name:
                return argument
    for suite, index in reversed(path_to(source, scope, statement)):
        for previous in reversed(suite[:index]):
            if previous in gone:
                continue
            if isinstance(previous, (ast.Assign, ast.AnnAssign)) and name in binds(previous):
                if isinstance(previous, ast.AnnAssign) and previous.value is None:
                    continue
                return previous
            if isinstance(previous, (ast.With, ast.Try)) and any(
                isinstance(s, (ast.Assign, ast.AnnAssign)) and name in binds(s)
                for s in previous.body
            ):
                return previous
    return None


def _bound_before(
    source: Source, scope: ScopeNode, use: ast.Name, gone: set[ast.stmt], *, parameters: bool = True
) -> bool:
    """Whether the statement of a read is preceded by a binding that stays."""
    statement = source.statement_of(use)
    if statement is None or statement not in source.places:
        return False
    found = _earlier_binding(source, scope, statement, use.id, gone)
    value = getattr(found, "value", None)
    if isinstance(value, ast.Constant) and value.value is None:
        return False  # None cannot be formatted or compared: nan can
    return found is not None and (parameters or not isinstance(found, ast.arg))


def _none_that_is_formatted(earlier: ast.AST, uses: list[ast.Name]) -> bool:
    value = getattr(earlier, "value", None)
    return isinstance(value, ast.Constant) and value.value is None and bool(uses)


def _needs_structure(source: Source, use: ast.Name) -> bool:
    """The name is subscripted, iterated, unpacked, called, or an attribute of it is read."""
    statement = source.statement_of(use)
    if statement is None:
        return True
    for node in (statement, *own_nodes(statement)):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and node.value is use:
            return True
        if isinstance(node, (ast.For, ast.comprehension)) and node.iter is use:
            return True
        if isinstance(node, ast.Starred) and node.value is use:
            return True
        if isinstance(node, ast.Dict) and any(
            k is None and v is use for k, v in zip(node.keys, node.values, strict=True)
        ):
            return True
        if isinstance(node, ast.Call):
            if node.func is use:
                return True
            if use in node.args and dotted(node.func).startswith(("torch.", "np.", "utils.save")):
                return True
            if any(k.arg is None and k.value is use for k in node.keywords):
                return True
            if (
                callee(node)
                in (
                    "len",
                    "dict",
                    "list",
                    "tuple",
                    "sorted",
                    "sum",
                    "update",
                    "extend",
                    "zip",
                    "enumerate",
                    "max",
                    "min",
                )
                and use in node.args
            ):
                return True
        if (
            isinstance(node, ast.Assign)
            and node.value is use
            and isinstance(node.targets[0], (ast.Tuple, ast.List))
        ):
            return True
    return False


__all__ = ["Validations", "dotted"]
