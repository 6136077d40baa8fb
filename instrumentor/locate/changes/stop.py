"""Where and how the run ends early: after a whole optimizer step, leaving every loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, takewhile

from instrumentor.locate.changes.cleanup import cleanup_behind
from instrumentor.locate.located import Declined, Stop
from instrumentor.locate.loop.counter import increments
from instrumentor.locate.loop.loops import Candidate, Update, find_updates, outwards
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.changed_names import effects, uses
from instrumentor.locate.meaning.host_values import is_validation_name
from instrumentor.locate.meaning.roles import Kind
from instrumentor.locate.region.accumulation import accumulating
from instrumentor.locate.region.modes import completing, last_of_branches
from instrumentor.locate.rules.loops import StepElsewhere, SwallowedStop
from instrumentor.read.control_flow import END, LEFT, NEXT, START, Flow, flow_of
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    LoopNode,
    ScopeNode,
    Source,
    callee,
    contains,
    dotted,
    last,
    own_calls,
    own_nodes,
)

# what would go on for hours on a model that has hardly been trained
_COSTLY = re.compile(
    r"^(train|fit|save|evaluate|validate|test|predict|generate|plot|push_to_hub|export|sample|infer|"
    r"inference|run|benchmark|visuali[sz]e)|_(train|save|evaluate|validate|test|predict|"
    r"generate|plot|export|sample|inference)$|save",
    re.I,
)
# a run has no terminal: it would hang there until its limit
_WAITS_FOR_INPUT = ("breakpoint", "pdb.set_trace", "ipdb.set_trace", "input", "code.interact")


# -- where ---------------------------------------------------------------------------------------


def find_stops(candidate: Candidate) -> list[Stop]:
    """One stop per exclusive branch that updates; usually one.

    Raises:
        Declined: when the stop would be swallowed (bare except) and cannot be a return.
    """
    knowledge, stops = candidate.knowledge, dict[ast.stmt, Stop]()
    if not candidate.updates:
        return []
    first = candidate.updates[0]
    known = [u for u in candidate.updates if u.scope is first.scope]
    for updates in filter(None, (known, _behind(candidate, known))):
        body = _body(candidate, updates[0])
        last = last_of_branches(flow_of(body), updates)
        for update, unit in zip(last, completing(candidate, body, last), strict=True):
            source, scope, at = update.source, update.scope, update.statement
            if source is not candidate.source:
                raise Declined(StepElsewhere.at(source, at))
            after = _companions(knowledge, source, unit)
            if after not in stops:
                leave = strategy_of(knowledge, source, scope, at)
                cleanup = cleanup_behind(knowledge, source, scope, at)
                stops[after] = Stop(source, unit, after, leave, _condition(update), cleanup)
    return list(stops.values())


def _behind(candidate: Candidate, updates: Sequence[Update]) -> list[Update]:
    """Updates behind the loop, where a setting tells whether those in it run at all.

    `if every == 1: optimizer.step()` in the loop, `if every > 1: optimizer.step()` behind it.
    """
    loop, source, scope = candidate.loop, candidate.source, candidate.scope
    changed = effects(loop)
    for update in updates:
        around = source.parents(update.statement) if contains(loop, update.statement) else ()
        tests = [p.test for p in around if isinstance(p, ast.If) and contains(loop, p)]
        if not any(uses(t) and not uses(t) & changed and not own_calls(t) for t in tests):
            return []
    may_run = candidate.knowledge.may_run
    found = find_updates(candidate, lambda u: not contains(loop, u.statement))
    here = (u for u in found if u.source is source and u.scope is scope)
    return [u for u in here if may_run(source, u.statement)]


def _body(candidate: Candidate, update: Update) -> LoopNode | ScopeNode:
    """The loop whose iteration an update completes; the scope where it stands in no loop."""
    around = update.source.loops_around(update.statement)
    if update.scope is candidate.scope:
        sites = [s.statement for s in candidate.sites]
        around = [loop for loop in around if any(contains(loop, s) for s in sites)]
    return next(iter(around), update.scope)


def _companions(knowledge: Knowledge, source: Source, unit: ast.stmt) -> ast.stmt:
    """The last statement of the step: scaler.update, scheduler, zero_grad, sync, counters."""
    place = source.places[unit]
    following = place.suite[place.index + 1 :]
    return [unit, *takewhile(partial(_belongs, knowledge, source), following)][-1]


def _belongs(knowledge: Knowledge, source: Source, statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=word))):
            scope, kind = source.scope_of(statement), _COMPANIONS.get(word)
            if word == "zero_grad" or (kind and knowledge.kinds.is_a(source, scope, owner, kind)):
                return True
    return bool(increments(statement)) or knowledge.sync_of(source, statement) is not None


_COMPANIONS = {"update": Kind.SCALER, "step": Kind.SCHEDULER}


def _condition(update: Update) -> str:
    """With accelerate a step is real only when gradients are synchronised."""
    around = filter(None, map(accumulating, update.source.parents(update.statement)))
    owner = dotted(call.func).rpartition(".")[0] if (call := next(around, None)) else ""
    return f"{owner}.sync_gradients" if owner else ""


# -- how -----------------------------------------------------------------------------------------


def strategy_of(knowledge: Knowledge, source: Source, scope: ScopeNode, statement: ast.stmt) -> str:
    """`return` where that ends everything, else `SystemExit`.

    Raises:
        Declined: a handler would swallow the exit.
    """
    if isinstance(scope, FUNCTIONS) and _return_is_safe(knowledge, source, scope):
        return "return"
    # most scripts surround their loop with `except Exception`, which SystemExit passes
    for where, _, at in outwards(knowledge.program, source, scope, statement):
        for handler in _swallowers(where, at):
            raise Declined(SwallowedStop.at(where, handler))
    return "SystemExit"


def _return_is_safe(knowledge: Knowledge, source: Source, scope: FunctionNode) -> bool:
    """No caller uses the value, calls it in a loop, or does costly work afterwards."""
    callers, nodes = knowledge.program.callers_of(scope), own_nodes(scope)
    # a generator that returns ends the `for` of its caller, not the run
    suspends = isinstance(scope, ast.AsyncFunctionDef) or any(isinstance(n, _YIELDS) for n in nodes)
    # called from where we do not see: only SystemExit leaves every loop there
    if suspends or not callers or any(_is_used(nodes, call, at) for _, call, at in callers):
        return False
    places = outwards(knowledge.program, source, scope, scope)
    return not any(
        where.loops_around(call)
        or any(_costly(knowledge, where, s) for s in flow_of(caller).later(call))
        for where, caller, call in islice(places, 1, None)
    )


_YIELDS = (ast.Yield, ast.YieldFrom)


def _is_used(nodes: tuple[ast.AST, ...], call: ast.Call, at: ast.stmt) -> bool:
    """Whether a statement does other with a call than drop its value, or hand a None on."""
    if isinstance(at, ast.Expr) and at.value is call:
        return False
    values = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
    returns_none = all(isinstance(v, ast.Constant) and v.value is None for v in values)
    return not (returns_none and isinstance(at, ast.Return))


def _costly(knowledge: Knowledge, source: Source, statement: ast.stmt) -> bool:
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return False
    if isinstance(statement, LOOPS) or any(isinstance(n, LOOPS) for n in own_nodes(statement)):
        return True
    scope = source.scope_of(statement)
    return any(
        dotted(c.func) in _WAITS_FOR_INPUT
        or any(knowledge.has_backward(f) for f in knowledge.program.resolve(source, scope, c))
        or knowledge.is_save(source, scope, c)
        or is_validation_name(callee(c))
        or bool(_COSTLY.search(callee(c)))
        for c in own_calls(statement)
    )


def _swallowers(source: Source, statement: ast.stmt) -> Iterator[ast.ExceptHandler]:
    """Handlers around a statement that would catch SystemExit and go on."""
    for parent in source.parents(statement):
        if isinstance(parent, ast.Try) and any(contains(s, statement) for s in parent.body):
            yield from (h for h in parent.handlers if _catches_exit(h) and not _ends_run(h))


def _catches_exit(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(last(dotted(t)) in ("BaseException", "SystemExit") for t in types)


def _ends_run(handler: ast.ExceptHandler) -> bool:
    """No way through the handler goes on behind it."""
    return not Flow(handler.body).path(START, (END, NEXT, LEFT))
