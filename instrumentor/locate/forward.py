"""Where the forward of a backward starts: the slice of the iteration that leads to the loss."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from instrumentor.locate.dataflow import (
    binds,
    effects,
    reads,
    self_attributes,
    self_stores,
    touches,
    uses,
)
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site
from instrumentor.locate.program import Function
from instrumentor.locate.state import State, as_caller, outside
from instrumentor.locate.syntax import (
    LOOPS,
    ScopeNode,
    Source,
    arguments,
    callee,
    dotted,
    own_calls,
    own_nodes,
    receiver,
)
from instrumentor.locate.tree import contains, path_to


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
    if found is None or contains(found.unit, site.statement):
        return found
    apart = _is_rollout(knowledge, candidate.source, candidate.scope, found.unit)
    return None if apart else found


_WORLD = re.compile(r"(^|[._])(envs?|environment|game|sim|simulator|world|gym)$", re.I)


def _is_rollout(
    knowledge: Knowledge, source: Source, scope: ScopeNode, unit: ast.stmt, depth: int = 0
) -> bool:
    """A loop that runs the model against an environment, here or in a function called here."""
    nodes = (unit, *own_nodes(unit)) if depth else (unit,)
    if any(
        callee(c) in ("step", "act", "reset", "render") and _WORLD.search(receiver(c))
        for loop in nodes
        if isinstance(loop, LOOPS)
        for c in own_calls(loop)
    ):
        return True
    return depth < 3 and any(
        _is_rollout(knowledge, function.source, function.node, function.node, depth + 1)
        for call in own_calls(unit)
        for function in knowledge.program.resolve(source, scope, call)
    )


def _find_forward(knowledge: Knowledge, candidate: Candidate, site: Site) -> Forward | None:
    carried: set[str] = set()
    named: Forward | None = None
    if site.chain:
        inner, carried = _forward_in_chain(knowledge, site, candidate.source)
        if inner is not None:
            named = Forward(site.statement, inner.statement, inner.source, True)
            if not _only_named(knowledge, inner):
                return named
    expression = site.loss if not site.chain else site.call
    state = State(knowledge.program)
    parts = arguments(site.call) if site.chain else [expression]
    needs = carried.union(*(reads(p) | self_attributes(p) for p in parts))
    needs = needs.union(*(state.read(candidate.source, candidate.scope, p) for p in parts))
    found = _slice_forward(
        knowledge,
        _Slice(knowledge, candidate.source, candidate.scope, candidate.loop, site.statement, needs),
        direct=not site.chain,
        expression=expression,
        certain_only=named is not None,
    )
    return found or named


def _only_named(knowledge: Knowledge, forward: Forward) -> bool:
    """Whether a forward is one by its name alone: `compute_loss()` that runs no model itself."""
    source, scope = forward.source, forward.source.scope_of(forward.statement)
    call = _model_call(knowledge, source, scope, forward.statement)
    functions = knowledge.program.resolve(source, scope, call) if call is not None else []
    return bool(functions) and not any(knowledge.runs_model(f) for f in functions)


def leading_to(candidate: Candidate, site: Site) -> set[ast.stmt]:
    """Statements of the iteration that a backward's loss, or a helper's arguments, come from."""
    expression = site.loss if not site.chain else site.call
    live = uses(expression)
    found: set[ast.stmt] = set()
    for suite, index in reversed(path_to(candidate.source, candidate.loop, site.statement)):
        for target, value in _bound_by_header(suite[index]):
            if binds(target) & live:
                live |= uses(value)
        for statement in reversed(suite[:index]):
            if effects(statement) & live:
                found.add(statement)
                live |= uses(statement)
    return found


def _forward_in_chain(
    knowledge: Knowledge, site: Site, loop_source: Source
) -> tuple[Forward | None, set[str]]:
    """The model call inside the helpers, searched from the innermost outwards.

    Also the names of the loop's scope that the helpers take the loss from although they are no
    arguments: attributes of the object, names of the module.
    """
    at: ast.stmt = site.backward_statement
    expression: ast.expr = site.loss
    carried: set[str] = set()
    named: Forward | None = None
    for depth in range(len(site.chain) - 1, -1, -1):
        function = site.chain[depth]
        source, node = function.source, function.node
        needs = reads(expression) | self_attributes(expression) | carried
        if at is site.backward_statement:
            needs |= State(knowledge.program).read(source, node, expression)
        part = _Slice(knowledge, source, node, node, at, needs)
        inner = _slice_forward(
            knowledge, part, direct=True, expression=expression, certain_only=True
        )
        if inner is not None and not _only_named(knowledge, inner):
            return inner, set()
        named = named or inner
        left = outside(function, part.needs)
        if depth == 0:
            return named, as_caller(left, loop_source, site.call, function)
        caller = site.chain[depth - 1]
        step = call_of(knowledge, caller, function)
        if step is None:
            break
        call, at = step
        if named is None and knowledge.forward_call(caller.source, caller.node, call) is not None:
            named = Forward(at, at, caller.source, True)
        expression = ast.Tuple(arguments(call), ast.Load())
        carried = as_caller(left, caller.source, call, function)
    return named, set()


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


_FETCHES = re.compile(
    r"^(get|next|load|fetch|sample|draw|prepare|collate|build|make|set|feed)_([a-z]+_)*"
    r"(batch|minibatch|batches|data|input|inputs|example|examples|sample|samples|task|tasks)$"
    r"|^__next__$",
    re.I,
)


_SETS_UP = re.compile(
    r"^(set|update|reset|init|register|adjust|enable|disable|freeze|unfreeze|clear|configure|on)_",
    re.I,
)


def _model_call(
    knowledge: Knowledge, source: Source, scope: ScopeNode, node: ast.AST
) -> ast.Call | None:
    """The call below a node that runs the model, not one that fetches data or sets it up."""

    def prepares(call: ast.Call) -> bool:
        word = callee(call)
        discarded = isinstance(node, ast.Expr) and node.value is call
        if not (_FETCHES.match(word) or (discarded and _SETS_UP.match(word))):
            return False
        functions = knowledge.program.resolve(source, scope, call)
        return not any(knowledge.runs_model(f) for f in functions)

    first = knowledge.forward_call(source, scope, node)
    if first is None or not prepares(first):
        return first
    for call in own_calls(node):
        if call is not first and knowledge.forward_call(source, scope, call) is call:
            if not prepares(call):
                return call
    return None


def _bound_by_header(around: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """`for loss in losses`, `with scale_loss(loss) as scaled`: what is bound, and from what."""
    if isinstance(around, (ast.For, ast.AsyncFor)):
        return [(around.target, around.iter)]
    if isinstance(around, (ast.With, ast.AsyncWith)):
        return [(i.optional_vars, i.context_expr) for i in around.items if i.optional_vars]
    return []


class _Slice:
    """Statements of the suites between `top` and `at` that lead to some names, in order.

    needs: the names that are still missing where `top` starts.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        source: Source,
        scope: ScopeNode,
        top: ast.AST,
        at: ast.stmt,
        needs: set[str],
    ) -> None:
        self.source, self.scope, self.at = source, scope, at
        self.needs = needs - {"self", "cls"}
        self.statements: list[ast.stmt] = []
        self._state = State(knowledge.program)
        path = path_to(source, top, at)
        for level, (suite, index) in reversed(list(enumerate(path))):
            if level + 1 < len(path) and isinstance(
                source.places[path[level + 1][0][0]].parent, ast.If
            ):
                # what runs before a conditional step (a rollout) is not its forward, if it has
                # its own; but what a model has just given to it by name is
                if any(_model_call(knowledge, source, scope, s) for s in self.statements):
                    for statement in reversed(suite[:index]):
                        given = binds(statement) & self.needs
                        if given and _model_call(knowledge, source, scope, statement):
                            self._take(statement)
                    break
            self._enter(knowledge, suite[index])
            for statement in reversed(suite[:index]):
                self._take(statement)
        self.statements.sort(key=lambda s: (s.lineno, s.col_offset))

    def _enter(self, knowledge: Knowledge, around: ast.stmt) -> None:
        """Follow what a `for` or `with` on the path binds to what it is made of."""
        for target, value in _bound_by_header(around):
            if not binds(target) & self.needs:
                continue
            self.needs -= binds(target)
            self.needs |= reads(value) | self_attributes(value)
            self.needs -= {"self", "cls"}
            if isinstance(around, LOOPS) and _model_call(knowledge, self.source, self.scope, value):
                self.statements.append(around)

    def _take(self, statement: ast.stmt) -> None:
        source, scope = self.source, self.scope
        bound = binds(statement) | touches(statement) | self_stores(statement)
        bound |= {n for n in effects(statement) if n.startswith("self.")}
        bound |= self._state.written(source, scope, statement)
        if not (bound & self.needs) or _is_mode_switch(statement):
            return
        self.statements.append(statement)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            nodes = (statement, *own_nodes(statement))
            stored = [n for n in nodes if isinstance(getattr(n, "ctx", None), ast.Store)]
            self.needs -= {dotted(n) for n in stored if isinstance(n, (ast.Name, ast.Attribute))}
        self.needs |= reads(statement) | self_attributes(statement)
        self.needs |= self._state.read(source, scope, statement)
        self.needs -= {"self", "cls"}


def _slice_forward(
    knowledge: Knowledge,
    part: _Slice,
    *,
    direct: bool,
    expression: ast.AST,
    certain_only: bool = False,
) -> Forward | None:
    """The first statement of a slice that runs the model; else one that may."""
    source, scope, at = part.source, part.scope, part.at
    for statement in part.statements:
        call = _model_call(knowledge, source, scope, statement)
        if call is not None:
            inner = source.statement_of(call) or statement
            return Forward(statement, inner, source, True)
    if direct and knowledge.forward_call(source, scope, expression) is not None:
        return Forward(at, at, source, True)
    if certain_only:
        return None
    computed = _computes_loss(part.statements, expression) if direct else None
    for statement in part.statements:
        if statement is computed or not _only_prepares(statement):
            return Forward(statement, statement, source, False)
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
    r"argmax|eq|ne|lt|gt|masked_fill|where|manual_seed|random_|bernoulli|pow|getattr|hasattr|update|map|filter|sorted|reversed|"
    r"isinstance|issubclass|callable|is_tensor)$"
)


_PREPARES_WORDS = re.compile(
    r"batch|data|load|sample|prepare|collate|transform|token|label|target|noise|mask|augment|"
    r"random|generate|shuffle|buffer|memory|replay|env|repackage|schedul|adjust|lr|seed",
    re.I,
)


def _computes_loss(statements: list[ast.stmt], expression: ast.AST) -> ast.stmt | None:
    """The last statement that binds the differentiated value itself, by a call that may run a
    model whatever its name: not a move, a shape or the end of a container."""
    names = _differentiated(expression)
    for statement in reversed(statements):
        if (binds(statement) | self_stores(statement)) & names:
            calls = list(own_calls(statement))
            moves = all(_PREPARES_DATA.match(callee(c)) or _STORED.search(callee(c)) for c in calls)
            return None if moves else statement
    return None


_STORED = re.compile(r"memory|replay|buffer|^(sample|load|get)$", re.I)


def _differentiated(node: ast.AST) -> set[str]:
    """Names of the value itself: `loss` of `loss / n`, `loss.sum()`, `scaler.scale(loss)`."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return {dotted(node)}
    if isinstance(node, ast.BinOp):
        return _differentiated(node.left) | _differentiated(node.right)
    if isinstance(node, ast.UnaryOp):
        return _differentiated(node.operand)
    if isinstance(node, ast.Subscript):
        return _differentiated(node.value)
    if isinstance(node, ast.Call) and callee(node) == "scale":
        return set().union(*map(_differentiated, node.args))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return _differentiated(node.func.value)
    return set()


def _only_prepares(statement: ast.stmt) -> bool:
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
