"""PERF SUMMARY, called NOC PROFILER SUMMARY before: one block a program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

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
    if match := _GRID.search(line):
        columns, rows, cores = (integer(part) or 0 for part in match.groups())
        return replace(program, grid=(columns, rows), cores=cores)
    if match := _DURATION.search(line):
        time = decimal(match[2])
        return replace(
            program,
            duration_cycles=integer(match[1]),
            duration_us=None if time is None else time * _MICROSECONDS[match[3]],
        )
    if match := _TRAFFIC.search(line):
        size, count = size_bytes(match[2]), integer(match[3])
        if size is None or count is None:
            return program
        return _with_traffic(program, _FIELDS[match[1]], Traffic(size, count))
    if match := _BANDWIDTH.search(line):
        return replace(program, bandwidth_gb_s=decimal(match[1]))
    if match := _BARRIERS.search(line):
        return replace(program, barriers=(integer(match[1]) or 0, integer(match[2]) or 0))
    if match := _CYCLES.match(line):
        low = integer(match["low"])
        high = integer(match["high"]) if match["high"] else low
        if low is None or high is None:
            return program
        return replace(
            program, kernel_cycles={**program.kernel_cycles, match["thread"]: (low, high)}
        )
    return _with_rest(program, line)


def _with_traffic(program: Program, name: str, traffic: Traffic) -> Program:
    if name == "dram_read":
        return replace(program, dram_read=traffic)
    if name == "dram_write":
        return replace(program, dram_write=traffic)
    if name == "l1_read":
        return replace(program, l1_read=traffic)
    if name == "l1_write":
        return replace(program, l1_write=traffic)
    return replace(program, multicast=traffic)


def _with_rest(program: Program, line: str) -> Program:
    label, _, value = line.strip().partition(":")
    if label == "transfer size":
        size = size_bytes(value)
        return program if size is None else replace(program, transfer_sizes={size: 0})
    if label == "transfer sizes":
        return replace(program, transfer_sizes=sizes(value))
    first = integer(value.strip().partition(" ")[0])
    if label == "semaphores" and first is not None:
        return replace(program, semaphores=first)
    if label == "DRAM channels" and first is not None:
        return replace(program, dram_channels=first)
    return program


def exact_us(program: Program, mhz: int | None) -> float | None:
    """Duration in microseconds: from the cycles when the clock is known, else as printed.

    What is printed is rounded: to 10 us above a millisecond.
    """
    if program.duration_cycles is not None and mhz:
        return program.duration_cycles / mhz
    return program.duration_us
