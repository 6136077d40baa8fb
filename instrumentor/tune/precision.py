"""bfloat16 in the source: the model behind the statement that makes it, its inputs in the loop.

Applied where one can see what is the model and what goes into it; integers (tokens, classes) are
told apart when the script runs. A script that manages mixed precision itself is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from instrumentor.edits import Kind
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    ScopeNode,
    Source,
    arguments,
    callee,
    dotted,
    own_calls,
    own_nodes,
    parameters,
    receiver,
    root_name,
)
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable, Target

_MODEL = "bfloat16 weights, before anything is compiled or handed to the optimizer"
_INPUT = "bfloat16 inputs; whole numbers stay"
_NAMES = ("dtype", "torch_dtype", "model_dtype", "compute_dtype", "DTYPE")


def own_value(target: Target) -> tuple[Path, int, str] | None:
    """Where the script makes its model bfloat16 itself."""
    for source in (target.entry, target.loop_source):
        for call in source.calls if b"bfloat16" in source.data else ():
            if _makes_bfloat16(target, source, call):
                return source.path, call.lineno, "bfloat16"
    return None


def _makes_bfloat16(target: Target, source: Source, call: ast.Call) -> bool:
    typed = any(dotted(each) == "torch.bfloat16" for each in arguments(call))
    if callee(call) in ("from_pretrained", "from_config", "load_model"):
        return typed
    if callee(call) != "bfloat16" and not (callee(call) == "to" and typed):
        return False
    scope = target.program.scope_of(source, call)
    return target.located.knowledge.is_model_named(source, scope, receiver(call))


def apply(target: Target, changes: Changes) -> None:
    """Make model and inputs bfloat16.

    Raises:
        NotApplicable: the script manages precision itself, or what is the model is not plain.
    """
    if own_value(target) is not None:
        return
    _refuse_mixed(target)
    named = list(_named_types(target))
    if len(named) == 1:
        source, value = named[0]
        changes.replace(source, value, "torch.bfloat16", "bfloat16 for what is made of this type")
        return
    source, call = _forward(target)
    if "torch" not in _module_names(source):
        raise NotApplicable(source.path, call.lineno, "the module does not import torch by name")
    name = dotted(call.func)
    made = _made(target, source, name, call)
    changes.insert(
        Kind.INSERT_AFTER,
        source,
        made,
        f"{name} = {name}.to(dtype=torch.bfloat16)",
        _MODEL,
        rebinds=(name.split(".")[0],),
    )
    for used in _uses(target, name):
        _inputs(*used, changes)


def _refuse_mixed(target: Target) -> None:
    for word in ("autocast", "GradScaler"):
        for source, _, _, call in target.calls(word):
            raise NotApplicable(
                source.path, call.lineno, f"the script manages mixed precision itself ({word})"
            )


def _named_types(target: Target) -> Iterator[tuple[Source, ast.expr]]:
    """`dtype = torch.float32` in the script or in the loop's module."""
    for source in dict.fromkeys((target.entry, target.loop_source)):
        for statement in source.places:
            if isinstance(statement, ast.Assign) and dotted(statement.value) in (
                "torch.float32",
                "torch.float",
                "torch.float16",
                "torch.half",
            ):
                if any(dotted(t).rpartition(".")[2] in _NAMES for t in statement.targets):
                    yield source, statement.value


def _forward(target: Target) -> tuple[Source, ast.Call]:
    located = target.located
    forward = located.forwards[0]
    source = forward.source
    for call in own_calls(forward.statement):
        if located.knowledge.is_model(source, source.scope_of(forward.statement), call.func):
            return source, call
    raise NotApplicable(
        source.path,
        forward.statement.lineno,
        ("it is not clear which argument of this call is the model"),
    )


def _module_names(source: Source) -> set[str]:
    return {
        alias.asname or alias.name.partition(".")[0]
        for statement, place in source.places.items()
        if place.scope is source.tree and isinstance(statement, ast.Import)
        for alias in statement.names
    }


def _made(target: Target, source: Source, name: str, call: ast.Call) -> ast.stmt:
    """The last statement that binds the model before it is compiled or its parameters are taken."""
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
    first = min(_taken_at(source, scopes.pop(), name), default=1 << 30)
    before = [s for s in bound if s.lineno < first]
    if not before:
        raise NotApplicable(
            source.path, min(s.lineno for s in bound), f"`{name}` is compiled where it is made"
        )
    return max(before, key=lambda s: s.lineno)


def _taken_at(source: Source, scope: ScopeNode, name: str) -> Iterator[int]:
    """Lines of a scope at which the model is compiled or its parameters are taken."""
    for statement, place in source.places.items():
        simple = isinstance(statement, (ast.Assign, ast.Expr, ast.AnnAssign))
        if simple and place.scope is scope and any(_takes(c, name) for c in own_calls(statement)):
            yield statement.lineno


def _takes(call: ast.Call, name: str) -> bool:
    """A call that compiles the model or takes its parameters."""
    if callee(call) == "compile":
        given = [dotted(each) for each in call.args]
        return name in given or dotted(call.func) == f"{name}.compile"
    return dotted(call.func) in (f"{name}.parameters", f"{name}.named_parameters")


def _uses(target: Target, name: str) -> Iterator[tuple[Source, ScopeNode, ast.AST, ast.Call]]:
    """Every call of the model, validation included, with the loop or function around it."""
    for source in target.sources:
        for call in source.calls if name.encode() in source.data else ():
            statement = source.statement_of(call) if dotted(call.func) == name else None
            if statement is not None and "torch" in _module_names(source):
                scope = source.scope_of(statement)
                loops = source.loops_around(statement)
                yield source, scope, loops[0] if loops else scope, call


def _inputs(
    source: Source, scope: ScopeNode, area: ast.AST, call: ast.Call, changes: Changes
) -> None:
    """Cast what goes into the model, and what is moved to the device beside it."""
    statement = source.statement_of(call)
    assert statement is not None
    done: set[str] = set()
    for node in own_nodes(area):
        if isinstance(node, ast.Assign) and node.lineno < statement.lineno and _moves(node.value):
            for name in _plain_names(node):
                done.add(name)
                _cast(source, Kind.INSERT_AFTER, node, name, changes)
    for given in arguments(call):
        name = root_name(given)
        plain = isinstance(given, (ast.Name, ast.Call)) and "[]" not in dotted(given)
        if plain and name and name not in done and _is_local(source, scope, name):
            done.add(name)
            _cast(source, Kind.INSERT_BEFORE, statement, name, changes)


def _plain_names(node: ast.Assign) -> list[str]:
    targets = [
        each
        for t in node.targets
        for each in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])
    ]
    return [t.id for t in targets if isinstance(t, ast.Name)]


def _moves(value: ast.expr) -> bool:
    """`x.to(...)`, or several of them: not a comprehension over a whole batch."""
    each = value.elts if isinstance(value, ast.Tuple) else [value]
    simple = all(isinstance(v, ast.Call) and callee(v) in ("to", "view", "flatten") for v in each)
    return simple and any(callee(call) == "to" for call in own_calls(value))


def _is_local(source: Source, scope: ScopeNode, name: str) -> bool:
    """Bound in the scope itself: casting it there does not reach further."""
    if isinstance(scope, FUNCTIONS) and name in parameters(scope):
        return True
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in own_nodes(scope)
    )


def _cast(source: Source, kind: Kind, at: ast.stmt, name: str, changes: Changes) -> None:
    code = (
        f"if torch.is_tensor({name}) and {name}.is_floating_point():\n"
        f"    {name} = {name}.to(torch.bfloat16)"
    )
    changes.insert(kind, source, at, code, _INPUT, rebinds=(name,))
