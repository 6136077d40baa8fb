"""tt-lang's own profilers, as the way to measure a kernel: they print what they count.

The protocol is that of :mod:`instrumentor.profilers.base`.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from instrumentor.kernels.environment import environment
from instrumentor.kernels.launching import Start, start
from instrumentor.profilers import Artifacts, Launch, LaunchRequest

DEVICE_LOG = "profile_log_device.csv"


@dataclass(frozen=True)
class TtLang:
    """One mode of tt-lang's profilers.

    Attributes:
        mode: auto-profile, perf or signposts.
        run_test: run-test.sh, which takes the script to the device; None runs it directly.
        files: how many files of the project were changed.
        since: when the run began, Unix seconds: an older device log is another kernel's.
    """

    mode: str
    run_test: Path | None
    files: int
    since: float
    name: str = "tt-lang"

    def start(self, python: Path, script: Path, arguments: tuple[str, ...]) -> Start:
        """The command line."""
        return start(python, script, arguments, self.mode, self.run_test, files=self.files)

    def launch(self, request: LaunchRequest) -> Launch:
        """The script's command, with the variables of the mode."""
        begun = self.start(request.python, request.script, request.arguments)
        variables = {
            **environment(request.env, self.mode).variables,
            "PYTHONUNBUFFERED": "1",
            "INSTRUMENT_RECORD": str(request.record),
        }
        if begun.via != "direct":
            del variables["INSTRUMENT_RECORD"]  # it would name a file of another machine
        return Launch(begun.argv, variables, request.cwd, "the kernel script")

    def collect(self, scratch: Path, output: Path, log: str, returncode: int) -> Artifacts:
        """Nothing to move: the gate's records and the log hold it all."""
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
            if path.is_file() and path.stat().st_mtime >= self.since - 1:
                shutil.copyfile(path, folder / DEVICE_LOG)
                return
