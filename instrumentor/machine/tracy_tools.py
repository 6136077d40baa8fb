"""Tracy's capture and export programs, and whether the runtime is built to be captured."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from instrumentor.machine.interpreter import Package
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.files import opened, read_text

# The capture and the export program, as they were called before and after 0.75.
TOOL_NAMES = (("capture-release", "csvexport-release"), ("tracy-capture", "tracy-csvexport"))
# As tracy/common.py names them (CSVEXPROT is its own spelling).
_TOOL_CONSTANT = re.compile(r'^TRACY_(CAPTURE|CSVEXP)\w*_TOOL\s*=\s*"([^"]+)"', re.MULTILINE)

# What drives a device, and can have tt-metal's library beside it.
_RUNTIMES = ("pjrt_plugin_tt", "tt_crank", "ttnn")
_LIBRARIES = ("build/lib/libtt_metal.so", "lib/libtt_metal.so", "../lib/libtt_metal.so")
# The file that a build with Tracy writes the device's zones to: the others do not know its name.
_DEVICE_LOG = b"profile_log_device.csv"
_LARGEST_LIBRARY = 2**30


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
                said = dict(_TOOL_CONSTANT.findall(read_text(file, "replace")))
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
    for name in (*_RUNTIMES, "tracy"):
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


def library_without_tracy(packages: Mapping[str, Package]) -> Path | None:
    """tt-metal's library of the installed runtimes, if none of them is built with Tracy.

    Such a build ends in a TT_FATAL where the device's profiler is asked for. None also where no
    library is found.
    """
    folders = [
        folder for name in _RUNTIMES if name in packages for folder in packages[name].folders
    ]
    found = [
        folder / name for folder in folders for name in _LIBRARIES if (folder / name).is_file()
    ]
    return None if not found or any(map(_knows_device_log, found)) else found[0]


def _knows_device_log(library: Path) -> bool:
    """Yes where that cannot be told."""
    try:
        if not 0 < library.stat().st_size < _LARGEST_LIBRARY:
            return True
        with (
            opened(library) as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            return text.find(_DEVICE_LOG) >= 0
    except OSError:
        return True
