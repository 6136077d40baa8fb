"""Skips validation before and between the measured steps, with what only depends on it."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.edits import Edit, Kind
from instrumentor.locate.model import Located, Skipped
from instrumentor.locate.syntax import Source, address
from instrumentor.options import Options
from instrumentor.passes.names import Names

NAME = "validation"


def edits(located: Located, names: Names, options: Options) -> Iterator[tuple[Source, Edit]]:
    """Disabled statements stay visible; the mode that they leave a model in is set."""
    for skipped in located.skipped:
        if skipped.what == "validation":
            yield from disable(skipped)


def disable(skipped: Skipped) -> Iterator[tuple[Source, Edit]]:
    """Edits that take one skipped piece out."""
    when = "initial" if skipped.initial else "in-loop"
    yield (
        skipped.source,
        Edit(
            Kind.DISABLE,
            address(skipped.statement),
            skipped.instead,
            reason=f"{when} {skipped.what} is skipped",
        ),
    )
    for dependent in skipped.dependents:
        yield (
            skipped.source,
            Edit(Kind.DISABLE, address(dependent), reason=f"belongs to the skipped {skipped.what}"),
        )
