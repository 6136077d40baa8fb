"""Explain every Python file of a folder: `python -m instrumentor.corpus DIR...`.

Prints the tally (instrumented, declined by kind, warnings, errors) and can write a CSV. A file
whose bytes cannot hold a backward is declined before it is parsed, so the cost goes with bytes.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor.errors import InstrumentError

_SKIPPED_FOLDERS = frozenset(
    {".git", "__pycache__", "node_modules", ".venv", ".tox", ".mypy_cache"}
)
_COLUMNS = ("file", "outcome", "kind", "line", "message", "loop", "warnings", "bytes", "ms")


@dataclass(frozen=True)
class Verdict:
    """What became of one file.

    Attributes:
        outcome: instrumented, declined or error (a bug of ours: the message says which).
        kind: the reason's kind when declined, the exception's name when error.
        loop: line of the loop when instrumented.
        size_bytes, duration_ms: of the file, and what it took.
    """

    file: Path
    outcome: str
    kind: str = ""
    line: int = 0
    message: str = ""
    loop: int = 0
    warnings: int = 0
    size_bytes: int = 0
    duration_ms: float = 0.0


@dataclass(frozen=True)
class Tally:
    """Counts over a corpus."""

    files: int
    outcomes: Counter[str]
    declined: Counter[str]
    warnings: int
    duration_s: float
    errors: tuple[Verdict, ...] = field(default=())


def judge(path: Path) -> Verdict:
    """Rewrite one file in memory, with all proofs; never raises."""
    start = time.perf_counter()
    try:
        data = path.read_bytes()
    except OSError as error:
        return Verdict(path, "error", type(error).__name__, message=str(error))

    def verdict(outcome: str, kind: str = "", line: int = 0, message: str = "") -> Verdict:
        spent = (time.perf_counter() - start) * 1000
        return Verdict(path, outcome, kind, line, message, size_bytes=len(data), duration_ms=spent)

    if b"backward" not in data:
        return verdict("declined", "no-backward", 1, "the text holds no backward")
    from instrumentor.locate.model import Declined
    from instrumentor.rewrite import rewrite

    try:
        rewritten = rewrite(data, filename=str(path))
    except Declined as declined:
        reason = declined.reasons[0]
        return verdict("declined", reason.kind, reason.line, reason.message)
    except InstrumentError as error:
        ours = type(error).__name__ == "ProofFailed"
        return verdict("error" if ours else "declined", type(error).__name__, 0, error.message)
    except Exception as error:  # noqa: BLE001 - a corpus run must name our own bugs and go on
        return verdict("error", type(error).__name__, 0, str(error))
    loop = rewritten.plan.explanation["loop"]["line"]
    spent = (time.perf_counter() - start) * 1000
    return Verdict(
        path, "instrumented", "", loop, "", loop, len(rewritten.plan.warnings), len(data), spent
    )


def find_files(roots: Iterable[Path]) -> Iterator[Path]:
    """Python files below the roots, links to folders not followed."""
    for root in roots:
        if root.is_file():
            yield root
            continue
        for folder, names, files in os.walk(root):
            names[:] = sorted(n for n in names if n not in _SKIPPED_FOLDERS)
            yield from (Path(folder) / f for f in sorted(files) if f.endswith(".py"))


def survey(
    roots: Sequence[Path],
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> Tally:
    """Judge all files below `roots` in parallel.

    Args:
        jobs: worker processes; None takes all cores.
        progress: gets (done, all) as files finish.
        on_verdict: gets each verdict, in order of the files.
    """
    start = time.perf_counter()
    files = list(find_files(roots))
    outcomes: Counter[str] = Counter()
    declined: Counter[str] = Counter()
    errors: list[Verdict] = []
    warnings = 0
    with ProcessPoolExecutor(max_workers=jobs or os.cpu_count()) as pool:
        for done, verdict in enumerate(pool.map(judge, files, chunksize=16), 1):
            outcomes[verdict.outcome] += 1
            warnings += verdict.warnings
            if verdict.outcome == "declined":
                declined[verdict.kind] += 1
            elif verdict.outcome == "error":
                errors.append(verdict)
            if on_verdict is not None:
                on_verdict(verdict)
            if progress is not None:
                progress(done, len(files))
    return Tally(
        len(files), outcomes, declined, warnings, time.perf_counter() - start, tuple(errors)
    )


def write_csv(path: Path, verdicts: Iterable[Verdict]) -> None:
    """One row a file."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        for v in verdicts:
            writer.writerow(
                (
                    v.file,
                    v.outcome,
                    v.kind,
                    v.line,
                    v.message,
                    v.loop,
                    v.warnings,
                    v.size_bytes,
                    f"{v.duration_ms:.1f}",
                )
            )


def report(tally: Tally) -> str:
    """The tally as text."""
    lines = [f"{tally.files} files in {tally.duration_s:.1f} s"]
    lines += [f"  {name:<14}{count:>7}" for name, count in tally.outcomes.most_common()]
    if tally.declined:
        lines.append("declined by reason")
        lines += [f"  {kind:<20}{count:>7}" for kind, count in tally.declined.most_common()]
    lines.append(f"warnings on instrumented files: {tally.warnings}")
    lines += [f"error: {e.file}: {e.kind}: {e.message}" for e in tally.errors]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m instrumentor.corpus [--csv FILE] DIR...`; 1 when a file showed a bug of ours."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m instrumentor.corpus", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--csv", type=Path, help="write one row per file")
    parser.add_argument("--jobs", type=int, help="worker processes (default: all cores)")
    options = parser.parse_args(argv)
    return show(options.folders, options.csv, options.jobs)


def show(folders: Sequence[Path], csv_file: Path | None, jobs: int | None) -> int:
    """Survey with a progress bar on a terminal; print the tally."""
    from instrumentor import console

    verdicts: list[Verdict] = []
    tally = survey(folders, jobs=jobs, progress=console.progress_bar(), on_verdict=verdicts.append)
    console.out(report(tally))
    if csv_file is not None:
        write_csv(csv_file, verdicts)
        console.say(f"Wrote {csv_file}")
    return 1 if tally.errors else 0


if __name__ == "__main__":
    sys.exit(main())
