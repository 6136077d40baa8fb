"""Options of each `torch.compile(..., backend="tt", options=...)`, as tt-crank takes them.

They go over whatever options a call has: its expression may be None or a dictionary that was made
elsewhere, with the members of CompileOption as keys, which are texts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from instrumentor.edits import Kind
from instrumentor.locate.syntax import Source, dotted
from instrumentor.tune.settings import Value
from instrumentor.tune.statements import Changes, text_of
from instrumentor.tune.target import NotApplicable, Target

BACKEND = "tt"
MODULE = "tt_crank.torch._compile"
#: Options that are members of an enumeration: its name, and its members by the settings' values.
ENUMERATED = {
    "math_fidelity": ("MathFidelity", {}),
    "experimental_weight_dtype": ("BfpDtype", {"bfp_bf8": "BfpBf8", "bfp_bf4": "BfpBf4"}),
}
_MEMBERS = {"optimization_level": "OPT_LEVEL"}


def used(target: Target) -> bool:
    """Whether the script runs through tt-crank."""
    return any(b"tt_crank" in source.data for source in target.sources)


def own_option(target: Target, option: str) -> tuple[Path, int, Value | None] | None:
    """Where a call has an option itself, and its value (None: not a constant)."""
    names = (option, f"CompileOption.{_MEMBERS.get(option, option.upper())}")
    for source, _, call in _calls(target):
        given = _options(call)
        if not isinstance(given, ast.Dict):
            continue
        for key, value in zip(given.keys, given.values, strict=True):
            text = key.value if isinstance(key, ast.Constant) else dotted(key)
            if text in names:
                return source.path, value.lineno, _constant(option, value)
    return None


def apply(target: Target, options: Mapping[str, Value], changes: Changes) -> None:
    """Set options in every call.

    Raises:
        NotApplicable: there is no call, or one that cannot be rewritten.
    """
    if not options:
        return
    calls = list(_calls(target))
    if not calls:
        raise NotApplicable(
            target.script, 1, 'the script\'s modules have no torch.compile(..., backend="tt")'
        )
    pairs = ", ".join(f'"{name}": {_spelled(name, value)}' for name, value in options.items())
    reason = f"options of torch.compile: {', '.join(options)}"
    names = sorted({ENUMERATED[name][0] for name in options if name in ENUMERATED})
    for source, statement, call in calls:
        given = _options(call)
        if given is None:
            last = (*call.args, *(k.value for k in call.keywords))[-1]
            changes.replace(source, last, f"{text_of(source, last)}, options={{{pairs}}}", reason)
        elif isinstance(given, ast.Constant):
            changes.replace(source, given, f"{{{pairs}}}", reason)
        else:
            own = text_of(source, given)
            own = own if isinstance(given, ast.Dict) else f"({own} or {{}})"
            changes.replace(source, given, f"{{**{own}, {pairs}}}", reason)
        if names:
            code = f"from {MODULE} import {', '.join(names)}"
            changes.insert(
                Kind.INSERT_BEFORE, source, statement, code, reason, rebinds=tuple(names)
            )


def _calls(target: Target) -> Iterator[tuple[Source, ast.stmt, ast.Call]]:
    """Calls of torch.compile for the backend `tt`, which a constant of the script may name."""
    for source, _, statement, call in target.calls("compile"):
        backend = next((k.value for k in call.keywords if k.arg == "backend"), None)
        if isinstance(backend, ast.Name):
            backend = _bound(target, backend.id)
        if isinstance(backend, ast.Constant) and backend.value == BACKEND:
            yield source, statement, call


def _bound(target: Target, name: str) -> ast.expr | None:
    for source in target.sources:
        for statement in source.tree.body:
            if isinstance(statement, ast.Assign) and name in map(dotted, statement.targets):
                return statement.value
    return None


def _options(call: ast.Call) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == "options"), None)


def _constant(option: str, value: ast.expr) -> Value | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, (bool, int)):
        return value.value
    if option not in ENUMERATED:
        return None
    enumeration, members = ENUMERATED[option]
    head, _, member = dotted(value).rpartition(".")
    if head.rpartition(".")[2] != enumeration:
        return None
    return {name: word for word, name in members.items()}.get(member, member)


def _spelled(option: str, value: Value) -> str:
    if option not in ENUMERATED:
        return repr(value)
    enumeration, members = ENUMERATED[option]
    return f"{enumeration}.{members.get(str(value), value)}"
