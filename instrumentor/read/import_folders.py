"""Folders that a module puts on `sys.path`, as far as they hang on its own `__file__`.

A folder given from the working folder (`sys.path.append("..")`) is left out: where the script will
be started is not written in it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from instrumentor.read.bindings import Bindings, Bound
from instrumentor.read.syntax import FUNCTIONS, ScopeNode, Source, callee, dotted

_SAME = ("Path", "str", "fspath", "as_posix")
#: Only these take `..` away: the parent of `a/..` is `a`, by `dirname` and by `Path.parent`.
_NORMAL = ("abspath", "realpath", "normpath", "resolve", "absolute")
_JOIN = ("join", "joinpath")


class Added(Struct, frozen=True):
    """Folders that are searched before all others, and those after."""

    first: tuple[Path, ...] = ()
    last: tuple[Path, ...] = ()


class Adder(Struct, frozen=True):
    """A function that puts what it is given on `sys.path`.

    Attributes:
        first: whether it is searched before all others.
        position, name: of the parameter.
    """

    first: bool
    position: int
    name: str


def adders_of(source: Source) -> dict[str, Adder]:
    """Functions of a module that add a folder which their caller gives: `add_path(folder)`."""
    found: dict[str, Adder] = {}
    for call in source.calls if b"sys.path" in source.data else ():
        function = source.scope_of(call)
        if not isinstance(function, FUNCTIONS) or function in source.class_of:
            continue
        names = [each.arg for each in function.args.args]
        for node in _given(call, {}):
            if isinstance(node, ast.Name) and node.id in names:
                first = callee(call) == "insert"
                found[function.name] = Adder(first, names.index(node.id), node.id)
    return found


def added_by(
    bindings: Bindings,
    roots: Sequence[Path],
    adders: Mapping[str, Adder] = MappingProxyType({}),
    *,
    on_import: bool = False,
) -> Added:
    """What a module adds to `sys.path` inside of the roots.

    Args:
        adders: functions of other modules by which it may do so.
        on_import: leave out what its functions do when they are called.
    """
    source, first, last = bindings.source, list[Path](), list[Path]()
    known = {**adders, **adders_of(source)}
    if not any(word in source.data for word in (b"sys.path", *map(str.encode, known))):
        return Added()
    for call in source.calls:
        if on_import and source.scope_of(call) is not source.tree:
            continue
        found = [f for f in _folders(bindings, call, known) if any(map(f.is_relative_to, roots))]
        adder = known.get(callee(call))
        if callee(call) == "insert" or (adder is not None and adder.first):
            first[:0] = found  # at 0 before those of the calls above
        else:
            last += found
    return Added(tuple(dict.fromkeys(first)), tuple(dict.fromkeys(last)))


def _folders(bindings: Bindings, call: ast.Call, known: Mapping[str, Adder]) -> Iterator[Path]:
    scope = bindings.source.scope_of(call)
    for path in (_path(bindings, scope, node) for node in _given(call, known)):
        if path is not None and path.is_absolute():
            yield Path(os.path.normpath(path))


def _given(call: ast.Call, known: Mapping[str, Adder]) -> Sequence[ast.expr]:
    """Expressions of the folders that a call adds."""
    match dotted(call.func), call.args:
        case ("sys.path.insert", [_, node]) | ("sys.path.append", [node]):
            return [node]
        case "sys.path.extend", [ast.List(elts=given) | ast.Tuple(elts=given)]:
            return given
    adder = known.get(callee(call))
    if adder is None:
        return ()
    named = [k.value for k in call.keywords if k.arg == adder.name]
    return named or call.args[adder.position : adder.position + 1]


def _path(bindings: Bindings, scope: ScopeNode, node: ast.expr) -> Path | None:
    """The path that an expression stands for; None where a part of it is not written out."""
    match node:
        case ast.Constant(value=str(text)):
            return Path(text)
        case ast.Name(id="__file__"):
            return bindings.source.path.absolute()
        case ast.Name(id=name):
            tables = (bindings.scopes.get(s, {}) for s in (scope, bindings.source.tree))
            match next((t[name] for t in tables if name in t), []):
                # set once and for all, further up: so that no name is followed to itself
                case [Bound(value=once, path=())] if once.lineno < node.lineno:
                    return _path(bindings, scope, once)
        case ast.Attribute(value=inner, attr="parent"):
            return _above(_path(bindings, scope, inner), 0)
        case ast.Subscript(
            value=ast.Attribute(value=inner, attr="parents"), slice=ast.Constant(value=int(count))
        ):
            return _above(_path(bindings, scope, inner), count)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _called("join", [_path(bindings, scope, part) for part in (left, right)])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            begin, end = _path(bindings, scope, left), _path(bindings, scope, right)
            return None if begin is None or end is None else Path(f"{begin}{end}")
        case ast.Call(func=ast.Attribute(value=inner), args=parts) if not _is_module(inner):
            return _called(callee(node), [_path(bindings, scope, p) for p in (inner, *parts)])
        case ast.Call(args=parts):
            return _called(callee(node), [_path(bindings, scope, part) for part in parts])
    return None


def _is_module(node: ast.expr) -> bool:
    return dotted(node) in ("os", "os.path", "osp", "path", "pathlib")


def _called(word: str, given: Sequence[Path | None]) -> Path | None:
    """What a function of paths returns, or a method of the first one."""
    known = [path for path in given if path is not None]
    if not known or len(known) < len(given) or (len(known) > 1 and word not in _JOIN):
        return None
    if word == "dirname":
        return _above(known[0], 0)
    if word in _NORMAL:
        return Path(os.path.normpath(known[0]))
    return known[0].joinpath(*known[1:]) if word in (*_SAME, *_JOIN) else None


def _above(path: Path | None, count: int) -> Path | None:
    return None if path is None or count >= len(path.parents) else path.parents[count]
