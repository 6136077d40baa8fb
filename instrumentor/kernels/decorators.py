"""tt-lang's decorators in whatever spelling: ``ttl.kernel``, ``from ttl import kernel as k`` ...

A module counts as tt-lang when a part of its dotted name is ``ttl`` or ``ttlang``, wherever it
comes from (``from sim import ttl`` is the simulator's).
"""

from __future__ import annotations

import ast

from msgspec import Struct

from instrumentor.locate.bindings import Imported
from instrumentor.locate.names import Names, external_name
from instrumentor.locate.syntax import ScopeNode, Source
from instrumentor.locate.values import Free, Object, Value

KERNELS = ("kernel", "operation")
THREADS = ("compute", "datamovement")
MODULES = frozenset({"ttl", "ttlang"})


class Decorator(Struct, frozen=True):
    """A use of one; ``arguments`` is its call, or the bare name where it has none."""

    word: str
    arguments: ast.expr


def decorator(names: Names, source: Source, scope: ScopeNode, node: ast.expr) -> Decorator | None:
    """The decorator of tt-lang's that an expression is; None for anything else.

    ``one_core = ttl.kernel(grid=(1, 1))`` is one wherever ``one_core`` stands.
    """
    function = node.func if isinstance(node, ast.Call) else node
    for value in names.of(source, scope, function):
        made = value if isinstance(value, Object) and function is node else None
        word = _word(names, source, made.made_by if made is not None else value)
        if word:
            return Decorator(word, node if made is None or made.node is None else made.node)
    return None


def _word(names: Names, source: Source, value: Value) -> str:
    module, _, word = external_name(value).rpartition(".")
    if word not in (*KERNELS, *THREADS):
        return ""
    if isinstance(value, Free):  # `from ttl import *` binds it out of sight
        stars = names.bindings(source, source.tree, "*")
        module = next((b.module for b in stars if isinstance(b, Imported)), "")
    return "" if MODULES.isdisjoint(module.split(".")) else word
