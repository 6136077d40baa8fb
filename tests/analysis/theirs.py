"""Run the real tt-perf-report and hold a report of ours against its CSVs, cell by cell."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instrumentor_analysis.ops.op_report import Report
from tests.waiting import HANG_S

#: Column of its per-op CSV -> column of our frame.
COLUMNS = {
    "ID": "id",
    "Total %": "total_percent",
    "Bound": "bound",
    "OP Code": "op",
    "Device": "device_id",
    "Device Time": "device_time_us",
    "Op-to-Op Gap": "gap_us",
    "Cores": "cores",
    "DRAM": "dram_gb_s",
    "DRAM %": "dram_percent",
    "FLOPs": "tflops",
    "FLOPs %": "flops_percent",
    "Math Fidelity": "math_fidelity",
    "Output Datatype": "output_datatype",
    "Input 0 Datatype": "input_0_datatype",
    "Input 1 Datatype": "input_1_datatype",
    "DRAM Sharded": "dram_sharded",
    "Input 0 Memory": "input_0_memory",
    "Inner Dim Block Size": "in0_block_w",
    "Output Subblock H": "out_subblock_h",
    "Output Subblock W": "out_subblock_w",
    "Global Call Count": "global_call_count",
    "Sub Device ID": "sub_device_id",
    "Available Cores": "available_cores",
    "Op Category": "tt_perf_report_category",
    "Bound Analysis": "bound_analysis",
}
#: Column of its stacked CSV (two decimals) -> column of our frame.
STACKED = {
    "Total % [%]": "percent",
    "Device Time Sum [μs]": "device_time_us",
    "Op Count": "count",
    "Op Category": "tt_perf_report_category",
    "Min FLOPs [%]": "flops_percent_min",
    "Max FLOPs [%]": "flops_percent_max",
    "Mean FLOPs [%]": "flops_percent_mean",
    "Std FLOPs [%]": "flops_percent_std",
    "Weighted Mean FLOPs [%]": "flops_percent_weighted_mean",
}
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Theirs:
    """What one run of it wrote and printed; ``crashed`` is its exception, or None."""

    rows: list[dict[str, str]]
    stacked: list[dict[str, str]]
    printed: str
    crashed: str | None


# One process for all cases: importing matplotlib takes longer than most of them. The chart is
# left out, its numbers are those of the stacked CSV.
_DRIVER = """
import contextlib, io, json, sys, traceback
from tt_perf_report import perf_report
perf_report.plot_stacked_report = lambda *args, **kwargs: None
for line in sys.stdin:
    sys.argv = ["tt-perf-report", *json.loads(line)]
    out, crashed = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(out):
            perf_report.main()
    except SystemExit as end:
        crashed = f"exit {end.code}" if end.code else None
    except Exception as error:
        crashed = f"{type(error).__name__}: {error}"
    print(json.dumps({"printed": out.getvalue(), "crashed": crashed}), flush=True)
"""


def run(cases: Sequence[tuple[Sequence[Path], Sequence[str]]], out: Path) -> list[Theirs]:
    """Run it on every case of (CSVs, options)."""
    lines: list[str] = []
    for number, (sources, options) in enumerate(cases):
        target = str(out / f"{number}.csv")
        lines.append(json.dumps([*map(str, sources), "--no-color", "--csv", target, *options]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _DRIVER],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        Theirs(
            _rows(out / f"{number}.csv"),
            _rows(out / f"{number}_stacked.csv"),
            answer["printed"],
            answer["crashed"],
        )
        for number, answer in enumerate(answers)
    ]


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def differences(report: Report, theirs: Sequence[dict[str, str]], *, advice: bool) -> list[str]:
    """Every cell that differs: "line: column: theirs | ours"."""
    found: list[str] = []
    if len(theirs) != len(report.ops):
        found.append(f"{len(theirs)} rows | {len(report.ops)} rows")
    columns = {name: report.ops[ours].tolist() for name, ours in COLUMNS.items()}
    for at, row in enumerate(theirs[: len(report.ops)]):
        for name, values in columns.items():
            if not same(row[name], values[at]):
                found.append(f"ID {row['ID']}: {name}: {row[name]!r} | {values[at]!r}")
        if advice:
            ours = " • ".join(report.advice.get(at, ()))
            if row["Advice"] != ours:
                found.append(f"ID {row['ID']}: Advice: {row['Advice']!r} | {ours!r}")
    return found


def stacked_differences(report: Report, theirs: Sequence[dict[str, str]]) -> list[str]:
    """The same for the stacked report; its numbers have two decimals."""
    per_device = "Device" in (theirs[0] if theirs else {})
    keys = ["name", "device_id"] if per_device else ["name"]
    ours = {
        tuple(str(row[k]) if k == "name" else int(row[k]) for k in keys): row
        for row in report.stacked.records()
    }
    found: list[str] = []
    if len(theirs) != len(ours):
        found.append(f"{len(theirs)} rows | {len(ours)} rows")
    for row in theirs:
        key = (row["Op Code"], int(row["Device"])) if per_device else (row["Op Code"],)
        mine = ours.get(key)
        if mine is None:
            found.append(f"{key} is not in ours")
            continue
        for name, column in STACKED.items():
            if name in row and not same(row[name], mine[column], absolute=0.00501):
                found.append(f"{key}: {name}: {row[name]!r} | {mine[column]!r}")
    return found


def same(theirs: str, ours: Any, absolute: float = 0.0) -> bool:
    """Equal as text, or as numbers within the tolerance; blank, nan and None are one."""
    blank = theirs in ("", "nan")
    if ours is None or (isinstance(ours, float) and math.isnan(ours)) or ours == "":
        return blank
    if blank:
        return False
    if isinstance(ours, (bool, str)):
        return theirs == str(ours)
    try:
        number = float(theirs)
    except ValueError:
        return False
    return math.isclose(number, float(ours), rel_tol=TOLERANCE, abs_tol=absolute)
