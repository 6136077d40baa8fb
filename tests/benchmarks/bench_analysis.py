"""The analysis against tt-perf-report 1.4.1 on the same files, in one run: ratios.

Usage: python tests/benchmarks/bench_analysis.py [--ops 500000] [--keep FOLDER]

Every measurement is a process of its own: CPU seconds (user and system) and peak resident
memory, as the kernel counts them; the cheapest of several, theirs and ours by turns. Both sides
run from compiled bytecode, as installed packages do. Nothing is asserted; the targets stand
beside the figures.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Compiled modules of this run, whatever the environment says of writing them.
_BYTECODE = Path(tempfile.gettempdir()) / f"bench_analysis_bytecode_{os.getuid()}"

THEIRS = "import sys; from tt_perf_report.perf_report import main; sys.exit(main())"
COMMAND = "from instrumentor.cli.main import main; main()"
OURS = """
import sys
from pathlib import Path
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.ops.op_report import per_op_report
report = per_op_report(Path(sys.argv[1]), ReportOptions({options}))
assert len(report.ops) == int(sys.argv[2]), len(report.ops)
"""
OURS_SUMMARY = """
import sys
from pathlib import Path
from instrumentor_analysis.summary.summarise import summarise
assert summarise(Path(sys.argv[1])).op_count == int(sys.argv[2])
"""


@dataclass(frozen=True)
class Cost:
    """CPU seconds and peak resident megabytes of one process."""

    seconds: float
    megabytes: float


def measure(code: str, *arguments: str, repeat: int = 1) -> Cost:
    """Run Python code in a fresh process; the cheapest of several."""
    return min((_once(code, arguments) for _ in range(repeat)), key=lambda cost: cost.seconds)


def by_turns(
    theirs: tuple[str, ...], *ours: tuple[str, ...], repeat: int = 3
) -> tuple[Cost, list[Cost]]:
    """The cheapest of several of each, one after the other in every round."""
    rounds = [[_once(code, rest) for code, *rest in (theirs, *ours)] for _ in range(repeat)]
    first, *others = [
        min(same, key=lambda cost: cost.seconds) for same in zip(*rounds, strict=True)
    ]
    return first, others


def _once(code: str, arguments: Sequence[str]) -> Cost:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", code, *arguments],
        environment | {"PYTHONPYCACHEPREFIX": str(_BYTECODE)},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0o600)],
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"a measured process failed ({status}): {code[:60]} {arguments}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def show(what: str, theirs: Cost, ours: Cost, target: str) -> None:
    """One line of the table."""
    print(
        f"{what:50} {theirs.seconds:7.2f} s {theirs.megabytes:6.0f} MB |"
        f" {ours.seconds:6.2f} s {ours.megabytes:5.0f} MB |"
        f" {theirs.seconds / ours.seconds:5.1f}x CPU {theirs.megabytes / ours.megabytes:4.1f}x MB"
        f" | must: {target}",
        flush=True,
    )


def main() -> None:
    """Generate the files, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=500_000)
    parser.add_argument("--keep", type=Path, help="folder of the generated files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        _run(folder, arguments.ops)


def _file(folder: Path, ops: int, *, paired: bool = True) -> Path:
    sys.path.insert(0, str(HERE))
    from ops_csv import write

    path = folder / f"ops_{ops}{'' if paired else '_unpaired'}.csv"
    if not path.exists():
        write(path, ops, paired=paired)
    return path


def _run(folder: Path, ops: int) -> None:
    print(f"{'':50} {'tt-perf-report':>21} | {'instrument report':>17} |")
    _steps(folder, ops)
    _small(folder)
    _whole(folder, 20_000, "12x CPU", repeat=3)
    _growth(folder, ops)
    _whole(folder, ops, "25x CPU, below 1000 MB", repeat=1)


def _steps(folder: Path, ops: int) -> None:
    """One step of a large file, by our signposts and by somebody's own."""
    step = (ops // 2000) - 1
    quiet = ("--no-color", "--no-summary", "--no-advice")
    windows = {
        "_start and _end": (f"step_steady_{step}_start", f"step_steady_{step}_end"),
        "other signposts": (f"iteration {step - 1}", f"iteration {step}"),
    }
    for at, (what, (start, end)) in enumerate(windows.items()):
        large = str(_file(folder, ops, paired=at == 0))
        named = ("--start-signpost", start, "--end-signpost", end)
        library = OURS.format(options=f"start_signpost={start!r}, end_signpost={end!r}")
        theirs, (command, own) = by_turns(
            (THEIRS, large, *quiet, *named),
            (COMMAND, "report", large, *quiet, *named),
            (library, large, "2000"),
        )
        show(f"one step (2000) of {ops} ops, {what}", theirs, command, "10x CPU, below 300 MB")
        show("  as a library", theirs, own, "-")


def _small(folder: Path) -> None:
    """From process start to the last line, of files that take no time."""
    for size in (27, 2000):
        path = str(_file(folder, size))
        theirs, (command, summary) = by_turns(
            (THEIRS, path, "--no-color", "--ignore-signposts"),
            (COMMAND, "report", path, "--no-color", "--ignore-signposts"),
            (OURS_SUMMARY, path, str(size)),
            repeat=5,
        )
        show(f"{size} ops, whole, from process start", theirs, command, "0.5 s")
        show("  its summary as a library", theirs, summary, "-")


def _whole(folder: Path, ops: int, target: str, repeat: int) -> None:
    """All ops to a CSV, on both sides without the stacked report."""
    out = ("--csv", str(folder / "out.csv"), "--ignore-signposts", "--no-summary", "--no-advice")
    path = str(_file(folder, ops))
    theirs, (command,) = by_turns(
        (THEIRS, path, "--no-color", *out),
        (COMMAND, "report", path, "--no-color", "--force", *out),
        repeat=repeat,
    )
    show(f"whole file to a CSV, {ops} ops", theirs, command, target)


def _growth(folder: Path, ops: int) -> None:
    """That the cost of an op does not grow with the file."""
    whole = OURS.format(options="ignore_signposts=True")
    start = measure("import instrumentor_analysis.ops.op_report", repeat=3).seconds
    for size in (20_000, 100_000, 500_000):
        if size <= ops:
            count = size + 2 * (size // 2000) + 1
            cost = measure(whole, str(_file(folder, size)), str(count), repeat=2)
            per_op = (cost.seconds - start) / size * 1e6
            print(f"growth: {size:7} ops {cost.seconds:6.2f} s, {per_op:.2f} us per op")


if __name__ == "__main__":
    main()
