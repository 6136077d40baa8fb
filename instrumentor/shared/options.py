"""What a user may choose about the rewriting, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import COPY, DEVICE, MEASURE, OUTPUT, USUAL, Checked, option
from instrumentor_analysis.shared.warning_codes import explained, near

if TYPE_CHECKING:
    from instrumentor.shared.observed import Observed
    from instrumentor.shared.variant import Variant

SCOPES = ("auto", "fwd-bwd", "step")
MODES = ("auto", "train", "inference")
HOST_READS = ("moved", "as-written")
PROFILERS = ("auto", "tracy", "torch", "wallclock")
#: The first compiles, the second captures a trace where there is one.
INFERENCE_WARMUP = 3
#: Steady samples where their number is fixed and was not asked for.
INFERENCE_STEADY, TRAINING_STEADY = 10, 4


def names(text: str) -> tuple[str, ...]:
    """A comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def warning_codes(text: str) -> tuple[str, ...]:
    """A comma-separated list of codes of warnings.

    Raises:
        UsageError: one is of no warning.
    """
    codes = tuple(code.upper() for code in names(text))
    for code in codes:
        if explained(code) is None:
            raise no_warning(code)
    return codes


def no_warning(code: str) -> UsageError:
    """The error of a code or name that no warning has, with those that may be meant."""
    found = [f"{each.code} ({each.kind})" for each in near(code)]
    hint = (
        f"Did you mean {', '.join(found)}?"
        if found
        else "Which there are: instrument explain-warning"
    )
    return UsageError(f"{code} is no warning", hint)


def parse_region(text: str) -> tuple[str, int, int]:
    """`FILE:START-END` or `START-END` as (file or '', start, end).

    Raises:
        UsageError: no two line numbers, or the wrong way round.
    """
    file, _, lines = text.rpartition(":")
    start, _, end = lines.partition("-")
    if not (start.isdigit() and end.isdigit()) or int(end) < int(start):
        raise UsageError(f"--region {text}: expected FILE:START-END")
    return file, int(start), int(end)


def parse_loop(text: str) -> tuple[str, int]:
    """`FILE:LINE` or `LINE` as (file or '', line).

    Raises:
        UsageError: no line number.
    """
    file, _, line = text.rpartition(":")
    if not line.isdigit():
        raise UsageError(f"--loop {text}: expected FILE:LINE")
    return file, int(line)


@dataclass(frozen=True)
class Options(Checked):
    """Choices for locating and rewriting; each option's help says what it means.

    Attributes:
        region: (file or '', first line, last line).
        loop: (file or '', line).
        profiler: written into the copy as its default.
        self_contained: the instrumented file holds the recorder itself, so that it runs anywhere;
            else it imports :data:`instrumentor.runtime.bundle.MODULE`.
        variant: further changes that go into the copy (`instrument tune`).
        seen: what a run of the script has shown of its step, where reading does not show it.
        test: which tests of the file pytest starts (`::test_step[bf16]`, '' for all of them); None
            for a script that is started as one.
        inference: inference's own numbers of steps hold where none were asked for.

    Raises:
        UsageError: a value out of range.
    """

    profiler: str = option(
        MEASURE,
        "auto",
        "How to measure; auto: tracy with a Tenstorrent device, else torch.",
        choices=PROFILERS,
    )
    steps: int | None = option(
        USUAL,
        None,
        "Samples to take, including warm-up; default: until the median is known to 1 % (20 to 200, "
        "see --time-budget); under Tracy 5, or 13 for inference and --region.",
        metavar="N",
        minimum=1,
    )
    warmup: int | None = option(
        MEASURE,
        None,
        "Warm-up steps to discard; default: until steps get no faster; with --steps and under "
        "Tracy 1 (the first step), 3 for inference and --region. Use 3 with runtime trace.",
        metavar="N",
        minimum=0,
    )
    time_budget_s: float = option(
        MEASURE,
        30.0,
        "Seconds for the steady steps, where --steps does not say how many.",
        "--time-budget",
        metavar="S",
        above=0,
    )
    phases: int | None = option(
        MEASURE,
        None,
        "Extra iterations after the samples, with a barrier around each phase: data, prepare, "
        "forward, backward, optimizer, other; 0: none; default: a few, but none with --steps, "
        "under Tracy, and on torch_xla, which has to compile each phase.",
        metavar="N",
        minimum=0,
    )
    scope: str = option(
        MEASURE,
        "auto",
        "What a sample covers: forward and backward, or the whole step with the optimizer.",
        choices=SCOPES,
    )
    loop: tuple[str, int] | None = option(
        MEASURE,
        None,
        "The training loop to take when there are several.",
        metavar="FILE:LINE",
        convert=parse_loop,
    )
    mode: str = option(
        MEASURE,
        "auto",
        "Which loop to time: training, or inference (under no_grad); auto: whichever the script "
        "has.",
        choices=MODES,
    )
    region: tuple[str, int, int] | None = option(
        MEASURE,
        None,
        "Time these lines instead of a loop's step.",
        metavar="FILE:START-END",
        convert=parse_region,
    )
    keep_validation: bool = option(COPY, False, "Leave initial and in-loop validation in place.")
    skip_validation: bool = option(
        COPY,
        False,
        "Skip also the validation that something else may depend on; what the step reads stays.",
    )
    skip_saving: bool = option(
        COPY, False, "Skip also the saving that something else may depend on."
    )
    host_reads: str = option(
        COPY,
        "moved",
        "Host reads of a step: after the timed region, or where the script has them (on XLA they "
        "may run the forward again).",
        choices=HOST_READS,
    )
    only: tuple[str, ...] = option(
        COPY,
        (),
        "Apply only these passes of entry, region, host_reads, early_stop, validation, "
        "checkpoints, cache_clears and ending (the recorder always).",
        metavar="PASS,...",
        convert=names,
    )
    skip: tuple[str, ...] = option(
        COPY, (), "Leave these passes out.", metavar="PASS,...", convert=names
    )
    ignore_warnings: tuple[str, ...] = option(
        OUTPUT,
        (),
        "Do not show these warnings (W205,W206); the report says how many there were.",
        metavar="CODE,...",
        convert=warning_codes,
    )
    multi_chip: bool = option(
        DEVICE,
        False,
        "Measure a script that drives several chips from one process (a mesh in its YAML, SPMD, "
        "DTensor).",
    )
    self_contained: bool = False
    variant: Variant | None = None
    seen: Observed | None = None
    test: str | None = None
    inference: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_validation and self.skip_validation:
            raise UsageError("--keep-validation and --skip-validation exclude each other")
        if self.steps is None or self.steps > self.leading:
            return
        if self.inference and self.warmup is None:
            raise UsageError(
                f"--steps {self.steps} leaves no steady step after the {self.leading} warm-up "
                "steps of inference",
                f"Give --steps {self.leading + 4} or more, or fewer with --warmup 1.",
            )
        raise UsageError(
            f"--steps {self.steps} leaves no steady step after --warmup {self.leading}",
            f"Give --steps {self.leading + 4} or more.",
        )

    @property
    def leading(self) -> int:
        """Samples that are not steady, at least."""
        own = INFERENCE_WARMUP if self.inference else 1
        return own if self.warmup is None else self.warmup

    @property
    def samples(self) -> int:
        """Samples in all where their number is fixed."""
        own = self.leading + (INFERENCE_STEADY if self.inference else TRAINING_STEADY)
        return own if self.steps is None else self.steps

    @property
    def budget_s(self) -> float | None:
        """Seconds for the steady steps; None where their number is fixed."""
        return self.time_budget_s if self.steps is None else None
