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
    """Skip evaluations before and between the samples; time those that stay ahead of them."""
    yield from _skipped(located, recorder, "validation")
    for kept in located.kept:
        if kept.initial and kept.source is located.candidate.source:
            yield from _timed(kept, recorder)


def checkpoints(located: Located, recorder: str) -> Edits:
    """Skip saves between the samples."""
    yield from _skipped(located, recorder, "checkpoint")


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
        yield skipped.source, Edit(Kind.DISABLE, at, code, reason=why)
        why = f"belongs to the skipped {what}"
        for dependent in skipped.dependents:
            yield skipped.source, Edit(Kind.DISABLE, address(dependent), reason=why)


def _instead(skipped: Skipped, recorder: str) -> str:
    """Sets the mode that the piece leaves a model in, and draws its loaders' random numbers."""
    loaders = ", ".join(filter(None, skipped.draws))
    drawn = f"{recorder}.drawn({loaders})" if loaders else ""
    return "\n".join(filter(None, (skipped.instead, drawn)))


def _timed(kept: Kept, recorder: str) -> Edits:
    at = address(kept.statement)
    what = f"{kept.what} at {kept.source.at(kept.statement.lineno)}"
    why = f"reports how long the {kept.what} that stays takes"
    yield kept.source, Edit(Kind.INSERT_BEFORE, at, f"{recorder}.aside({what!r})", reason=why)
    yield kept.source, Edit(Kind.INSERT_AFTER, at, f"{recorder}.aside()", reason=why)
