"""The text that edits insert: the gate itself, kernels behind it, calls that say where they are."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from instrumentor.kernels.model import CallSite, Kernel
from instrumentor.read.statement_text import StatementText
from instrumentor.read.syntax import Source
from instrumentor_analysis.shared.files import read_text

WATCH = "watch"
NAME = "_instrument_gate"
_FILE = Path(__file__).resolve().parent.parent / "runtime" / "kernel_gate.py"


@cache
def _function() -> str:
    """The gate's factory without annotations, which the script's Python may be too old for."""
    tree = ast.parse(read_text(_FILE))
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in (*node.args.args, *filter(None, (node.args.vararg, node.args.kwarg))):
                argument.annotation = None
    return ast.unparse(function)


def gate_text(kernel: str, path: tuple[int, ...] | None) -> str:
    """The prelude of a changed file."""
    return f"{_function()}\n\n\n{NAME} = _instrument_kernel_gate(__file__, {kernel!r}, {path!r})"


def watch_text(kernel: Kernel) -> str:
    """The statement that puts a kernel behind the gate."""
    result = kernel.parameters.index(kernel.returns) if kernel.returns in kernel.parameters else -1
    tail = f", {result}" if result >= 0 else ""
    return f"{kernel.bound} = {NAME}.watch({kernel.qualified!r}, {kernel.bound}{tail})"


def call_text(source: Source, sites: Sequence[CallSite], numbers: Mapping[CallSite, int]) -> str:
    """A statement written again, each of its calls with its number.

    Args:
        sites: calls of kernels in one and the same statement.
        numbers: of all calls; they tell the gate which call it is.
    """
    text = StatementText(source)
    inserts: list[tuple[int, int, str]] = []
    for site in sites:
        begin, end = text.span(site.call.func)
        # Of two that begin together, `make(3)` and `make(3)(a)`, the longer one opens first.
        inserts += [(begin, -end, f"{NAME}.at({numbers[site]}, "), (end, 0, ")")]
    return text.rewritten(
        sites[0].statement, ((at, at, new) for at, _, new in sorted(inserts, key=lambda i: i[:2]))
    )
