"""The text that edits insert: the gate itself, kernels behind it, calls that say where they are."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from instrumentor.kernels.model import Kernel, Site
from instrumentor.locate.syntax import Source

WATCH = "watch"
NAME = "_instrument_gate"
_FILE = Path(__file__).resolve().parent.parent / "runtime" / "kernel_gate.py"


@cache
def _function() -> str:
    """The gate's factory without annotations, which the script's Python may be too old for."""
    tree = ast.parse(_FILE.read_text(encoding="utf-8"))
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in (*node.args.args, *filter(None, (node.args.vararg, node.args.kwarg))):
                argument.annotation = None
    return ast.unparse(_Bare().visit(function))


class _Bare(ast.NodeTransformer):
    """``x: int = 0`` as ``x = 0``; attributes of ``self`` count too."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def gate_text(kernel: str, path: tuple[int, ...] | None) -> str:
    """The prelude of a changed file."""
    return f"{_function()}\n\n\n{NAME} = _instrument_kernel_gate(__file__, {kernel!r}, {path!r})"


def watch_text(kernel: Kernel) -> str:
    """The statement that puts a kernel behind the gate."""
    result = kernel.parameters.index(kernel.returns) if kernel.returns in kernel.parameters else -1
    tail = f", {result}" if result >= 0 else ""
    return f"{kernel.bound} = {NAME}.watch({kernel.qualified!r}, {kernel.bound}{tail})"


def call_text(source: Source, sites: Sequence[Site], numbers: Mapping[Site, int]) -> str:
    """The statement of some calls again, each call with its number."""
    statement = sites[0].statement
    lines = source.data.decode(_encoding(source.data)).splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = "".join(lines).encode()
    begin = starts[statement.lineno - 1] + statement.col_offset
    end = starts[(statement.end_lineno or 1) - 1] + (statement.end_col_offset or 0)
    inserts: list[tuple[int, int, bytes]] = []
    for site in sites:
        function = site.call.func
        first = starts[function.lineno - 1] + function.col_offset
        last = starts[(function.end_lineno or 1) - 1] + (function.end_col_offset or 0)
        # Of two that begin together, `make(3)` and `make(3)(a)`, the longer one opens first.
        inserts.append((first, -last, f"{NAME}.at({numbers[site]}, ".encode()))
        inserts.append((last, 0, b")"))
    text, at = b"", begin
    for place, _, insert in sorted(inserts, key=lambda one: one[:2]):
        text += data[at:place] + insert
        at = place
    text += data[at:end]
    return _flush_left(text.decode(), statement.col_offset)


def _flush_left(text: str, indent: int) -> str:
    """Later physical lines lose the statement's own indentation where they have it."""
    head, *rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    cut = [line[indent:] if not line[:indent].strip() else line.lstrip() for line in rest]
    candidate = "\n".join([head, *cut])
    if _same(candidate, text):
        return candidate
    return "\n".join([head, *rest])


def _same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return False


def _encoding(data: bytes) -> str:
    import io
    import tokenize

    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
