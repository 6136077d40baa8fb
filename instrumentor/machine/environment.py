"""What is on this machine for a given script: interpreter, packages, devices, Tracy's tools.

Nothing heavy is imported and no device is opened; the script's interpreter is asked once (see
:mod:`instrumentor.machine.interpreter`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from instrumentor.machine.device_nodes import find_devices, find_simulator
from instrumentor.machine.interpreter import (
    Interpreter,
    Package,
    ask,
    find_interpreter,
    lies_in,
    look,
)
from instrumentor.machine.tracy_tools import Tools, find_tools, library_without_tracy
from instrumentor.shared.errors import NotReady, UsageError


class Machine(Struct, frozen=True):
    """What a run of one script finds here.

    Attributes:
        interpreter: the script's.
        python_version: such as ``3.11.4``; empty where the interpreter was not asked and nothing
            beside it says so.
        packages: by import name, only those found.
        devices: device nodes, in order; none where a simulator takes their place.
        simulator: the one that tt-metal is told to use.
        tt_xla: a tt-xla checkout, if one was named or stands beside the project.
        tools: Tracy's programs, if found.
        asked: the interpreter itself said all this; not so where only its folders were read.
    """

    interpreter: Interpreter
    python_version: str
    packages: Mapping[str, Package] = field(default_factory=dict)
    devices: tuple[Path, ...] = ()
    simulator: Path | None = None
    tt_xla: Path | None = None
    tools: Tools | None = None
    asked: bool = True

    @property
    def python(self) -> Path:
        """The program of the script's interpreter."""
        return self.interpreter.path

    def has(self, package: str) -> bool:
        """Whether the script's interpreter would find this package."""
        return package in self.packages

    def version_of(self, package: str) -> str | None:
        """The package's version, None when absent or unknown."""
        found = self.packages.get(package)
        return found.version if found else None

    @property
    def simulates_kernels(self) -> bool:
        """Whether the script's interpreter has tt-lang's simulator."""
        ttl = self.packages.get("ttl")
        folders = ttl.folders if ttl else ()
        return any((folder / "sim" / "ttlang_sim.py").is_file() for folder in folders)

    @property
    def device(self) -> str:
        """The device that a run would use, real or simulated, for the reader; '' without one."""
        if self.simulator is not None:
            return f"a simulated device ({self.simulator})"
        return str(self.devices[0]) if self.devices else ""

    @property
    def untraced(self) -> Path | None:
        """The runtime's library, when it is built without Tracy and none is there that is."""
        return library_without_tracy(self.packages)

    @property
    def tools_folder(self) -> Path | None:
        """Where Tracy's programs are: in the folder asked for, else where they were found."""
        return self.tools.folder if self.tools else None

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
    needs: str = "torch",
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
        needs: the package by which an interpreter is chosen where none was named or is active.

    Raises:
        UsageError: something that was asked for does not exist.
        NotReady: the interpreter does not run.
    """
    env = dict(os.environ if env is None else env)
    checkout = find_tt_xla(project, tt_xla)
    folders = [checkout / "python_package"] if checkout is not None else []
    entries = env["PYTHONPATH"].split(os.pathsep) if env.get("PYTHONPATH") else []
    folders += [(cwd or project) / entry for entry in entries]

    @cache
    def told(path: Path, started: bool) -> tuple[str, Mapping[str, Package]]:
        return ask(path, env, folders) if started else look(path, folders)

    def suits(path: Path) -> bool:
        try:
            return needs in told(path, not (preview and lies_in(path, project)))[1]
        except NotReady:  # a broken one on PATH is none
            return False

    chosen = find_interpreter(project, python, env, suits, configured=configured)
    # An interpreter that came with the project runs whatever it holds: only a real run starts it.
    asked = not (preview and chosen.of_project)
    version, packages = told(chosen.path, asked)
    return Machine(
        interpreter=chosen,
        python_version=version,
        packages=packages,
        devices=find_devices(device_root, env),
        simulator=find_simulator(env),
        tt_xla=checkout,
        tools=find_tools(tools_folder, packages, checkout, env, cwd or project),
        asked=asked,
    )


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
