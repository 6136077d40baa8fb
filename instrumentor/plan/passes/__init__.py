"""One function per kind of edit, in an explicit order.

In: a `Located` step; out: edits of one kind, in order.

A pass takes what was located and the name of the recorder, and yields edits with the module of
each. It decides nothing and knows nothing of files: what is to be done was found by
:mod:`instrumentor.locate`.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator
from typing import TypeAlias

from instrumentor.locate.located import Kept, Located, Skipped, Stop
from instrumentor.plan.passes.region import entry, region
from instrumentor.read.syntax import Source, address
from instrumentor.shared.edits import Edit, Kind

Edits: TypeAlias = Iterator[tuple[Source, Edit]]


def host_reads(located: Located, recorder: str) -> Edits:
    """Move host reads of a region behind its barrier, in their own order."""
    why = "reads a value of the device; moved behind the barrier, so that the region does not wait"
    for deferred in located.deferred:
        end = address(located.regions[deferred.region].end)
        at = address(deferred.statement)
        yield deferred.source, Edit(Kind.MOVE_AFTER, at, to=end, reason=why)


_LEAVE = {
    "return": "return",
    "SystemExit": "raise SystemExit(0)",
    "skip": "{recorder}.skip_test()",
}


def early_stop(located: Located, recorder: str) -> Edits:
    """End the run after enough samples, behind a whole optimizer step, out of every loop.

    By a `return` where that leaves everything and nobody misses the value, else SystemExit(0). A
    test is skipped: what it asserts behind its loop would fail because the loop has ended early.
    """
    after = "the optimizer step" if located.regions[0].sites else "an iteration"
    why = f"ends the run after {after}, ahead of logging, validation and checkpoints"
    for stop in located.stops:
        # Not behind the script's own counter: where it counts first, that would cut off the step.
        inside = textwrap.indent(_leaving(stop, recorder), "    ")
        code = f"if {recorder}.finished({stop.condition}):\n{inside}"
        yield stop.source, _stop(stop, code, why)


def ending(located: Located, recorder: str) -> Edits:
    """End the run behind the outermost loop, where something that may be read there is skipped."""
    why = "ends the run where the loop ends by itself: what follows may need what is skipped"
    for stop in located.endings:
        yield stop.source, _stop(stop, f"{recorder}.ended()\n{_leaving(stop, recorder)}", why)


def _leaving(stop: Stop, recorder: str) -> str:
    leave = _LEAVE[stop.strategy].format(recorder=recorder)
    return "\n".join([*map(ast.unparse, stop.cleanup), leave])


def _stop(stop: Stop, code: str, why: str) -> Edit:
    reason = f"{why}; what cleans up behind the loop runs here as well" if stop.cleanup else why
    return Edit(Kind.INSERT_AFTER, address(stop.after), code, reason=reason)


def validation(located: Located, recorder: str) -> Edits:
    """Skip evaluations before and between the samples; time those that stay."""
    yield from _skipped(located, recorder, "validation")
    yield from _kept(located, recorder, "validation")


def checkpoints(located: Located, recorder: str) -> Edits:
    """Skip saves between the samples; time those that stay."""
    yield from _skipped(located, recorder, "checkpoint")
    yield from _kept(located, recorder, "checkpoint")


def cache_clears(located: Located, recorder: str) -> Edits:
    """Skip `xr.clear_computation_cache()`, which may also run out of memory."""
    for source, statement in located.cache_clears:
        why = "recompiles the graph every step"
        yield source, Edit(Kind.DISABLE, address(statement), reason=why)


#: All but the recorder's own. Edits at one place take effect in this order: the clock is read
#: before host reads move behind it.
PASSES: dict[str, Callable[[Located, str], Edits]] = {
    each.__name__: each
    for each in (
        *(entry, region, host_reads, early_stop, validation, checkpoints, cache_clears),
        ending,
    )
}


def _skipped(located: Located, recorder: str, what: str) -> Edits:
    """Each piece with its dependents; they stay visible as comments."""
    for skipped in (s for s in located.skipped if s.what == what):
        when = "initial" if skipped.initial else "in-loop"
        code, why = _instead(skipped, recorder), f"{when} {what} is skipped"
        at = address(skipped.statement)
        yield skipped.source, Edit(Kind.DISABLE, at, code, reason=why + _instead_of(code))
        why = f"belongs to the skipped {what}"
        for each in skipped.dependents:
            read = skipped.reads.get(each, "")
            reason = why + _instead_of(read)
            yield skipped.source, Edit(Kind.DISABLE, address(each), read, reason=reason)


def _instead_of(code: str) -> str:
    """What a reason says of the code that takes the place of a statement."""
    return f"; in its place: {'; '.join(code.splitlines())}" if code else ""


def _instead(skipped: Skipped, recorder: str) -> str:
    """Sets the mode that the piece leaves a model in, and draws its loaders' random numbers."""
    loaders = ", ".join(filter(None, skipped.draws))
    told = ", told=True" if "" in skipped.draws else ""  # before the run
    drawn = f"{recorder}.drawn({loaders}{told})" if loaders else ""
    return "\n".join(filter(None, (skipped.instead, drawn)))


def _kept(located: Located, recorder: str, what: str) -> Edits:
    """Each piece that stays, once, in the files that may be changed; none that holds a step."""
    touched = _touched(located)
    for kept in {(id(each.statement)): each for each in located.kept if each.what == what}.values():
        if id(kept.source) not in touched or _holds_a_step(kept, located):
            continue
        if kept.initial:
            # not as messages name it: what is written does not depend on the working folder
            place = f"{what} at {kept.source.path.name}:{kept.statement.lineno}"
            yield from _around(kept, f"{recorder}.aside", place, "reports how long the {} takes")
        elif not _is_left_out(kept, located):
            yield from _around(kept, f"{recorder}.kept", what, "tells iterations with the {} apart")


def _touched(located: Located) -> set[int]:
    """The script itself, and the files of loop, step and stops, and of what is skipped.

    Any other may be of an installed package, of which there is no copy.
    """
    regions = (region.candidate.source for region in located.regions)
    stops = (stop.source for stop in (*located.stops, *located.endings))
    skipped = (each.source for each in located.skipped)
    main = located.candidate.source, located.program.entry
    return {id(each) for each in (*main, *regions, *stops, *skipped)}


def _around(kept: Kept, call: str, what: str, why: str) -> Edits:
    at, reason = address(kept.statement), why.format(f"{kept.what} that stays")
    yield kept.source, Edit(Kind.INSERT_BEFORE, at, f"{call}({what!r})", reason=reason)
    yield kept.source, Edit(Kind.INSERT_AFTER, at, f"{call}()", reason=reason)


def _holds_a_step(kept: Kept, located: Located) -> bool:
    """Whether samples are taken within it: then it is no part of an iteration."""
    return any(
        region.candidate.source is kept.source and _within(region.end, kept.statement)
        for region in located.regions
    )


def _is_left_out(kept: Kept, located: Located) -> bool:
    """Whether it goes with something else that is skipped."""
    return any(
        skipped.source is kept.source and _within(kept.statement, gone)
        for skipped in located.skipped
        for gone in (skipped.statement, *skipped.dependents)
    )


def _within(inner: ast.stmt, outer: ast.stmt) -> bool:
    return outer.lineno <= inner.lineno <= (outer.end_lineno or outer.lineno)
