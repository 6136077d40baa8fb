"""What is wrong with a simulated kernel: what is not right, what limits it, then remarks.

Each finding names threads, tensors and buffers as the source does, says what was counted, and which
edit to try; only a rerun shows what the edit is worth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from instrumentor_analysis.kernels.findings import (
    CORES_SHARE,
    REDUNDANT,
    SMALL_BURST,
    USABLE_L1,
    Finding,
    Try,
)
from instrumentor_analysis.kernels.simulated_deadlock import deadlock
from instrumentor_analysis.kernels.simulated_facts import (
    BLOCKS,
    CORES,
    CORRECT,
    TRAFFIC,
    Simulated,
    are,
    joined,
    plural,
)
from instrumentor_analysis.kernels.simulated_names import misplaced
from instrumentor_analysis.kernels.simulated_writes import reads, writes
from instrumentor_analysis.kernels.simulation import Copied, Problem, Simulation, Used
from instrumentor_analysis.shared.documents import listed
from instrumentor_analysis.shared.units import size

__all__ = ["CORRECT", "TOO_LARGE", "Simulated", "simulated_findings", "tiles"]

#: Kinds of findings of a kernel that fits no node, whatever it computes.
TOO_LARGE = frozenset({"above-l1", "many-buffers"})
#: Above this share of waits that found nothing, whoever fills the buffer is behind.
BEHIND = 0.5
#: Above this share of reserves that found no room, more blocks let a thread run ahead.
SHORT = 0.1
#: The busiest node over the mean of all, above which the rest waits for it.
UNEVEN = 1.25
#: With fewer copies on every node their size does not matter.
FEW_COPIES = 16
#: Tensors that are listed; more than a kernel has.
_MOST_TENSORS = 100


def simulated_findings(facts: Simulated) -> tuple[Finding, ...]:
    """All findings: what is not right, what limits, then remarks; within these the rules' order."""
    found = [finding for rule in _ALWAYS for finding in rule(facts)]
    if facts.simulation.complete:
        found += [finding for rule in _WHOLE for finding in rule(facts)]
    return tuple(sorted(found, key=lambda each: (each.goal != CORRECT, not each.limits)))


# -- correct or not ----------------------------------------------------------------------------


def _error(facts: Simulated) -> Iterator[Finding]:
    problem = facts.simulation.problem
    if problem is None or problem.kind != "error":
        return
    where = f"{problem.thread}, line {problem.line}" if problem.line else "in the simulator"
    kind, title, change = "error", f"the kernel fails in {where}", _mend(problem)
    if problem.lacks:
        kind, title = "simulator-lacks", f"the simulator does not know what {where} uses"
        change = "It may well be right: write it as the simulator knows it, or measure on a device"
    said = problem.message.splitlines()[0] if problem.message else "no message"
    if problem.buffer:
        said += f" The block is one of {facts.named(problem.buffer)}."
    if 0 <= problem.node < facts.simulation.nodes > 1:
        said += f" On {facts.node(problem.node)}."
    yield Finding(kind, CORRECT, title, said, f"{change}. The counts below end there.", limits=True)


def _stopped(facts: Simulated) -> Iterator[Finding]:
    problem = facts.simulation.problem
    if problem is None or problem.kind != "stopped" or not problem.line:
        return
    on = f" on {facts.node(problem.node)}" if 0 <= problem.node < facts.simulation.nodes else ""
    yield Finding(
        "stopped",
        CORRECT,
        f"the simulation was ended in {problem.thread}, line {problem.line}",
        f"by Ctrl-C or its time limit, while {facts.named(problem.thread)} ran{on}",
        "Check whether the loop there can end; if it can, simulate a smaller tensor, or give it "
        "more time. The counts below end there.",
        limits=True,
    )


def _mend(problem: Problem) -> str:
    """What to do about an error, as far as the simulator's own words tell."""
    # It ends what it says of a block with what may follow.
    following = re.search(r"^Next: (?!.*Details)(.+)", problem.message, re.MULTILINE)
    if following and problem.buffer:
        return f"tt-lang allows this next: {following[1].rstrip('.')}"
    shape = re.search(r"Tensor shape \(([\d, ]{1,80})\)", problem.message)
    if shape and "0" in shape[1].split(", "):
        return (
            "The slice begins at or beyond the edge of the tensor, which leaves nothing of it: "
            "look at the loop and the node from which its bounds are computed"
        )
    return "Correct that line"


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
        change = _cause(facts)
        yield Finding("wrong-result", CORRECT, "the result is wrong", seen, change, limits=True)


def _cause(facts: Simulated) -> str:
    """What is to be mended first of a kernel whose result is wrong."""
    rules = _CAUSES if facts.simulation.complete else ()
    first = next((finding for rule in rules for finding in rule(facts)), None)
    if first is not None:
        return f"Most likely because {first.title}. {first.change}"
    computes = [row.name for row in facts.simulation.threads if row.kind == "compute"]
    return (
        "All tiles of the outputs are written once, and every tensor is used: look at what "
        f"{' and '.join(facts.named(name) for name in dict.fromkeys(computes)) or 'the kernel'} "
        "computes, and at which slices are read for which blocks."
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
            f"{size(used)} of {size(limit)}: {listed(parts) or 'none of them is used'}",
            "Smaller blocks, or a lower block_count"
            + (f", of {by_size[0][0]} first." if by_size else "."),
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


def _untouched(facts: Simulated) -> Iterator[Finding]:
    moved = {row.tensor: row.direction for row in facts.simulation.copies}
    same, lines = facts.simulation.same, facts.parameters
    missing = [
        name
        for name in facts.run.get("tensors") or ()
        if moved and name not in moved and same.get(name) not in moved
    ]
    if missing:
        uses = [f"{t} ({_lines(facts, t)})" if _lines(facts, t) else t for t in sorted(moved)]
        twice, those = _twice(facts), listed(uses, _MOST_TENSORS)
        for name in missing:
            line = lines.get(name)
            yield Finding(
                "untouched",
                CORRECT,
                f"{name}{f' (line {line})' if line else ''} is never read or written",
                f"it is a tensor that the kernel is given; moved are {those}",
                f"If the kernel is to use {name}, a copy names another tensor{twice}.",
            )


def _lines(facts: Simulated, tensor: str) -> str:
    return facts.where([*facts.places("read", tensor), *facts.places("write", tensor)])


def _twice(facts: Simulated) -> str:
    """The tensors that are read for several buffers: one of these reads may mean another."""
    for name in facts.simulation.tensors:
        reads = facts.places("read", name)
        if len({place.buffer for place in reads}) > 1:
            ends = joined(list(dict.fromkeys(place.buffer for place in reads)))
            return f": {name} is read into {ends} at {facts.where(reads)}"
    return ""


def _apart(facts: Simulated) -> Iterator[Finding]:
    """Nodes that do nothing, in a kernel of pipes, and that are an end of none of them."""
    pipes = facts.simulation.pipes
    ends = {row.node for row in pipes}
    apart = [node for node in facts.simulation.idle if node not in ends]
    if pipes and apart:
        amount = plural(len(apart), "node")
        holes = any(finding.kind == "partly-written" for finding in writes(facts))
        names = listed(list(dict.fromkeys(row.pipe for row in pipes)))
        yield Finding(
            "in-no-pipe",
            CORRECT if holes else CORES,
            f"{amount} {are(len(apart))} in no pipe and {'does' if len(apart) == 1 else 'do'} "
            f"nothing: {facts.nodes(apart)}",
            f"{facts.at_grid}; pipes: {names}",
            "Let the destinations of the PipeNet include every node that is to work: the end of a "
            "slice is exclusive, slice(1, 4) reaches nodes 1 to 3.",
            limits=not holes or not facts.approved,
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
                f"{plural(pushed - popped, 'block')} of {buffer} {are(pushed - popped)} never used",
                f"{' and '.join(fills)} pushed {pushed:,}, {who} popped {popped:,}",
                f"Make both loops use {facts.named(buffer)} equally often: on the device the next "
                "call finds what is left.",
            )


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
                        f"the simulator did it for the thread {row.implied:,} of {row.count:,} "
                        f"times, at its next {before}() or its end"
                        f"{_asked(facts, before, buffer, thread)}",
                        f"`with {buffer}.{before}() as block:` or block.{what}() hands the block "
                        "on as soon as possible.",
                    )


def _asked(facts: Simulated, before: str, buffer: str, thread: str) -> str:
    where = facts.where(facts.places(before, buffer, thread))
    return f"; {before}() at {where}" if where else ""


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
            f"{facts.at_grid}; {facts.run.get('arch') or 'the chip'} has {facts.cores}",
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
            facts.at_grid,
            "Name the chip that it is for with --arch, or take a grid that this one has.",
        )


def _idle(facts: Simulated) -> Iterator[Finding]:
    idle, total = facts.simulation.idle, facts.simulation.nodes
    if idle and len(idle) < total and not any(_apart(facts)):
        blocks = facts.simulation.output_blocks
        output = f"; the output has {plural(blocks, 'block')}" if blocks else ""
        yield Finding(
            "idle-nodes",
            CORES,
            f"{plural(len(idle), 'node')} of {total} {are(len(idle))} idle",
            f"{facts.at_grid}; idle: {facts.nodes(idle)}{output}",
            _employ(facts, blocks),
            limits=True,
        )


def _employ(facts: Simulated, blocks: int) -> str:
    """How idle nodes get work: by other loops where there are blocks enough, else by more blocks.

    Rounded up, as many blocks a node leave some without any: 10 blocks on 9 nodes employ 5.
    """
    total = facts.simulation.nodes
    if blocks >= total:
        threads = [facts.named(row["name"]) for row in facts.run.get("threads") or ()]
        return (
            f"{plural(blocks, 'block')} are enough for {total} nodes: let each node take one in "
            f"{total}, `for block in range(node, {blocks}, {total})` with "
            f"node = ttl.node(dims=1), in {joined(threads) or 'every thread'}."
        )
    if blocks:
        return (
            f"{plural(blocks, 'block')} {are(blocks)} too few for {total} nodes: smaller blocks, "
            f"or a grid of at most {plural(blocks, 'node')}."
        )
    return "Smaller blocks give more of them than nodes."


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
        units = simulation.units(row)
        again = (row.dram - units) * of.unit_bytes
        yield Finding(
            "read-again",
            TRAFFIC,
            f"{row.tensor} is read {times:.3g} times from DRAM",
            f"{row.tiles:,} tiles of {units:,}; {size(max(again, 0))} of the "
            f"{size(total)} moved are repeats",
            _reuse(simulation, row, units),
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
                f"{size(of.bytes)} of L1, in the order in which the simulator runs the threads",
                f"block_count={max(of.deepest, 2)} of {facts.named(name)}, and larger blocks.",
                tries=(Try("block_count", name, to=max(of.deepest, 2)),),
            )


def _behind(facts: Simulated) -> Iterator[Finding]:
    """The thread that others wait for while it hardly waits itself."""
    simulation = facts.simulation
    waits = _waits(simulation)
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
    kinds = {row.name: row.kind for row in simulation.threads}
    moving = kinds.get(slowest) != "compute"
    deeper = _room_is_short(simulation, slowest) if moving else ""
    yield Finding(
        "behind",
        BLOCKS,
        f"{facts.named(slowest)} is behind: {joined(list({row.thread: 0 for row in late}))} "
        f"{'waits' if len({row.thread for row in late}) == 1 else 'wait'} for it",
        f"{', '.join(said)}; {slowest} itself waits {own[slowest]:.0%} of the time; counted in the "
        "simulator's turns, which are not time",
        _catch_up(facts, slowest, deeper)
        if moving
        else "Its work for a block is the longest chain of turns: larger blocks, or fewer buffers "
        "passed through for each of them.",
        tries=(Try("block_count", deeper, to=_deeper(simulation, deeper)),)
        if deeper
        else _larger(simulation),
    )


def _catch_up(facts: Simulated, thread: str, deeper: str) -> str:
    """What lets a thread that moves data keep up, of what it does not do yet."""
    simulation, parts = facts.simulation, []
    copies = sum(row[2] for row in simulation.starts if row[1] == thread)
    beside = sum(row[3] for row in simulation.starts if row[1] == thread)
    several = len({row.buffer for row in simulation.blocks if row.thread == thread}) > 1
    if several and copies and not beside:
        parts.append("start all copies of a block before the first wait() of one")
    others = {row.name for row in simulation.threads if row.kind != "compute"} - {thread}
    if several and others:
        parts.append(f"share its copies with {joined([facts.named(o) for o in sorted(others)])}")
    if deeper:
        parts.append(f"block_count={_deeper(simulation, deeper)} of {deeper} lets it run ahead")
    if _room(simulation) >= 2 or not parts:
        parts.append("larger blocks, which take fewer turns")
    text = "; or ".join(parts)
    return text[0].upper() + text[1:] + "."


def _room_is_short(simulation: Simulation, thread: str) -> str:
    """A buffer in which the thread often finds no room, so that more blocks would help it."""
    rows = [
        row
        for name in simulation.buffers
        for by, row in simulation.uses(name, "reserve").items()
        if by == thread and row.blocked > SHORT * row.count
    ]
    return max(rows, key=lambda row: row.blocked).buffer if rows else ""


def _waits(simulation: Simulation) -> Mapping[str, tuple[int, int]]:
    """How often each thread asked for a block or for room, and how often in vain."""
    found: dict[str, tuple[int, int]] = {}
    for row in simulation.blocks:
        asked, blocked = found.get(row.thread, (0, 0))
        if row.operation in ("wait", "reserve"):
            asked, blocked = asked + row.count, blocked + row.blocked
        found[row.thread] = asked, blocked
    return found


def _late(simulation: Simulation, slowest: str) -> Iterator[Used]:
    """What other threads ask of buffers whose other end is this thread."""
    for name in simulation.buffers:
        for asked, given in (("wait", "push"), ("reserve", "pop")):
            if slowest in simulation.uses(name, given):
                uses = simulation.uses(name, asked)
                yield from (row for thread, row in uses.items() if thread != slowest)


def _deeper(simulation: Simulation, buffer: str) -> int:
    return simulation.buffers[buffer].blocks + 1


#: Rules that tell why a result is wrong, the likeliest first; those that hold of a part of a run
#: too, and those that need all of it.
_CAUSES = (_apart, writes, misplaced, reads, _untouched, _left_over)
_ALWAYS = (deadlock, _error, _stopped, _wrong, _l1)
_WHOLE = (
    _apart,
    writes,
    misplaced,
    reads,
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
