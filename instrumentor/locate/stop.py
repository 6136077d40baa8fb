"""Where and how the run ends early: after a whole optimizer step, leaving every loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial
from itertools import takewhile

from instrumentor.locate.accumulation import accumulating
from instrumentor.locate.catalogue import Kind
from instrumentor.locate.control import flow_of
from instrumentor.locate.counter import increments
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Update
from instrumentor.locate.model import Declined, Reason, Stop
from instrumentor.locate.modes import update_unit
from instrumentor.locate.syntax import (
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
from instrumentor.locate.vocabulary import is_validation_name

_COSTLY = re.compile(
    r"^(train|fit|save|evaluate|validate|test|predict|generate|plot|push_to_hub|export|sample|infer|"
    r"inference|run|benchmark|visuali[sz]e|benchmark)|_(train|save|evaluate|validate|test|predict|"
    r"generate|plot|export|sample|inference)$|save",
    re.I,
)


_WAITS_FOR_INPUT = ("breakpoint", "pdb.set_trace", "ipdb.set_trace", "input", "code.interact")


def find_stops(knowledge: Knowledge, candidate: Candidate) -> list[Stop]:
    """One stop per exclusive branch that updates; usually one.

    Raises:
        Declined: when the stop would be swallowed (bare except) and cannot be a return.
    """
    stops: list[Stop] = []
    if not candidate.updates:
        return stops
    seen: set[ast.stmt] = set()
    for update in _last_updates(candidate):
        if update.source is not candidate.source:
            raise Declined(
                Reason(
                    update.source.path,
                    update.statement.lineno,
                    "step-elsewhere",
                    "the optimizer is stepped in another module than the one with the loop",
                    "Step the optimizer in the module of the loop.",
                )
            )
        unit = update_unit(candidate, _body(candidate, update), update)
        after = _companions(knowledge, update.source, unit)
        if after in seen:
            continue
        seen.add(after)
        strategy = strategy_of(knowledge, candidate, update)
        stops.append(Stop(update.source, update.scope, unit, after, strategy, _condition(update)))
    return stops


def _last_updates(candidate: Candidate) -> list[Update]:
    """The updates that no other one follows: the last, or the last of each exclusive branch."""
    first = candidate.updates[0]
    flow = flow_of(_body(candidate, first))
    known = [u for u in candidate.updates if u.scope is first.scope]
    return [
        u
        for n, u in enumerate(known)
        if all(flow.exclusive(u.statement, v.statement) for v in known[n + 1 :])
    ]


def _body(candidate: Candidate, update: Update) -> LoopNode | ScopeNode:
    """The loop whose iteration an update completes; the scope where it stands in no loop."""
    around = update.source.loops_around(update.statement)
    if update.scope is candidate.scope:
        sites = [s.statement for s in candidate.sites]
        around = [loop for loop in around if any(contains(loop, s) for s in sites)]
    return next(iter(around), update.scope)


def _companions(knowledge: Knowledge, source: Source, unit: ast.stmt) -> ast.stmt:
    """Skip what belongs to the step: scaler.update, scheduler, zero_grad, sync, counters."""
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


def strategy_of(knowledge: Knowledge, candidate: Candidate, update: Update) -> str:
    """`return` where that ends everything, else `SystemExit`.

    Raises:
        Declined: a handler would swallow the exit.
    """
    scope = update.scope
    if isinstance(scope, FUNCTIONS) and _return_is_safe(knowledge, update.source, scope):
        return "return"
    swallowed = list(_swallowers(knowledge, update.source, scope, update.statement))
    if swallowed:
        source, line = swallowed[0]
        raise Declined(
            Reason(
                source.path,
                line,
                "swallowed-stop",
                "a bare except (or except BaseException) around the loop would swallow "
                "the early stop",
                "Catch Exception instead.",
            )
        )
    return "SystemExit"


def _return_is_safe(knowledge: Knowledge, source: Source, scope: FunctionNode) -> bool:
    """No caller uses the value, calls it in a loop, or does costly work afterwards."""
    if isinstance(scope, ast.AsyncFunctionDef) or _is_generator(scope):
        return False
    returns_value = any(
        isinstance(n, ast.Return) and n.value is not None and not _is_none(n.value)
        for n in own_nodes(scope)
    )
    callers = knowledge.program.callers.get(scope, ())
    for _, call, holder in callers:
        if not (isinstance(holder, ast.Expr) and holder.value is call):
            if returns_value or not isinstance(holder, ast.Return):
                return False
    # called from where we do not see: only SystemExit leaves every loop there
    return bool(callers) and _nothing_costly_after(knowledge, scope)


def _nothing_costly_after(knowledge: Knowledge, scope: FunctionNode, depth: int = 0) -> bool:
    """Whether the callers of a function, and theirs, call it once and last."""
    for caller, _, holder in knowledge.program.callers.get(scope, ()):
        where = knowledge.program.source_of_scope[caller]
        later = flow_of(caller).later(holder)
        if where.loops_around(holder) or any(_costly(knowledge, where, s) for s in later):
            return False
        if isinstance(caller, FUNCTIONS) and caller is not scope and depth < 5:
            if not _nothing_costly_after(knowledge, caller, depth + 1):
                return False
    return True


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


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_generator(scope: FunctionNode) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(scope))


def _swallowers(
    knowledge: Knowledge, source: Source, scope: ScopeNode, statement: ast.stmt, depth: int = 0
) -> Iterator[tuple[Source, int]]:
    """Handlers that would catch SystemExit, in this scope and in the callers."""
    child: ast.stmt = statement
    for parent in source.parents(statement):
        if isinstance(parent, ast.Try) and any(contains(s, child) for s in parent.body):
            for handler in parent.handlers:
                if _catches_exit(handler) and not _reraises(handler):
                    yield source, handler.lineno
        child = parent
    if isinstance(scope, FUNCTIONS) and depth < 5:
        for caller, _, holder in knowledge.program.callers.get(scope, ()):
            if caller is scope:
                continue
            where = knowledge.program.source_of_scope[caller]
            yield from _swallowers(knowledge, where, caller, holder, depth + 1)


def _catches_exit(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(last(dotted(t)) in ("BaseException", "SystemExit") for t in types)


def _reraises(handler: ast.ExceptHandler) -> bool:
    """A bare `raise`, `sys.exit` or `os._exit` at the handler's own level ends the run anyway."""
    for statement in handler.body:
        if isinstance(statement, ast.Raise):
            return True
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if dotted(statement.value.func) in ("sys.exit", "exit", "quit", "os._exit"):
                return True
    return False
