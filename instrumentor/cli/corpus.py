"""What `instrument explain --summary` prints: which files of folders can be instrumented.

A file whose bytes cannot hold a backward is declined before it is parsed, so the cost goes with
bytes.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.reports.formatting import plural
from instrumentor_analysis.shared.documents import plain
from instrumentor_analysis.shared.files import read_bytes

SCHEMA = "instrument-survey/1"
_SKIPPED_FOLDERS = frozenset(
    {".git", "__pycache__", "node_modules", ".venv", ".tox", ".mypy_cache"}
)


class Verdict(Struct, frozen=True):
    """What became of one file.

    Attributes:
        outcome: instrumented, declined or error (a bug of ours: the message says which).
        kind: the reason's kind when declined, the exception's name when error.
        warnings: how many there are when instrumented.
    """

    file: Path
    outcome: str
    kind: str = ""
    message: str = ""
    warnings: int = 0


def judge(path: Path) -> Verdict:
    """Rewrite one file in memory, with all proofs; never raises."""
    from instrumentor.locate.located import Declined
    from instrumentor.rewrite import rewrite
    from instrumentor.rewrite.engine import MARKER

    try:
        data = read_bytes(path)
        if b"backward" not in data:
            return Verdict(path, "declined", "no-backward", "the text holds no backward")
        if MARKER.encode() in data:
            return Verdict(path, "declined", "instrumented", f"it holds the marker '{MARKER}'")
        rewritten = rewrite(data, filename=str(path))
    except Declined as declined:
        reason = declined.reasons[0]
        return Verdict(path, "declined", reason.kind, reason.message)
    except Exception as error:  # noqa: BLE001 - a summary must name our own bugs and go on
        return Verdict(path, "error", type(error).__name__, str(error))
    return Verdict(path, "instrumented", warnings=len(rewritten.plan.warnings))


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
    roots: Sequence[Path], progress: Callable[[int, int], None] | None = None
) -> list[Verdict]:
    """Judge all files below `roots` on all cores; the verdicts in order of the files.

    Args:
        progress: gets (done, all) as files finish.
    """
    files, verdicts = list(find_files(roots)), list[Verdict]()
    # Processes, as parsing holds the interpreter's lock; in chunks, as most files take no time.
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for verdict in pool.map(judge, files, chunksize=16):
            verdicts.append(verdict)
            if progress is not None:
                progress(len(verdicts), len(files))
    return verdicts


def report(verdicts: Sequence[Verdict], duration_s: float) -> str:
    """The tally as text."""
    outcomes = Counter(v.outcome for v in verdicts)
    declined = Counter(v.kind for v in verdicts if v.outcome == "declined")
    lines = [f"{plural(len(verdicts), 'file')} in {duration_s:.1f} s"]
    lines += [f"  {name:<14}{count:>7}" for name, count in outcomes.most_common()]
    if declined:
        lines.append("declined by reason")
        lines += [f"  {kind:<20}{count:>7}" for kind, count in declined.most_common()]
    lines.append(f"warnings on instrumented files: {sum(v.warnings for v in verdicts)}")
    errors = (v for v in verdicts if v.outcome == "error")
    lines += [f"error: {e.file}: {e.kind}: {e.message}" for e in errors]
    return "\n".join(lines)


def show(folders: Sequence[Path], *, json: bool = False) -> int:
    """Survey with a progress bar on a terminal, and print the tally.

    Args:
        json: print the document ``instrument-survey/1`` in its place: the verdict on each file.

    Returns:
        The exit code: 1 when a file showed a bug of ours.
    """
    from instrumentor.shared import console

    start = time.perf_counter()
    verdicts = survey(folders, console.progress_bar())
    duration_s = time.perf_counter() - start
    if json:
        files = [{**plain(verdict), "file": str(verdict.file)} for verdict in verdicts]
        head = {"schema": SCHEMA, "duration_s": round(duration_s, 3)}
        console.out_json({**head, "files": files})
    else:
        console.out(report(verdicts, duration_s))
    return 1 if any(v.outcome == "error" for v in verdicts) else 0
