"""What is wrong with a measured kernel, the bottleneck first, with what to change and its worth.

The goals are tt-lang's own, in this order: all cores busy, little DRAM traffic, large blocks. A
gain is an upper bound: no kernel gets faster than its DRAM traffic at the chip's full bandwidth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from instrumentor_analysis.kernels.facts import L1_BYTES, Facts, tensor_bytes
from instrumentor_analysis.kernels.model import COMPUTERS, Program
from instrumentor_analysis.shared.units import quantity, size

GOALS = {
    1: "use all cores",
    2: "reduce DRAM traffic",
    3: "larger blocks",
    0: "measurement",
    4: "correct first",
}
#: Below this share of the cores the grid is the bottleneck.
CORES_SHARE = 0.9
#: Tensors and traffic that agree within this factor count as read once.
REDUNDANT = 1.1
#: Below this many transfers a barrier, blocks are too small to hide the latency.
SMALL_BURST = 4
#: The largest transfer that is small, bytes: a tile of float32, or two of bfloat16.
SMALL_BYTES = 4096
#: With fewer transfers in all their size does not matter.
MANY_TRANSFERS = 256
#: Cores whose times differ by more than this share are not evenly loaded.
IMBALANCE = 0.2
#: Share of a thread's cycles that it may wait before it counts as stalled.
STALL_SHARE = 0.3
#: Share of the chip's DRAM bandwidth below which that is a finding.
LOW_BANDWIDTH = 0.3
#: Share of L1 that a larger block may take: the rest is for code, stacks and semaphores.
USABLE_L1 = 0.9
_WAITS = ("cb_wait", "cb_reserve")
#: Each reserve has its push and each wait its pop, unless markers were dropped.
_PAIRS = (("cb_reserve", "cb_push"), ("cb_wait", "cb_pop"))


class Try(Struct, frozen=True):
    """An edit of one number that a finding names.

    Attributes:
        of: block_count (of a buffer), block (what the blocks' extents are called) or grid.
        name: the buffer.
        to: the number of blocks.
        times: by how much the blocks are to grow.
    """

    of: str
    name: str = ""
    to: int | None = None
    times: int | None = None


class Finding(Struct, frozen=True):
    """One observation.

    Attributes:
        kind: stable word.
        goal: 1 cores, 2 DRAM traffic, 3 block size, 4 correct first, 0 for the measurement itself.
        title: what it is.
        evidence: the figures.
        change: what to do.
        gain: the most that it can bring, times faster; None when it cannot be told.
        limits: whether this is a bottleneck, not only a remark.
        tries: of what is to be done, the edits of one number.
    """

    kind: str
    goal: int
    title: str
    evidence: str
    change: str
    gain: float | None = None
    limits: bool = False
    tries: tuple[Try, ...] = ()

    @property
    def worth(self) -> str:
        """The gain in words."""
        if self.gain is None:
            return "not known"
        return "negligible" if self.gain < 1.05 else f"at most {self.gain:.2g}x"


def findings(facts: Facts) -> tuple[Finding, ...]:
    """All findings: bottlenecks by the order of the goals, then remarks."""
    found = [finding for rule in _RULES for finding in rule(facts)]
    # Goal 0, the measurement itself, comes last.
    return tuple(sorted(found, key=lambda f: (not f.limits, f.goal or 9)))


def bottleneck(facts: Facts, found: tuple[Finding, ...]) -> Finding | None:
    """The first goal that is missed; else what bounds the kernel; None when nothing is known."""
    limiting = next((finding for finding in found if finding.limits), None)
    roofline = facts.log.roofline
    if limiting is not None or roofline is None or roofline.bound == "balanced":
        return limiting
    work = "as tt-lang's THREAD SUMMARY says"
    if roofline.memory is not None and roofline.compute is not None:
        work = (
            f"data movement {roofline.memory:,} cycles of work, compute {roofline.compute:,}, "
            "waits left out"
        )
    if roofline.bound == "compute":
        return Finding(
            "compute-bound",
            0,
            f"{roofline.percent:.0f} % compute bound: the math itself takes the time",
            work,
            "Restructure the math: fewer or cheaper operations, a lower math fidelity, work "
            "shared by the compute threads of more cores.",
        )
    return Finding(
        "memory-bound",
        2,
        f"{roofline.percent:.0f} % memory bound: data movement takes the time",
        work,
        "Overlap more: a higher buffer_factor, reads and writes on both data movement "
        "threads, data that is reused kept in L1.",
        _memory_gain(facts),
    )


def _memory_gain(facts: Facts) -> float | None:
    if not facts.duration_us or not facts.floor_us:
        return None
    return max(facts.duration_us / facts.floor_us, 1.0)


def _capped(facts: Facts, gain: float) -> float:
    """A gain, but no faster than the DRAM traffic allows."""
    return min(gain, _memory_gain(facts) or gain)


def used_cores(facts: Facts) -> int | None:
    """Cores of a chip that ran the kernel: as printed, else those in the device log."""
    if facts.program is not None and facts.program.cores:
        return facts.program.cores
    cores = facts.device.core_cycles() if facts.device is not None else {}
    return max(Counter(device for device, _, _ in cores).values(), default=None)


def _cores(facts: Facts) -> Iterator[Finding]:
    used, available = used_cores(facts), facts.available_cores
    if not used or not available or used >= available:
        return
    share, most = used / available, available / used
    grid = facts.program.grid if facts.program else None
    capped = _capped(facts, most)
    evidence = f"{used} of {available} cores ({share:.0%})"
    evidence += f", grid {grid[0]}x{grid[1]}" if grid else ""
    if capped != most:
        evidence += f"; {most:.3g}x more cores, but then DRAM is the limit"
    yield Finding(
        "single-core" if used == 1 else "unused-cores",
        1,
        "the kernel runs on a single core" if used == 1 else f"{available - used} cores are idle",
        evidence,
        'Distribute the blocks over the grid: grid="auto" (or "full"), ttl.grid_size() and '
        "ttl.node() in every thread, blocks per core rounded up, and bounds checks for the rest.",
        capped,
        limits=share < CORES_SHARE,
    )


def _traffic(facts: Facts) -> Iterator[Finding]:
    program = facts.program
    if program is None or program.dram_read is None or len(facts.arguments) < 2:
        return
    # The last argument is the output, as tt-lang's kernels have it.
    inputs = sum(argument.bytes for argument in facts.arguments[:-1])
    output = facts.arguments[-1].bytes
    read, written = program.dram_read.bytes, program.dram_write.bytes if program.dram_write else 0
    if read <= REDUNDANT * inputs and written <= REDUNDANT * output:
        return
    excess = max(read - inputs, 0) + max(written - output, 0)
    memory = facts.log.roofline is None or facts.log.roofline.bound != "compute"
    yield Finding(
        "redundant-traffic",
        2,
        f"data is moved {(read + written) / max(inputs + output, 1):.1f} times",
        f"read {size(read)} for inputs of {size(inputs)}, wrote {size(written)} "
        f"for an output of {size(output)}",
        "Keep what is used again in L1 (a buffer that is filled once, or multicast over a pipe), "
        "and fuse kernels that hand a tensor to each other through DRAM.",
        (read + written) / max(read + written - excess, 1) if memory else None,
        limits=memory,
    )


def _chained(facts: Facts) -> Iterator[Finding]:
    """Kernels of the script that hand a tensor to each other through DRAM."""
    pairs = [pair for pair in facts.run.get("chained") or () if isinstance(pair, Mapping)]
    if pairs:
        yield Finding(
            "kernels-chained",
            2,
            "kernels hand tensors to each other through DRAM",
            ", ".join(f"{p.get('tensor')} from {p.get('from')} to {p.get('to')}" for p in pairs),
            "Fuse them into one kernel: the intermediate then stays in dataflow buffers.",
        )


def _blocks(facts: Facts) -> Iterator[Finding]:
    taken = facts.block_bytes
    if taken is not None and taken > L1_BYTES:
        yield Finding(
            "blocks-above-l1",
            3,
            "the dataflow buffers are larger than L1",
            f"{size(taken)} of about {size(L1_BYTES)} a core",
            "Make the blocks smaller, or lower buffer_factor.",
        )
    elif facts.program is not None and facts.program.dram_read is not None:
        yield from _small_blocks(facts, facts.program, facts.program.dram_read.transfers)


def _small_blocks(facts: Facts, program: Program, reads: int) -> Iterator[Finding]:
    transfers = reads + (program.dram_write.transfers if program.dram_write else 0)
    barriers = program.barriers or (0, 0)
    # Without counted barriers nothing is known of bursts, and that must not become a finding.
    bursts = transfers / sum(barriers) if sum(barriers) else SMALL_BURST
    small = max(program.transfer_sizes, default=0) <= SMALL_BYTES
    if not small or transfers < MANY_TRANSFERS or bursts >= SMALL_BURST:
        return
    size = facts.block_bytes
    grow = _growth(L1_BYTES * USABLE_L1 / size if size else None)
    where = "" if size is None else f"; buffers take {size / L1_BYTES:.0%} of L1"
    sizes = ", ".join(f"{each:,} B" for each in sorted(program.transfer_sizes)) or "unknown size"
    change = "The buffers fill L1: lower buffer_factor before enlarging shape=(R, C)."
    if grow > 1:
        change = (
            f"Enlarge shape=(R, C) of the dataflow buffers, by {grow}x at a time as long as they "
            "fit L1, so that each wait covers more transfers."
        )
    yield Finding(
        "small-blocks",
        3,
        f"{transfers:,} transfers of {sizes}, {bursts:.1f} between two waits",
        f"{barriers[0]} read and {barriers[1]} write barriers{where}",
        change,
        _capped(facts, float(grow)) if grow > 1 else None,
        limits=grow > 1,
    )


def _growth(room: float | None) -> int:
    """The largest power of two by which the blocks can grow and still fit, at most 16."""
    if room is None:
        return 2
    return min(2 ** int(math.log2(room)), 16) if room >= 2 else 1


def _balance(facts: Facts) -> Iterator[Finding]:
    spans = facts.program.kernel_cycles if facts.program else {}
    longest = max((high for _, high in spans.values()), default=0)
    spreads = [
        ((high - low) / longest, f"{thread} takes {low:,} to {high:,} cycles")
        for thread, (low, high) in spans.items()
        if longest > 0
    ]
    cores = facts.device.core_cycles() if facts.device else {}
    low, high = min(cores.values(), default=0), max(cores.values(), default=0)
    if high > low:
        _, x, y = max(cores, key=lambda core: cores[core])
        words = f"cores take {low:,} to {high:,} cycles, ({x}, {y}) the most"
        spreads.append(((high - low) / high, words))
    share, words = max(spreads, default=(0.0, ""))
    if share > IMBALANCE:
        yield Finding(
            "imbalanced-cores",
            1,
            f"cores are not evenly loaded: {share:.0%} between the fastest and the slowest",
            words,
            "Distribute the blocks evenly: a grid that divides their number, or the rest spread "
            "over all cores.",
            # Balanced, every core would take the mean of them.
            high * len(cores) / sum(cores.values()) if high else None,
        )


def _stalls(facts: Facts) -> Iterator[Finding]:
    shares = {
        thread: (waits / total, waits, total)
        for thread, (total, waits) in _thread_waits(facts).items()
        if total and waits / total > STALL_SHARE
    }
    if shares:
        computing = any(thread in COMPUTERS for thread in shares)
        yield Finding(
            "stalls",
            2,
            "threads stall: " + ", ".join(f"{t} {s[0]:.0%}" for t, s in shares.items()),
            "; ".join(f"{t} waits {s[1]:,} of {s[2]:,} cycles" for t, s in shares.items()),
            ("The math waits for data: " if computing else "")
            + "see the lines marked as waiting. A higher buffer_factor overlaps more; several "
            "copies started before the first wait() do too.",
        )


def _thread_waits(facts: Facts) -> Mapping[str, tuple[int, int]]:
    roofline = facts.log.roofline
    if roofline is not None and roofline.total:
        return {t: (roofline.total[t], roofline.waits.get(t, 0)) for t in roofline.total}
    found: dict[str, tuple[int, int]] = {}
    for row in facts.lines:
        waits = sum(part.cycles for part in row.operations if part.name in _WAITS)
        total, before = found.get(row.thread, (0, 0))
        found[row.thread] = total + row.cycles, before + waits
    return found


def _bandwidth(facts: Facts) -> Iterator[Finding]:
    program = facts.program
    if program is None or program.bandwidth_gb_s is None or not facts.peak_gb_s:
        return
    share = program.bandwidth_gb_s / facts.peak_gb_s
    compute = facts.log.roofline is not None and facts.log.roofline.bound == "compute"
    if share >= LOW_BANDWIDTH or compute:
        return
    yield Finding(
        "low-bandwidth",
        2,
        f"{quantity(program.bandwidth_gb_s, 'GB/s')}, {share:.0%} of the chip's "
        f"{facts.peak_gb_s:.0f}",
        f"{size(facts.dram_bytes or 0)} in {quantity(facts.duration_us, 'us')}",
        "More cores and larger blocks keep more transfers under way.",
        _memory_gain(facts),
    )


def _fit(facts: Facts) -> Iterator[Finding]:
    """Test data that fits L1 hides what production will do."""
    if not facts.production or not facts.arguments:
        return
    # 64 are the worker cores of Wormhole.
    cores = (facts.available_cores or 64) * facts.chips
    room = cores * L1_BYTES
    test = sum(argument.bytes for argument in facts.arguments)
    shapes = facts.production
    production = sum(
        tensor_bytes(shapes[at] if at < len(shapes) else shapes[-1], argument.dtype)
        for at, argument in enumerate(facts.arguments)
    )
    if test <= room < production:
        yield Finding(
            "fits-only-in-test",
            0,
            "the test data fits L1, production's does not",
            f"{size(test)} here, {size(production)} in production; L1 of {cores} cores "
            f"holds about {size(room)}",
            "Do not keep whole tensors in L1: stream them through small buffers, and measure with "
            "a shape that does not fit either.",
        )


def _pairs(facts: Facts) -> Iterator[Finding]:
    counts: Counter[tuple[str, str]] = Counter()
    for row in facts.lines:
        for part in row.operations:
            counts[row.thread, part.name] += part.count
    for thread in dict.fromkeys(thread for thread, _ in counts):
        for begin, end in _PAIRS:
            begins, ends = counts[thread, begin], counts[thread, end]
            if begins and ends and begins != ends:
                yield Finding(
                    "unequal-counts",
                    0,
                    f"{thread}: {begins} {begin} but {ends} {end}",
                    "a core keeps 125 signposts and drops the others silently",
                    "Cycles of these lines are too low: profile fewer iterations (a smaller "
                    "tensor), or mark single regions with ttl.signpost() and --mode signposts. "
                    "If the numbers are right, a block is reserved and never pushed.",
                )


def _markers(facts: Facts) -> Iterator[Finding]:
    if facts.device is None:
        return
    unpaired, full = facts.device.unpaired(), facts.device.at_limit()
    if unpaired:
        first = unpaired[0]
        yield Finding(
            "dropped-markers",
            0,
            f"{len(unpaired)} zones of the device log have unequal begins and ends",
            f"the first: {first.key.zone} on {first.key.risc} of core ({first.key.x}, "
            f"{first.key.y}), {first.begins} begins and {first.ends} ends",
            "Markers were dropped: profile fewer iterations.",
        )
    elif full:
        yield Finding(
            "marker-limit",
            0,
            f"{len(full)} core{'s' * (len(full) > 1)} kept 125 zones, which is all they can",
            "what came after is missing",
            "Profile fewer iterations, or mark single regions with ttl.signpost().",
        )


def _repeated(facts: Facts) -> Iterator[Finding]:
    times = max(facts.log.summaries(kind) for kind in ("threads", "programs", "signposts"))
    if times > 1:
        yield Finding(
            "several-outputs",
            0,
            f"{times} profiles were printed: more than one kernel ran",
            "each call reads the whole device log, so repeated calls are mixed",
            "Kernels of installed packages are not skipped: call only one of them.",
        )


#: Every rule: what it sees wrong in the facts.
_RULES = (
    _cores,
    _traffic,
    _chained,
    _blocks,
    _balance,
    _stalls,
    _bandwidth,
    _fit,
    _pairs,
    _markers,
    _repeated,
)
