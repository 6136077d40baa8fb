"""What is on this machine for a given script: interpreter, packages, devices, Tracy's tools.

Nothing heavy is imported and no device is opened; the script's interpreter is asked once, in a
subprocess that finds packages without loading them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor.errors import NotReady, UsageError

DEVICE_ROOT = Path("/dev/tenstorrent")
DEVICE_ROOT_VARIABLE = "INSTRUMENT_DEVICE_ROOT"
BLACKSMITH_ENVIRONMENT = Path("env/xla_env")
# The capture and the export program, as they were called before and after 0.75.
TOOL_NAMES = (("capture-release", "csvexport-release"), ("tracy-capture", "tracy-csvexport"))
PROBE_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Package:
    """A package that an interpreter would import.

    Attributes:
        version: of its distribution; None when it is a plain folder on the path.
        folders: where it stands.
    """

    name: str
    version: str | None
    folders: tuple[Path, ...] = ()


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
        python_source: why this one: ``--python``, ``VIRTUAL_ENV``, ``CONDA_PREFIX``,
            ``env/xla_env`` or ``this interpreter``.
        python_version: such as ``3.11.4``.
        packages: by import name, only those found.
        devices: device nodes, in order.
        tt_xla: a tt-xla checkout, if one was named or stands beside the project.
        tools: Tracy's programs, if found.
        notes: what was looked at and passed over, for ``doctor``.
    """

    python: Path
    python_source: str
    python_version: str
    packages: Mapping[str, Package] = field(default_factory=dict)
    devices: tuple[Path, ...] = ()
    tt_xla: Path | None = None
    tools: Tools | None = None
    notes: tuple[str, ...] = ()

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
    import_paths: Iterable[Path] = (),
    device_root: Path | None = None,
) -> Machine:
    """Look at this machine once.

    Args:
        project: root of the repository that holds the script.
        python: the interpreter asked for: a path, a name on PATH, or an environment's folder.
        tt_xla: the checkout asked for; else one is looked for beside ``project``.
        tools_folder: folder of Tracy's programs asked for.
        env: environment of the run, the process's own by default.
        cwd: working directory of the run, ``project`` by default.
        import_paths: what the run will put on PYTHONPATH first.
        device_root: folder of the device nodes.

    Raises:
        UsageError: something that was asked for does not exist.
        NotReady: the interpreter does not run.
    """
    env = dict(os.environ if env is None else env)
    chosen, source, notes = find_interpreter(project, python, env)
    checkout = find_tt_xla(project, tt_xla)
    paths = [str(path) for path in import_paths]
    if checkout is not None:
        paths.append(str(checkout / "python_package"))
    if env.get("PYTHONPATH"):
        paths.append(env["PYTHONPATH"])
    if paths:
        env["PYTHONPATH"] = os.pathsep.join(paths)
    version, packages = probe(chosen, env, cwd or project)
    return Machine(
        python=chosen,
        python_source=source,
        python_version=version,
        packages=packages,
        devices=find_devices(device_root, env),
        tt_xla=checkout,
        tools=find_tools(tools_folder, packages, checkout),
        notes=notes,
    )


def find_interpreter(
    project: Path, asked: Path | str | None, env: Mapping[str, str]
) -> tuple[Path, str, tuple[str, ...]]:
    """The script's interpreter, why it, and what was passed over.

    Raises:
        UsageError: the one asked for does not exist.
    """
    if asked is not None:
        found = _as_interpreter(Path(asked)) or _on_path(str(asked), env)
        if found is None:
            raise UsageError(
                f"--python {asked}: there is no such interpreter.",
                "Give the path of a python, or of a virtual environment.",
            )
        return found, "--python", ()
    notes: list[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        value = env.get(variable)
        if not value:
            continue
        found = _as_interpreter(Path(value))
        if found is not None:
            return found, variable, tuple(notes)
        notes.append(f"{variable}={value} holds no python and was passed over")
    found = _as_interpreter(project / BLACKSMITH_ENVIRONMENT)
    if found is not None:
        return found, str(BLACKSMITH_ENVIRONMENT), tuple(notes)
    return Path(sys.executable), "this interpreter", tuple(notes)


def _as_interpreter(path: Path) -> Path | None:
    # Never resolved: the link inside a virtual environment is what makes it that environment.
    candidates = [path / "bin" / "python", path / "bin" / "python3"] if path.is_dir() else [path]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.absolute()
    return None


def _on_path(name: str, env: Mapping[str, str]) -> Path | None:
    if os.sep in name:
        return None
    found = shutil.which(name, path=env.get("PATH"))
    return Path(found) if found else None


def probe(python: Path, env: Mapping[str, str], cwd: Path) -> tuple[str, dict[str, Package]]:
    """Ask an interpreter for its version and packages.

    Raises:
        NotReady: it does not start or does not answer.
    """
    source = (Path(__file__).parent / "runtime" / "probe.py").read_text(encoding="utf-8")
    try:
        answer = subprocess.run(
            [str(python), "-c", source],
            env=dict(env),
            cwd=cwd,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            text=True,
            errors="replace",
            check=False,
        )
        # A sitecustomize may print; the answer is the last line.
        told = json.loads((answer.stdout.strip().splitlines() or [""])[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise NotReady(
            f"The interpreter {python} does not answer: {error}",
            "Name another one with --python (3.8 or newer).",
        ) from error
    packages = {
        name: Package(name, value["version"], tuple(Path(folder) for folder in value["folders"]))
        for name, value in told["packages"].items()
    }
    return str(told["version"]), packages


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
) -> Tools | None:
    """Tracy's capture and export programs, under either pair of names.

    Looked for in the folder asked for, beside the wheel, in ttnn, and in tt-xla's installs.

    Raises:
        UsageError: the folder asked for does not hold them.
    """
    if asked is not None:
        found = tools_in(asked)
        if found is None:
            names = " or ".join(" and ".join(pair) for pair in TOOL_NAMES)
            raise UsageError(
                f"--tracy-tools-folder {asked}: no {names} in it.",
                "Give the folder that holds Tracy's programs, such as "
                "third_party/tt-mlir/install/bin or build_Release/tools/profiler/bin.",
            )
        return found
    for folder in _tool_folders(packages or {}, tt_xla):
        found = tools_in(folder)
        if found is not None:
            return found
    return None


def tools_in(folder: Path) -> Tools | None:
    """The two programs in this folder, if both are there and can be run."""
    for capture, export in TOOL_NAMES:
        pair = folder / capture, folder / export
        if all(path.is_file() and os.access(path, os.X_OK) for path in pair):
            return Tools(folder.absolute(), *(path.absolute() for path in pair))
    return None


def _tool_folders(packages: Mapping[str, Package], tt_xla: Path | None) -> Iterable[Path]:
    for name in ("pjrt_plugin_tt", "ttnn", "tracy"):
        for folder in packages[name].folders if name in packages else ():
            yield folder / "bin"
            yield folder.parent / "bin"
            yield from sorted(folder.glob("build*/tools/profiler/bin"))
    if tt_xla is not None:
        mlir = tt_xla / "third_party" / "tt-mlir"
        yield mlir / "install" / "bin"
        yield mlir / "install" / "tt-metal" / "tools" / "profiler" / "bin"
        yield from sorted(tt_xla.glob("build*/tools/profiler/bin"))
        yield from sorted(
            mlir.glob("src/tt-mlir/third_party/tt-metal/src/tt-metal/build*/tools/profiler/bin")
        )


def device_holders(root: Path | None = None) -> tuple[Holder, ...]:
    """The processes that have a device open, as far as this user may see."""
    import getpass
    import time

    import psutil

    prefix = str(root or device_root()) + os.sep
    holders = []
    for process in psutil.process_iter():
        try:
            opened = _opened_below(process.pid, prefix)
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


def _opened_below(pid: int, prefix: str) -> list[str]:
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
