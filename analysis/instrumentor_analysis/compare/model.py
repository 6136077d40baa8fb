"""What a comparison says: frozen dataclasses, and their JSON form ``instrument-comparison/1``.

Units stand in the names. Ratios are new over base. ``None`` (``null`` in JSON) is what was not
measured on one of the sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from instrumentor_analysis.compare.runs import Between
from instrumentor_analysis.model import Interval
from instrumentor_analysis.shared.documents import plain

SCHEMA = "instrument-comparison/1"
SEVERAL_SCHEMA = "instrument-comparisons/1"

Better = Literal["lower", "higher", "neither"]
Status = Literal["same", "changed", "added", "removed"]
Weight = Literal["note", "doubt"]


class SideFacts(Struct, frozen=True):
    """One side as the comparison names it.

    Attributes:
        name: what it is called in every report.
        source: the path that was given.
        runs: names of all its runs, the one that is shown first; empty for a single one.
        batch_size: samples in one step; None when unknown.
        batch_source: where that is from, in words.
    """

    name: str
    source: str
    profiler: str
    scope: str | None
    architecture: str | None = None
    batch_size: int | None = None
    batch_source: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[str, ...] = ()


class Timing(Struct, frozen=True):
    """One time, taken several times on both sides.

    With different batch sizes all times are of one *sample*, a step's time over its batch size;
    otherwise of one step.

    Attributes:
        label: what was timed, e.g. ``fwd+bwd``, ``iteration``, ``update of 4 micro-steps``, or
            ``device time``.
        basis: ``step`` or ``sample``.
        base_median_ms, new_median_ms: medians on that basis.
        base_rate, new_rate: samples a second at those medians; None without a batch size.
        base_samples_ms, new_samples_ms: the steady samples of all runs, on that basis.
        ratio: new over base; above 1 is slower.
        interval: 95 % interval of the ratio; None where there are too few samples for one, or it
            is not ``told``. With ``between`` it is about runs of this code, else about the steps
            of these two runs.
        enough: so many samples that a difference can be sure.
        real: the interval excludes 1 and there are enough samples.
        needed: steady steps (with ``between``, runs) on each side to see a change of this size;
            None without a change.
        smallest_percent: smallest slow-down that these samples would show.
        statement: the above in a sentence.
        between: how much runs differ; None where that cannot be known.
        told: there may be an interval: not of fewer than six independent steps on a side, though
            they are enough for what is concluded.
    """

    label: str
    basis: Literal["step", "sample"]
    base_median_ms: float
    new_median_ms: float
    base_samples_ms: tuple[float, ...]
    new_samples_ms: tuple[float, ...]
    ratio: float
    interval: Interval | None
    enough: bool
    real: bool
    needed: int | None
    smallest_percent: float | None
    statement: str
    base_rate: float | None = None
    new_rate: float | None = None
    between: Between | None = None
    told: bool = True

    JSON_PROPERTIES: ClassVar[tuple[str, ...]] = ("change_percent",)

    @property
    def change_percent(self) -> float:
        """Change of the time, percent of the base; above 0 is slower."""
        return (self.ratio - 1) * 100


class Figure(Struct, frozen=True):
    """One figure of both sides that was taken once, so without an interval.

    Attributes:
        key: its name in summary.json.
        name: for people.
        unit: ``ms``, ``ms/sample``, ``us``, ``%`` or empty.
        better: which way is better.
    """

    key: str
    name: str
    unit: str
    base: float | None
    new: float | None
    better: Better = "lower"

    JSON_PROPERTIES: ClassVar[tuple[str, ...]] = ("change_percent",)

    @property
    def change_percent(self) -> float | None:
        """Change in percent of the base; of a figure in percent its difference in points."""
        if self.base is None or self.new is None:
            return None
        if self.unit == "%":
            return self.new - self.base
        return (self.new / self.base - 1) * 100 if self.base else None


class Share(Struct, frozen=True):
    """Time and count of one category, source line or module; None on a side without it.

    A phase of the iteration has no count.
    """

    name: str
    base_ms: float | None
    new_ms: float | None
    base_ops: int | None = None
    new_ops: int | None = None

    @property
    def change_ms(self) -> float:
        """Difference, what is missing counting as 0."""
        return (self.new_ms or 0.0) - (self.base_ms or 0.0)


class OpKind(Struct, frozen=True):
    """What tells ops apart: name, shapes of inputs and output, data types, memory."""

    op: str
    shapes: str = ""
    types: str = ""
    memory: str = ""


class OpChange(Struct, frozen=True):
    """Ops of one kind on both sides.

    Attributes:
        base, new: the kinds; they differ where status is ``changed``, one is None where ``added``
            or ``removed``.
        changed: which of ``shapes``, ``types``, ``memory`` differ.
        base_count, new_count: ops in the step.
        base_ms, new_ms: their time together; None where none of them was timed.
        position: of the first of them in its step, from 0 (in the new one unless removed); None
            when the order is not known.
    """

    status: Status
    base: OpKind | None
    new: OpKind | None
    base_count: int
    new_count: int
    base_ms: float | None
    new_ms: float | None
    position: int | None = None
    changed: tuple[str, ...] = ()

    @property
    def op(self) -> str:
        """Name of the op."""
        kind = self.new or self.base
        return "" if kind is None else kind.op

    @property
    def change_ms(self) -> float:
        """Difference of the times, what is missing counting as 0."""
        return (self.new_ms or 0.0) - (self.base_ms or 0.0)


class Ops(Struct, frozen=True):
    """All ops of both steps, most difference first.

    Attributes:
        time: what their times are: ``device time`` or ``self time``.
        by: ``kind`` (single ops were there on both sides) or ``name`` (a summary.json alone, which
            has the slowest names only).
        counts: ops per status: pairs for ``same`` and ``changed``, else ops.
        note: what the reader must know.
    """

    time: str
    by: Literal["kind", "name"]
    changes: tuple[OpChange, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str | None = None


class Difference(Struct, frozen=True):
    """One thing beside the code that is not the same on both sides.

    Attributes:
        what: e.g. ``torch version``.
        weight: ``doubt`` when it may explain the difference that was measured; ``note`` when it
            is likely what was to be compared.
        meaning: in words; empty where it goes without saying.
    """

    what: str
    base: str
    new: str
    weight: Weight = "note"
    meaning: str = ""


class Comparison(Struct, frozen=True):
    """Everything that two runs say about each other, independent of how it is shown.

    Attributes:
        base, new: the sides.
        basis: ``step``, or ``sample`` where the batch sizes differ: then every time is a step's
            time over its batch size.
        iteration: from the start of a step to that of the next, or what an update of micro-steps
            takes; None where that is not known of both sides, or iterations are of several kinds.
        timings: the wall clock per label that both sides have, the base's main one first.
        device: device time of the steady steps; None without several on both sides.
        mixed: sides with steps of several kinds: their labels are in no timing.
        figures: the rest, taken once.
        owners: phases of the iteration, the one that changed most first; empty without them on both
            sides.
        owners_busy: sides whose machine was busy while their phases were measured.
        owners_of: what these owners share: an iteration, or a micro-step where both have them.
        categories, lines, modules: device time; empty without it on both sides.
        ops: the single ops; None without them on one side.
        differences: of the environments.
        notes: what to doubt.
    """

    base: SideFacts
    new: SideFacts
    basis: Literal["step", "sample"] = "step"
    iteration: Timing | None = None
    timings: tuple[Timing, ...] = ()
    device: Timing | None = None
    mixed: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    owners: tuple[Share, ...] = ()
    owners_busy: tuple[str, ...] = ()
    owners_of: str = "iteration"
    categories: tuple[Share, ...] = ()
    ops: Ops | None = None
    lines: tuple[Share, ...] = ()
    modules: tuple[Share, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def timing(self) -> Timing | None:
        """The wall clock of the main label; None when it was not timed on both sides."""
        return self.timings[0] if self.timings else None

    @property
    def main(self) -> Timing | None:
        """What a conclusion, and a gate, rests on: the iteration, else the timed region."""
        return self.iteration or self.timing

    def to_json(self) -> dict[str, Any]:
        """The document: JSON types only, NaN and infinity as null."""
        return {"schema": SCHEMA, **plain(self)}


def leading(comparisons: Sequence[Comparison]) -> list[Timing | None]:
    """Of each what it concludes from; of all the timed region where one has nothing else."""
    if all(each.iteration is not None for each in comparisons):
        return [each.iteration for each in comparisons]
    return [each.timing for each in comparisons]


def document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The document of one comparison, or of several with the same base."""
    found = [each.to_json() for each in comparisons]
    return found[0] if len(found) == 1 else {"schema": SEVERAL_SCHEMA, "comparisons": found}
