"""What a script says about its kernels before anything runs."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor.read.syntax import ScopeNode, Source
from instrumentor_analysis.shared.documents import plain


class Grid(Struct, frozen=True):
    """The grid that a decorator asks for.

    Attributes:
        kind: tuple, auto, full, callable, default (none given) or unknown.
        text: as written.
        size: columns, rows of a tuple whose numbers are visible.
        line: where it is asked for; None where it is not.
    """

    kind: str
    text: str = ""
    size: tuple[int, ...] | None = None
    line: int | None = None


class Thread(Struct, frozen=True):
    """A thread function of a kernel; ``kind`` is compute or datamovement."""

    name: str
    kind: str
    line: int


class BufferShape(Struct, frozen=True):
    """A dataflow buffer that a kernel makes.

    Attributes:
        tiles: block shape in tiles, where visible.
        factor: how many blocks it holds.
    """

    name: str
    line: int
    tiles: tuple[int, ...] | None = None
    factor: int | None = None


class Number(Struct, frozen=True):
    """What stands in the kernel's file for a grid, a number of blocks, or an extent of blocks.

    Attributes:
        of: grid, block_count or block.
        name: the buffer of a block_count; of an extent what the source calls it.
        line: 1-based; ``start`` and ``end`` are offsets in its bytes.
        value: None of a grid.
    """

    of: str
    name: str
    line: int
    start: int
    end: int
    value: int | None = None


#: What tt-lang called ``@ttl.operation`` before it had a simulator.
OLDER = "kernel"


class Kernel(Struct, frozen=True, eq=False):
    """A function under ``@ttl.kernel`` or ``@ttl.operation``.

    Attributes:
        name: of the function.
        qualified: with the factory (or class) around it: ``make_add.add``.
        statement: the statement that binds the kernel: its ``def``, or an assignment.
        bound: the name (or ``self.name``) that the statement binds.
        factory: the function that makes and returns it, or an empty string.
        parameters: positional ones; ``parameter_lines`` are where they stand.
        returns: name of the parameter that it returns, ``""`` for nothing, None for anything else.
        numbers: what another grid, block_count or extent would be written over.
    """

    source: Source
    name: str
    qualified: str
    decorator: str
    statement: ast.stmt
    bound: str
    line: int
    end_line: int
    grid: Grid
    threads: tuple[Thread, ...]
    buffers: tuple[BufferShape, ...]
    factory: str = ""
    parameters: tuple[str, ...] = ()
    parameter_lines: tuple[int, ...] = ()
    returns: str | None = ""
    numbers: tuple[Number, ...] = ()


class CallSite(Struct, frozen=True, eq=False):
    """A call that runs a kernel, or a function that does.

    Attributes:
        statement: the statement that holds the call.
        kernels: the kernels it may mean; empty for a call of a function around one.
        function: name of the function it stands in, or an empty string.
        loops: (line, text) of the loops around it within its function, outermost first.
    """

    source: Source
    call: ast.Call
    statement: ast.stmt
    scope: ScopeNode
    kernels: tuple[Kernel, ...]
    function: str
    loops: tuple[tuple[int, str], ...]

    @property
    def line(self) -> int:
        """1-based line on which the call begins."""
        return self.call.lineno

    @property
    def text(self) -> str:
        """The call on one line."""
        return shortened(ast.unparse(self.call))


class Invocation(Struct, frozen=True):
    """One way in which a kernel is run: the call, and the calls that lead to it.

    Attributes:
        number: 1-based among the invocations of its kernel.
        sites: outermost call first, the kernel's own last.
        told_apart: those of the sites that distinguish it from the other invocations.
    """

    kernel: Kernel
    number: int
    sites: tuple[CallSite, ...]
    told_apart: tuple[CallSite, ...]

    @property
    def leaf(self) -> CallSite:
        """The call of the kernel itself."""
        return self.sites[-1]

    @property
    def uncalled(self) -> str:
        """The function around all of it that nothing calls visibly; '' at a module's top level."""
        return self.sites[0].function

    @property
    def loops(self) -> tuple[tuple[Path, int, str], ...]:
        """File, line and text of all loops around it, outermost first."""
        return tuple((s.source.path, line, text) for s in self.sites for line, text in s.loops)


class Tensor(Struct, frozen=True):
    """A tensor whose size the script shows.

    Attributes:
        dtype: as written, without its module; an empty string when it does not say.
        memory: L1, DRAM or host.
    """

    name: str
    line: int
    shape: tuple[int, ...]
    dtype: str
    memory: str


class Found(Struct, frozen=True):
    """The kernels of a script and of the project's modules that it imports.

    Attributes:
        composed: kernels that others are built from: their bodies name them.
    """

    script: Path
    sources: tuple[Source, ...]
    kernels: tuple[Kernel, ...]
    invocations: tuple[Invocation, ...]
    tensors: tuple[Tensor, ...]
    warnings: tuple[str, ...] = ()
    composed: frozenset[Kernel] = frozenset()

    def of(self, kernel: Kernel) -> tuple[Invocation, ...]:
        """The invocations of one kernel, in source order."""
        return tuple(i for i in self.invocations if i.kernel is kernel)


def shortened(text: str, width: int = 88) -> str:
    """The text on one line, cut at ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."


def kernel_json(kernel: Kernel) -> dict[str, Any]:
    """A kernel as JSON types."""
    names = ("name", "qualified", "line", "end_line", "decorator")
    told = {name: getattr(kernel, name) for name in names}
    parts = {name: plain(getattr(kernel, name)) for name in ("grid", "threads", "buffers")}
    told |= {"file": str(kernel.source.path), "factory": kernel.factory or None}
    lists = ("parameters", "parameter_lines")
    return {**told, **parts, **{name: list(getattr(kernel, name)) for name in lists}}


def invocation_json(invocation: Invocation) -> dict[str, Any]:
    """An invocation as JSON types."""
    *through, leaf = (_place(s.source.path, s.line, s.text) for s in invocation.sites)
    return {
        "kernel": invocation.kernel.qualified,
        "number": invocation.number,
        **leaf,
        "function": invocation.leaf.function or None,
        "through": through,
        "loops": [_place(*loop) for loop in invocation.loops],
    }


def _place(file: Path, line: int, text: str) -> dict[str, Any]:
    return {"file": str(file), "line": line, "text": text}
