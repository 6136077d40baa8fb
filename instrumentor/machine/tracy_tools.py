"""Tracy's capture and export programs: how they are called, and where they may be."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from instrumentor.machine.interpreter import Package
from instrumentor.shared.errors import UsageError

# The capture and the export program, as they were called before and after 0.75.
TOOL_NAMES = (("capture-release", "csvexport-release"), ("tracy-capture", "tracy-csvexport"))
# As tracy/common.py names them (CSVEXPROT is its own spelling).
_TOOL_CONSTANT = re.compile(r'^TRACY_(CAPTURE|CSVEXP)\w*_TOOL\s*=\s*"([^"]+)"', re.MULTILINE)


class Tools(Struct, frozen=True):
    """Tracy's two programs, in one folder."""

    folder: Path
    capture: Path
    csvexport: Path


def find_tools(
    asked: Path | None = None,
    packages: Mapping[str, Package] | None = None,
    tt_xla: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Tools | None:
    """Tracy's capture and export programs, under the names that the installed package uses.

    Looked for in the folder asked for, else beside the wheels, in tt-xla's installs, and where
    tt-metal's build leaves them: below TT_METAL_HOME and the working directory.

    Args:
        asked: the folder of ``--tracy-tools-folder``.
        packages: of the script's interpreter, by import name.
        tt_xla: a checkout of tt-xla.
        env: names TT_METAL_HOME.
        cwd: the working directory of the run.

    Returns:
        the two programs, or None where they are not found.

    Raises:
        UsageError: the folder asked for does not hold them.
    """
    packages = packages or {}
    wanted = tool_names(packages.get("tracy"))
    if asked is not None:
        found = tools_in(asked, wanted)
        if found is None:
            raise UsageError(
                f"--tracy-tools-folder {asked}: no {spelled(wanted)} in it.",
                "Give the folder that holds the programs of this version of Tracy, such as "
                "third_party/tt-mlir/install/bin or build_Release/tools/profiler/bin.",
            )
        return found
    for folder in _tool_folders(packages, tt_xla, env or {}, cwd):
        found = tools_in(folder, wanted)
        if found is not None:
            return found
    return None


def tool_names(tracy: Package | None) -> tuple[tuple[str, str], ...]:
    """The pairs of names that this package would run; every known pair where it does not say."""
    for folder in tracy.folders if tracy else ():
        for file in (folder / "common.py", folder / "_original" / "common.py"):
            if file.is_file():
                said = dict(_TOOL_CONSTANT.findall(file.read_text("utf-8", errors="replace")))
                if len(said) == 2:
                    return ((said["CAPTURE"], said["CSVEXP"]),)
    return TOOL_NAMES


def spelled(names: Iterable[tuple[str, str]]) -> str:
    """Pairs of program names, as a sentence has them."""
    return " or ".join(" and ".join(pair) for pair in names)


def tools_in(folder: Path, names: Iterable[tuple[str, str]] = TOOL_NAMES) -> Tools | None:
    """The two programs in this folder, if both are there and can be run."""
    for capture, export in names:
        pair = folder / capture, folder / export
        if all(path.is_file() and os.access(path, os.X_OK) for path in pair):
            return Tools(folder.absolute(), *(path.absolute() for path in pair))
    return None


def _tool_folders(
    packages: Mapping[str, Package],
    tt_xla: Path | None,
    env: Mapping[str, str],
    cwd: Path | None,
) -> Iterable[Path]:
    # Wheels that CI builds carry no programs, so builds and installs are looked at as well.
    for name in ("pjrt_plugin_tt", "tt_crank", "ttnn", "tracy"):
        for folder in packages[name].folders if name in packages else ():
            yield folder / "bin"
            yield folder.parent / "bin"
            yield from _built(folder)
            # tt-crank from its sources: <root>/python/tt_crank beside <root>/build
            yield folder.parent.parent / "build" / "third_party" / "tt-mlir-install" / "bin"
    if tt_xla is not None:
        mlir = tt_xla / "third_party" / "tt-mlir"
        yield mlir / "install" / "bin"
        yield mlir / "install" / "tt-metal" / "tools" / "profiler" / "bin"
        yield from _built(tt_xla)
        for root in mlir.glob("src/tt-mlir/third_party/tt-metal/src/tt-metal"):
            yield from _built(root)
    for home in (env.get("TT_METAL_HOME"), env.get("TT_METAL_RUNTIME_ROOT"), cwd):
        if home:
            yield from _built(Path(home))


def _built(root: Path) -> list[Path]:
    return sorted(root.glob("build*/tools/profiler/bin"))
