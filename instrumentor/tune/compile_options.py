"""Compile options: into the script's own `set_custom_compile_options` call, or a call of ours.

A later call replaces an earlier one, so every call that is there gets the options, and all of
them stand in one call. Without a call ours goes where the device is open and nothing is compiled
yet: setting options opens the device, so it must not come before the script has chosen one.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from pathlib import Path

from instrumentor.edits import Kind
from instrumentor.locate.syntax import LOOPS, ScopeNode, Source, callee, dotted, own_calls
from instrumentor.tune.settings import Value
from instrumentor.tune.statements import Changes, text_of
from instrumentor.tune.target import NotApplicable, Target

CALL = "set_custom_compile_options"
_DEPTH = 3
_LONG = 76  # with the indentation of a function or two, still a line
_OPENS_DEVICE = ("torch_xla.device", "xm.xla_device", "xla_model.xla_device", "xla_device")


def own_option(target: Target, option: str) -> tuple[Path, int, Value | None] | None:
    """Where the script sets an option itself, and to what (None: not a constant)."""
    for source, scope, _, call in target.calls(CALL):
        for given in call.args[:1]:
            value = _lookup(source, scope, given, option)
            if value is not None:
                constant = value.value if isinstance(value, ast.Constant) else None
                return source.path, value.lineno, _plain(constant)
    return None


def apply(target: Target, options: Mapping[str, Value], changes: Changes) -> None:
    """Set compile options.

    Raises:
        NotApplicable: no module imports torch_xla, or a call cannot be rewritten.
    """
    if not options:
        return
    names = ", ".join(options)
    calls = list(target.calls(CALL))
    for source, _, _, call in calls:
        if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
            raise NotApplicable(
                source.path, call.lineno, f"{CALL} is not called with one dictionary"
            )
        _merge(source, call.args[0], options, changes, f"compile options: {names}")
    if not calls:
        _insert(target, options, changes, f"compile options: {names}")


def _merge(
    source: Source, given: ast.expr, options: Mapping[str, Value], changes: Changes, reason: str
) -> None:
    if not isinstance(given, ast.Dict) or not given.keys:
        plain = isinstance(given, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        text = text_of(source, given)
        own = "" if isinstance(given, ast.Dict) else f"**{text if plain else f'({text})'}, "
        changes.replace(source, given, f"{{{own}{_pairs(options)}}}", reason)
        return
    texts = _replaced(given, options)
    left = {name: value for name, value in options.items() if name not in texts}
    nodes = dict(texts.values())
    if left:
        last_key, last = given.keys[-1], given.values[-1]
        first = last_key or last
        column = first.col_offset - (0 if last_key else 2)
        joint = ",\n" + " " * column if first.lineno > given.lineno else ", "
        nodes[last] = (nodes.get(last) or text_of(source, last)) + joint + _pairs(left, joint)
    for node, text in nodes.items():
        changes.replace(source, node, text, reason)


def _replaced(given: ast.Dict, options: Mapping[str, Value]) -> dict[str, tuple[ast.expr, str]]:
    """Option -> the value that the dictionary has for it, and the text in its place."""
    found: dict[str, tuple[ast.expr, str]] = {}
    for key, value in zip(given.keys, given.values, strict=True):
        if key is None:  # what is unpacked here goes over what stands before it
            found.clear()
        elif isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value in options:
            as_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
            found[key.value] = value, _spell(options[key.value], value, as_text=as_text)
    return found


def _insert(target: Target, options: Mapping[str, Value], changes: Changes, reason: str) -> None:
    source, statement, kind = _place(target)
    module, guarded = _module_name(source)
    code = f"{module or 'torch_xla'}.{CALL}({{{_pairs(options)}}})"
    if len(code) > _LONG:
        rows = _pairs(options, ",\n        ")
        code = f"{module or 'torch_xla'}.{CALL}(\n    {{\n        {rows},\n    }}\n)"
    if module is None:
        code = f"import torch_xla\n{code}"
        changes.insert(kind, source, statement, code, reason, rebinds=("torch_xla",))
        return
    if guarded:
        code = f"if {module} is not None:\n" + textwrap.indent(code, "    ")
    changes.insert(kind, source, statement, code, reason)


def _place(target: Target) -> tuple[Source, ast.stmt, Kind]:
    if not any(b"torch_xla" in source.data for source in target.sources):
        raise NotApplicable(
            target.script, 1, "no module of the script imports torch_xla: nothing would read them"
        )
    for source in dict.fromkeys((target.entry, target.loop_source)):
        for statement in _straight(source):
            if any(dotted(call.func) in _OPENS_DEVICE for call in own_calls(statement)):
                return source, statement, Kind.INSERT_AFTER
    source, outer = target.loop_source, target.outermost_loop()
    ahead = (
        statement
        for statement in _straight(source)
        if source.scope_of(statement) is source.scope_of(outer) and statement.lineno < outer.lineno
    )
    return source, next(filter(_prepares_model, ahead), outer), Kind.INSERT_BEFORE


def _prepares_model(statement: ast.stmt) -> bool:
    """It moves something to the device, or compiles it."""
    words = {callee(call) for call in own_calls(statement)}
    return "compile" in words or ("to" in words and "device" in ast.unparse(statement))


def _straight(source: Source) -> list[ast.stmt]:
    """Simple statements outside of loops, in order."""
    simple = (s for s in source.places if isinstance(s, (ast.Assign, ast.AnnAssign, ast.Expr)))
    found = [s for s in simple if not any(isinstance(p, LOOPS) for p in source.ancestors(s))]
    return sorted(found, key=lambda s: (s.lineno, s.col_offset))


def _module_name(source: Source) -> tuple[str | None, bool]:
    """What torch_xla is called in a module, and whether it may be None there."""
    for statement, place in source.places.items():
        if place.scope is source.tree and isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == "torch_xla" or (
                    alias.name.startswith("torch_xla.") and not alias.asname
                ):
                    guarded = isinstance(place.parent, ast.Try)
                    return alias.asname or "torch_xla", guarded
    return None, False


def _lookup(
    source: Source, scope: ScopeNode, given: ast.expr, option: str, depth: int = 0
) -> ast.expr | None:
    """The expression that an option gets, through a name of the scope or the module."""
    match given:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return next((v for k, v in reversed([*pairs]) if _is_constant(k, option)), None)
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            return next((k.value for k in keywords if k.arg == option), None)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            found = _lookup(source, scope, right, option, depth)
            return found or _lookup(source, scope, left, option, depth)
        case ast.Name(id=name) if depth <= _DEPTH:
            return _of_name(source, scope, name, option, depth + 1)
    return None


def _of_name(
    source: Source, scope: ScopeNode, name: str, option: str, depth: int
) -> ast.expr | None:
    """`name = {...}` and `name["option"] = value`; the last one counts."""
    found: ast.expr | None = None
    for statement, place in source.places.items():
        if not isinstance(statement, ast.Assign) or place.scope not in (scope, source.tree):
            continue
        for bound in statement.targets:
            if isinstance(bound, ast.Name) and bound.id == name:
                found = _lookup(source, scope, statement.value, option, depth) or found
            elif isinstance(bound, ast.Subscript) and dotted(bound.value) == name:
                found = statement.value if _is_constant(bound.slice, option) else found
    return found


def _is_constant(node: ast.expr | None, value: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _plain(value: object) -> Value | None:
    """A constant in the settings' words: numbers and booleans also where they are texts."""
    if isinstance(value, str):
        if value.isdigit():
            return int(value)
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, (bool, int)) else None


def _pairs(options: Mapping[str, Value], joint: str = ", ") -> str:
    return joint.join(f'"{name}": {_spell(value)}' for name, value in options.items())


def _spell(value: Value, old: ast.expr | None = None, *, as_text: bool = True) -> str:
    """The value as tt-xla's guide writes it, or as the script writes the one it replaces."""
    if isinstance(value, bool):
        boolean = old is not None and isinstance(old, ast.Constant) and isinstance(old.value, bool)
        return str(value) if boolean else f'"{str(value).lower()}"'
    return f'"{value}"' if old is not None and as_text else str(value)
