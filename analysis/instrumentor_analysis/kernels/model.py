"""The values that the parsers of tt-lang's output give. Cycles are device clock cycles."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

#: RISC cores that compute; the others move data.
COMPUTERS = ("TRISC_0", "TRISC_1", "TRISC_2")


class Section(Struct, frozen=True):
    """How far one printed section was read.

    Attributes:
        kind: stable word: threads, thread-lines, roofline, programs, flow, pipes, signposts.
        title: the marker as printed.
        line: 1-based line of the log where it begins.
        end_line: the last line read.
        read: entries that were read.
        complete: whether it ended as it should.
        problem: where and why reading stopped; empty when complete.
    """

    kind: str
    title: str
    line: int
    end_line: int
    read: int
    complete: bool
    problem: str = ""


class ThreadCycles(Struct, frozen=True):
    """A row of THREAD SUMMARY.

    Attributes:
        thread: RISC core, such as NCRISC or TRISC_1.
        function: the kernel's thread function, or an empty string.
        cycles: sum over its measured operations.
        operations: how many were measured.
        percent: of the longest thread.
    """

    thread: str
    function: str
    cycles: int
    operations: int
    percent: float


class Operation(Struct, frozen=True):
    """A part of a source line: ``cb_wait``, ``cb_push`` ...; cycles over ``count`` times."""

    name: str
    cycles: int
    count: int = 1
    implicit: bool = False


class LineCycles(Struct, frozen=True):
    """Cycles of one source line on one thread.

    Attributes:
        line: number in the profiled file.
        cycles: total over ``count`` times.
        percent: of the thread's cycles.
        low, high: cycles of one time, where printed.
    """

    thread: str
    function: str
    line: int
    source: str
    cycles: int
    percent: float
    count: int = 1
    low: int | None = None
    high: int | None = None
    operations: tuple[Operation, ...] = ()


class Roofline(Struct, frozen=True):
    """Work of the threads without their waits.

    Attributes:
        total, waits: cycles by thread; empty when only the verdict was printed.
        memory, compute: cycles of the busiest mover and of the busiest computer.
        percent: how much the bound one exceeds the other, percent of itself.
        bound: memory, compute or balanced.
    """

    percent: float
    bound: str
    memory: int | None = None
    compute: int | None = None
    total: Mapping[str, int] = field(default_factory=dict)
    waits: Mapping[str, int] = field(default_factory=dict)


class Traffic(Struct, frozen=True):
    """Bytes (as printed, so rounded to a tenth of their unit) and number of transfers."""

    bytes: int
    transfers: int


class Program(Struct, frozen=True):
    """One program of a PERF or NOC PROFILER SUMMARY.

    Attributes:
        number: the program's id.
        grid: columns, rows.
        duration_cycles, duration_us: of the whole program.
        bandwidth_gb_s: payload over duration, 10^9 bytes a second.
        transfer_sizes: bytes of a transfer -> how many; 0 when all have that size.
        barriers: reads, writes.
        kernel_cycles: thread -> least, most cycles over the cores.
    """

    number: int
    name: str = ""
    grid: tuple[int, int] | None = None
    cores: int | None = None
    duration_cycles: int | None = None
    duration_us: float | None = None
    dram_read: Traffic | None = None
    dram_write: Traffic | None = None
    l1_read: Traffic | None = None
    l1_write: Traffic | None = None
    multicast: Traffic | None = None
    bandwidth_gb_s: float | None = None
    transfer_sizes: Mapping[int, int] = field(default_factory=dict)
    barriers: tuple[int, int] | None = None
    semaphores: int = 0
    dram_channels: int | None = None
    kernel_cycles: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class Machine(Struct, frozen=True):
    """The line below the heading of a PERF SUMMARY, or the first line of the device log."""

    arch: str = ""
    mhz: int | None = None
    max_cores: int | None = None


class BufferUse(Struct, frozen=True):
    """An operation on a dataflow buffer: where, what, and for copies in which direction."""

    function: str
    thread: str
    line: int
    operation: str
    direction: str = ""


class Buffer(Struct, frozen=True):
    """A dataflow (circular) buffer with its ends.

    Attributes:
        producers, consumers: reserves and waits.
        copies: transfers from or to DRAM.
    """

    index: int
    name: str = ""
    producers: tuple[BufferUse, ...] = ()
    consumers: tuple[BufferUse, ...] = ()
    copies: tuple[BufferUse, ...] = ()


class Pipe(Struct, frozen=True):
    """A pipe between cores; ends as printed."""

    source: str
    target: str


class SignpostRow(Struct, frozen=True):
    """Cycles of a user's signpost on one thread; with one occurrence all four are the same."""

    name: str
    thread: str
    count: int
    total: int
    average: int
    least: int
    most: int


class KernelLog(Struct, frozen=True):
    """Everything that was found in a log, in the order of the log."""

    machine: Machine = Machine()
    threads: tuple[ThreadCycles, ...] = ()
    lines: tuple[LineCycles, ...] = ()
    roofline: Roofline | None = None
    programs: tuple[Program, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    pipes: tuple[Pipe, ...] = ()
    signposts: tuple[SignpostRow, ...] = ()
    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()

    def summaries(self, kind: str) -> int:
        """How many sections of a kind were printed: more than one means several calls ran."""
        return sum(1 for section in self.sections if section.kind == kind)
