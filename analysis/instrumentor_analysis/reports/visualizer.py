"""The folder that ttnn-visualizer takes as a performance report.

It wants one folder, and directly in it ``profile_log_device.csv`` and a file whose name begins
with ``ops_perf_results`` and ends in ``.csv``; ``tracy_profile_log_host.tracy`` may stand beside
them. Its reports are told apart by the folder's name.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.load.run_folder import ops_csvs

DEVICE_LOG = "profile_log_device.csv"
HOST_TRACE = "tracy_profile_log_host.tracy"
OPS = "ops_perf_results.csv"
#: Folder of an earlier export, which must not be taken for a source of this one.
OURS = "ttnn_visualizer"


class Contents(Struct, frozen=True):
    """Which files make the report.

    Attributes:
        files: name in the report to the file that it is.
        missing: names that ttnn-visualizer insists on and that the run does not have.
    """

    files: dict[str, Path]
    missing: tuple[str, ...]


def contents(source: Path) -> Contents:
    """Look for the files of what was read.

    A run may be somebody else's, and the report be given on: what a link in it leads to elsewhere
    is no part of it.

    Args:
        source: a run folder, a Tracy report folder, or an ops CSV with what belongs to it beside.
    """
    files: dict[str, Path] = {}
    if source.is_file():
        files[source.name if source.name.startswith("ops_perf_results") else OPS] = source
        parts = {name: source.with_name(name) for name in (DEVICE_LOG, HOST_TRACE)}
        files |= {name: path for name, path in parts.items() if _inside(path, source.parent)}
    else:
        files |= {path.name: path for path in ops_csvs(source)[-1:] if _inside(path, source)}
        newest = {name: _newest(source, name) for name in (DEVICE_LOG, HOST_TRACE)}
        files |= {name: path for name, path in newest.items() if path is not None}
    there = any(name.startswith("ops_perf_results") for name in files), DEVICE_LOG in files
    wanted = zip((OPS, DEVICE_LOG), there, strict=True)
    return Contents(files, tuple(name for name, found in wanted if not found))


def _inside(path: Path, folder: Path) -> bool:
    """Whether a file is there, and no link on its way leads out of a folder."""
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


def _newest(run: Path, name: str) -> Path | None:
    """The newest file of that name: of the reports first, else of Tracy's .logs."""
    every = (path for path in run.rglob(name) if path.relative_to(run).parts[0] != OURS)
    found = [path for path in every if _inside(path, run)]
    found.sort(key=lambda path: (".logs" not in path.parts, path.stat().st_mtime))
    return found[-1] if found else None
