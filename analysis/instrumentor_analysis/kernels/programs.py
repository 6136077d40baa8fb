"""PERF SUMMARY, called NOC PROFILER SUMMARY before: one block a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from instrumentor_analysis.kernels.model import Machine, Program, Traffic
from instrumentor_analysis.kernels.text import (
    DECIMAL,
    NUMBER,
    SIZE,
    count,
    decimal,
    size_bytes,
    sizes,
)

HEAD = re.compile(rf"^\W*Program (?P<number>{NUMBER})(?: \((?P<name>.*)\))?[\s-]*$")
_MACHINE = re.compile(
    rf"arch:\s*([^\s:]+?),\s*freq:\s*({NUMBER})\s*MHz,\s*max_compute_cores:\s*({NUMBER})"
)
_ANNOUNCED = re.compile(rf"programs:\s*({NUMBER})")
#: Words of a line of traffic, and the fields of a program.
_FIELDS = {
    "DRAM read": "dram_read",
    "DRAM write": "dram_write",
    "L1 read": "l1_read",
    "L1 write": "l1_write",
    "L1 multicast": "multicast",
}
_MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}
#: What the groups of a match say of a program, as fields of :class:`Program`.
_Reader: TypeAlias = Callable[[tuple[str, ...]], dict[str, Any]]


def read_machine(lines: Sequence[str]) -> Machine | None:
    """Architecture, clock and cores, where the heading says them."""
    for match in filter(None, map(_MACHINE.search, lines)):
        arch = "" if match[1] == "unknown" else match[1]
        return Machine(arch, count(match[2]), count(match[3]) or None)
    return None


def read_programs(lines: Sequence[str]) -> tuple[list[Program], int]:
    """The programs of a summary, and how many it announced (0: it did not say)."""
    found: list[Program] = []
    cycles: list[dict[str, tuple[int, int]]] = []
    announced = 0
    for line in lines:
        head = HEAD.match(line)
        if head is not None:
            found.append(Program(count(head["number"]), head["name"] or ""))
            cycles.append({})
        elif found:
            found[-1] = _with_line(found[-1], cycles[-1], line)
        else:
            match = _ANNOUNCED.search(line)
            announced = count(match[1]) if match else announced
    whole = [replace(each, kernel_cycles=c) for each, c in zip(found, cycles, strict=True)]
    return whole, announced


def _with_line(program: Program, cycles: dict[str, tuple[int, int]], line: str) -> Program:
    """The program with what one line adds to it; any other line leaves it as it is.

    Args:
        cycles: of its kernels, by thread.
    """
    kernel = _KERNEL.search(line)
    if kernel is not None:
        thread, low, high = kernel.groups()
        cycles[thread] = count(low), count(high or low)
        return program
    for pattern, read in _READERS:
        match = pattern.search(line)
        if match is not None:
            return replace(program, **read(match.groups("")))
    return program


# ERISC are the cores behind the Ethernet links.
_KERNEL = re.compile(
    rf"^\W*(BRISC|NCRISC|[TE]RISC_?\w*):?\s+({NUMBER}) cycles"
    rf"(?:\s*\([^)]*\))?(?:\s*-\s*({NUMBER}) cycles)?"
)
_READERS: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (
        re.compile(rf"grid:\s*({NUMBER})\s*x\s*({NUMBER})\s*\(({NUMBER}) (?:cores?|nodes?)\)"),
        lambda said: {"grid": (count(said[0]), count(said[1])), "cores": count(said[2])},
    ),
    (
        re.compile(rf"duration:\s*({NUMBER}) cycles\s*\(({DECIMAL}) (us|ms|s)\)"),
        lambda said: {
            "duration_cycles": count(said[0]),
            "duration_us": decimal(said[1]) * _MICROSECONDS[said[2]],
        },
    ),
    (
        re.compile(rf"({'|'.join(_FIELDS)}):\s*({SIZE})[^:]*?\(({NUMBER})"),
        lambda said: {_FIELDS[said[0]]: Traffic(size_bytes(said[1]), count(said[2]))},
    ),
    (
        re.compile(rf"effective BW:\s*({DECIMAL}) GB/s"),
        lambda said: {"bandwidth_gb_s": decimal(said[0])},
    ),
    (
        re.compile(rf"barriers:\s*({NUMBER}) read[^,:]*,\s*({NUMBER}) write"),
        lambda said: {"barriers": (count(said[0]), count(said[1]))},
    ),
    (re.compile(r"^\s*transfer sizes:(.*)"), lambda said: {"transfer_sizes": sizes(said[0])}),
    (
        re.compile(rf"^\s*transfer size:\s*({SIZE})"),
        lambda said: {"transfer_sizes": {size_bytes(said[0]): 0}},
    ),
    (re.compile(rf"^\s*semaphores:\s*({NUMBER})"), lambda said: {"semaphores": count(said[0])}),
    (
        re.compile(rf"^\s*DRAM channels:\s*({NUMBER})"),
        lambda said: {"dram_channels": count(said[0])},
    ),
)


def exact_us(program: Program, mhz: int | None) -> float | None:
    """Duration in microseconds: from the cycles when the clock is known, else as printed.

    What is printed is rounded: to 10 us above a millisecond.
    """
    if program.duration_cycles is not None and mhz:
        return program.duration_cycles / mhz
    return program.duration_us
