"""What a user may choose about a tuning, as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instrumentor.run.options import RunOptions
from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import MEASURE, OUTPUT, WHERE, Checked, option
from instrumentor.shared.options import Options, names
from instrumentor.tune.settings import SETTINGS, setting

EXECUTORS = ("local", "slurm")
STRATEGIES = ("one-at-a-time", "grid")
#: Steady steps in a trial below which no difference is ever sure.
#: (see ratio.chance_of_separation: 2 / C(8, 4) is the first below 5 %).
#: One more, for the last step is the end of no iteration.
FEWEST_STEADY = 5


def parse_sizes(text: str) -> tuple[int, ...]:
    """`8,16,32` as numbers.

    Raises:
        UsageError: something else.
    """
    try:
        return tuple(int(word) for word in names(text))
    except ValueError as error:
        raise UsageError(f"--batch-sizes {text}: expected numbers, as in 8,16,32") from error


def parse_parameters(given: Sequence[str]) -> dict[str, Any]:
    """Words `KEY=VALUE` by key; whole numbers as such.

    Raises:
        UsageError: a word without a key or `=`.
    """
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--executor-option {text}: expected KEY=VALUE")
        found[key] = int(value) if value.isdigit() else value
    return found


@dataclass(frozen=True)
class TrialOptions(Options):
    """How a trial is rewritten: with enough steps to tell a difference."""

    phases: int | None = 0
    steps: int = option(MEASURE, 23, "Samples to take in each trial, the warm-up included.")
    warmup: int = option(
        MEASURE,
        3,
        "Leading samples of each trial that are not steady: compilation, trace capture.",
        minimum=0,
    )


@dataclass(frozen=True)
class TuneOptions(Checked):
    """Choices of a tuning.

    Attributes:
        budget_s: no trial is started after that time, and none runs on beyond it.
        run: of each trial's run, what says where it runs: python, tt_xla, link, no_link, keep_copy.

    Raises:
        UsageError: a value out of range.
    """

    rewrite: Options = field(default_factory=TrialOptions)
    settings: tuple[str, ...] = option(
        MEASURE,
        (),
        f"What to try: {', '.join(one.name for one in SETTINGS)}; default all.",
        metavar="SETTING,...",
        convert=names,
    )
    batch_sizes: tuple[int, ...] = option(
        MEASURE,
        (),
        "Batch sizes to try; default 1 to 32, and up to 4 times the script's own.",
        metavar="N,...",
        convert=parse_sizes,
        minimum=1,
    )
    strategy: str = option(
        MEASURE,
        "one-at-a-time",
        "one-at-a-time: each setting on top of the best so far; grid: all combinations.",
        choices=STRATEGIES,
    )
    budget_s: float | None = option(
        MEASURE,
        None,
        "Seconds for the whole tuning.",
        "--time-budget",
        metavar="S",
        above=0,
        once=True,
    )
    timeout_s: float | None = option(
        WHERE,
        None,
        "Limit of one trial, seconds; default 10 times the baseline, at least 300.",
        "--trial-timeout",
        metavar="S",
        above=0,
    )
    loss_tolerance: float = option(
        MEASURE,
        1e-2,
        "Relative change of the median loss above which a setting is not recommended.",
        minimum=0,
    )
    allow_busy: bool = option(
        MEASURE,
        False,
        "Go on and recommend although the machine is busy, or two runs of the unchanged script "
        "differ by more than 20 %.",
    )
    output: Path | None = option(
        OUTPUT,
        None,
        "Output folder; default instrument-runs/NAME_tune-N in the working directory.",
        *("-o", "--output"),
        metavar="DIR",
        variable=False,
    )
    executor: str = option(
        WHERE, "local", "Where trials run (through submitit).", choices=EXECUTORS
    )
    jobs: int = option(WHERE, 1, "Trials at once under Slurm, one device each.", minimum=1)
    executor_parameters: Mapping[str, Any] = option(
        WHERE,
        dict,
        "Passed to submitit's update_parameters, such as slurm_partition=tt.",
        "--executor-option",
        metavar="KEY=VALUE",
        type=list[str] | None,
        convert=parse_parameters,
    )
    run: RunOptions = field(default_factory=RunOptions)
    cwd: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        steady = self.rewrite.samples - self.rewrite.leading
        if steady < FEWEST_STEADY:
            raise UsageError(
                f"{steady} steady steps cannot show a significant difference",
                f"Give --steps {self.rewrite.leading + 10} or so.",
            )
        for name in self.settings:
            setting(name)
