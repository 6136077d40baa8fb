"""What a user may choose about a kernel's run, as one value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor.errors import UsageError
from instrumentor.kernels.choice import Choice
from instrumentor.kernels.environment import MODES
from instrumentor.kernels.validate import Criteria

_SHAPE = re.compile(r"\d+(?:x\d+)*")


@dataclass(frozen=True)
class KernelOptions:
    """Choices of a measured invocation.

    Attributes:
        mode: auto-profile, perf or signposts.
        output: the run folder; None makes `<name>_kernel` in the working directory.
        run_test: path of run-test.sh, `auto` to look for it, `no` to run directly.
        production: shapes of the arguments in production; the last one stands for the rest.
        chips: chips that production will use.
        timeout_s: limit for one run, seconds.
        stall_s: how long nothing may happen before it is said.
        env: environment of the script; None means this process's own.

    Raises:
        UsageError: a value out of range.
    """

    choice: Choice = field(default_factory=Choice)
    mode: str = "perf"
    output: Path | None = None
    python: str | None = None
    run_test: str = "auto"
    criteria: Criteria = field(default_factory=Criteria)
    production: tuple[tuple[int, ...], ...] = ()
    chips: int = 1
    timeout_s: float | None = None
    stall_s: float | None = 120.0
    cwd: Path | None = None
    env: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"--mode {self.mode}: must be one of {', '.join(MODES)}")
        if self.chips < 1:
            raise UsageError(f"--chips {self.chips}: must be 1 or more")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise UsageError(f"--timeout {self.timeout_s:g}: must be above 0 seconds")


def parse_shapes(text: str) -> tuple[tuple[int, ...], ...]:
    """`8192x8192` or `8192x4096,4096x8192` as shapes.

    Raises:
        UsageError: it is no such list.
    """
    shapes = []
    for part in filter(None, (piece.strip().lower() for piece in text.split(","))):
        if not _SHAPE.fullmatch(part) or len(part) > 100:
            raise UsageError(
                f"--production-shape {text}: expected ROWSxCOLS",
                "One shape for all arguments, or one for each: 8192x4096,4096x8192.",
            )
        shapes.append(tuple(int(extent) for extent in part.split("x")))
    return tuple(shapes)
