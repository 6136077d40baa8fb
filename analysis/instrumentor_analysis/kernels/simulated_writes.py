"""Which tiles a simulated kernel reads and writes: all of them, the outputs' once each, or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from instrumentor_analysis.kernels.findings import Finding
from instrumentor_analysis.kernels.simulated_facts import CORRECT, Simulated, are, joined, plural
from instrumentor_analysis.kernels.simulation import Clash, Copied, Reached, Written


def _meant(facts: Simulated) -> str:
    """What decides whether a hole is meant, or has decided it."""
    if facts.wrong:
        return ""
    if facts.approved:
        return f" It is taken as meant: {facts.approver} passes."
    return " If that is meant, let a check after the call, --validate or --reference say so."


def writes(facts: Simulated) -> Iterator[Finding]:
    """Outputs that are not written whole, or not once: a loop bound, a slice, another tensor."""
    simulation = facts.simulation
    rows = [row for row in simulation.moved.values() if row.direction == "write"]
    if not rows:
        yield _nothing(facts)
    for row in rows:
        known = simulation.tensors.get(row.tensor)
        # A shard is whole where the tensor is not.
        if known is None or not known.units or known.devices > 1:
            continue
        placed = simulation.placed(row.tensor)
        if placed is None:
            yield from _by_amount(facts, row, known.units)
        else:
            yield from _by_place(facts, row.tensor, known.units, placed)


def reads(facts: Simulated) -> Iterator[Finding]:
    """Tensors that are read in part: a loop that ends early.

    Nothing where a check passed, or where an output has a hole: that loop is told already.
    """
    if facts.approved or any(finding.kind == "partly-written" for finding in writes(facts)):
        return
    alike: dict[tuple[str, str], list[str]] = {}
    for name, of in facts.simulation.tensors.items():
        known = facts.simulation.read(name)
        if known is not None and 0 < known.never < of.units and of.devices <= 1:
            amount = f"{of.units - known.never:,} of {of.units:,} tiles"
            alike.setdefault((amount, _box(known)), []).append(name)
    for (amount, box), names in alike.items():
        places = [place for name in names for place in facts.places("read", name)]
        at = f" at {where}" if (where := facts.where(places)) else ""
        yield Finding(
            "partly-read",
            CORRECT,
            f"{joined(names)} {are(len(names))} read only in part: {amount}",
            f"never read: {box}{'; read' + at if at else ''}",
            f"Check the bounds of the loops around the copy{at}.{_meant(facts)}",
        )


def _nothing(facts: Simulated) -> Finding:
    threads = [facts.named(row["name"]) for row in facts.run.get("threads") or ()]
    return Finding(
        "nothing-written",
        CORRECT,
        "the kernel writes no tensor",
        f"no copy from a block to a tensor was made; its threads: {', '.join(threads) or 'none'}",
        "A data movement thread writes with ttl.copy(block, tensor[rows, columns]). A loop of no "
        "turns comes to none: blocks // nodes is 0 where there are fewer blocks than nodes.",
        limits=not facts.approved,
    )


def _by_amount(facts: Simulated, row: Copied, units: int) -> Iterator[Finding]:
    """Where the places are not known the number of tiles still tells."""
    if row.tiles < units:
        yield _partly(facts, row.tensor, row.tiles, units, f"{row.tiles:,} tiles written")
    elif row.tiles > units:
        seen = f"{row.tiles:,} tiles written{_at(facts, row.tensor)}, {units:,} in the tensor"
        title = f"{row.tensor} is written {row.tiles / units:.3g} times"
        change = "Write each tile once, when it is complete."
        yield Finding("written-again", CORRECT, title, seen, change)


def _by_place(facts: Simulated, name: str, units: int, known: Written) -> Iterator[Finding]:
    if known.never:
        seen = f"never written: {_box(known)}"
        yield _partly(facts, name, units - known.never, units, seen)
    differing = [clash for clash in known.clashes if clash.differ]
    if known.differing:
        yield Finding(
            "overlapping-writes",
            CORRECT,
            f"{plural(known.differing, 'tile')} of {name} {are(known.differing)} written by "
            "several nodes, with different values",
            "; ".join(_told(facts, clash) for clash in differing[:2]),
            f"On a device any of them may come last: slice {name}{_at(facts, name)} by "
            "ttl.node(), so that each node writes tiles of its own.",
            limits=not facts.approved,
        )
    rest = [clash for clash in known.clashes if not clash.differ]
    again = known.again - known.differing
    if again:
        yield Finding(
            "written-again",
            CORRECT,
            f"{plural(again, 'tile')} of {name} {are(again)} written more than once",
            "; ".join([*(_told(facts, clash) for clash in rest[:2]), _values(facts, known)]),
            f"Write each tile once{_at(facts, name)}, when it is complete.",
        )


def _values(facts: Simulated, known: Written) -> str:
    """What is known of the values of tiles that were written again."""
    shared = known.shared - known.differing
    if not shared:
        return "by the same node each"
    if not facts.simulation.arithmetic:
        return f"{shared:,} of them by several nodes, whose values were not computed"
    return f"{shared:,} of them by several nodes, with the same values"


def _partly(facts: Simulated, name: str, written: int, units: int, seen: str) -> Finding:
    where = _at(facts, name)
    return Finding(
        "partly-written",
        CORRECT,
        f"{name} is written only in part: {written:,} of {units:,} tiles",
        f"{seen}{'; written' + where if where else ''}; {units:,} tiles in the tensor",
        f"Check the slice{where}, the bounds of the loops around it, and the blocks at the edge."
        + _meant(facts),
        limits=not facts.approved,
    )


def _at(facts: Simulated, name: str) -> str:
    where = facts.where(facts.places("write", name))
    return f" at {where}" if where else ""


def _box(known: Reached) -> str:
    """Where the tiles lie that were not reached: one, a whole box, or within one."""
    first, last = ([pair[end] for pair in known.box] for end in (0, 1))
    if first == last:
        return f"tile {_place(first)}"
    amount = 1
    for low, high in known.box:
        amount *= high - low + 1
    between = f"tiles {_place(first)} to {_place(last)}"
    if amount == known.never:
        return between
    return f"{plural(known.never, 'tile')} within {between}, such as {_place(known.first)}"


def _place(tile: Sequence[int]) -> str:
    return f"({', '.join(map(str, tile))})"


def _told(facts: Simulated, clash: Clash) -> str:
    earlier, later = clash.earlier, clash.later
    at = f" at line {earlier.line}" if earlier.line != later.line else ""
    if earlier.node == later.node:
        who = f"twice by {facts.node(later.node)}{at and at + ' and'}"
    else:
        who = f"by {facts.node(earlier.node)}{at}, then by {facts.node(later.node)}"
    return f"tile {_place(clash.tile)}: {who} at line {later.line}"
