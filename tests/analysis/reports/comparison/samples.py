"""Comparisons for the tests of their reports."""

from __future__ import annotations

import json
from pathlib import Path

from instrumentor_analysis.compare.comparing import compare_all
from instrumentor_analysis.compare.model import Comparison
from instrumentor_analysis.compare.side import load_side
from tests.analysis.compare.sides import side
from tests.analysis.reports.summaries import run_folder

STEADY = (100.0, 101.0, 99.0, 100.5, 99.5, 100.0)


def timed(*factors: float) -> tuple[Comparison, ...]:
    """Runs that take so many times as long as the base, by their wall clock alone."""
    runs = [side(STEADY, "base", batch_size=10)]
    for factor in factors:
        values = [value * factor for value in STEADY]
        runs.append(side(values, f"x{factor:g}", batch_size=10, run={"arguments": ["--x"]}))
    return compare_all(runs)


def traced(folder: Path) -> tuple[Comparison, ...]:
    """Two runs under Tracy; the second is faster, and has ops with hostile names."""
    base, new = run_folder(folder / "base", 7), run_folder(folder / "new", 7, hostile=True)
    record = new / "timings.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    record.write_text("".join(json.dumps({**each, "ms": each["ms"] / 2}) + "\n" for each in lines))
    return compare_all([load_side(base), load_side(new)])
