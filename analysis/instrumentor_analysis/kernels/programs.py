"""PERF SUMMARY, called NOC PROFILER SUMMARY before: one block a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from instrumentor_analysis.kernels.model import Machine, Program, Traffic
from instrumentor_analysis.kernels.text import decimal, integer, size_bytes, sizes

HEAD = re.compile(r"^\W*Program (?P<number>\d+)(?: \((?P<name>.*)\))?\s*-*\s*$")
MACHINE = re.compile(
    r"arch:\s*(?P<arch>\S+?),\s*freq:\s*(?P<mhz>\d+)\s*MHz,\s*max_compute_cores:\s*(?P<cores>\d+)"
)
_GRID = re.compile(r"grid:\s*(\d+)\s*x\s*(\d+)\s*\((\d+) (?:cores?|nodes?)\)")
_DURATION = re.compile(r"duration:\s*(\d[\d,]*) cycles\s*\((\d[\d,.]*) (us|ms|s)\)")
_TRAFFIC = re.compile(r"(DRAM read|DRAM write|L1 read|L1 write|L1 multicast):\s*(.*?)\s*\((\d+)")
_BANDWIDTH = re.compile(r"effective BW:\s*(\d[\d,.]*) GB/s")
_BARRIERS = re.compile(r"barriers:\s*(\d+) read[^,]*,\s*(\d+) write")
_CYCLES = re.compile(
    r"^\W*(?P<thread>BRISC|NCRISC|[TE]RISC_?\w*):?\s+(?P<low>\d[\d,]*) cycles"
    r"(?:\s*\([^)]*\))?(?:\s*-\s*(?P<high>\d[\d,]*) cycles)?"
)
_FIELDS = {
    "DRAM read": "dram_read",
    "DRAM write": "dram_write",
    "L1 read": "l1_read",
    "L1 write": "l1_write",
    "L1 multicast": "multicast",
}
_MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}
#: What a line says of a program, as fields of :class:`Program`.
_Reader: TypeAlias = Callable[[re.Match[str], Program], dict[str, Any]]


def read_machine(lines: Sequence[str]) -> Machine:
    """Architecture, clock and cores, where the heading says them."""
    for line in lines:
        match = MACHINE.search(line)
        if match is not None:
            arch = "" if match["arch"] == "unknown" else match["arch"]
            return Machine(arch, integer(match["mhz"]), integer(match["cores"]) or None)
    return Machine()


def read_programs(lines: Sequence[str]) -> tuple[list[Program], int]:
    """The programs of a summary, and how many it announced (0: it did not say)."""
    found: list[Program] = []
    announced = 0
    for line in lines:
        head = HEAD.match(line)
        if head is not None:
            found.append(Program(integer(head["number"]) or 0, head["name"] or ""))
        elif found:
            found[-1] = _with_line(found[-1], line)
        else:
            match = re.search(r"programs:\s*(\d+)", line)
            announced = (integer(match[1]) or 0) if match else announced
    return found, announced


def _with_line(program: Program, line: str) -> Program:
    """The program with what one line adds to it; any other line leaves it as it is."""
    for pattern, read in _READERS:
        match = pattern.search(line)
        if match is not None:
            return replace(program, **read(match, program))
    return program


def _grid(match: re.Match[str], _: Program) -> dict[str, Any]:
    columns, rows, cores = (integer(part) or 0 for part in match.groups())
    return {"grid": (columns, rows), "cores": cores}


def _duration(match: re.Match[str], _: Program) -> dict[str, Any]:
    time = decimal(match[2])
    microseconds = None if time is None else time * _MICROSECONDS[match[3]]
    return {"duration_cycles": integer(match[1]), "duration_us": microseconds}


def _traffic(match: re.Match[str], _: Program) -> dict[str, Any]:
    size, count = size_bytes(match[2]), integer(match[3])
    known = size is not None and count is not None
    return {_FIELDS[match[1]]: Traffic(size or 0, count or 0)} if known else {}


def _barriers(match: re.Match[str], _: Program) -> dict[str, Any]:
    return {"barriers": (integer(match[1]) or 0, integer(match[2]) or 0)}


def _cycles(match: re.Match[str], program: Program) -> dict[str, Any]:
    low = integer(match["low"])
    high = integer(match["high"]) if match["high"] else low
    known = low is not None and high is not None
    found = {match["thread"]: (low, high)} if known else {}
    return {"kernel_cycles": {**program.kernel_cycles, **found}}


def _transfer_sizes(match: re.Match[str], _: Program) -> dict[str, Any]:
    if match[1]:
        return {"transfer_sizes": sizes(match[2])}
    size = size_bytes(match[2])
    return {} if size is None else {"transfer_sizes": {size: 0}}


def _count(name: str) -> _Reader:
    def read(match: re.Match[str], _: Program) -> dict[str, Any]:
        return {name: integer(match[1]) or 0}

    return read


_READERS: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (_GRID, _grid),
    (_DURATION, _duration),
    (_TRAFFIC, _traffic),
    (_BANDWIDTH, lambda match, _: {"bandwidth_gb_s": decimal(match[1])}),
    (_BARRIERS, _barriers),
    (_CYCLES, _cycles),
    (re.compile(r"^\s*transfer size(s?):(.*)"), _transfer_sizes),
    (re.compile(r"^\s*semaphores:\s*(\d[\d,]*)"), _count("semaphores")),
    (re.compile(r"^\s*DRAM channels:\s*(\d[\d,]*)"), _count("dram_channels")),
)


def exact_us(program: Program, mhz: int | None) -> float | None:
    """Duration in microseconds: from the cycles when the clock is known, else as printed.

    What is printed is rounded: to 10 us above a millisecond.
    """
    if program.duration_cycles is not None and mhz:
        return program.duration_cycles / mhz
    return program.duration_us
