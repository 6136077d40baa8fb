"""What is left out of the copy: validation and saving whose effects end in themselves.

In: a chosen loop; out: statements that the copy leaves out, and those that stay with the reason.

An evaluation (gradients off, no backward, no optimizer step) before or between the samples, and
a save between them, are taken out together with every statement that exists only for their
results. That is shown, not assumed: whatever the pieces write may be read by nothing that stays,
what they call can be read to its end, and the mode in which they leave a module is set in their
place. What cannot be shown stays, and is named.

`pieces` finds them, `reader` says what they change, `uses` who reads that, `proof` decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from instrumentor.locate.changes.skips.candidates import find_pieces
from instrumentor.locate.changes.skips.facts import Facts
from instrumentor.locate.changes.skips.proof import prove
from instrumentor.locate.changes.skips.storage import TooMuch
from instrumentor.locate.located import Kept, Skipped
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.region.modes import Region
from instrumentor_analysis.shared.caveats import Caveat


class Skips(Struct, frozen=True):
    """skipped: what is left out; kept: what looks like an evaluation or a save, and stays."""

    skipped: list[Skipped]
    kept: list[Kept]


def find_skips(
    knowledge: Knowledge,
    candidate: Candidate,
    regions: Sequence[Region],
    *,
    keep_validation: bool = False,
) -> Skips:
    """What is left out for one candidate, and what looks like it and stays.

    Args:
        keep_validation: leave out saves alone.
    """
    whole = knowledge.program.whole
    try:
        facts = Facts(knowledge, candidate, regions)
        found, kept = find_pieces(facts, keep_validation=keep_validation)
        if whole is not knowledge.program and (found or kept):
            # what is called may stand in other files than the loop
            facts = Facts(Knowledge(whole), candidate, regions)
            found, kept = find_pieces(facts, keep_validation=keep_validation)
        skipped, staying = prove(facts, found)
    except TooMuch:
        why = "more leads to and from it than can be followed, so nothing is left out"
        return Skips([], [Kept(candidate.source, candidate.loop, False, "validation", why)])
    return Skips(skipped, [*kept, *staying])


def warnings_of(skips: Skips) -> list[Caveat]:
    """One for each piece that stays, and for each that leaves others with other random numbers."""
    found = [_stays(piece) for piece in skips.kept]
    found += [
        Caveat(
            "random-numbers",
            "this evaluation is skipped, and nothing draws its random numbers in its place: the "
            "order of the data and dropout may differ from the script's",
            "note",
            skipped.source.at(skipped.statement.lineno),
            "--keep-validation trains as the script does",
        )
        for skipped in skips.skipped
        if "" in skipped.draws
    ]
    return list(dict.fromkeys(found))


def _stays(piece: Kept) -> Caveat:
    """Of a checkpoint between epochs no figure depends."""
    when = " and runs before the first sample" if piece.initial else ""
    return Caveat(
        f"{piece.what}-stays",
        f"{piece.what} stays{when}: {piece.why}",
        "note" if piece.what == "checkpoint" and not piece.initial else "caution",
        piece.source.at(piece.statement.lineno),
    )
