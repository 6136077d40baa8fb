"""Why the threads of a simulated kernel wait for ever, and which of them is to be mended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from instrumentor_analysis.kernels.findings import Finding
from instrumentor_analysis.kernels.simulated_facts import CORRECT, Simulated, plural
from instrumentor_analysis.kernels.simulation import Problem, Simulation, Waiting

#: What a pipe is called, which has no name of its own.
PIPE = "a pipe"
#: What ends a wait: done by a thread that asked with the second word.
_GIVEN = {"wait": ("push", "reserve"), "reserve": ("pop", "wait")}


def deadlock(facts: Simulated) -> Iterator[Finding]:
    """Who waits for what, where; the wait that explains the others, and its remedy."""
    problem = facts.simulation.problem
    if problem is None or problem.kind != "deadlock" or not problem.blocked:
        return
    first, change = _cause(facts, problem)
    rows = [first, *(row for row in problem.blocked if row is not first)]
    waits = [
        f"{row.thread} waits at line {row.line} {_asked(row)} {row.buffer} "
        f"({plural(len(row.nodes), 'node')}: {facts.nodes(row.nodes)})"
        for row in rows
    ]
    yield Finding(
        "deadlock",
        CORRECT,
        f"deadlock: {first.thread} waits {_asked(first)} {first.buffer} and nothing will give it",
        "; ".join([*waits, *_balances(facts, rows)]),
        change,
        limits=True,
    )


def _asked(row: Waiting) -> str:
    if row.buffer == PIPE:
        return "for data from"
    return "for a block of" if row.operation == "wait" else "for room in"


def _balances(facts: Simulated, rows: Sequence[Waiting]) -> Iterator[str]:
    """What each buffer of a deadlock got and gave, on the first node that hangs."""
    for row in rows:
        ends = [
            f"{thread} {done} {count}"
            for what, done in (("push", "pushed"), ("pop", "popped"))
            for thread, count in _by_thread(facts.simulation, row.buffer, what, row.nodes[0])
            if count
        ]
        if ends:
            yield f"{facts.named(row.buffer)}: {', '.join(ends)}"


def _by_thread(
    simulation: Simulation, buffer: str, what: str, node: int
) -> Iterator[tuple[str, int]]:
    for row in simulation.used.get((buffer, what), ()):
        if row.node == node:
            yield row.thread, row.count


def _givers(simulation: Simulation, row: Waiting) -> list[str]:
    """The threads that gave what a thread waits for, or asked for what they would give."""
    found = (
        _by_thread(simulation, row.buffer, what, row.nodes[0]) for what in _GIVEN[row.operation]
    )
    return list(dict.fromkeys(thread for each in found for thread, _ in each))


def _cause(facts: Simulated, problem: Problem) -> tuple[Waiting, str]:
    """The wait that explains the others, and what to do about it.

    A thread that waits for itself or for one that has ended is one whatever the others do. That
    nobody has given a buffer anything is one only where all threads wait for that one in the end of
    whom it is known for whom they wait: else whoever would give it is held up before that.
    """
    stuck = {row.thread for row in problem.blocked}
    givers = [(row, _givers(facts.simulation, row)) for row in problem.blocked]
    for row, threads in givers:
        if threads == [row.thread]:
            return row, _of_itself(facts, row)
    for row, threads in givers:
        ended = [thread for thread in threads if thread not in stuck]
        if ended:
            return row, (
                f"{facts.named(ended[0])} has ended, {facts.named(row.thread)} has not: make both "
                f"loops use {row.buffer} equally often."
            )
    known = {row.thread for row, threads in givers if threads}
    for row, threads in givers:
        if not threads and _behind(row.thread, givers) >= known:
            return row, _by_nobody(facts, row)
    return problem.blocked[0], (
        "The threads wait for each other: let them take and give the buffers in the same order, or "
        "hold fewer blocks at once (block_count bounds how many)."
    )


def _behind(thread: str, givers: Sequence[tuple[Waiting, list[str]]]) -> set[str]:
    """A thread, and all that wait for it in the end."""
    found: set[str] = set()
    waits: dict[str, list[str]] = {}
    for row, threads in givers:
        for giver in threads:
            waits.setdefault(giver, []).append(row.thread)
    more = [thread]
    while more:
        each = more.pop()
        if each not in found:
            found.add(each)
            more += waits.get(each, ())
    return found


def _of_itself(facts: Simulated, row: Waiting) -> str:
    if row.operation == "wait":
        return f"{row.thread} itself is to push that block: push it before the wait."
    known = facts.simulation.buffers.get(row.buffer)
    blocks = known.blocks if known is not None else 0
    more = f"block_count={blocks + 1} of {facts.named(row.buffer)}" if blocks else "more blocks"
    return (
        f"{row.thread} itself holds the blocks of {row.buffer} that it waits for: {more}, or pop "
        "one before the next reserve."
    )


def _by_nobody(facts: Simulated, row: Waiting) -> str:
    if row.buffer == PIPE:
        return (
            f"Nothing was sent over the pipe that {facts.named(row.thread)} receives from at line "
            f"{row.line}: ttl.copy(block, pipe) on the node that is its source."
        )
    if row.operation == "wait":
        return f"No thread has pushed a block of {row.buffer}: reserve and push it in one."
    return f"No thread has taken a block of {row.buffer}: wait for it and pop it in one."
