"""What was measured as data frames of pandas, for notebooks and other tools.

Units stand in the names of the columns, NaN is what was not measured, and each frame says in
``attrs["columns"]`` what its columns hold. pandas is imported here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd

from instrumentor_analysis.compare.comparing import compare
from instrumentor_analysis.compare.model import Figure, Timing
from instrumentor_analysis.compare.side import load_side
from instrumentor_analysis.load.op_columns import COLUMNS
from instrumentor_analysis.summary.summarise import analyse

if TYPE_CHECKING:
    from instrumentor_analysis.ops.window import StepChoice

Source: TypeAlias = "Path | str"

_UNITS = ("_ms", "_s", "_percent", "_samples", "_tokens")
#: What the columns hold; a unit at the end of a name is that of the column.
STEPS = {
    "step": "name of the step, as in the record and the signposts",
    "index": "its number, from 0",
    "label": "what was timed, e.g. fwd+bwd",
    "kind": "compile, warmup or steady; only steady steps count for the figures",
    "wall_clock_ms": "from the begin of the region until the device is idle",
    "start_s": "begin of the region, on the script's own clock",
    "iteration_ms": "from its begin to that of the next step",
    "data_ms": "of that, waiting for torch's data loaders",
    "optimizer_ms": "of that, the optimizers' steps",
    "batch_samples": "samples in its batches",
    "batch_tokens": "tokens in its batches",
    "device": "type of the device that was waited for",
}
PHASES = {
    "phase": "part of an iteration, e.g. data, fwd+bwd, optimizer",
    "label": "what was timed in these iterations",
    "time_ms": "its share of the median iteration",
    "iteration_percent": "the same as a share",
}
COMPARISON = {
    "figure": "what is compared",
    "unit": "of base and new",
    "base": "median, or the one value, of the first run",
    "new": "that of the second",
    "change_percent": "from base to new; of a figure in percent the difference in points",
    "low_percent": "lower end of the 95 % interval of that change, where there is one",
    "high_percent": "its upper end",
    "real": "the interval excludes no change, and rests on enough samples",
    "better": "which way is better: lower, higher or neither",
}


def ops(source: Source, step: StepChoice = None) -> pd.DataFrame:
    """One row per op of a step.

    Of a device the columns are those of :data:`.op_columns.COLUMNS`; under torch.profiler those of
    its ops.csv. Empty where the source has no ops.

    Args:
        source: a run folder, a report folder of Tracy, or an ops CSV.
        step: as for :func:`.summarise.summarise`.

    Raises:
        AnalysisError: nothing was measured, or the ops cannot be read.
    """
    found = analyse(Path(source), step).ops
    told = {each.name: f"{each.csv} {each.unit}".strip() for each in COLUMNS}
    frame = pd.DataFrame(columns=[*told]) if found is None else found.to_pandas()
    frame.attrs["columns"] = {str(name): told.get(str(name), "") for name in frame.columns}
    return frame


def steps(source: Source) -> pd.DataFrame:
    """One row per timed step of a run folder, in order: the columns of :data:`STEPS`."""
    timings = analyse(Path(source)).timings
    taken = {each.name: each for each in timings.iterations}

    def rows() -> Iterator[tuple[object, ...]]:
        for one in timings.samples:
            whole = taken.get(one.name)
            parts = (whole.ms, whole.data_ms, whole.optimizer_ms) if whole else (None,) * 3
            clock = (one.ms, one.start_s, *parts)
            batch = one.samples, one.tokens, one.device
            yield (one.name, one.index, one.label, one.kind, *clock, *batch)

    return _frame(STEPS, rows())


def phases(source: Source) -> pd.DataFrame:
    """One row per part of an iteration: the columns of :data:`PHASES`."""
    every = analyse(Path(source)).summary.wall_clock_by_label.values()
    rows = (
        (part.name, each.label, part.ms, part.percent)
        for each in every
        if each.iteration is not None
        for part in each.iteration.parts
    )
    return _frame(PHASES, rows)


def comparison(base: Source, new: Source) -> pd.DataFrame:
    """One row per figure of two runs: the columns of :data:`COMPARISON`.

    Args:
        base, new: run folders, summary.json files or ops CSVs.

    Raises:
        AnalysisError: one cannot be read.
        NotComparable: their figures mean different things.
    """
    found = compare(load_side(base), load_side(new))
    times = [*found.timings, *([found.device] if found.device else [])]
    return _frame(COMPARISON, (*map(_timing, times), *map(_figure, found.figures)))


def _timing(one: Timing) -> tuple[object, ...]:
    ends = (one.interval.low, one.interval.high) if one.interval else ()
    low, high = ((end - 1) * 100 for end in ends) if ends else (None, None)
    unit = "ms" if one.basis == "step" else "ms/sample"
    both = one.base_median_ms, one.new_median_ms
    return one.label, unit, *both, one.change_percent, low, high, one.real, "lower"


def _figure(one: Figure) -> tuple[object, ...]:
    figures = one.base, one.new, one.change_percent
    return one.name, one.unit, *figures, None, None, None, one.better


def _frame(columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]) -> pd.DataFrame:
    frame = pd.DataFrame.from_records([*rows], columns=[*columns])
    for name in frame.columns:
        if name in ("base", "new") or name.endswith(_UNITS):
            frame[name] = pd.to_numeric(frame[name])
    frame.attrs["columns"] = dict(columns)
    return frame
