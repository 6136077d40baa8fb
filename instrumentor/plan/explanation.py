"""What `instrument explain --json` prints and plan.json holds: the document ``instrument-plan/1``.

Line numbers are 1-based lines of the original files; the line of a statement is the one it starts
on. The schema in plan.schema.json is made of these types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import plain

SCHEMA = "instrument-plan/1"
#: How a loop was found.
READING, RUNNING = "reading", "running"


class Reason(TypedDict):
    """Why a script is declined.

    Attributes:
        kind: a stable word, such as several-loops or multi-chip.
        remedy: what would work.
    """

    file: str
    line: int
    kind: str
    message: str
    remedy: str


class Loop(TypedDict):
    """The loop whose iterations are timed.

    Attributes:
        function: None at module level.
        outer_lines: loops around it in the same function, outermost first.
    """

    file: str
    line: int
    end_line: int | None
    function: str | None
    outer_lines: list[int]


class TimedLines(TypedDict):
    """The clock starts ahead of the first and is read behind the last.

    Attributes:
        file: where they stand: the loop's, or the one of the function that makes the step.
        up_to: the last timed statement, where others stand behind it on its line; else None.
    """

    file: str
    start_line: int
    end_line: int
    up_to: str | None


class Place(TypedDict):
    """A statement."""

    file: str
    line: int


class Backward(TypedDict):
    """The first backward.

    Attributes:
        others: lines of the others.
    """

    file: str
    line: int
    others: list[int]


class Evidence(TypedDict):
    """What tells that a statement is a part of the step.

    Attributes:
        part: forward, backward or step.
        by: type, use, run (the script was run, and it was seen), spelling, "unread call" or
            "spelling, which speaks against it"; all but the first three are guesses.
        name: the type, the qualified name, or the spelling; empty where it was seen in a run.
    """

    part: str
    file: str
    line: int
    by: str
    name: str


class Call(TypedDict):
    """A call in the loop."""

    line: int


class Sync(TypedDict):
    """Where the region's work is cut off.

    Attributes:
        action: keep (the script's own at ``line`` ends the region), insert (one is made behind
            ``line``) or none.
        api: the call as spelled, for keep.
    """

    action: str
    line: int | None
    api: str | None


class Counter(TypedDict):
    """The script's own count of steps.

    Attributes:
        position: before, after, branch, after_continue, enumerate, outer or none.
    """

    name: str
    line: int
    position: str


class Stop(TypedDict):
    """The run ends behind a statement, once enough samples are taken.

    Attributes:
        strategy: return, SystemExit, or skip (of the test that pytest runs).
    """

    strategy: str
    line: int
    file: str


#: One edit: of which pass and kind it is, and for a moved statement where ``to``.
EditLine = TypedDict(
    "EditLine",
    {"pass": str, "kind": str, "file": str, "line": int, "to": int | None, "reason": str},
)


@dataclass(frozen=True)
class PlanDocument:
    """What was found in a script; of one that is declined nothing but the reasons.

    Attributes:
        eligible: whether the script would be instrumented.
        mode: train, inference or region.
        reasons: why the script is declined; the first is the most telling.
        region: the timed lines.
        forward: the statement that runs the model first, in a helper's file when it is there.
        backward: None for inference and regions.
        call: what leads to a backward in a helper; None when it is direct.
        evidence: how forward, backward and step are known.
        accumulation: none, branch, continue, context or nested.
        scope: fwd-bwd or step; the label for inference and regions.
        label: of the main samples.
        deferred_host_reads: host reads moved behind the barrier.
        found_by: reading, or running where the script was run as it is to see its step.
    """

    eligible: bool = False
    mode: str | None = None
    reasons: tuple[Reason, ...] = ()
    loop: Loop | None = None
    region: TimedLines | None = None
    forward: Place | None = None
    backward: Backward | None = None
    call: Call | None = None
    evidence: tuple[Evidence, ...] = ()
    sync: Sync | None = None
    counter: Counter | None = None
    accumulation: str | None = None
    scope: str | None = None
    label: str | None = None
    stop: Stop | None = None
    skipped_validation: tuple[int, ...] = ()
    skipped_checkpoints: tuple[int, ...] = ()
    deferred_host_reads: tuple[int, ...] = ()
    disabled_cache_clears: tuple[int, ...] = ()
    warnings: tuple[Caveat, ...] = ()
    found_by: str = READING

    def to_json(self) -> dict[str, Any]:
        """The document, to which a plan adds its ordered ``edits``."""
        return {"schema": SCHEMA, **plain(self)}
