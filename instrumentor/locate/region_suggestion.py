"""Lines that can be timed where a loop is declined: the body of a loop at the reason's line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from msgspec import structs

from instrumentor.locate.located import Declined, Located, Reason
from instrumentor.read.syntax import FUNCTIONS, LOOPS, Source, callee, own_calls, parse
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options
from instrumentor_analysis.shared.files import read_bytes

Place = Callable[[Source, Options], Located]


def with_region(reason: Reason, source: Source, options: Options, place: Place) -> Reason:
    """The reason with `region`, where lines around it can be timed; tried before it is offered.

    Args:
        place: locates the lines that the options name, as a run with `--region` would.
    """
    # All of them are needed where something is declined, and nowhere else.
    from instrumentor.locate.rules.declines import DECLINES

    if not any(each.timeable for each in DECLINES if each.kind == reason.kind):
        return reason
    where = source
    if reason.file != source.path:
        where = parse(reason.file, read_bytes(reason.file))
    for first, last in _around(where, reason.line):
        marked = dataclasses.replace(options, loop=None, region=(str(reason.file), first, last))
        try:
            place(source, marked)
        except (Declined, UsageError, RecursionError):
            continue
        return structs.replace(reason, region=f"{where.path.name}:{first}-{last}")
    return reason


def _around(source: Source, line: int) -> Iterator[tuple[int, int]]:
    """First and last line of the bodies of loops at a line, or that call its function."""
    at = [s for s in source.places if s.lineno <= line <= (s.end_lineno or s.lineno)]
    names = {s.name for s in at if isinstance(s, FUNCTIONS)}
    loops = [s for s in source.places if isinstance(s, LOOPS)]
    # a loop whose header alone calls it, as it does a generator, has nothing of it in its body
    calling = [s for s in loops if any(callee(c) in names for b in s.body for c in own_calls(b))]
    innermost = sorted((s for s in at if isinstance(s, LOOPS)), key=lambda s: -s.lineno)
    for loop in dict.fromkeys((*innermost, *calling[::-1])):
        yield loop.body[0].lineno, loop.body[-1].end_lineno or loop.body[-1].lineno
