"""One iteration of the loop: its forward, its regions, its sync, accumulation and counter.

A *region* runs from the statement that starts the differentiable forward to the barrier after
the last backward before the optimizer step. Exclusive branches have a region each.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from instrumentor.locate.dataflow import binds, reads, touches
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Site, Update
from instrumentor.locate.program import Function
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    LoopNode,
    ScopeNode,
    Source,
    dotted,
    own_calls,
    own_nodes,
    suites,
)
from instrumentor.locate.vocabulary import (
    callee,
    is_backward,
    is_no_grad,
    is_sync,
    is_sync_statement,
    is_zero_grad,
    last,
    loss_expression,
    sync_api,
)


@dataclass(frozen=True)
class Sync:
    """What ends the region: the script's own sync (keep), or one that is inserted (insert)."""

    action: str
    source: Source
    statement: ast.stmt | None
    api: str


@dataclass(frozen=True)
class End:
    """Where the clock is read: after which statement, under which label.

    synced: expression that tells whether the script has synced already, '' when it has not.
    """

    after: ast.stmt
    label: str = "fwd+bwd"
    synced: str = ""


@dataclass(eq=False)
class Region:
    """From `begin` (insert before) to `end` (insert after), both in the loop's scope.

    other_ends: further places that close the same region, in branches that exclude `end`'s.
    """

    begin: ast.stmt
    end: ast.stmt
    sites: list[Site]
    forward: ast.stmt
    forward_source: Source
    sync: Sync
    ends_after_update: bool = False
    hints: tuple[str, ...] = ()
    clipping: list[ast.stmt] = field(default_factory=list)
    label: str = "fwd+bwd"
    other_ends: tuple[End, ...] = ()
    resume: bool = False  # several micro-steps make one sample: begin only when none is open


@dataclass(frozen=True)
class Counter:
    name: str
    line: int
    position: str
    statement: ast.stmt | None


def path_to(
    source: Source, loop: LoopNode | ast.AST, statement: ast.stmt
) -> list[tuple[list[ast.stmt], int]]:
    """Suites and indices from the loop's body (outermost) down to a statement."""
    path: list[tuple[list[ast.stmt], int]] = []
    current: ast.AST = statement
    while isinstance(current, ast.stmt) and current is not loop:
        place = source.places[current]
        path.append((place.suite, place.index))
        current = place.parent
        if isinstance(current, (ast.ExceptHandler, ast.match_case)):
            break
    return path[::-1]


def contains(outer: ast.AST, inner: ast.AST) -> bool:
    """Whether a node of the same file lies within another, judged by position (constant time)."""
    if outer is inner:
        return True
    return _span(outer)[0] <= _span(inner)[0] and _span(inner)[1] <= _span(outer)[1]


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    start = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    end = (getattr(node, "end_lineno", None) or 1 << 30, getattr(node, "end_col_offset", None) or 0)
    return start, end


def exclusive(source: Source, first: ast.stmt, second: ast.stmt) -> bool:
    """Whether two statements lie in different branches of one `if`, `match` or `try`."""
    chain = [first, *source.ancestors(first)]
    other = [second, *source.ancestors(second)]
    for parent in chain:
        if parent not in other:
            continue
        if not isinstance(parent, (ast.If, ast.Match)) or parent in (first, second):
            return False
        return _branch_of(parent, first) != _branch_of(parent, second)
    return False


def _branch_of(parent: ast.stmt, statement: ast.stmt) -> int:
    for number, suite in enumerate(suites(parent)):
        if any(contains(s, statement) for s in suite):
            return number
    return -1


# -- forward --------------------------------------------------------------------------------


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
        step = _call_of(knowledge, caller, function)
        if step is None:
            break
        expression, at = step
    return found


def _call_of(
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
    r"argmax|eq|ne|lt|gt|masked_fill|where|manual_seed|random_|bernoulli|pow|getattr|hasattr|update)$"
)
_PREPARES_WORDS = re.compile(
    r"batch|data|load|sample|prepare|collate|transform|token|label|target|noise|mask|augment|"
    r"random|generate|shuffle|buffer|memory|replay|env|repackage|schedul|adjust|lr|seed",
    re.I,
)


def _only_prepares(statement: ast.stmt, targets: set[str]) -> bool:
    """Data fetch, moves, shapes, labels: nothing that could be differentiated."""
    calls = [c for c in own_calls(statement)]
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


# -- regions --------------------------------------------------------------------------------


def update_unit(
    source: Source, loop: LoopNode | ast.AST, updates: Sequence[Update], update: Update
) -> ast.stmt:
    """The statement after which an update is certainly complete in its branch.

    The update itself, or the `if` whose every branch holds one, or the loop over optimizers.
    """
    unit = update.statement
    for parent in source.parents(update.statement):
        if parent is loop:
            break
        if isinstance(parent, LOOPS):
            if not any(isinstance(n, ast.Call) and is_backward(n) for n in own_nodes(parent)):
                unit = parent
                continue
            break
        if isinstance(parent, ast.If) and parent.orelse:
            branches = [parent.body, parent.orelse]
            if all(
                any(contains(s, u.statement) for s in branch for u in updates)
                for branch in branches
            ) and not any(isinstance(n, ast.Call) and is_backward(n) for n in own_nodes(parent)):
                unit = parent
    return unit


def group_sites(candidate: Candidate) -> list[list[Site]]:
    """Backwards that share a region: those not in exclusive branches of each other."""
    groups: list[list[Site]] = []
    for site in candidate.sites:
        for group in groups:
            if not any(exclusive(candidate.source, site.statement, o.statement) for o in group):
                group.append(site)
                break
        else:
            groups.append([site])
    return groups


def find_sync(knowledge: Knowledge, candidate: Candidate, site: Site) -> Sync:
    """The first sync between the backward and the optimizer, in helpers first, then the loop."""
    at: ast.stmt = site.backward_statement
    for function in reversed(site.chain):
        found, stepped = _sync_after(knowledge, function.source, function.node, function.node, at)
        if found is not None:
            return Sync("keep", function.source, found[0], found[1])
        if stepped:
            return Sync("insert", candidate.source, None, "")
        position = site.chain.index(function)
        if position > 0:
            step = _call_of(knowledge, site.chain[position - 1], function)
            if step is None:
                break
            at = step[1]
    found, _ = _sync_after(
        knowledge, candidate.source, candidate.scope, candidate.loop, site.statement
    )
    if found is not None:
        return Sync("keep", candidate.source, found[0], found[1])
    return Sync("insert", candidate.source, None, "")


def _sync_after(
    knowledge: Knowledge, source: Source, scope: ScopeNode, top: ast.AST, at: ast.stmt
) -> tuple[tuple[ast.stmt, str] | None, bool]:
    """(the sync statement and its api, None) or (None, whether an optimizer step came first)."""
    for suite, index in reversed(path_to(source, top, at)):
        for statement in suite[index + 1 :]:
            call = is_sync_statement(statement)
            if call is not None:
                return (statement, sync_api(call)), False
            if _steps(knowledge, source, scope, statement):
                return None, True
            if _may_leave(statement):
                return None, False
    return None, False


def _steps(knowledge: Knowledge, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
    if any(True for _ in knowledge.steps_in(source, statement)):
        return True
    return any(
        knowledge.stepped(t)
        for c in own_calls(statement)
        for t in knowledge.program.resolve(source, scope, c)
    )


def _may_leave(statement: ast.stmt) -> bool:
    """`continue`, `break` or `return` of this iteration, at any depth but in inner loops."""
    if isinstance(statement, (ast.Continue, ast.Break, ast.Return)):
        return True
    if isinstance(statement, LOOPS):
        return any(isinstance(n, ast.Return) for n in own_nodes(statement))
    return any(
        _may_leave(inner)
        for suite in suites(statement)
        for inner in suite
        if not isinstance(statement, (*FUNCTIONS, ast.ClassDef))
    )


def fused_branch(candidate: Candidate, site: Site, updates: Sequence[Update]) -> ast.If | None:
    """`if acc != N: sync ... else: <optimizer step>`: the last micro-batch is left pending."""
    for suite, index in reversed(path_to(candidate.source, candidate.loop, site.statement)):
        for statement in suite[index + 1 :]:
            if is_sync_statement(statement) is not None:
                return None
            if isinstance(statement, ast.If) and statement.orelse:
                for syncing, other in (
                    (statement.body, statement.orelse),
                    (statement.orelse, statement.body),
                ):
                    has_sync = any(is_sync_statement(s) is not None for s in syncing)
                    stepped = any(contains(s, u.statement) for s in other for u in updates)
                    steps_too = any(contains(s, u.statement) for s in syncing for u in updates)
                    if has_sync and stepped and not steps_too:
                        return statement
            if any(contains(statement, u.statement) for u in updates):
                return None
    return None


def syncs_every_n(candidate: Candidate, site: Site, updates: Sequence[Update]) -> ast.stmt | None:
    """An accumulation branch that holds the optimizer step and the iteration's only sync."""
    source = candidate.source
    for update in updates:
        guard = accumulation_guard(source, candidate, site, update)
        if guard is None:
            continue
        inside = [
            s
            for s in own_nodes(guard)
            if isinstance(s, ast.stmt) and is_sync_statement(s) is not None
        ]
        if not inside:
            continue
        outside = [
            s
            for top in candidate.loop.body
            for s in (top, *own_nodes(top))
            if isinstance(s, ast.stmt)
            and isinstance(s, ast.Expr)
            and is_sync_statement(s) is not None
            and not contains(guard, s)
            and (s.lineno > site.statement.lineno)
        ]
        if not outside:
            return guard
    return None


_ACCUMULATION_TEST = re.compile(
    r"accum|micro|sync_gradients|n_acc|acc_|grad_acc|every|step|iter|batch|idx|(^|\b)i\b|update",
    re.I,
)


def accumulation_guard(
    source: Source, candidate: Candidate, site: Site, update: Update
) -> ast.If | None:
    """The `if` that lets only every N-th iteration reach the update, or None."""
    if update.source is not source or update.scope is not candidate.scope:
        return None
    found: ast.If | None = None
    for parent in source.parents(update.statement):
        if parent is candidate.loop:
            break
        if isinstance(parent, ast.If) and not contains(parent, site.statement):
            if _is_count_test(parent.test):
                found = parent
    return found


def _is_count_test(test: ast.expr) -> bool:
    """A test that counts: modulo, a comparison of counters, `sync_gradients`, `is_update`."""
    for node in (test, *own_nodes(test)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return True
        if isinstance(node, ast.Compare) and not all(
            isinstance(o, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for o in node.ops
        ):
            if _ACCUMULATION_TEST.search(ast.unparse(node)):
                return True
        if isinstance(node, (ast.Name, ast.Attribute)) and re.search(
            r"sync_gradients|accum|should_(step|update|sync)|do_(step|update)|need_update|is_update|"
            r"is_last_micro|last_micro|update_(now|step|grad)|gradient_accumulation_boundary",
            last(dotted(node)),
            re.I,
        ):
            return True
    return False


def accumulation_of(knowledge: Knowledge, candidate: Candidate, site: Site) -> str:
    """none, branch, continue, context or nested: how an update covers several backwards."""
    source = candidate.source
    for parent in source.parents(site.statement):
        if parent is candidate.loop:
            break
        if isinstance(parent, ast.With):
            for item in parent.items:
                if callee_of(item.context_expr) in ("accumulate",):
                    return "context"
    if not candidate.updates:
        return "none"
    update = candidate.updates[0]
    if not contains(candidate.loop, update.statement):
        return "nested"
    if update.source is source and exclusive(source, site.statement, update.statement):
        return "branch"
    guard = accumulation_guard(source, candidate, site, update)
    if guard is not None:
        return "context" if "sync_gradients" in ast.unparse(guard.test) else "branch"
    for statement in between(source, candidate.loop, site.statement, update.statement):
        if isinstance(statement, ast.If) and any(
            isinstance(s, ast.Continue) for s in statement.body
        ):
            if _is_count_test(statement.test):
                return "continue"
    if update.helper is not None or (site.chain and update.statement is site.statement):
        helper = update.helper or site.chain[-1]
        if _guarded_in(knowledge, helper):
            return "branch"
    return "none"


def _guarded_in(knowledge: Knowledge, helper: Function) -> bool:
    for call, statement in knowledge.program.calls.get(helper.node, ()):
        if any(c is call for c in knowledge.steps_in(helper.source, statement)):
            for parent in helper.source.parents(statement):
                if isinstance(parent, ast.If) and _is_count_test(parent.test):
                    return True
    return False


def callee_of(node: ast.expr) -> str:
    return callee(node) if isinstance(node, ast.Call) else ""


def between(source: Source, loop: ast.AST, first: ast.stmt, second: ast.stmt) -> list[ast.stmt]:
    """Statements of the common suites that run after `first` and before `second`."""
    found: list[ast.stmt] = []
    for suite, index in reversed(path_to(source, loop, first)):
        for statement in suite[index + 1 :]:
            if contains(statement, second):
                return found
            found.append(statement)
    return found


# -- counter --------------------------------------------------------------------------------

_STEP_COUNTER = re.compile(
    r"global_?step|(^|_|\.)(step|steps|iter|iters|iteration|iterations|it|itr|update|updates)(_|$|\d)|"
    r"n_iter|iter_num|global_iter|num_updates|batch_(count|id|num)|completed_steps|step_count",
    re.I,
)
_NOT_STEP = re.compile(
    r"accum|micro|running|samples|token|grad_acc|correct|total_loss|epoch|max_|patience|since", re.I
)


def increments(statement: ast.stmt) -> str:
    """The name that a statement counts up by one, or ''."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        if isinstance(statement.value, ast.Constant) and statement.value.value == 1:
            return dotted(statement.target)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        value = statement.value
        target = dotted(statement.targets[0])
        if (
            isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Add)
            and dotted(value.left) == target
            and isinstance(value.right, ast.Constant)
            and value.right.value == 1
        ):
            return target
    return ""


def find_counter(candidate: Candidate, site: Site, forward: ast.stmt) -> Counter | None:
    """The script's own count of steps: incremented in the loop or around it, or enumerated."""
    source = candidate.source
    found: list[tuple[int, Counter]] = []
    for top in candidate.loop.body:
        for node in (top, *own_nodes(top)):
            if isinstance(node, ast.stmt) and increments(node):
                position = _position(candidate, site, forward, node)
                found.append(
                    (
                        _rank(increments(node)),
                        Counter(increments(node), node.lineno, position, node),
                    )
                )
    named = [c for r, c in sorted(found, key=lambda f: (f[0], f[1].line)) if r <= 1]
    if named:
        return named[0]
    for outer in source.loops_around(candidate.loop):
        for statement in outer.body:
            name = increments(statement)
            if name and _rank(name) == 0 and not contains(statement, candidate.loop):
                return Counter(name, statement.lineno, "outer", statement)
    loop = candidate.loop
    if isinstance(loop, ast.For):
        target = _enumerated(loop) or _counted(loop)
        if target:
            return Counter(target, loop.lineno, "enumerate", None)
    return None


def _rank(name: str) -> int:
    word = last(name)
    if _NOT_STEP.search(word):
        return 2
    return 0 if _STEP_COUNTER.search(word) else 2


def _enumerated(loop: ast.For) -> str:
    iterator: ast.expr = loop.iter
    for call in (iterator, *own_nodes(iterator)):
        if isinstance(call, ast.Call) and callee(call) == "enumerate":
            if isinstance(loop.target, ast.Tuple) and loop.target.elts:
                return dotted(loop.target.elts[0])
    return ""


def _counted(loop: ast.For) -> str:
    """`for step in range(...)` and `itertools.count(...)`, when the name counts steps."""
    name = dotted(loop.target)
    for call in (loop.iter, *own_nodes(loop.iter)):
        if isinstance(call, ast.Call) and callee(call) in ("range", "count", "trange"):
            return name if _rank(name) == 0 or "epoch" in name else ""
    return ""


def _position(candidate: Candidate, site: Site, forward: ast.stmt, node: ast.stmt) -> str:
    source = candidate.source
    for parent in source.parents(node):
        if parent is candidate.loop:
            break
        if isinstance(parent, ast.If) and not contains(parent, site.statement):
            return "branch"
    if (node.lineno, node.col_offset) < (site.statement.lineno, site.statement.col_offset):
        return "before"
    for statement in between(source, candidate.loop, site.statement, node):
        if isinstance(statement, ast.If) and any(
            isinstance(n, ast.Continue) for n in own_nodes(statement)
        ):
            return "after_continue"
    return "after"


# -- assembly -------------------------------------------------------------------------------


def clipping_between(
    source: Source, loop: ast.AST, first: ast.stmt, second: ast.stmt
) -> list[ast.stmt]:
    return [
        s
        for s in between(source, loop, first, second)
        if any("clip_grad" in callee(c) for c in own_calls(s))
    ]


def no_grad_site(source: Source, statement: ast.stmt) -> bool:
    return any(
        isinstance(p, ast.With) and any(is_no_grad(i.context_expr) for i in p.items)
        for p in source.parents(statement)
    )


__all__ = [
    "Counter",
    "Forward",
    "Region",
    "Sync",
    "accumulation_guard",
    "accumulation_of",
    "between",
    "clipping_between",
    "contains",
    "exclusive",
    "find_counter",
    "find_forward",
    "find_sync",
    "fused_branch",
    "group_sites",
    "increments",
    "is_sync",
    "is_zero_grad",
    "path_to",
    "syncs_every_n",
    "update_unit",
]
