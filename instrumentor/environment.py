"""What is on this machine for a given script: interpreter, packages, devices, Tracy's tools.

Nothing heavy is imported and no device is opened; the script's interpreter is asked once (see
:mod:`instrumentor.interpreter`).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor.errors import UsageError
from instrumentor.interpreter import Package, ask, find_interpreter, look

DEVICE_ROOT = Path("/dev/tenstorrent")
DEVICE_ROOT_VARIABLE = "INSTRUMENT_DEVICE_ROOT"
# The capture and the export program, as they were called before and after 0.75.
TOOL_NAMES = (("capture-release", "csvexport-release"), ("tracy-capture", "tracy-csvexport"))
# As tracy/common.py names them (CSVEXPROT is its own spelling).
_TOOL_CONSTANT = re.compile(r'^TRACY_(CAPTURE|CSVEXP)\w*_TOOL\s*=\s*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Tools:
    """Tracy's two programs, in one folder."""

    folder: Path
    capture: Path
    csvexport: Path


@dataclass(frozen=True)
class Holder:
    """A process that has a device open. ``age_s`` in seconds."""

    pid: int
    user: str
    age_s: float
    command: str
    devices: tuple[Path, ...]


@dataclass(frozen=True)
class Machine:
    """What a run of one script finds here.

    Attributes:
        python: the script's interpreter.
        python_source: why this one; see :class:`instrumentor.interpreter.Interpreter`.
        python_version: such as ``3.11.4``; empty where the interpreter was not asked and nothing
            beside it says so.
        packages: by import name, only those found.
        devices: device nodes, in order.
        tt_xla: a tt-xla checkout, if one was named or stands beside the project.
        tools: Tracy's programs, if found.
        notes: what was looked at and passed over, for ``doctor``.
        python_of_project: the interpreter, or its name, comes with the project.
        asked: the interpreter itself said all this; not so where only its folders were read.
    """

    python: Path
    python_source: str
    python_version: str
    packages: Mapping[str, Package] = field(default_factory=dict)
    devices: tuple[Path, ...] = ()
    tt_xla: Path | None = None
    tools: Tools | None = None
    notes: tuple[str, ...] = ()
    python_of_project: bool = False
    asked: bool = True

    def has(self, package: str) -> bool:
        """Whether the script's interpreter would find this package."""
        return package in self.packages

    def version_of(self, package: str) -> str | None:
        """The package's version, None when absent or unknown."""
        found = self.packages.get(package)
        return found.version if found else None

    @property
    def import_paths(self) -> tuple[Path, ...]:
        """Folders that a run adds to PYTHONPATH after its own: tt-xla's python_package."""
        return (self.tt_xla / "python_package",) if self.tt_xla else ()


def examine(
    project: Path,
    *,
    python: Path | str | None = None,
    tt_xla: Path | None = None,
    tools_folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    device_root: Path | None = None,
    configured: bool = False,
    preview: bool = False,
) -> Machine:
    """Look at this machine once.

    Args:
        project: root of the repository that holds the script.
        python: the interpreter asked for: a path, a name on PATH, or an environment's folder.
        tt_xla: the checkout asked for; else one is looked for beside ``project``.
        tools_folder: folder of Tracy's programs asked for.
        env: environment of the run, the process's own by default.
        cwd: working directory of the run, ``project`` by default.
        device_root: folder of the device nodes.
        configured: ``python`` is named in a pyproject.toml.
        preview: nothing will be run: an interpreter that comes with the project is not started.

    Raises:
        UsageError: something that was asked for does not exist.
        NotReady: the interpreter does not run.
    """
    env = dict(os.environ if env is None else env)
    chosen = find_interpreter(project, python, env, configured=configured)
    checkout = find_tt_xla(project, tt_xla)
    folders = [checkout / "python_package"] if checkout is not None else []
    entries = env["PYTHONPATH"].split(os.pathsep) if env.get("PYTHONPATH") else []
    folders += [(cwd or project) / entry for entry in entries]
    asked = not (preview and chosen.of_project)
    version, packages = ask(chosen.path, env, folders) if asked else look(chosen.path, folders)
    return Machine(
        python=chosen.path,
        python_source=chosen.source,
        python_version=version,
        packages=packages,
        devices=find_devices(device_root, env),
        tt_xla=checkout,
        tools=find_tools(tools_folder, packages, checkout, env, cwd or project),
        notes=chosen.notes,
        python_of_project=chosen.of_project,
        asked=asked,
    )


def find_devices(
    root: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """The device nodes, in numeric order; empty when there is no Tenstorrent card."""
    root = root or device_root(env)
    if not root.is_dir():
        return ()
    nodes = [path for path in root.iterdir() if not path.is_dir()]
    return tuple(sorted(nodes, key=lambda path: (len(path.name), path.name)))


def device_root(env: Mapping[str, str] | None = None) -> Path:
    """The folder of the device nodes; ``INSTRUMENT_DEVICE_ROOT`` names another one for tests."""
    environment = os.environ if env is None else env
    return Path(environment.get(DEVICE_ROOT_VARIABLE) or DEVICE_ROOT)


def find_tt_xla(project: Path, asked: Path | None = None) -> Path | None:
    """The tt-xla checkout: the one asked for, else a sibling of the project or of a parent.

    Raises:
        UsageError: the one asked for has no ``python_package``.
    """
    if asked is not None:
        if not (asked / "python_package").is_dir():
            raise UsageError(
                f"--tt-xla {asked}: no python_package folder in it.",
                "Give the root of a tt-xla checkout.",
            )
        return asked.absolute()
    beside = project.absolute().parent / "tt-xla"
    return beside if (beside / "python_package").is_dir() else None


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


def device_holders(root: Path | None = None) -> tuple[Holder, ...]:
    """The processes that have a device open, as far as this user may see."""
    import getpass
    import time

    import psutil

    prefix = str(root or device_root()) + os.sep
    holders = []
    for process in psutil.process_iter():
        try:
            opened = opened_below(process.pid, prefix)
            if not opened:
                continue
            with process.oneshot():
                holders.append(
                    Holder(
                        pid=process.pid,
                        user=process.username() or getpass.getuser(),
                        age_s=max(0.0, time.time() - process.create_time()),
                        command=" ".join(process.cmdline()) or process.name(),
                        devices=tuple(Path(path) for path in opened),
                    )
                )
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return tuple(holders)


def opened_below(pid: int, prefix: str) -> list[str]:
    """Files below a folder that a process has open, as far as this user may see."""
    opened = set()
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                target = str(link.readlink())
                if target.startswith(prefix):
                    opened.add(target)
    except OSError:  # ended meanwhile, or another user's
        return []
    return sorted(opened)
