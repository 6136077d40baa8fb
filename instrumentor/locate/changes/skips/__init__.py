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

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.changes.skips.candidates import Piece, find_pieces
from instrumentor.locate.changes.skips.facts import Facts
from instrumentor.locate.changes.skips.proof import prove
from instrumentor.locate.changes.skips.storage import TooMuch
from instrumentor.locate.located import Kept, Skipped, Stop
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.region.modes import Region
from instrumentor.read.script_options import ScriptOptions
from instrumentor_analysis.shared.caveats import Caveat


class Skips(Struct, frozen=True):
    """skipped: what is left out; kept: what looks like an evaluation or a save, and stays.

    unproven: what is left out because the user asked for that, and why it would stay.
    endings: where the run ends behind the loops, as what stands there may need what is left out.
    unsearched: the loop around which nothing could be looked for.
    """

    skipped: list[Skipped]
    kept: list[Kept]
    unproven: list[Kept] = []
    endings: list[Stop] = []
    unsearched: str = ""


def find_skips(
    knowledge: Knowledge,
    candidate: Candidate,
    regions: Sequence[Region],
    stops: Sequence[Stop] = (),
    *,
    keep_validation: bool = False,
    asked: Collection[str] = (),
    called_with: ScriptOptions,
    unread: str = "",
) -> Skips:
    """What is left out for one candidate, and what looks like it and stays.

    Args:
        keep_validation: leave out saves alone; evaluations stay, proven or not.
        asked: what goes without a proof too: `validation`, `checkpoint`.
        called_with: what the options say that the script is called with.
        unread: why nothing can be shown of what the step runs, where that is so.
    """
    try:
        facts = Facts(knowledge.everywhere, candidate, regions, stops, called_with, unread)
        found, kept = find_pieces(facts)
        if keep_validation:
            found, kept = _as_asked(found, kept)
    except TooMuch:
        return Skips([], [], unsearched=candidate.source.at(candidate.loop.lineno))
    try:
        if len(found) > _MOST:
            raise TooMuch
        skipped, staying, unproven = prove(facts, found, asked)
    except TooMuch:
        why = "more leads to and from it than can be followed"
        return Skips([], [*kept, *(piece.kept(why) for piece in found if not piece.quiet)])
    return Skips(skipped, [*kept, *staying], unproven, facts.endings if skipped else [])


def _as_asked(found: Sequence[Piece], kept: Sequence[Kept]) -> tuple[list[Piece], list[Kept]]:
    """The saves that may go, and with what stays anyhow the evaluations, which are to stay."""
    why = "--keep-validation asks for that"
    stay = [p.kept(why) for p in found if p.what == "validation" and not p.quiet]
    told = [replace(each, why=why) if each.what == "validation" else each for each in kept]
    return [each for each in found if each.what != "validation"], [*told, *stay]


#: Evaluations and saves that are held against each other.
_MOST = 64
_OPTION = {"validation": "validation", "checkpoint": "saving"}


def warnings_of(skips: Skips) -> list[Caveat]:
    """One for each piece that stays, and for each that leaves others with other random numbers."""
    found = [_stays(piece) for piece in skips.kept]
    if skips.unsearched:
        found.append(
            Caveat(
                "validation-stays",
                "Around this loop validation and saving are kept, if there are any: more leads to "
                "and from them than can be followed. They are not timed; the run takes longer.",
                place=skips.unsearched,
            )
        )
    found += [
        Caveat(
            f"{piece.what}-unproven",
            f"{piece.what.capitalize()} is skipped because --skip-{_OPTION[piece.what]} asks for "
            f"that, though {piece.why}",
            place=piece.source.at(piece.statement.lineno),
            hint="without the option it stays",
        )
        for piece in skips.unproven
    ]
    found += [_draws_others(skipped) for skipped in skips.skipped if "" in skipped.draws]
    return list(dict.fromkeys(found))


def _draws_others(skipped: Skipped) -> Caveat:
    """No option keeps saves."""
    evaluates = skipped.what == "validation"
    return Caveat(
        "random-numbers",
        f"{'Validation' if evaluates else 'Saving'} and its random numbers are skipped here: order "
        "of the batches and dropout may differ from your script's, the times do not"
        f"{' (--keep-validation keeps both)' if evaluates else ''}.",
        place=skipped.source.at(skipped.statement.lineno),
    )


def _stays(piece: Kept) -> Caveat:
    """Ahead of the samples no figure depends on it; between them the iteration may."""
    kind, when, so = f"{piece.what}-stays", "between epochs", "It is not in the timed region."
    if piece.initial:
        when, so = "once before the first sample", "It is not timed; the run only takes longer."
    elif not piece.seldom:
        kind, when = f"{piece.what}-between", "between samples"
        so = "It is not in the timed region, but within the iteration in which it runs."
    return Caveat(
        kind,
        f"{piece.what.capitalize()} is kept and runs {when}, because {piece.why}. {so}",
        place=piece.source.at(piece.statement.lineno),
    )
