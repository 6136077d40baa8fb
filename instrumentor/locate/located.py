"""What locating yields: the loop with everything the plan needs, or reasons why not."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from instrumentor.locate.loop.counter import Counter
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.region.modes import Region
from instrumentor.read.program import Program
from instrumentor.read.syntax import Source
from instrumentor.shared.errors import InstrumentError
from instrumentor_analysis.shared.caveats import Caveat


class Reason(Struct, frozen=True):
    """Why a script is declined: place, kind (stable word), sentence, what would work.

    Made by the classes of `locate/rules/`.

    region: `FILE:FIRST-LAST` that `--region` can time instead, or empty.
    """

    file: Path
    line: int
    kind: str
    message: str
    remedy: str
    region: str = ""

    @property
    def hint(self) -> str:
        """What would work, the region included."""
        more = f" Or time the loop's body with --region {self.region}." if self.region else ""
        return self.remedy + more

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class Declined(InstrumentError):
    """The script cannot be instrumented correctly.

    Attributes:
        reasons: at least one; the first is the most telling.
    """

    exit_code: ClassVar[int] = 3
    word: ClassVar[str] = "declined"

    def __init__(self, *reasons: Reason) -> None:
        super().__init__("; ".join(str(r) for r in reasons), reasons[0].hint)
        self.reasons = reasons


class Stop(Struct, frozen=True):
    """Where the run ends early.

    Attributes:
        unit: the statement that completes the optimizer step.
        after: the statement behind which the stop stands: the unit or what belongs to it.
        strategy: `return`, `SystemExit`, or `skip` of the test that pytest runs.
        condition: expression that tells whether this was a whole step, '' when it always is.
        cleanup: statements behind the loop that run at the stop as well.
    """

    source: Source
    unit: ast.stmt
    after: ast.stmt
    strategy: str
    condition: str = ""
    cleanup: tuple[ast.stmt, ...] = ()


class Skipped(Struct, frozen=True):
    """A validation or checkpoint that is left out, with the statements that depend on it.

    instead: code in its place: the mode in which it would have left its model.
    reads: code in the place of dependents: what they read of the step on the host.
    draws: data loaders that it walks over, whose iterators take random numbers; '' for random
    numbers that are not drawn in its place.
    """

    source: Source
    statement: ast.stmt
    dependents: tuple[ast.stmt, ...]
    instead: str
    initial: bool
    what: str  # validation | checkpoint
    draws: tuple[str, ...] = ()
    reads: dict[ast.stmt, str] = {}


class Kept(Struct, frozen=True):
    """An evaluation or a save that stays, and why.

    seldom: it stands in a loop around that of the steps.
    """

    source: Source
    statement: ast.stmt
    initial: bool
    what: str  # validation | checkpoint
    why: str
    seldom: bool = False


class Deferred(Struct, frozen=True):
    """A statement moved behind the barrier.

    reads: lines of the host reads in it; empty for one that only depends on another.
    """

    source: Source
    statement: ast.stmt
    region: int
    reads: tuple[int, ...] = ()


class Located(Struct, frozen=True, eq=False):
    """A training loop, understood.

    Attributes:
        stops: one per exclusive branch that updates, at least one.
        endings: behind the loops, where the run ends in any case, since something is skipped.
        accumulation: how an update covers several backwards.
    """

    candidate: Candidate
    regions: tuple[Region, ...]
    counter: Counter | None
    stops: tuple[Stop, ...]
    accumulation: str = "none"
    skipped: tuple[Skipped, ...] = ()
    endings: tuple[Stop, ...] = ()
    kept: tuple[Kept, ...] = ()
    deferred: tuple[Deferred, ...] = ()
    cache_clears: tuple[tuple[Source, ast.stmt], ...] = ()
    warnings: tuple[Caveat, ...] = ()

    @property
    def knowledge(self) -> Knowledge:
        return self.candidate.knowledge

    @property
    def program(self) -> Program:
        return self.candidate.program

    @property
    def stop(self) -> Stop:
        return self.stops[0]

    @property
    def scope(self) -> str:
        """`fwd-bwd`, or `step` when a sample holds the optimizer's step too; else the label."""
        if not self.regions[0].sites:
            return self.regions[0].label
        return "step" if any(region.whole for region in self.regions) else "fwd-bwd"
