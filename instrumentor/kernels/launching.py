"""How the copy is started: by tt-lang's ``run-test.sh`` where there is one, else directly."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instrumentor.errors import UsageError

NAME = "run-test.sh"
_FOLDERS = ("", "tools", "scripts", "bin")
_FLAGS = {"auto-profile": ("--auto-profile",), "perf": ("--perf",)}


@dataclass(frozen=True)
class Start:
    """A command line.

    Attributes:
        via: ``direct`` or the path of run-test.sh.
        note: why not run-test.sh although there is one, or an empty string.
    """

    argv: tuple[str, ...]
    via: str
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
    found = shutil.which(NAME, path=env.get("PATH"))
    if found:
        return Path(found).absolute()
    candidates = (root / folder / NAME for folder in _FOLDERS)
    return next((path for path in candidates if path.is_file()), None)


def start(
    python: Path,
    script: Path,
    arguments: Sequence[str],
    mode: str,
    run_test: Path | None,
    *,
    files: int,
) -> Start:
    """The command line for one run.

    Args:
        files: how many files of the project were changed; run-test.sh takes only the script to
            the machine with the device.
    """
    direct = (str(python), str(script), *arguments)
    if run_test is None:
        return Start(direct, "direct")
    if mode not in _FLAGS:
        return Start(direct, "direct", f"{NAME} has no flag for --mode {mode}: run directly")
    if files > 1:
        return Start(direct, "direct", f"{NAME} takes one file, {files} were changed: run directly")
    # Without -v it shows the last 30 lines only.
    argv = (str(run_test), "-v", *_FLAGS[mode], "--hw", str(script), *arguments)
    return Start(argv, str(run_test))
