"""Skips validation before and between the measured steps, with what only depends on it."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.edits import Edit, Kind
from instrumentor.locate.model import Kept, Located, Skipped
from instrumentor.locate.syntax import Source, address
from instrumentor.options import Options
from instrumentor.passes.names import Names

NAME = "validation"


def edits(located: Located, names: Names, options: Options) -> Iterator[tuple[Source, Edit]]:
    """Disabled statements stay visible; the mode that they leave a model in is set."""
    for skipped in located.skipped:
        if skipped.what == "validation":
            yield from disable(skipped, names)
    for kept in located.kept:
        if kept.initial and kept.source is located.candidate.source:
            yield from _timed(kept, names)


def _timed(kept: Kept, names: Names) -> Iterator[tuple[Source, Edit]]:
    """Says in the run how long a piece took that stays ahead of the first sample."""
    at, line = address(kept.statement), kept.statement.lineno
    what = f"{kept.what} at {kept.source.path.name}:{line}"
    reason = f"reports how long the {kept.what} that stays takes"
    begin, end = f"{names.recorder}.aside({what!r})", f"{names.recorder}.aside()"
    yield kept.source, Edit(Kind.INSERT_BEFORE, at, begin, reason=reason)
    yield kept.source, Edit(Kind.INSERT_AFTER, at, end, reason=reason)


def disable(skipped: Skipped, names: Names) -> Iterator[tuple[Source, Edit]]:
    """Edits that take one skipped piece out."""
    loaders = ", ".join(filter(None, skipped.draws))
    instead = [skipped.instead, f"{names.recorder}.drawn({loaders})" if loaders else ""]
    when = "initial" if skipped.initial else "in-loop"
    yield (
        skipped.source,
        Edit(
            Kind.DISABLE,
            address(skipped.statement),
            "\n".join(filter(None, instead)),
            reason=f"{when} {skipped.what} is skipped",
        ),
    )
    for dependent in skipped.dependents:
        yield (
            skipped.source,
            Edit(Kind.DISABLE, address(dependent), reason=f"belongs to the skipped {skipped.what}"),
        )
