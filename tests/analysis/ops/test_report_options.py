"""What may be chosen of a per-op report, and what is refused before a file is read."""

from __future__ import annotations

import pytest

from instrumentor_analysis.ops.report_options import ReportOptions, parse_id_range
from instrumentor_analysis.shared.errors import BadOption


@pytest.mark.parametrize(
    ("written", "bounds"),
    [("5-10", (5, 10)), ("31-", (31, None)), ("-12", (None, 12)), ("1,000-2,000", (1000, 2000))],
)
def test_id_ranges(written: str, bounds: tuple[int | None, int | None]) -> None:
    assert parse_id_range(written) == bounds
    for odd in ("", "-", "5", "a-b", f"{written}-3"):
        with pytest.raises(BadOption, match="not a range of IDs"):
            parse_id_range(odd)


def test_two_windows_are_refused() -> None:
    ReportOptions(step=1, tracing_mode=True).check()
    for options in (
        ReportOptions(step=0, ignore_signposts=True),
        ReportOptions(step="all", end_signpost="x"),
    ):
        with pytest.raises(BadOption, match="each choose a window"):
            options.check()
