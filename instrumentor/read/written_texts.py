"""Texts and paths as far as a program writes them out: names of modules, folders and files.

A name counts where it is bound once and for all, further up. A path is known where it hangs on the
file's own place (`__file__`): where a script will be started is not written in it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from pathlib import Path

from instrumentor.read.bindings import Bindings, Bound
from instrumentor.read.syntax import ScopeNode, callee, dotted

#: Stands for what is computed.
ANY = "*"
_MODULES = ("os", "os.path", "osp", "path", "pathlib")
_SAME = ("str", "fspath", "as_posix")
_JOIN = ("Path", "join", "joinpath")
#: Only these take `..` away: the parent of `a/..` is `a`, by `dirname` and by `Path.parent`.
_NORMAL = ("abspath", "realpath", "normpath", "resolve", "absolute")


def path_of(bindings: Bindings, scope: ScopeNode, node: ast.expr) -> Path | None:
    """The absolute path that an expression stands for; None where a part of it is computed."""
    text = text_of(bindings, scope, node)
    return Path(os.path.normpath(text)) if ANY not in text and Path(text).is_absolute() else None


def text_of(bindings: Bindings, scope: ScopeNode, node: ast.expr) -> str:
    """A text, or a path as one, with `*` for what is computed."""

    def part(inner: ast.expr) -> str:
        return text_of(bindings, scope, inner)

    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=parts):
            return "".join(map(part, parts))
        case ast.Name(id="__file__"):
            return str(bindings.source.path.absolute())
        case ast.Name(id=name):
            tables = (bindings.scopes.get(s, {}) for s in (scope, bindings.source.tree))
            match next((t[name] for t in tables if name in t), []):
                # further up, so that no name is followed to itself
                case [Bound(value=once, path=())] if (once.end_lineno or 0) < node.lineno:
                    return part(once)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return part(left) + part(right)
        case ast.BinOp(left=left, op=ast.Mod()):
            return re.sub(r"%[sdr]", ANY, part(left))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return str(Path(part(left), part(right)))
        case ast.Attribute(value=inner, attr="parent"):
            return _above(part(inner), 0)
        case ast.Subscript(
            value=ast.Attribute(value=inner, attr="parents"), slice=ast.Constant(value=int(count))
        ):
            return _above(part(inner), count)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return re.sub(r"\{[^}]{0,200}\}", ANY, part(text))
        case ast.Call(func=ast.Attribute(value=inner), args=parts) if dotted(inner) not in _MODULES:
            return _called(callee(node), [*map(part, (inner, *parts))])
        case ast.Call(args=parts):
            return _called(callee(node), [*map(part, parts)])
    return ANY


def _called(word: str, given: Sequence[str]) -> str:
    """What a function of paths returns, or a method of the first one."""
    if word in _JOIN and given:
        return str(Path(*given))
    if len(given) != 1:
        return ANY
    if word == "dirname":
        return _above(given[0], 0)
    if word in _NORMAL and ANY not in given[0]:
        return os.path.normpath(given[0])
    return given[0] if word in _SAME else ANY


def _above(path: str, count: int) -> str:
    above = [] if ANY in path else Path(path).parents
    return str(above[count]) if count < len(above) else ANY
