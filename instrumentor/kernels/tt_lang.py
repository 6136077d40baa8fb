"""tt-lang's own profilers, as the way to measure a kernel: they print what they count.

The protocol is that of :mod:`instrumentor.profilers.base`. The copy is started by tt-lang's
``run-test.sh`` where there is one, else directly.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from instrumentor.errors import UsageError
from instrumentor.kernels.environment import environment
from instrumentor.profilers import Artifacts, Launch, LaunchRequest

DEVICE_LOG = "profile_log_device.csv"
RUN_TEST = "run-test.sh"
_FOLDERS = ("", "tools", "scripts", "bin")
_FLAGS = {"auto-profile": ("--auto-profile",), "perf": ("--perf",)}


class Start(Struct, frozen=True):
    """A command line.

    Attributes:
        via: ``direct`` or the path of run-test.sh.
        note: why not run-test.sh although there is one, or an empty string.
    """

    argv: tuple[str, ...]
    via: str = "direct"
    note: str = ""


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


class TtLang(Struct, frozen=True):
    """One mode of tt-lang's profilers.

    Attributes:
        mode: auto-profile, perf or signposts.
        run_test: run-test.sh, which takes the script to the device; None runs it directly.
        files: how many files of the project were changed; run-test.sh takes only the script to
            the machine with the device.
        since: when the run began, Unix seconds: an older device log is another kernel's.
    """

    mode: str
    run_test: Path | None
    files: int
    since: float
    name: str = "tt-lang"

    def start(self, python: Path, script: Path, arguments: tuple[str, ...]) -> Start:
        """The command line."""
        direct = (str(python), str(script), *arguments)
        if self.run_test is None:
            return Start(direct)
        why = ""
        if self.mode not in _FLAGS:
            why = f"has no flag for --mode {self.mode}"
        elif self.files > 1:
            why = f"takes one file, {self.files} were changed"
        if why:
            return Start(direct, note=f"{RUN_TEST} {why}: run directly")
        # Without -v it shows the last 30 lines only.
        argv = (str(self.run_test), "-v", *_FLAGS[self.mode], "--hw", str(script), *arguments)
        return Start(argv, str(self.run_test))

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
