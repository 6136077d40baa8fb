"""tt-lang's own profilers, as the way to measure a kernel: they print what they count.

The protocol is that of :mod:`instrumentor.run.profilers.base`. The copy is started by tt-lang's
``run-test.sh`` where there is one, else directly.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from instrumentor.kernels.environment import environment
from instrumentor.run.profilers import Artifacts, Launch, LaunchRequest
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.files import copy

DEVICE_LOG = "profile_log_device.csv"
RUN_TEST = "run-test.sh"
_FOLDERS = ("", "tools", "scripts", "bin")
_FLAGS = {"auto-profile": ("--auto-profile",), "perf": ("--perf",)}


def find_run_test(root: Path, asked: str, env: Mapping[str, str]) -> Path | None:
    """run-test.sh: the one asked for, on PATH, or in the project.

    Args:
        asked: a path, ``auto`` or ``no``.

    Raises:
        UsageError: the one asked for does not exist.
    """
    if asked == "no":
        return None
    if asked != "auto":
        path = Path(asked).expanduser().absolute()
        if not path.is_file():
            raise UsageError(
                f"--run-test {asked}: does not exist", "Give a path, or `no` to run directly."
            )
        return path
    found = shutil.which(RUN_TEST, path=env.get("PATH"))
    if found:
        return Path(found).absolute()
    candidates = (root / folder / RUN_TEST for folder in _FOLDERS)
    return next((path for path in candidates if path.is_file()), None)


def why_not(mode: str, files: int) -> str:
    """Why run-test.sh cannot take a run to the device; '' where it can.

    Args:
        files: how many files of the project were changed.
    """
    if mode not in _FLAGS:
        return f"has no flag for --mode {mode}"
    return f"takes one file, {files} were changed" if files > 1 else ""


class TtLang(Struct, frozen=True):
    """One mode of tt-lang's profilers.

    Attributes:
        mode: auto-profile, perf or signposts.
        run_test: run-test.sh, which takes the script to the device; None runs it directly.
        since: when the run began, Unix seconds: an older device log is another kernel's.
    """

    mode: str
    run_test: Path | None
    since: float
    name: str = "tt-lang"

    @property
    def via(self) -> str:
        """``direct``, or the path of run-test.sh."""
        return "direct" if self.run_test is None else str(self.run_test)

    def launch(self, request: LaunchRequest) -> Launch:
        """The script's command, with the variables of the mode."""
        argv = (str(request.script), *request.arguments)
        variables = {**environment(request.env, self.mode), "PYTHONUNBUFFERED": "1"}
        if self.run_test is None:
            argv = (str(request.python), *argv)
            variables["INSTRUMENT_RECORD"] = str(request.record)
        else:
            # Without -v it shows the last 30 lines only. The record would be a file of another
            # machine: the gate prints its events instead.
            argv = (str(self.run_test), "-v", *_FLAGS[self.mode], "--hw", *argv)
        return Launch(argv, variables, request.cwd)

    def collect(self, scratch: Path, output: Path, returncode: int) -> Artifacts:
        """No artifacts: the gate's records and the log hold it all."""
        return Artifacts()

    def keep_device_log(self, base: dict[str, str], folder: Path) -> None:
        """Copy the structured log, when this run wrote it.

        Args:
            base: the user's environment.
        """
        home = base.get("TT_METAL_HOME", "")
        candidates = [Path(home) / "generated" / "profiler" / ".logs" / DEVICE_LOG] if home else []
        moved = base.get("TTLANG_PROFILE_CSV", "")
        if moved and self.mode == "auto-profile":
            candidates.insert(0, Path(moved))
        for path in candidates:
            # A second of tolerance, since file systems may keep coarser times than the clock.
            if path.is_file() and path.stat().st_mtime >= self.since - 1:
                copy(path, folder / DEVICE_LOG)
                return
