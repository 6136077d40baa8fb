"""Forward and backward inside a closure that the optimizer calls, several times per step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.program import Function, Program
from instrumentor.locate.syntax import (
    ScopeNode,
    Source,
    below,
    callee,
)


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    program = knowledge.program
    scopes: list[tuple[Source, ScopeNode]] = [(candidate.source, candidate.scope)]
    scopes += [(f.source, f.node) for s in candidate.sites for f in s.chain]
    for source, scope in scopes:
        for call, _ in program.calls.get(scope, ()):
            if callee(call) == "step" and isinstance(call.func, ast.Attribute):
                arguments = [*call.args, *(k.value for k in call.keywords if k.arg == "closure")]
                for argument in arguments:
                    if isinstance(argument, ast.Lambda) or _is_backward_closure(
                        program, knowledge, source, scope, argument
                    ):
                        yield Reason(
                            source.path,
                            call.lineno,
                            "closure",
                            "forward and backward run inside a closure that the "
                            "optimizer calls, several times per step",
                            "Use an optimizer without closure (not LBFGS), or time the "
                            "whole step by hand.",
                        )
                        return
    for site in candidate.sites:
        for function in site.chain:
            if function.name in ("closure", "_closure", "closure_fn") and _is_handed_on(function):
                yield Reason(
                    function.source.path,
                    function.node.lineno,
                    "closure",
                    "forward and backward run inside a closure",
                    "Use an optimizer without closure.",
                )
                return


def _is_handed_on(function: Function) -> bool:
    """Whether a function is used as a value; one that is only called runs where it is called."""
    nodes = list(below(function.source.places[function.node].scope))
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    return any(
        isinstance(n, ast.Name)
        and n.id == function.name
        and isinstance(n.ctx, ast.Load)
        and id(n) not in called
        for n in nodes
    )


def _is_backward_closure(
    program: Program, knowledge: Knowledge, source: Source, scope: ScopeNode, node: ast.expr
) -> bool:
    """Whether calling what is handed to the optimizer runs a backward."""
    if isinstance(node, ast.Call):
        if program.names.qualified(source, scope, node.func) != "functools.partial":
            return False
        node = node.args[0] if node.args else node.func
    call = ast.Call(func=node, args=[], keywords=[])
    return any(knowledge.has_backward(f) for f in program.resolve(source, scope, call))


def closure_reason(program: Program, knowledge: Knowledge) -> Reason | None:
    """A backward only inside a closure given to an optimizer (LBFGS), when no loop was found."""
    for source in program.sources.values():
        for scope, entries in list(program.calls.items()):
            if program.source_of_scope[scope] is not source:
                continue
            for call, _ in entries:
                if callee(call) == "step" and (call.args or call.keywords):
                    for argument in [*call.args, *(k.value for k in call.keywords)]:
                        if _is_backward_closure(program, knowledge, source, scope, argument):
                            return Reason(
                                source.path,
                                call.lineno,
                                "closure",
                                "forward and backward run inside a closure that the "
                                "optimizer calls, several times per step",
                                "Use an optimizer without closure (not LBFGS).",
                            )
    return None
