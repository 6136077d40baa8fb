"""What may be chosen of a per-op report; imported without numpy, for the command line's help."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instrumentor_analysis.shared.errors import BadOption

if TYPE_CHECKING:
    from instrumentor_analysis.ops.stacked import GroupBy
    from instrumentor_analysis.ops.window import Named, StepChoice


@dataclass(frozen=True)
class ReportOptions:
    """What to report: the options of ``instrument report`` and of tt-perf-report by those names.

    Attributes:
        start_signpost, end_signpost: borders of the window. With neither, the last complete
            steady step of our signposts; in a file without those, tt-perf-report's rule (see
            :meth:`instrumentor_analysis.ops.window.Named.select`).
        step: another of our steps, by number (0: the compile step), or ``"all"`` steady ones: a
            row per op then, its mean over the steps.
        min_percentage: rows below this share of the total are of no interest (``minor``).
    """

    step: StepChoice = None
    start_signpost: str | None = None
    end_signpost: str | None = None
    ignore_signposts: bool = False
    print_signposts: bool = False
    tracing_mode: bool = False
    id_range: str | None = None
    # tt-perf-report's default.
    min_percentage: float = 0.5
    no_host_ops: bool = False
    arch: str | None = None
    group_by: GroupBy = "memory"
    no_merge_devices: bool = False
    active_experts: int | None = None

    def check(self) -> None:
        """Refuse what no file could satisfy, before one is read.

        Raises:
            BadOption: two windows, an ID range or a number of experts that is none.
        """
        if self.step is not None and self.named.given:
            raise BadOption("--step and signposts each choose a window", "Give one of them.")
        if self.active_experts is not None and self.active_experts <= 0:
            raise BadOption("the number of active experts must be positive")
        if self.id_range is not None:
            parse_id_range(self.id_range)

    @property
    def named(self) -> Named:
        """The window, where it is no step."""
        from instrumentor_analysis.ops.window import Named

        return Named(
            self.start_signpost, self.end_signpost, self.ignore_signposts, self.tracing_mode
        )


def parse_id_range(text: str) -> tuple[int | None, int | None]:
    """``5-10``, ``31-``, ``-12`` to inclusive bounds.

    Raises:
        BadOption: anything else.
    """
    low, dash, high = (part.strip() for part in text.partition("-"))
    sound = dash and all(re.fullmatch(r"[\d,]{0,20}", part) for part in (low, high))
    low, high = low.replace(",", ""), high.replace(",", "")
    if not sound or not (low or high):
        raise BadOption(f"{text!r} is not a range of IDs", "Write 5-10, 31- or -12.")
    return (int(low) if low else None), (int(high) if high else None)
