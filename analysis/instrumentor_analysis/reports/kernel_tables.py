"""The tables of a kernel's report, the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor_analysis.kernels.facts import Facts
from instrumentor_analysis.reports.document import Column, Section, Table
from instrumentor_analysis.reports.words import size


def sections(facts: Facts) -> tuple[Section, ...]:
    """Arguments, threads, data movement and signposts, of those that there are."""
    program, log = facts.program, facts.log
    arguments = [
        (each.name, " x ".join(map(str, each.shape)), each.dtype, size(each.bytes))
        for each in facts.arguments
    ]
    threads = [
        (row.thread, row.function, f"{row.cycles:,}", f"{row.operations:,}", f"{row.percent:.1f} %")
        for row in log.threads
    ]
    cores = [] if threads or program is None else list(program.kernel_cycles.items())
    posts = [
        (row.name, row.thread, *(f"{n:,}" for n in (row.count, row.total, row.average)),
         f"{row.least:,}", f"{row.most:,}")
        for row in log.signposts
    ]  # fmt: skip
    found = (
        _section("Arguments", ("argument", "shape", "dtype", "size"), arguments, 3),
        _section("Threads", ("thread", "function", "cycles", "ops", "share"), threads, 2),
        _section(
            "Threads",
            ("thread", "least cycles", "most cycles"),
            [(thread, f"{low:,}", f"{high:,}") for thread, (low, high) in cores],
        ),
        _movement(facts),
        _section(
            "Signposts",
            ("signpost", "thread", "count", "total", "average", "least", "most"),
            posts,
            2,
        ),
    )
    return tuple(section for section in found if section.tables)


def _movement(facts: Facts) -> Section:
    """Bytes and transfers by kind, barriers and sizes of transfers."""
    program = facts.program
    if program is None:
        return Section("")
    kinds = {
        "DRAM read": program.dram_read,
        "DRAM write": program.dram_write,
        "L1 read": program.l1_read,
        "L1 write": program.l1_write,
        "multicast": program.multicast,
    }
    rows = [
        (kind, size(moved.bytes), f"{moved.transfers:,}")
        for kind, moved in kinds.items()
        if moved is not None
    ]
    sizes = ", ".join(
        size(amount) + (f" x{count:,}" if count else "")
        for amount, count in sorted(program.transfer_sizes.items())
    )
    notes = [f"transfers of {sizes}"] if sizes else []
    if program.barriers is not None:
        notes.append(f"barriers: {program.barriers[0]:,} read, {program.barriers[1]:,} write")
    return _section("Data movement", ("kind", "bytes", "transfers"), rows, note="; ".join(notes))


def _section(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: int = 1,
    note: str = "",
) -> Section:
    """A table whose first so many columns are words."""
    columns = tuple(
        Column(head, [row[at] for row in rows], right=at >= words, least=0 if at else 12)
        for at, head in enumerate(heads)
    )
    return Section(title, (Table(columns, note),) if rows else ())
