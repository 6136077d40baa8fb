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
    if callee(call) not in _CALLS or not call.args:
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
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(bindings, scope, part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return "".join(_pattern(bindings, scope, side) for side in (node.left, node.right))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return re.sub(r"%[sdr]", _ANY, _pattern(bindings, scope, node.left))
    if isinstance(node, ast.Call) and callee(node) == "format":
        assert isinstance(node.func, ast.Attribute)
        return re.sub(r"\{[^}]*\}", _ANY, _pattern(bindings, scope, node.func.value))
    if isinstance(node, ast.Name):
        bound = bindings.scopes.get(scope, {}).get(node.id, [])
        if len(bound) == 1 and isinstance(bound[0], Bound) and not bound[0].path:
            value = bound[0].value
            return _ANY if isinstance(value, ast.Name) else _pattern(bindings, scope, value)
    return _ANY
