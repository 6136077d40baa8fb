"""Folders that a module puts on `sys.path`, as far as its text tells.

A folder is given from the module's own `__file__`, or from the working folder
(`sys.path.append("..")`): a script is started where the tool is.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from instrumentor.read.bindings import Bindings
from instrumentor.read.syntax import FUNCTIONS, Source, argument, callee, dotted
from instrumentor.read.written_texts import ANY, text_of


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
    for node in _given(call, known):
        text = text_of(bindings, scope, node)
        if text and ANY not in text:
            yield Path(os.path.normpath(Path.cwd() / text))


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
    folder = argument(call, adder.name, at=adder.position)
    return () if folder is None else (folder,)
