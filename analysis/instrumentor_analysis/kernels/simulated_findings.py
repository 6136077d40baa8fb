"""What is wrong with a simulated kernel: correct first, then nodes, traffic, blocks.

Each finding names threads, tensors and buffers as the source does, says what was counted, and which
edit to try; only a rerun shows what the edit is worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from instrumentor_analysis.kernels.findings import (
    CORES_SHARE,
    REDUNDANT,
    SMALL_BURST,
    USABLE_L1,
    Finding,
    Try,
)
from instrumentor_analysis.kernels.simulation import Copied, Simulation, Used, listed
from instrumentor_analysis.shared.units import size

CORRECT, CORES, TRAFFIC, BLOCKS = 4, 1, 2, 3
#: Above this share of waits that found nothing, whoever fills the buffer is behind.
BEHIND = 0.5
#: The busiest node over the mean of all, above which the rest waits for it.
UNEVEN = 1.25
#: With fewer copies on every node their size does not matter.
FEW_COPIES = 16


class Simulated(Struct, frozen=True):
    """A simulation, and what the source and the run say about its kernel.

    Attributes:
        run: run.json; every key may be absent.
        cores: of the chip that the kernel is for.
    """

    simulation: Simulation
    run: Mapping[str, Any]
    cores: int = 0

    def line_of(self, name: str) -> str:
        """Where the source defines a buffer or a thread: `` (line 12)``, else nothing."""
        known = [*(self.run.get("buffers") or ()), *(self.run.get("threads") or ())]
        lines = [entry["line"] for entry in known if entry.get("name") == name]
        return f" (line {lines[0]})" if lines else ""

    def named(self, name: str) -> str:
        """A buffer or thread with its line."""
        return name + self.line_of(name)


def simulated_findings(facts: Simulated) -> tuple[Finding, ...]:
    """All findings, those that limit the kernel first; within these the rules' order."""
    found = [finding for rule in _ALWAYS for finding in rule(facts)]
    if facts.simulation.complete:
        found += [finding for rule in _WHOLE for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: not finding.limits))


# -- correct or not ----------------------------------------------------------------------------


def _deadlock(facts: Simulated) -> Iterator[Finding]:
    problem = facts.simulation.problem
    if problem is None or problem.kind != "deadlock" or not problem.blocked:
        return
    waits = [
        f"{row.thread} waits at line {row.line} "
        f"{'for a block of' if row.operation == 'wait' else 'for room in'} {row.buffer} "
        f"({plural(len(row.nodes), 'node')}: {_nodes(facts, row.nodes)})"
        for row in problem.blocked
    ]
    first = problem.blocked[0]
    asked = "a block of" if first.operation == "wait" else "room in"
    yield Finding(
        "deadlock",
        CORRECT,
        f"deadlock: {first.thread} waits for {asked} {first.buffer} and nothing will give it",
        "; ".join([*waits, *_balances(facts)]),
        _way_out(facts),
        limits=True,
    )


def _nodes(facts: Simulated, nodes: Sequence[int]) -> str:
    return listed([facts.simulation.coordinates(node) for node in nodes])


def _balances(facts: Simulated) -> Iterator[str]:
    """What each buffer of a deadlock got and gave, on the first node that hangs."""
    simulation = facts.simulation
    assert simulation.problem is not None
    for row in simulation.problem.blocked:
        ends = [
            f"{thread} {done} {count}"
            for what, done in (("push", "pushed"), ("pop", "popped"))
            for thread, count in _by_thread(simulation, row.buffer, what, row.nodes[0])
        ]
        if ends:
            yield f"{facts.named(row.buffer)}: {', '.join(ends)}"


def _by_thread(
    simulation: Simulation, buffer: str, what: str, node: int
) -> Iterator[tuple[str, int]]:
    for row in simulation.blocks:
        if (row.node, row.buffer, row.operation) == (node, buffer, what):
            yield row.thread, row.count


def _way_out(facts: Simulated) -> str:
    simulation, problem = facts.simulation, facts.simulation.problem
    assert problem is not None
    stuck = {row.thread for row in problem.blocked}
    for row in problem.blocked:
        other_end = "push" if row.operation == "wait" else "pop"
        others = [t for t, _ in _by_thread(simulation, row.buffer, other_end, row.nodes[0])]
        others = [t for t in others if t != row.thread]
        if not others and other_end == "push":
            return f"No thread ever pushes a block of {row.buffer}: reserve and push it in one."
        ended = [thread for thread in others if thread not in stuck]
        if ended:
            return (
                f"{facts.named(ended[0])} has ended, {facts.named(row.thread)} has not: make both "
                f"loops use {row.buffer} equally often."
            )
    return (
        "The threads wait for each other: let them take and give the buffers in the same order, or "
        "hold fewer blocks at once (block_count bounds how many)."
    )


def _error(facts: Simulated) -> Iterator[Finding]:
    problem = facts.simulation.problem
    if problem is not None and problem.kind == "error":
        where = f"{problem.thread}, line {problem.line}" if problem.line else "in the simulator"
        kind, title, change = "error", f"the kernel fails in {where}", "Mend that line"
        if problem.lacks:
            kind, title = "simulator-lacks", f"the simulator does not know what {where} says"
            change = (
                "It may well be right: say it as the simulator knows it, or measure on a device"
            )
        said = problem.message.splitlines()[0] if problem.message else "no message"
        ends = f"{change}. The counts below end there."
        yield Finding(kind, CORRECT, title, said, ends, limits=True)


def _wrong(facts: Simulated) -> Iterator[Finding]:
    verdict = facts.run.get("validation")
    if not isinstance(verdict, Mapping) or verdict.get("ok"):
        return
    seen, later = f"{verdict.get('by')}: {verdict.get('detail')}", verdict.get("later")
    if later:
        yield Finding(
            "wrong-later",
            CORRECT,
            f"a check of the script fails, {plural(later, 'call')} after this one",
            seen,
            "It may be about any of them: watch another with --call N.",
            limits=True,
        )
    else:
        yield Finding(
            "wrong-result",
            CORRECT,
            "the result is wrong",
            seen,
            "See which tensors are moved how often below, and what is said of them under Also.",
            limits=True,
        )


def _l1(facts: Simulated) -> Iterator[Finding]:
    simulation = facts.simulation
    used, limit = simulation.l1_bytes, simulation.l1_limit_bytes
    if limit and used > limit:
        by_size = sorted(simulation.buffers.items(), key=lambda item: -item[1].bytes)
        parts = [f"{facts.named(name)} {size(of.bytes)}" for name, of in by_size]
        yield Finding(
            "above-l1",
            CORRECT,
            f"the dataflow buffers take {used / limit:.1f} times the L1 of a node",
            f"{size(used)} of {size(limit)}: {listed(parts)}",
            f"Smaller blocks, or a lower block_count, of {by_size[0][0]} first.",
            limits=True,
        )
    made, most = simulation.buffers_made, simulation.buffers_limit
    if most and made > most:
        yield Finding(
            "many-buffers",
            CORRECT,
            f"the kernel makes {made} dataflow buffers, and a node has {most}",
            "counted when the kernel was called",
            "Use one buffer for what is never held at the same time.",
            limits=True,
        )


def _written(facts: Simulated) -> Iterator[Finding]:
    """Outputs that are not written once: a loop bound, or the wrong tensor."""
    for row in facts.simulation.moved.values():
        times = facts.simulation.times(row)
        if row.direction != "write" or times is None or times == 1:
            continue
        units, devices = facts.simulation.tensors[row.tensor].units, _devices(facts, row)
        if devices > 1:  # a shard is whole where the tensor is not
            continue
        again = times > 1
        yield Finding(
            "written-again" if again else "partly-written",
            CORRECT,
            f"{row.tensor} is written {times:.3g} times"
            if again
            else f"{row.tensor} is written only in part: {row.tiles:,} of {units:,} tiles",
            f"{row.tiles:,} tiles written, {units:,} in the tensor",
            "Write each tile once, when it is complete."
            if again
            else "Check the loop bounds, and the blocks at the edge of the grid.",
            limits=not again,
        )


def _devices(facts: Simulated, row: Copied) -> int:
    return facts.simulation.tensors[row.tensor].devices


def _untouched(facts: Simulated) -> Iterator[Finding]:
    moved = {row.tensor for row in facts.simulation.copies}
    for name in facts.run.get("tensors") or ():
        if name not in moved:
            yield Finding(
                "untouched",
                CORRECT,
                f"{name} is never read or written",
                f"it is a tensor that the kernel is given; moved are "
                f"{', '.join(sorted(moved)) or 'none'}",
                f"If the kernel is to use {name}, a copy names another tensor.",
            )


def _left_over(facts: Simulated) -> Iterator[Finding]:
    simulation = facts.simulation
    for buffer in simulation.buffers:
        pushed, popped = simulation.count(buffer, "push"), simulation.count(buffer, "pop")
        if pushed > popped:
            fills, takes = simulation.uses(buffer, "push"), simulation.uses(buffer, "wait")
            who = " and ".join(takes) or "no thread"
            yield Finding(
                "left-over",
                CORRECT,
                f"{plural(pushed - popped, 'block')} of {buffer} {_are(pushed - popped)} never "
                "used",
                f"{' and '.join(fills)} pushed {pushed:,}, {who} popped {popped:,}",
                f"Make both loops use {facts.named(buffer)} equally often: on the device the next "
                "call finds what is left.",
            )


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def plural(count: int, noun: str) -> str:
    """``1 node``, ``64 nodes``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _implied(facts: Simulated) -> Iterator[Finding]:
    simulation = facts.simulation
    for buffer in simulation.buffers:
        for what in ("pop", "push"):
            for thread, row in simulation.uses(buffer, what).items():
                if row.implied:
                    before = "wait" if what == "pop" else "reserve"
                    yield Finding(
                        f"implied-{what}",
                        CORRECT,
                        f"{thread} does not {what} {buffer}",
                        f"{row.implied:,} of {row.count:,} times it was done for it, at its next "
                        f"{before}() or its end",
                        f"`with {buffer}.{before}() as block:` or block.{what}() gives it on as "
                        "soon as it can be.",
                    )


# -- all nodes ---------------------------------------------------------------------------------


def _small_grid(facts: Simulated) -> Iterator[Finding]:
    simulation = facts.simulation
    total = simulation.nodes
    if total and total < CORES_SHARE * facts.cores:
        yield Finding(
            "single-node" if total == 1 else "small-grid",
            CORES,
            "the kernel runs on a single node"
            if total == 1
            else f"the kernel runs on {total} of {facts.cores} cores",
            f"grid {_grid(simulation)}; {facts.run.get('arch') or 'the chip'} has {facts.cores}",
            'Distribute the blocks over the grid: grid="full", ttl.grid_size() and ttl.node() in '
            "every thread, blocks per node rounded up, and bounds checks for the rest.",
            limits=True,
            tries=(Try("grid"),),
        )


def _large_grid(facts: Simulated) -> Iterator[Finding]:
    total, chip = facts.simulation.nodes, facts.run.get("arch") or "the chip"
    if facts.cores and total > facts.cores:
        yield Finding(
            "large-grid",
            CORES,
            f"the grid has {total} nodes, {chip} {facts.cores}",
            f"grid {_grid(facts.simulation)}",
            "Name the chip that it is for with --arch, or take a grid that this one has.",
        )


def _idle(facts: Simulated) -> Iterator[Finding]:
    idle, total = facts.simulation.idle, facts.simulation.nodes
    if idle:
        yield Finding(
            "idle-nodes",
            CORES,
            f"{plural(len(idle), 'node')} of {total} {_are(len(idle))} idle",
            f"grid {_grid(facts.simulation)}; idle: {_nodes(facts, idle)}",
            "Smaller blocks give more of them than nodes; rows and columns of blocks that the "
            "grid divides leave none over.",
            limits=True,
        )


def _grid(simulation: Simulation) -> str:
    return "x".join(map(str, simulation.grid)) or "unknown"


def _uneven(facts: Simulated) -> Iterator[Finding]:
    simulation = facts.simulation
    # Who sends to others over a pipe moves for them.
    senders = {row.node for row in simulation.pipes if row.way == "send"}
    every = simulation.of_node(simulation.bytes_of)
    amounts = {node: amount for node, amount in every.items() if node not in senders}
    mean = sum(amounts.values()) / len(amounts) if amounts else 0
    busiest = max(amounts, key=lambda node: amounts[node], default=0)
    if len(amounts) > 1 and amounts[busiest] > UNEVEN * mean:
        least = min(amounts.values())
        yield Finding(
            "uneven-nodes",
            CORES,
            f"the busiest node moves {amounts[busiest] / mean:.2g} times the mean",
            f"{simulation.coordinates(busiest)} moves {size(amounts[busiest])}, the least "
            f"{size(least)}",
            "A grid that divides the number of blocks, or the rest spread over all nodes.",
            limits=True,
        )


# -- less traffic ------------------------------------------------------------------------------


def _reread(facts: Simulated) -> Iterator[Finding]:
    simulation = facts.simulation
    total = simulation.dram_bytes
    for row in simulation.moved.values():
        times = simulation.times(row)
        if row.direction != "read" or not row.dram or times is None or times <= REDUNDANT:
            continue
        of = simulation.tensors[row.tensor]
        again = row.dram * of.unit_bytes - of.units * of.unit_bytes
        yield Finding(
            "read-again",
            TRAFFIC,
            f"{row.tensor} is read {times:.3g} times from DRAM",
            f"{row.tiles:,} tiles of {of.units:,}; {size(max(again, 0))} of the "
            f"{size(total)} moved are repeats",
            _reuse(simulation, row, of.units),
            limits=again > (REDUNDANT - 1) * total,
            tries=_larger(simulation),
        )


def _reuse(simulation: Simulation, row: Copied, units: int) -> str:
    readers = {each.node for each in simulation.copies if each.tensor == row.tensor}
    if units <= SMALL_BURST:
        return f"Read {row.tensor} once, before the loops, and keep its block."
    written = simulation.of_node(lambda each: each.copies * (each.direction == "write"))
    # Where each node has one block of the output, larger ones only leave nodes without any.
    several = max(written.values(), default=0) > 1
    parts = []
    if several and _room(simulation) >= 2:
        parts.append(
            f"larger blocks (L1 has room for {_room(simulation)} times as much): what a block "
            "holds is read once for all of it"
        )
    if len(readers) > 1:
        parts.append(f"multicast: one node reads {row.tensor} and sends it over a ttl.Pipe")
    if several:
        parts.append("another order of the loops, with this one's innermost")
    text = "; or ".join(parts or [f"keep the blocks of {row.tensor} that are used again in L1"])
    return text[0].upper() + text[1:] + "."


def _larger(simulation: Simulation) -> tuple[Try, ...]:
    return (Try("block", times=2),) if _room(simulation) >= 2 else ()


def _room(simulation: Simulation) -> int:
    """The largest power of two by which the buffers can grow and still fit, at most 16."""
    room = simulation.l1_limit_bytes * USABLE_L1 / simulation.l1_bytes if simulation.l1_bytes else 1
    return min(2 ** int(math.log2(room)), 16) if room >= 2 else 1


# -- larger blocks, more of them ---------------------------------------------------------------


def _small(facts: Simulated) -> Iterator[Finding]:
    simulation = facts.simulation
    copies = sum(row.copies for row in simulation.copies)
    moved = sum(row.tiles for row in simulation.copies)
    tiled = all(of.unit_bytes > SMALL_BURST for of in simulation.tensors.values())
    busiest = max(simulation.of_node(lambda row: row.copies).values(), default=0)
    if busiest < FEW_COPIES or not tiled or moved / copies >= SMALL_BURST:
        return
    room = _room(simulation)
    buffers = [facts.named(name) for name in simulation.buffers]
    yield Finding(
        "small-blocks",
        BLOCKS,
        f"{copies:,} copies of {tiles(moved / copies)}",
        f"buffers take {simulation.l1_bytes / max(simulation.l1_limit_bytes, 1):.0%} of L1",
        f"Enlarge the blocks of {listed(buffers)}: L1 has room for {room} times as much."
        if room > 1
        else "L1 is full: lower block_count before the blocks grow.",
        limits=room > 1,
        tries=_larger(simulation),
    )


def tiles(count: float) -> str:
    """``1 tile``, ``7.99 tiles``."""
    return "1 tile" if count == 1 else f"{count:.3g} tiles"


def _depth(facts: Simulated) -> Iterator[Finding]:
    simulation = facts.simulation
    for name, of in simulation.buffers.items():
        fills, takes = simulation.uses(name, "reserve"), simulation.uses(name, "wait")
        apart = bool(fills) and bool(takes) and fills.keys() != takes.keys()
        if of.blocks == 1 and apart and simulation.count(name, "push") > simulation.nodes:
            yield Finding(
                "single-block",
                BLOCKS,
                f"{name} has one block: {' and '.join(fills)} and {' and '.join(takes)} take turns",
                f"{simulation.count(name, 'push'):,} blocks passed through {facts.named(name)}",
                f"block_count=2 lets both work at once; it takes {size(of.bytes)} of L1.",
                tries=(Try("block_count", name, to=2),),
            )
        elif of.blocks > 2 and 0 < of.deepest < of.blocks:
            yield Finding(
                "spare-blocks",
                BLOCKS,
                f"{name} has {of.blocks} blocks and never more than {of.deepest} in use",
                f"{size(of.bytes)} of L1, in the simulator's order",
                f"block_count={max(of.deepest, 2)} of {facts.named(name)}, and larger blocks.",
                tries=(Try("block_count", name, to=max(of.deepest, 2)),),
            )


def _behind(facts: Simulated) -> Iterator[Finding]:
    """The thread that others wait for while it hardly waits itself."""
    simulation = facts.simulation
    waits = {thread: _waits(simulation, thread) for thread in _threads(simulation)}
    own = {thread: blocked / asked for thread, (asked, blocked) in waits.items() if asked}
    slowest = min(own, key=lambda thread: own[thread], default="")
    late = [row for row in _late(simulation, slowest) if row.blocked > BEHIND * row.count]
    # The first wait on each node finds an empty buffer in any kernel.
    late = [row for row in late if row.count > 4 * simulation.nodes]
    if not late or own[slowest] > BEHIND:
        return
    said = [
        f"{row.thread} finds {'no block in' if row.operation == 'wait' else 'no room in'} "
        f"{row.buffer} {row.blocked / row.count:.0%} of the time"
        for row in late
    ]
    computes = {row.name: row.kind for row in simulation.threads}.get(slowest) == "compute"
    yield Finding(
        "behind",
        BLOCKS,
        f"{facts.named(slowest)} is behind: {' and '.join({row.thread: 0 for row in late})} "
        f"{'waits' if len({row.thread for row in late}) == 1 else 'wait'} for it",
        f"{', '.join(said)}; {slowest} itself waits {own[slowest]:.0%} of the time; in the "
        "simulator's order of turns, which is no time",
        "Its work for a block is the longest chain of turns: larger blocks, or fewer buffers "
        "passed through for each of them."
        if computes
        else f"Start all copies of a block before the first wait() of one, or share them between "
        f"both data movement threads; block_count={_deeper(simulation, late)} of "
        f"{late[0].buffer} lets it run ahead.",
        tries=_larger(simulation)
        if computes
        else (Try("block_count", late[0].buffer, to=_deeper(simulation, late)),),
    )


def _threads(simulation: Simulation) -> list[str]:
    return list(dict.fromkeys(row.thread for row in simulation.blocks))


def _waits(simulation: Simulation, thread: str) -> tuple[int, int]:
    """How often a thread asked for a block or for room, and how often in vain."""
    rows = [
        row
        for row in simulation.blocks
        if row.thread == thread and row.operation in ("wait", "reserve")
    ]
    return sum(row.count for row in rows), sum(row.blocked for row in rows)


def _late(simulation: Simulation, slowest: str) -> Iterator[Used]:
    """What other threads ask of buffers whose other end is this thread."""
    for name in simulation.buffers:
        for asked, given in (("wait", "push"), ("reserve", "pop")):
            if slowest in simulation.uses(name, given):
                uses = simulation.uses(name, asked)
                yield from (row for thread, row in uses.items() if thread != slowest)


def _deeper(simulation: Simulation, late: Sequence[Used]) -> int:
    return simulation.buffers[late[0].buffer].blocks + 1


#: Rules that hold of a part of a run too, and those that need all of it.
_ALWAYS = (_deadlock, _error, _wrong, _l1)
_WHOLE = (
    _written,
    _left_over,
    _untouched,
    _idle,
    _small_grid,
    _large_grid,
    _uneven,
    _reread,
    _small,
    _depth,
    _behind,
    _implied,
)
