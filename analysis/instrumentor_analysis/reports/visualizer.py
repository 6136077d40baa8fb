"""The folder that ttnn-visualizer takes as a performance report.

It wants one folder, and directly in it ``profile_log_device.csv`` and a file whose name begins
with ``ops_perf_results`` and ends in ``.csv``; ``tracy_profile_log_host.tracy`` may stand beside
them. Its reports are told apart by the folder's name.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

DEVICE_LOG = "profile_log_device.csv"
HOST_TRACE = "tracy_profile_log_host.tracy"
OPS = "ops_perf_results.csv"
#: What was made of an earlier look is no source of this one.
OURS = "ttnn_visualizer"


class Contents(Struct, frozen=True):
    """Which files make the report.

    Attributes:
        files: name in the report to the file that it is.
        missing: names that ttnn-visualizer insists on and that the run does not have.
    """

    files: dict[str, Path]
    missing: tuple[str, ...]


def contents(run: Path, ops_csv: Path | None = None) -> Contents:
    """Look for the files in a run folder or a Tracy report folder.

    Args:
        ops_csv: a CSV that lies in neither; what belongs to it lies beside it.
    """
    if ops_csv is not None:
        name = ops_csv.name if ops_csv.name.startswith("ops_perf_results") else OPS
        beside = {each: ops_csv.with_name(each) for each in (DEVICE_LOG, HOST_TRACE)}
        found_beside = {each: path for each, path in beside.items() if path.is_file()}
        missing_log = () if DEVICE_LOG in found_beside else (DEVICE_LOG,)
        return Contents({name: ops_csv, **found_beside}, missing_log)
    files: dict[str, Path] = {}
    ops = run / "tracy_perf" / OPS
    if ops.is_file():
        files[OPS] = ops
    else:
        found = sorted(run.glob("ops_perf_results*.csv"))
        if found:
            files[found[-1].name] = found[-1]
    for name in (DEVICE_LOG, HOST_TRACE):
        newest = _newest(run, name)
        if newest is not None:
            files[name] = newest
    missing = [] if any(name.startswith("ops_perf_results") for name in files) else [OPS]
    if DEVICE_LOG not in files:
        missing.append(DEVICE_LOG)
    return Contents(files, tuple(missing))


def _newest(run: Path, name: str) -> Path | None:
    """The newest file of that name: of the reports first, else of Tracy's .logs."""
    found = [path for path in run.rglob(name) if path.relative_to(run).parts[0] != OURS]
    found.sort(key=lambda path: (".logs" not in path.parts, path.stat().st_mtime))
    return found[-1] if found else None
