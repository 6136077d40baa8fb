"""What one invocation did on tt-lang's simulator, as counted there.

Counts of tiles, copies and waits are exact; the order in which threads took turns is the
simulator's own, and there are no times.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from instrumentor_analysis.shared.documents import converted, read
from instrumentor_analysis.shared.errors import NothingMeasured

FILE = "simulation.json"
#: No grid is larger, and no kernel has more tensors and buffers, or lines that move them, or more
#: of a thread that stands before a buffer.
MOST_NODES, MOST_NAMES, MOST_PLACES = 1 << 16, 1 << 10, 1 << 14
MOST_EXTENTS, MOST_WAITING = 16, 1 << 10


class Copied(Struct, frozen=True, array_like=True):
    """Copies of one thread between a tensor and L1; all but the first five in tiles.

    Attributes:
        direction: read or write.
    """

    node: int
    thread: str
    tensor: str
    direction: str
    copies: int
    tiles: int
    local_l1: int
    remote_l1: int
    dram: int


class Used(Struct, frozen=True, array_like=True):
    """One thread's use of one buffer.

    Attributes:
        operation: reserve, wait, push or pop.
        blocked: how often it was not possible yet when it was asked for.
        implied: how often the simulator did it where the kernel does not say so.
    """

    node: int
    thread: str
    buffer: str
    operation: str
    count: int
    blocked: int
    tiles: int
    implied: int


class Piped(Struct, frozen=True, array_like=True):
    """Messages of one node over one pipe; ``way`` is send or receive."""

    node: int
    pipe: str
    way: str
    count: int
    tiles: int


class SimulatedThread(Struct, frozen=True, array_like=True):
    """A thread on a node; ``kind`` is compute or datamovement."""

    node: int
    name: str
    kind: str
    ended: bool


class TensorFacts(Struct, frozen=True):
    """A tensor of the kernel, by its variable.

    Attributes:
        units: tiles of it, or elements where it is not tiled.
        unit_bytes: of one of them.
        memory: DRAM or L1.
        devices: that it is sharded over; the simulator has it as a whole.
    """

    shape: tuple[int, ...]
    dtype: str
    units: int
    unit_bytes: int
    memory: str = "DRAM"
    devices: int = 1


class BufferFacts(Struct, frozen=True):
    """A dataflow buffer of the kernel, by its variable.

    Attributes:
        shape: of a block, in tiles.
        blocks: its block_count.
        bytes: of L1 on each node.
        deepest: the most blocks that were taken at once.
    """

    shape: tuple[int, ...] = ()
    blocks: int = 0
    bytes: int = 0
    deepest: int = 0


class Waiting(Struct, frozen=True):
    """Where a thread stood in a deadlock."""

    thread: str
    operation: Literal["reserve", "wait"]
    buffer: str
    file: str
    line: int
    nodes: tuple[int, ...]


class Problem(Struct, frozen=True):
    """Why the invocation did not end; ``kind`` is deadlock, error, or stopped from outside.

    Attributes:
        node: on which it failed; -1 where that is not known, or of a deadlock.
        buffer: whose block refused what the line asks of it; '' where the error is of none.
        lacks: what of tt-lang or ttnn the simulator does not have; '' for an error of the kernel's.
    """

    kind: str
    message: str = ""
    file: str = ""
    line: int = 0
    thread: str = ""
    node: int = -1
    buffer: str = ""
    blocked: Annotated[tuple[Waiting, ...], Meta(max_length=MOST_WAITING)] = ()
    lacks: str = ""


class Place(Struct, frozen=True):
    """A line of the kernel that moved a tensor, or that first asked for a block.

    Attributes:
        what: read or write of a tensor, reserve or wait of a buffer.
        name: of the tensor or the buffer.
        buffer: the other end of a copy.
    """

    thread: str
    what: str
    name: str
    buffer: str
    file: str
    line: int
    count: int = 1


class Writer(Struct, frozen=True):
    """Who wrote a tile, and at which line."""

    node: int
    thread: str
    file: str
    line: int


class Clash(Struct, frozen=True):
    """A tile that was written again; ``differ``: by another node, with other values."""

    tile: tuple[int, ...]
    differ: bool
    earlier: Writer
    later: Writer


class Reached(Struct, frozen=True):
    """Which tiles of a tensor were read, or written.

    Attributes:
        never: tiles that were not.
        unplaced: copies whose place is not known: with some the others say little.
        box: first and last of the tiles that were not reached, by extent; ``first`` is one.
    """

    never: int = 0
    unplaced: int = 0
    box: tuple[tuple[int, int], ...] = ()
    first: tuple[int, ...] = ()


class Written(Reached, frozen=True):
    """Which tiles of a tensor were written, and which of them more than once.

    Attributes:
        again: tiles that were more than once; ``shared`` of these by several nodes, ``differing``
            of those with other values than before.
        clashes: examples, one for each pair of lines.
    """

    again: int = 0
    shared: int = 0
    differing: int = 0
    clashes: tuple[Clash, ...] = ()


class Simulation(Struct, frozen=True, dict=True):
    """The sums of one invocation.

    Attributes:
        complete: it ran to its end; else the counts are those until then.
        grid: extents of the grid.
        l1_bytes: of all dataflow buffers on a node.
        arithmetic: whether values were computed at all.
        flops: (node, FLOPs of matrix products).
        starts: (node, thread, copies, of these started while another one was under way).
        same: of a tensor with several names, such as one given for two parameters, the earlier ones
            and the last, by which its moves are counted.
        reached: by tensor, what was read; of those whose tiles were kept by place, in whole runs.
        written: by tensor; of those whose tiles were kept by place, in whole runs.
    """

    complete: bool
    events: int
    operations: int
    grid: Annotated[tuple[int, ...], Meta(max_length=MOST_EXTENTS)] = ()
    problem: Problem | None = None
    tensors: Annotated[Mapping[str, TensorFacts], Meta(max_length=MOST_NAMES)] = field(
        default_factory=dict
    )
    same: Annotated[Mapping[str, str], Meta(max_length=MOST_NAMES)] = field(default_factory=dict)
    buffers: Annotated[Mapping[str, BufferFacts], Meta(max_length=MOST_NAMES)] = field(
        default_factory=dict
    )
    copies: tuple[Copied, ...] = ()
    blocks: tuple[Used, ...] = ()
    pipes: tuple[Piped, ...] = ()
    threads: tuple[SimulatedThread, ...] = ()
    flops: tuple[tuple[int, int], ...] = ()
    l1_bytes: int = 0
    l1_limit_bytes: int = 0
    buffers_made: int = 0
    buffers_limit: int = 0
    scheduler: str = ""
    arithmetic: bool = True
    places: Annotated[tuple[Place, ...], Meta(max_length=MOST_PLACES)] = ()
    starts: tuple[tuple[int, str, int, int], ...] = ()
    reached: Mapping[str, Reached] = field(default_factory=dict)
    written: Mapping[str, Written] = field(default_factory=dict)

    @cached_property
    def used(self) -> Mapping[tuple[str, str], Sequence[Used]]:
        """The rows of ``blocks`` by buffer and operation; absent where there are none."""
        found: dict[tuple[str, str], list[Used]] = {}
        for row in self.blocks:
            found.setdefault((row.buffer, row.operation), []).append(row)
        return found

    @property
    def nodes(self) -> int:
        """Nodes of the grid."""
        return math.prod(self.grid)

    def of_node(self, amount: Callable[[Copied], int]) -> Counter[int]:
        """A sum over the copies of each node; nodes without any are absent."""
        found: Counter[int] = Counter()
        for row in self.copies:
            found[row.node] += amount(row)
        return found

    def bytes_of(self, row: Copied) -> int:
        """Bytes that a row moved, on all levels."""
        return row.tiles * self.tensors[row.tensor].unit_bytes if row.tensor in self.tensors else 0

    @property
    def dram_bytes(self) -> int:
        """Bytes to and from DRAM, of all nodes."""
        known = (row for row in self.copies if row.tensor in self.tensors)
        return sum(row.dram * self.tensors[row.tensor].unit_bytes for row in known)

    @property
    def moved(self) -> Mapping[tuple[str, str], Copied]:
        """Copies of all nodes and threads by tensor and direction, in the order of first use."""
        found: dict[tuple[str, str], list[int]] = {}
        for row in self.copies:
            sums = found.setdefault((row.tensor, row.direction), [0] * 5)
            more = (row.copies, row.tiles, row.local_l1, row.remote_l1, row.dram)
            sums[:] = [a + b for a, b in zip(sums, more, strict=True)]
        return {key: Copied(-1, "", *key, *sums) for key, sums in found.items()}

    def times(self, row: Copied) -> float | None:
        """How often what is moved of the tensor was; None where its size is not known."""
        units = self.units(row)
        return row.tiles / units if units else None

    def units(self, row: Copied) -> int:
        """Tiles of the tensor, of one that is read in part those of the part; 0 if not known."""
        known = self.tensors.get(row.tensor)
        read = self.read(row.tensor) if row.direction == "read" else None
        whole = known.units if known is not None else 0
        return max(whole - read.never, 1) if whole and read is not None else whole

    def read(self, tensor: str) -> Reached | None:
        """Which of its tiles were read; None where the places of all are not known."""
        known = self.reached.get(tensor)
        return None if known is None or known.unplaced else known

    @property
    def written_tiles(self) -> int:
        """Tiles of all tensors that are written, those of one tensor at most as many as it has."""
        return sum(
            self._distinct(row)
            for row in self.moved.values()
            if row.direction == "write" and row.tensor in self.tensors
        )

    def _distinct(self, row: Copied) -> int:
        units, known = self.tensors[row.tensor].units, self.placed(row.tensor)
        return min(row.tiles, units) if known is None else units - known.never

    def placed(self, tensor: str) -> Written | None:
        """Which of its tiles were written; None where the places of all are not known."""
        known = self.written.get(tensor)
        return None if known is None or known.unplaced else known

    @property
    def output_blocks(self) -> int:
        """Blocks of which the outputs consist, as they are written; 0 if nothing is."""
        rows = [r for r in self.moved.values() if r.direction == "write" and r.copies]
        known = [row for row in rows if row.tensor in self.tensors and row.tiles]
        return max((self.tensors[r.tensor].units * r.copies // r.tiles for r in known), default=0)

    def uses(self, buffer: str, operation: str) -> dict[str, Used]:
        """By thread, the uses of a buffer on all nodes."""
        found: dict[str, list[int]] = {}
        for row in self.used.get((buffer, operation), ()):
            sums = found.setdefault(row.thread, [0] * 4)
            more = (row.count, row.blocked, row.tiles, row.implied)
            sums[:] = [a + b for a, b in zip(sums, more, strict=True)]
        return {t: Used(-1, t, buffer, operation, *sums) for t, sums in found.items()}

    def count(self, buffer: str, operation: str, node: int | None = None) -> int:
        """How often something was done to a buffer, on one node or on all."""
        rows = self.used.get((buffer, operation), ())
        return sum(row.count for row in rows if node in (None, row.node))

    @property
    def idle(self) -> tuple[int, ...]:
        """Nodes of the grid that moved nothing and used no buffer."""
        busy = {row.node for row in self.copies} | {row.node for row in self.blocks}
        return tuple(node for node in range(self.nodes) if node not in busy)

    def coordinates(self, node: int) -> str:
        """A node as the kernel's `ttl.node()` says it."""
        found: list[int] = []
        for extent in reversed(self.grid):
            found.insert(0, node % extent)
            node //= extent
        return f"({', '.join(map(str, found))})"

    @property
    def measures(self) -> dict[str, int]:
        """What two versions are compared by; less of each is better."""
        return {
            "dram_bytes": self.dram_bytes,
            "busiest_node_bytes": max(self.of_node(self.bytes_of).values(), default=0),
            "busiest_node_copies": max(self.of_node(lambda row: row.copies).values(), default=0),
        }


def read_simulation(folder: Path) -> Simulation:
    """The sums that a simulated run left.

    Raises:
        NothingMeasured: there are none, since the invocation did not begin, or they are damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise NothingMeasured(
            f"{folder}: the simulator counted nothing", "See run.log for what happened before."
        )
    try:
        found = converted(read(path), Simulation)
        if not 0 < found.nodes <= MOST_NODES:
            raise ValueError(f"a grid of {found.nodes} nodes")
        return found
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise NothingMeasured(f"{path}: cannot be read: {error}", "Run it again.") from error
