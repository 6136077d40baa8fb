"""What a user may choose about the rewriting, as one value."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import MEASURE, Checked, option

if TYPE_CHECKING:
    from instrumentor.shared.variant import Variant

SCOPES = ("auto", "fwd-bwd", "step")
MODES = ("auto", "train", "inference")
HOST_READS = ("moved", "as-written")
PROFILERS = ("auto", "tracy", "torch", "wallclock")
#: The first compiles, the second captures a trace where there is one.
INFERENCE_WARMUP = 3


def names(text: str) -> tuple[str, ...]:
    """A comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


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
        region_label: what those lines hold, where a run has shown it: "fwd+bwd" or "step".
        loop: (file or '', line).
        profiler: written into the copy as its default.
        self_contained: the instrumented file holds the recorder itself, so that it runs anywhere;
            else it imports :data:`instrumentor.runtime.bundle.MODULE`.
        variant: further changes that go into the copy (`instrument tune`).
        test: which tests of the file pytest starts (`::test_step[bf16]`, '' for all of them); None
            for a script that is started as one.
        given: which of ``steps`` and ``warmup`` were asked for, and so have no other defaults in
            inference.

    Raises:
        UsageError: a value out of range.
    """

    profiler: str = option(
        MEASURE,
        "auto",
        "How to measure; auto: tracy with a Tenstorrent device, else torch.",
        choices=PROFILERS,
    )
    steps: int = option(
        MEASURE,
        5,
        "Samples to take, including warm-up; default 5, or 13 for inference and --region.",
        optional=True,
    )
    warmup: int = option(
        MEASURE,
        1,
        "Leading samples that are not steady: default 1 (the compile step), 3 for inference and "
        "--region; give 3 with runtime trace.",
        minimum=0,
        optional=True,
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
    region_label: str = "region"
    keep_validation: bool = option(MEASURE, False, "Leave initial and in-loop validation in place.")
    host_reads: str = option(
        MEASURE,
        "moved",
        "Host reads of a step: after the timed region, or where the script has them (on XLA they "
        "may run the forward again).",
        choices=HOST_READS,
    )
    only: tuple[str, ...] = option(
        MEASURE,
        (),
        "Apply only these passes (the recorder always).",
        metavar="PASS,...",
        convert=names,
    )
    skip: tuple[str, ...] = option(
        MEASURE, (), "Leave these passes out.", metavar="PASS,...", convert=names
    )
    self_contained: bool = False
    variant: Variant | None = None
    test: str | None = None
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps <= self.warmup:
            raise UsageError(
                f"--steps {self.steps} leaves no steady step after --warmup {self.warmup}",
                f"Give --steps {self.warmup + 4} or more.",
            )


def for_inference(options: Options) -> Options:
    """The options with inference's own defaults (3 warm-up, 10 steady) where none were given.

    Raises:
        UsageError: the steps asked for leave none that is steady.
    """
    # `given` is the command line's; from the library only another value tells that it was chosen.
    defaults = Options()
    own_steps = "steps" in options.given or options.steps != defaults.steps
    own_warmup = "warmup" in options.given or options.warmup != defaults.warmup
    warmup = options.warmup if own_warmup else INFERENCE_WARMUP
    steps = options.steps if own_steps else warmup + 10
    if steps <= warmup and not own_warmup:
        raise UsageError(
            f"--steps {steps} leaves no steady step after the {warmup} warm-up steps of inference",
            f"Give --steps {warmup + 4} or more, or fewer with --warmup 1.",
        )
    return dataclasses.replace(options, steps=steps, warmup=warmup)
