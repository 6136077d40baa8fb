"""Modules that a program imports by a computed name: `import_module(f"models.{name}_model")`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from instrumentor.locate.bindings import Bindings, Bound
from instrumentor.locate.syntax import ScopeNode, Source, callee

_CALLS = ("import_module", "__import__")
_ANY = "*"


def modules_of(
    source: Source, bindings: Bindings, call: ast.Call, roots: Sequence[Path]
) -> Iterator[Path]:
    """Files of the modules that a call may import, in the roots; none when any module may be."""
    if not call.args:
        return
    statement = source.statement_of(call)
    scope = source.scope_of(statement) if statement is not None else source.tree
    pattern = _pattern(bindings, scope, call.args[0])
    if re.search(r"[^*./]", pattern) is None or pattern.startswith((".", _ANY)):
        return
    for root in roots:
        found = sorted(root.glob(pattern.replace(".", "/") + ".py"))
        if found:
            yield from found
            return


def computed_imports(source: Source) -> Iterator[ast.Call]:
    """Calls that import by a name."""
    yield from (call for call in source.calls if callee(call) in _CALLS)


def _pattern(bindings: Bindings, scope: ScopeNode, node: ast.expr) -> str:
    """A text as far as it is written out, with `*` for what is computed."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=parts):
            return "".join(_pattern(bindings, scope, part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _pattern(bindings, scope, left) + _pattern(bindings, scope, right)
        case ast.BinOp(left=left, op=ast.Mod()):
            return re.sub(r"%[sdr]", _ANY, _pattern(bindings, scope, left))
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return re.sub(r"\{[^}]*\}", _ANY, _pattern(bindings, scope, text))
        case ast.Name(id=name):
            return _of_name(bindings, scope, name)
    return _ANY


def _of_name(bindings: Bindings, scope: ScopeNode, name: str) -> str:
    """The text that a variable of the scope is set to, once and for all."""
    match bindings.scopes.get(scope, {}).get(name):
        case [Bound(value=value, path=())] if not isinstance(value, ast.Name):
            return _pattern(bindings, scope, value)
    return _ANY
