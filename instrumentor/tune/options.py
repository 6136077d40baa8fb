"""What a user may choose about a tuning, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instrumentor.errors import UsageError
from instrumentor.options import Options
from instrumentor.tune.levers import lever

#: Steady steps in a trial below which no difference is ever sure.
FEWEST_STEADY = 4


@dataclass(frozen=True)
class TuneOptions:
    """Choices of a tuning.

    Attributes:
        rewrite: for locating and rewriting; by default 3 warm-up and 10 steady steps.
        levers: names, in any order; empty means all.
        batch_sizes: tried instead of the usual ones.
        budget_s: no trial is started after that time, and none runs on beyond it.
        timeout_s: limit of one trial; by default 10 times the baseline's, 300 s at least.
        loss_tolerance: relative change of the median loss that is allowed.
        output: the folder; None makes `<name>_tune` in the working directory.
        jobs: trials at once under Slurm.
        executor_parameters: handed to submitit's `update_parameters`.
        run: further choices for each run (python, tt_xla, link, no_link).

    Raises:
        UsageError: a value out of range.
    """

    rewrite: Options = field(default_factory=lambda: Options(steps=13, warmup=3))
    levers: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    strategy: str = "one-at-a-time"
    budget_s: float | None = None
    timeout_s: float | None = None
    loss_tolerance: float = 1e-2
    output: Path | None = None
    executor: str = "local"
    jobs: int = 1
    executor_parameters: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    cwd: Path | None = None

    def __post_init__(self) -> None:
        steady = self.rewrite.steps - self.rewrite.warmup
        if steady < FEWEST_STEADY:
            raise UsageError(
                f"{steady} steady steps cannot show a significant difference",
                f"Give --steps {self.rewrite.warmup + 10} or so.",
            )
        if self.budget_s is not None and self.budget_s <= 0:
            raise UsageError("--budget: must be above 0 minutes")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise UsageError("--trial-timeout: must be above 0 seconds")
        if self.loss_tolerance < 0:
            raise UsageError("--loss-tolerance: cannot be negative")
        if any(size < 1 for size in self.batch_sizes):
            raise UsageError("--batch-sizes: must be 1 or more")
        for name in self.levers:
            lever(name)
