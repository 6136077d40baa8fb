"""Everything that one measured invocation is judged by, gathered from log, record and run.

Two clocks appear: ``duration_us`` is the device's, from the program's first to its last event;
host times are never used for a verdict.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor_analysis.kernels.device_log import DeviceLog
from instrumentor_analysis.kernels.model import (
    Buffer,
    BufferUse,
    KernelLog,
    LineCycles,
    Machine,
    Program,
)
from instrumentor_analysis.kernels.programs import exact_us
from instrumentor_analysis.kernels.run_facts import Shape
from instrumentor_analysis.ops.roofline import architecture
from instrumentor_analysis.shared.documents import converted
from instrumentor_analysis.shared.errors import AnalysisError

#: Types with a line number of the copy that was run.
At = TypeVar("At", LineCycles, BufferUse)
#: Usable L1 of a core, bytes (about 1.5 MB).
L1_BYTES = 1_500_000
TILE_ELEMENTS = 32 * 32
#: Bytes of an element by the words in a dtype's name; block formats share an exponent.
_ELEMENT_BYTES = (
    # One exponent byte per 16 elements: 4 bits + 1/16 byte, 8 bits + 1/16 byte. `in` decides, so
    # that bfloat16 must come before float16.
    ("bfloat4", 0.5625),
    ("bfloat8", 1.0625),
    ("bfloat16", 2.0),
    ("float16", 2.0),
    ("uint16", 2.0),
    ("int8", 1.0),
    ("uint8", 1.0),
    ("float32", 4.0),
    ("int32", 4.0),
    ("uint32", 4.0),
)


class Argument(Struct, frozen=True):
    """A tensor that the measured call got."""

    name: str
    shape: Shape
    dtype: str

    @property
    def bytes(self) -> int:
        """Size in whole tiles of 32 x 32; elements of an unknown dtype count two bytes."""
        return tensor_bytes(self.shape, self.dtype)


class Block(Struct, frozen=True):
    """A dataflow buffer as the source shows it; ``bytes`` per core, None when not visible."""

    name: str
    line: int
    tiles: tuple[int, ...] | None
    factor: int | None
    bytes: int | None


class Facts(Struct, frozen=True):
    """One measured invocation.

    Attributes:
        program: the kernel's own program; None when no PERF SUMMARY was printed.
        duration_us: device time of the program, microseconds.
        available_cores: of the chips that are to be used.
        peak_gb_s: DRAM bandwidth of one chip, 10^9 bytes a second.
        lines: cycles by source line, with the lines of the original file.
    """

    kernel: str
    mode: str
    log: KernelLog
    device: DeviceLog | None
    machine: Machine
    program: Program | None
    duration_us: float | None
    available_cores: int | None
    peak_gb_s: float | None
    arguments: tuple[Argument, ...] = ()
    blocks: tuple[Block, ...] = ()
    lines: tuple[LineCycles, ...] = ()
    production: tuple[tuple[int, ...], ...] = ()
    chips: int = 1
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dram_bytes(self) -> int | None:
        """Bytes read from and written to DRAM."""
        if self.program is None or self.program.dram_read is None:
            return None
        written = self.program.dram_write.bytes if self.program.dram_write else 0
        return self.program.dram_read.bytes + written

    @property
    def block_bytes(self) -> int | None:
        """L1 that the visible dataflow buffers take on a core; None when one is not visible."""
        sizes = [block.bytes for block in self.blocks]
        known = [size for size in sizes if size is not None]
        return sum(known) if known and len(known) == len(sizes) else None

    @property
    def floor_us(self) -> float | None:
        """Time that the DRAM traffic takes at the chip's full bandwidth."""
        if self.dram_bytes is None or not self.peak_gb_s:
            return None
        # 1 GB/s is 1,000 bytes a microsecond.
        return self.dram_bytes / self.peak_gb_s / 1e3


def element_bytes(dtype: str) -> float:
    """Bytes of an element; two for a dtype that is not known."""
    word = dtype.lower()
    return next((size for name, size in _ELEMENT_BYTES if name in word), 2.0)


def tensor_bytes(shape: Sequence[int], dtype: str) -> int:
    """Bytes of a tensor in tiles: the last two extents are rounded up to 32."""
    extents = [*shape[:-2], *(-(-extent // 32) * 32 for extent in shape[-2:])]
    return int(math.prod(extents) * element_bytes(dtype))


def gather(
    log: KernelLog,
    device: DeviceLog | None,
    run: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]] = (),
) -> Facts:
    """Put together what belongs to the measured call.

    Args:
        log: the parsed output.
        device: the device log of the same run, if one was written.
        run: run.json; every key may be absent.
        records: the events of the gate.
    """
    kernel = str(run.get("kernel") or "")
    machine = log.machine if log.machine != Machine() or device is None else device.machine
    program = _own_program(log.programs, kernel.rpartition(".")[2])
    peak, cores = _peaks(machine)
    production = run.get("production") or {}
    arguments = _arguments(records)
    line_map = run.get("line_map") or {}
    return Facts(
        kernel=kernel,
        mode=str(run.get("mode") or ""),
        log=replace(log, buffers=tuple(_mapped(buffer, line_map) for buffer in log.buffers)),
        device=device,
        machine=machine,
        program=program,
        duration_us=_duration(program, machine, device),
        available_cores=cores,
        peak_gb_s=peak,
        arguments=arguments,
        blocks=_blocks(run.get("buffers") or (), arguments),
        lines=tuple(_at_users_line(row, line_map) for row in log.lines),
        production=tuple(tuple(shape) for shape in production.get("shapes") or ()),
        chips=max(int(production.get("chips") or 1), 1),
        run=run,
    )


def _own_program(programs: Sequence[Program], name: str) -> Program | None:
    # The list includes ttnn's own ops: the kernel is taken by its name, else as one without a name.
    named = [program for program in programs if program.name == name]
    others = [program for program in programs if not program.name]
    candidates = named or others or programs
    return max(candidates, key=lambda p: p.duration_cycles or 0, default=None)


def _peaks(machine: Machine) -> tuple[float | None, int | None]:
    """DRAM bandwidth and cores: what the log says, else what is known of its architecture."""
    try:
        known = architecture(machine.arch) if machine.arch else None
    except AnalysisError:
        known = None
    cores = machine.max_cores or (known.worker_cores if known else None)
    return (known.dram_gb_s if known else None), cores


def _duration(program: Program | None, machine: Machine, device: DeviceLog | None) -> float | None:
    if program is not None:
        return exact_us(program, machine.mhz)
    cycles = device.core_cycles() if device is not None else {}
    # The kernel ends with its slowest core.
    return max(cycles.values()) / machine.mhz if cycles and machine.mhz else None


def _arguments(records: Sequence[Mapping[str, Any]]) -> tuple[Argument, ...]:
    started = [r for r in records if r.get("event") == "kernel-start"]
    given = started[0].get("arguments") if started else None
    found = []
    for entry in given if isinstance(given, list) else ():
        with contextlib.suppress(msgspec.ValidationError):
            found.append(converted(entry, Argument))
    return tuple(found)


def _blocks(
    buffers: Sequence[Mapping[str, Any]], arguments: Sequence[Argument]
) -> tuple[Block, ...]:
    # A buffer has the type of the tensor it is made like, which is not in sight: the widest.
    widest = max((element_bytes(a.dtype) for a in arguments), default=2.0)
    found = []
    for entry in buffers:
        tiles = tuple(entry["tiles"]) if entry.get("tiles") else None
        factor = entry.get("factor")
        elements = math.prod(tiles) * TILE_ELEMENTS * (factor or 1) if tiles else None
        size = None if elements is None else int(elements * widest)
        line = int(entry.get("line") or 0)
        found.append(Block(str(entry.get("name")), line, tiles, factor, size))
    return tuple(found)


def _mapped(buffer: Buffer, line_map: Mapping[str, Any]) -> Buffer:
    """A buffer with its ends at the lines of the user's file."""
    names = ("producers", "consumers", "copies")
    moved = {
        name: tuple(_at_users_line(use, line_map) for use in getattr(buffer, name))
        for name in names
    }
    return replace(buffer, **moved)


def _at_users_line(at: At, line_map: Mapping[str, Any]) -> At:
    """A line of the copy as one of the user's file; others, of another numbering, stay."""
    # The map comes from JSON, whose keys are texts.
    return replace(at, line=int(line_map.get(str(at.line), at.line)))
