"""Where the forward of a backward starts: the slice of the iteration that leads to the loss."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from instrumentor.locate.dataflow import binds, effects, reads, touches, uses
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site
from instrumentor.locate.program import Function
from instrumentor.locate.syntax import LOOPS, ScopeNode, Source, dotted, own_calls, own_nodes
from instrumentor.locate.tree import contains, path_to
from instrumentor.locate.vocabulary import callee, loss_expression, receiver


@dataclass(frozen=True)
class Forward:
    """Where the forward of a backward starts.

    unit: statement on the path to the backward, in the loop's scope, before which a region may
    begin; statement: the statement that runs the model (may be in a helper); certain: a model
    call was seen, not only tensor arithmetic.
    """

    unit: ast.stmt
    statement: ast.stmt
    source: Source
    certain: bool


def find_forward(knowledge: Knowledge, candidate: Candidate, site: Site) -> Forward | None:
    """The start of the forward that leads to a site's loss; None when it is elsewhere."""
    found = _find_forward(knowledge, candidate, site)
    if found is not None and _is_rollout(found.unit, site.statement):
        return None
    return found


_WORLD = re.compile(r"(^|[._])(envs?|environment|game|sim|simulator|world|gym)$", re.I)


def _is_rollout(unit: ast.stmt, site: ast.stmt) -> bool:
    """A loop that runs the model against an environment, apart from the backward."""
    if not isinstance(unit, LOOPS) or contains(unit, site):
        return False
    return any(
        callee(c) in ("step", "act", "reset", "render") and _WORLD.search(receiver(c))
        for c in own_calls(unit)
    )


def _find_forward(knowledge: Knowledge, candidate: Candidate, site: Site) -> Forward | None:
    helper = site.chain[-1] if site.chain else None
    if helper is not None:
        inner = _forward_in_chain(knowledge, site)
        if inner is not None:
            statement, source = inner
            if site.chain[0].source is source and statement is not None:
                return Forward(site.statement, statement, source, True)
            return Forward(site.statement, statement, source, True)
    needs = (
        _call_needs(site.call)
        if site.chain
        else reads(loss_expression(site.backward))
        | _self_attributes(loss_expression(site.backward))
    )
    body: ast.AST = candidate.loop
    return _slice_forward(
        knowledge,
        candidate.source,
        candidate.scope,
        body,
        site.statement,
        needs,
        direct=not site.chain,
        expression=loss_expression(site.backward) if not site.chain else site.call,
        targets=binds(candidate.loop.target)
        if isinstance(candidate.loop, (ast.For, ast.AsyncFor))
        else set(),
    )


def leading_to(candidate: Candidate, site: Site) -> set[ast.stmt]:
    """Statements of the iteration that a backward's loss, or a helper's arguments, come from."""
    expression = loss_expression(site.backward) if not site.chain else site.call
    live = uses(expression)
    found: set[ast.stmt] = set()
    for suite, index in reversed(path_to(candidate.source, candidate.loop, site.statement)):
        for statement in reversed(suite[:index]):
            if effects(statement) & live:
                found.add(statement)
                live |= uses(statement)
    return found


def _forward_in_chain(knowledge: Knowledge, site: Site) -> tuple[ast.stmt, Source] | None:
    """The model call inside the helpers, searched from the innermost outwards."""
    at: ast.stmt = site.backward_statement
    expression: ast.AST = loss_expression(site.backward)
    found: tuple[ast.stmt, Source] | None = None
    for depth in range(len(site.chain) - 1, -1, -1):
        function = site.chain[depth]
        needs = reads(expression) | _self_attributes(expression)
        inner = _slice_forward(
            knowledge,
            function.source,
            function.node,
            function.node,
            at,
            needs,
            direct=True,
            expression=expression,
            targets=set(),
            certain_only=True,
        )
        if inner is not None:
            found = (inner.statement, inner.source)
            break
        if depth == 0:
            break
        caller = site.chain[depth - 1]
        step = call_of(knowledge, caller, function)
        if step is None:
            break
        expression, at = step
    return found


def call_of(
    knowledge: Knowledge, caller: Function, function: Function
) -> tuple[ast.Call, ast.stmt] | None:
    for call, statement in knowledge.program.calls.get(caller.node, ()):
        if any(
            t.node is function.node
            for t in knowledge.program.resolve(caller.source, caller.node, call)
        ):
            return call, statement
    return None


def _call_needs(call: ast.Call) -> set[str]:
    found: set[str] = set()
    for argument in (*call.args, *(k.value for k in call.keywords)):
        found |= reads(argument)
    return found


def _self_attributes(node: ast.AST) -> set[str]:
    """`self.loss` style names, so that `self.loss = ...` is found as its binding."""
    return {
        dotted(n)
        for n in (node, *own_nodes(node))
        if isinstance(n, ast.Attribute) and dotted(n).startswith("self.")
    }


def _attribute_binds(node: ast.AST) -> set[str]:
    return {
        dotted(n)
        for n in (node, *own_nodes(node))
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }


def _slice_forward(
    knowledge: Knowledge,
    source: Source,
    scope: ScopeNode,
    top: ast.AST,
    at: ast.stmt,
    needs: set[str],
    *,
    direct: bool,
    expression: ast.AST,
    targets: set[str],
    certain_only: bool = False,
) -> Forward | None:
    """Walk backwards from `at` through the suites below `top`, keeping what leads to `needs`."""
    needs = set(needs) - {"self", "cls"}
    units: list[tuple[ast.stmt, ast.stmt]] = []  # (unit on the path, statement in the slice)
    path = path_to(source, top, at)
    for level, (suite, index) in reversed(list(enumerate(path))):
        if level + 1 < len(path) and isinstance(
            source.places[path[level + 1][0][0]].parent, ast.If
        ):
            # what runs before a conditional step (a rollout) is not its forward, if it has its own
            if any(knowledge.forward_call(source, scope, s) is not None for _, s in units):
                break
        for statement in reversed(suite[:index]):
            bound = binds(statement) | touches(statement) | _attribute_binds(statement)
            if not (bound & needs) or _is_mode_switch(statement):
                continue
            units.append((statement, statement))
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                plain = {
                    t.id
                    for t in ast.walk(statement)
                    if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)
                }
                needs -= plain
                needs -= _attribute_binds(statement)
            needs |= reads(statement) | _self_attributes(statement)
            needs -= {"self", "cls"}
    units.reverse()
    units.sort(key=lambda u: (u[0].lineno, u[0].col_offset))
    for unit, statement in units:
        call = knowledge.forward_call(source, scope, statement)
        if call is not None:
            inner = source.statement_of(call) or statement
            return Forward(unit, inner, source, True)
    if direct and knowledge.forward_call(source, scope, expression) is not None:
        return Forward(at, at, source, True)
    if certain_only:
        return None
    for unit, statement in units:
        if not _only_prepares(statement, targets):
            return Forward(unit, statement, source, False)
    if direct and any(isinstance(n, ast.Call) for n in (expression, *own_nodes(expression))):
        return Forward(at, at, source, False)
    return None


_PREPARES_DATA = re.compile(
    r"^(to|cuda|cpu|float|long|int|half|bool|double|type|view|reshape|permute|transpose|unsqueeze|"
    r"squeeze|size|detach|clone|contiguous|item|numpy|next|iter|len|range|min|max|enumerate|zip|"
    r"list|dict|tuple|set|sorted|tensor|zeros|zeros_like|ones|ones_like|randn|rand|randint|randperm|"
    r"arange|linspace|full|full_like|empty|from_numpy|as_tensor|stack|cat|eye|shape|get|pop|keys|"
    r"values|items|Variable|narrow|flatten|repeat|expand|time|perf_counter|requires_grad_|t|append|"
    r"extend|select|index_select|gather|one_hot|Tensor|FloatTensor|LongTensor|normal_|uniform_|"
    r"format|str|print|info|zero_grad|step|train|eval|split|chunk|fill_|non_blocking|pin_memory|"
    r"argmax|eq|ne|lt|gt|masked_fill|where|manual_seed|random_|bernoulli|pow|getattr|hasattr|update|map|filter|sorted|reversed)$"
)


_PREPARES_WORDS = re.compile(
    r"batch|data|load|sample|prepare|collate|transform|token|label|target|noise|mask|augment|"
    r"random|generate|shuffle|buffer|memory|replay|env|repackage|schedul|adjust|lr|seed",
    re.I,
)


def _only_prepares(statement: ast.stmt, targets: set[str]) -> bool:
    """Data fetch, moves, shapes, labels: nothing that could be differentiated."""
    calls = list(own_calls(statement))
    if calls and all(
        _PREPARES_DATA.match(callee(c)) or _PREPARES_WORDS.search(callee(c)) for c in calls
    ):
        return True
    if not calls:
        value = getattr(statement, "value", None)
        arithmetic = value is not None and any(
            isinstance(n, (ast.BinOp,)) for n in (value, *own_nodes(value))
        )
        return not arithmetic or isinstance(value, ast.Constant)
    return False


def _is_mode_switch(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and callee(statement.value) in ("train", "eval", "zero_grad", "step", "to", "cuda")
    )
