"""bfloat16 in the source: the model behind the statement that makes it, its inputs in the loop.

Applied where one can see what is the model and what goes into it; integers (tokens, classes) are
told apart when the script runs. A script that manages mixed precision itself is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.read.syntax import (
    Source,
    arguments,
    called_on,
    callee,
    dotted,
    own_calls,
    own_nodes,
    root_name,
)
from instrumentor.shared.edits import Kind
from instrumentor.tune.model_places import forward, has_torch, made
from instrumentor.tune.settings import Value
from instrumentor.tune.statements import Changes, Own, Way
from instrumentor.tune.target import NotApplicable, Target

_MODEL = "bfloat16 weights, before anything is compiled or handed to the optimizer"
_INPUT = "bfloat16 inputs; integers stay as they are"
_NAMES = ("dtype", "torch_dtype", "model_dtype", "compute_dtype", "DTYPE")
_WIDER = ("torch.float32", "torch.float", "torch.float16", "torch.half")


def way(target: Target) -> Way:
    """How bfloat16 is set in the source: a named type, else the model and what goes into it."""
    own = _own(target)

    def apply(value: Value, changes: Changes) -> None:
        if own is None:
            _apply(target, changes)

    return Way("model.to(dtype=torch.bfloat16) and inputs alike", own, apply)


def _own(target: Target) -> Own | None:
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
    owner = called_on(call)
    return target.located.knowledge.is_model_named(source, scope, owner)


def _apply(target: Target, changes: Changes) -> None:
    for word in ("autocast", "GradScaler"):
        for source, _, _, call in target.calls(word):
            reason = f"the script manages mixed precision itself ({word})"
            raise NotApplicable(source.path, call.lineno, reason)
    named = list(_named_types(target))
    # One name decides the type of everything; with several it is unclear which one does.
    if len(named) == 1:
        source, value = named[0]
        changes.replace(source, value, "torch.bfloat16", "bfloat16 for what is made of this type")
        return
    source, call = forward(target)
    name = dotted(call.func)
    code = f"{name} = {name}.to(dtype=torch.bfloat16)"
    at, rebinds = made(source, name, call), (name.split(".")[0],)
    changes.insert(Kind.INSERT_AFTER, source, at, code, _MODEL, rebinds=rebinds)
    for used in target.sources:
        for call in used.calls if name.encode() in used.data else ():
            if dotted(call.func) == name and has_torch(target, used):
                _cast_inputs(target, used, call, changes)


def _named_types(target: Target) -> Iterator[tuple[Source, ast.expr]]:
    """`dtype = torch.float32` in the script or in the loop's module."""
    for source in dict.fromkeys((target.entry, target.loop_source)):
        for statement in source.places:
            if isinstance(statement, ast.Assign) and dotted(statement.value) in _WIDER:
                if any(dotted(t).rpartition(".")[2] in _NAMES for t in statement.targets):
                    yield source, statement.value


def _cast_inputs(target: Target, source: Source, call: ast.Call, changes: Changes) -> None:
    """Cast what goes into the model, and what is moved to the device beside it."""
    statement = source.statement_of(call)
    if statement is None:
        return
    scope, loops = source.scope_of(statement), source.loops_around(statement)
    done: set[str] = set()
    for node in own_nodes(loops[0] if loops else scope):
        if isinstance(node, ast.Assign) and node.lineno < statement.lineno and _moves(node.value):
            for name in _plain_names(node):
                done.add(name)
                _cast(source, Kind.INSERT_AFTER, node, name, changes)
    for given in arguments(call):
        name = root_name(given)
        plain = isinstance(given, (ast.Name, ast.Call)) and "[]" not in dotted(given)
        # What another scope binds is cast there, if at all: a cast here would make it local.
        if plain and name not in done and target.program.names.binder(source, scope, name) is scope:
            done.add(name)
            _cast(source, Kind.INSERT_BEFORE, statement, name, changes)
        elif _is_part(given) and name not in done:
            reason = (
                f"`{ast.unparse(given)}` goes into the model, but it is not clear where it is made"
            )
            raise NotApplicable(source.path, call.lineno, f"{reason}: it would stay float32")


def _is_part(given: ast.expr) -> bool:
    """`X[index]`; not a field by name, as tokens have them."""
    if not isinstance(given, ast.Subscript):
        return False
    return not (isinstance(given.slice, ast.Constant) and isinstance(given.slice.value, str))


def _plain_names(node: ast.Assign) -> list[str]:
    grouped = (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t] for t in node.targets)
    return [each.id for group in grouped for each in group if isinstance(each, ast.Name)]


def _moves(value: ast.expr) -> bool:
    """`x.to(...)`, or several of them: not a comprehension over a whole batch."""
    each = value.elts if isinstance(value, ast.Tuple) else [value]
    simple = all(isinstance(v, ast.Call) and callee(v) in ("to", "view", "flatten") for v in each)
    return simple and any(callee(call) == "to" for call in own_calls(value))


def _cast(source: Source, kind: Kind, at: ast.stmt, name: str, changes: Changes) -> None:
    code = (
        f"if torch.is_tensor({name}) and {name}.is_floating_point():\n"
        f"    {name} = {name}.to(torch.bfloat16)"
    )
    changes.insert(kind, source, at, code, _INPUT, rebinds=(name,))
