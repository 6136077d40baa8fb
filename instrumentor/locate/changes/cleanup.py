"""Code behind the loop that only cleans up, which the early stop has to run as well.

A device writes what it has profiled when it is closed, and a process group that is left open makes
the others wait.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.read.names import external_name
from instrumentor.read.names_used import binds, reads
from instrumentor.read.syntax import ScopeNode, Source, bound_by, callee, own_calls, own_nodes

#: Functions of packages, by qualified name, with whatever arguments.
_FUNCTIONS = frozenset(
    (
        *(f"ttnn.{name}" for name in ("close_device", "close_mesh_device", "CloseDevice")),
        *(f"ttnn.{name}" for name in ("CloseDevices", "device.close_device")),
        *("torch.distributed.destroy_process_group", "wandb.finish", "mlflow.end_run"),
    )
)
#: Methods without arguments that give back what an object holds.
_METHODS = ("close_device", "end_training", "finish", "close", "shutdown")
#: Asked ahead of it; other calls in a condition might do more than ask.
_QUESTIONS = ("is_initialized", "is_available", "is_main_process", "get_rank")


def cleanup_behind(
    knowledge: Knowledge, source: Source, scope: ScopeNode, statement: ast.stmt
) -> tuple[ast.stmt, ...]:
    """Statements of the scope behind all loops around a statement that only clean up, in order.

    Those whose names are bound ahead of the loops: what is made later is not there at the stop.
    What a `finally` or a `with` around the loop does is not among them: leaving it does that.
    """
    loops = source.loops_around(statement)
    if not loops:
        return ()
    behind = list(_behind(source, loops[-1]))
    found = [each for each in behind if _only_cleans_up(knowledge, source, scope, each)]
    if not found:
        return ()
    rebound = set[str]().union(*map(binds, behind))
    late = binds(loops[-1]) - _bound_ahead(scope, loops[-1]) | rebound
    return tuple(each for each in found if not reads(each) & late)


def _behind(source: Source, loop: ast.stmt) -> Iterator[ast.stmt]:
    """What follows the loop, and what follows each statement around it, in source order."""
    for each in (loop, *source.parents(loop)):
        place = source.places[each]
        yield from place.suite[place.index + 1 :]


def _bound_ahead(scope: ScopeNode, loop: ast.stmt) -> set[str]:
    """Names that the scope binds ahead of the loop."""
    found = {a.arg for a in ast.walk(scope) if isinstance(a, ast.arg)}
    for node in own_nodes(scope):
        if getattr(node, "lineno", loop.lineno) < loop.lineno:
            found.update(bound_by(node))
    return found


def _only_cleans_up(
    knowledge: Knowledge, source: Source, scope: ScopeNode, statement: ast.stmt
) -> bool:
    match statement:
        case ast.If(test=test, body=body, orelse=[]):
            asked = all(callee(call) in _QUESTIONS for call in own_calls(test))
            return asked and all(_only_cleans_up(knowledge, source, scope, s) for s in body)
        case ast.Expr(value=ast.Call() as call):
            return _cleans_up(knowledge, source, scope, call)
    return False


def _cleans_up(knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
    names = {external_name(value) for value in knowledge.values(source, scope, call.func)}
    if names & _FUNCTIONS:
        return True
    method = isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
    if not method or call.args or call.keywords:
        return False
    return not any(
        knowledge.has_backward(function)
        for function in knowledge.program.resolve(source, scope, call)
    )
