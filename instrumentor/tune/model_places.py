"""Where the model of the loop is made, and where it is called: for settings that change it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.read.syntax import LOOPS, ScopeNode, Source, callee, dotted, own_calls
from instrumentor.tune.target import NotApplicable, Target


def forward(target: Target) -> tuple[Source, ast.Call]:
    """The call of the model in the loop.

    Raises:
        NotApplicable: nothing that is called there is known to be the model, or the module has no
            torch by that name.
    """
    called, is_model = target.located.regions[0].forward, target.located.knowledge.is_model
    source, statement = called.source, called.statement
    for call in own_calls(statement):
        if is_model(source, source.scope_of(statement), call.func):
            if not has_torch(target, source):
                reason = "the module does not import torch by name"
                raise NotApplicable(source.path, call.lineno, reason)
            return source, call
    reason = "it is not clear which argument of this call is the model"
    raise NotApplicable(source.path, statement.lineno, reason)


def has_torch(target: Target, source: Source) -> bool:
    """Whether a statement that is put into the module may say ``torch``."""
    return target.program.names.binder(source, source.tree, "torch") is not None


def made(source: Source, name: str, call: ast.Call) -> ast.stmt:
    """The last statement that binds the model before it is compiled or its parameters are taken.

    Raises:
        NotApplicable: there is none in the module, or there are several scopes that do.
    """
    bound = [
        s
        for s in source.places
        if isinstance(s, ast.Assign)
        and name in map(dotted, s.targets)
        and not any(isinstance(p, LOOPS) for p in source.ancestors(s))
    ]
    scopes = {source.scope_of(s) for s in bound}
    if len(scopes) != 1:
        why = "is not made in this module" if not scopes else "is made in several places"
        raise NotApplicable(source.path, call.lineno, f"`{name}` {why}")
    # If nothing takes it, every statement is early enough (no file has 2^30 lines).
    first = min(_taken_at(source, scopes.pop(), name), default=1 << 30)
    before = [s for s in bound if s.lineno < first]
    if not before:
        line = min(s.lineno for s in bound)
        raise NotApplicable(source.path, line, f"`{name}` is compiled where it is made")
    return max(before, key=lambda s: s.lineno)


def _taken_at(source: Source, scope: ScopeNode, name: str) -> Iterator[int]:
    """Lines of a scope at which the model is compiled or its parameters are taken."""
    takes = (f"{name}.parameters", f"{name}.named_parameters", f"{name}.compile")
    for statement, place in source.places.items():
        simple = isinstance(statement, (ast.Assign, ast.Expr, ast.AnnAssign))
        for call in own_calls(statement) if simple and place.scope is scope else ():
            compiles = callee(call) == "compile" and name in map(dotted, call.args)
            if compiles or dotted(call.func) in takes:
                yield statement.lineno
