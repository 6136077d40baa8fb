"""Where and how the run ends early: after a whole optimizer step, leaving every loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from instrumentor.locate.catalogue import Kind
from instrumentor.locate.counter import increments
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Update
from instrumentor.locate.model import Declined, Reason, Stop
from instrumentor.locate.modes import update_unit
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    ScopeNode,
    Source,
    callee,
    dotted,
    last,
    own_calls,
    own_nodes,
)
from instrumentor.locate.tree import contains
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
    last_by_branch = _last_updates(candidate)
    for update in last_by_branch:
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
        loop = next(
            (
                around
                for around in update.source.loops_around(update.statement)
                if update.scope is not candidate.scope
                or any(contains(around, s.statement) for s in candidate.sites)
            ),
            None,
        )
        unit = update_unit(candidate, loop or update.scope, update)
        after = _companions(knowledge, update.source, unit)
        if after in seen:
            continue
        seen.add(after)
        strategy = strategy_of(knowledge, candidate, update)
        stops.append(
            Stop(update.source, update.scope, unit, after, strategy, _condition(candidate, update))
        )
    return stops


def _last_updates(candidate: Candidate) -> list[Update]:
    """Of updates in one suite path the last; of exclusive branches each."""
    kept: list[Update] = []
    for update in candidate.updates:
        if update.scope is not candidate.updates[0].scope:
            continue
        replaced = False
        for position, other in enumerate(kept):
            if not _exclusive(update.source, other.statement, update.statement):
                kept[position] = update
                replaced = True
                break
        if not replaced:
            kept.append(update)
    return kept


def _exclusive(source: Source, first: ast.stmt, second: ast.stmt) -> bool:
    from instrumentor.locate.tree import exclusive

    return exclusive(source, first, second)


def _companions(knowledge: Knowledge, source: Source, unit: ast.stmt) -> ast.stmt:
    """Skip what belongs to the step: scaler.update, scheduler, zero_grad, sync, counters."""
    place = source.places[unit]
    after = unit
    for statement in place.suite[place.index + 1 :]:
        if knowledge.sync_of(source, statement) is not None or increments(statement):
            after = statement
            continue
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            after = statement
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            word, kind = callee(call), _kind_of_owner(knowledge, source, call)
            belongs = {"update": Kind.SCALER, "step": Kind.SCHEDULER}.get(word, _NO_KIND)
            if word == "zero_grad" or (kind is not None and kind is belongs):
                after = statement
                continue
        break
    return after


_NO_KIND = object()


def _kind_of_owner(knowledge: Knowledge, source: Source, call: ast.Call) -> Kind | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    scope = knowledge.program.scope_of(source, call)
    found = knowledge.kinds.of(source, scope, call.func.value)
    return None if found is None else found[0]


def _condition(candidate: Candidate, update: Update) -> str:
    """With accelerate a step is real only when gradients are synchronised."""
    for parent in update.source.parents(update.statement):
        if isinstance(parent, ast.With):
            for item in parent.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and callee(call) == "accumulate":
                    owner = dotted(call.func).rpartition(".")[0]
                    return f"{owner}.sync_gradients" if owner else ""
    return ""


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


def _return_is_safe(
    knowledge: Knowledge, source: Source, scope: FunctionNode, depth: int = 0
) -> bool:
    """No caller uses the value, calls it in a loop, or does costly work afterwards."""
    if isinstance(scope, ast.AsyncFunctionDef) or _is_generator(scope):
        return False
    callers = knowledge.program.callers.get(scope, ())
    returns_value = any(
        isinstance(n, ast.Return) and n.value is not None and not _is_none(n.value)
        for n in own_nodes(scope)
    )
    if not callers:
        return False  # called from where we do not see: only SystemExit leaves every loop there
    for caller, call, holder in callers:
        where = knowledge.program.source_of_scope[caller]
        if not (isinstance(holder, ast.Expr) and holder.value is call):
            if returns_value or not isinstance(holder, ast.Return):
                return False
        if where.loops_around(holder):
            return False
        if any(_costly(knowledge, where, s) for s in _after(where, holder)):
            return False
        if isinstance(caller, FUNCTIONS) and caller is not scope and depth < 5:
            if not _nothing_costly_after(knowledge, where, caller, depth + 1):
                return False
    return True


def _nothing_costly_after(
    knowledge: Knowledge, source: Source, scope: FunctionNode, depth: int
) -> bool:
    for caller, _, holder in knowledge.program.callers.get(scope, ()):
        where = knowledge.program.source_of_scope[caller]
        if where.loops_around(holder) or any(
            _costly(knowledge, where, s) for s in _after(where, holder)
        ):
            return False
        if isinstance(caller, FUNCTIONS) and caller is not scope and depth < 5:
            if not _nothing_costly_after(knowledge, where, caller, depth + 1):
                return False
    return True


def _after(source: Source, statement: ast.stmt) -> Iterator[ast.stmt]:
    current: ast.stmt | None = statement
    while current is not None:
        place = source.places[current]
        yield from place.suite[place.index + 1 :]
        current = next(iter(source.parents(current)), None)


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
