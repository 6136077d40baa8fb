"""The script's interpreter: which one it is, and what it would import.

It is asked in isolation (``-I``, from a neutral folder), so that nothing of the project runs: a
``json.py`` or ``sitecustomize.py`` beside the script is the script's. Packages are found, never
imported. An interpreter that comes with the project is no program of the user's: only a real run
starts it, everything else reads from its folders what it can.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from instrumentor.shared.errors import NotReady, UsageError
from instrumentor_analysis.shared.documents import parsed
from instrumentor_analysis.shared.files import read_text

if TYPE_CHECKING:
    from instrumentor.runtime.probe import Found

# Of tt-blacksmith, whose activation takes the first unless it is told otherwise.
PROJECT_ENVIRONMENTS = (Path("env/crank_env"), Path("env/xla_env"))
PROBE_TIMEOUT_S = 60.0
NEUTRAL = Path("/")  # holds no module of a project
# `version` in the pyvenv.cfg of venv, `version_info` in that of virtualenv and uv.
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", re.MULTILINE)


class Interpreter(Struct, frozen=True):
    """A Python program.

    Attributes:
        path: never resolved: the link inside a virtual environment makes it that environment.
        source: why this one: ``--python``, ``VIRTUAL_ENV``, ``CONDA_PREFIX``,
            ``env/crank_env``, ``env/xla_env``, ``PATH`` or ``this interpreter``.
        of_project: it, or its name, comes with the project.
        notes: what was passed over for it.
    """

    path: Path
    source: str
    of_project: bool = False
    notes: tuple[str, ...] = ()


class Package(Struct, frozen=True):
    """A package that an interpreter would import.

    Attributes:
        version: of its distribution; None when it is a plain folder on the path.
        folders: where it stands.
    """

    name: str
    version: str | None
    folders: tuple[Path, ...] = ()


def find_interpreter(
    project: Path,
    asked: Path | str | None,
    env: Mapping[str, str],
    suits: Callable[[Path], bool],
    *,
    configured: bool = False,
) -> Interpreter:
    """The script's interpreter.

    Without a choice of the user's it is the one of this program where that suits (it was installed
    beside the script's packages), else the first on PATH that does: what ``python3 script.py``
    starts in a container. If none suits, what was tried is in the notes.

    Args:
        suits: whether an interpreter has what the script needs.
        configured: the one asked for is named in a pyproject.toml, not by the user.

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
        return Interpreter(found, "pyproject.toml" if configured else "--python", configured)
    notes: list[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        value = env.get(variable)
        found = _as_interpreter(Path(value)) if value else None
        if found is not None:
            return Interpreter(found, variable, notes=tuple(notes))
        notes += [f"{variable}={value} holds no Python and was skipped"] if value else []
    there = {folder: _as_interpreter(project / folder) for folder in PROJECT_ENVIRONMENTS}
    for folder, found in there.items():
        if found is not None:
            others = [each for each, path in there.items() if path and each != folder]
            notes += [f"{each} exists beside {folder}, and was skipped" for each in others]
            return Interpreter(found, str(folder), True, tuple(notes))
    own = Path(sys.executable)
    if suits(own):
        return Interpreter(own, "this interpreter", notes=tuple(notes))
    others = list(_pythons(env))
    for path in others:
        if suits(path):
            return Interpreter(path, "PATH", lies_in(path, project), tuple(notes))
    looked_at = ", ".join(map(str, (own, *others)))
    text = "neither instrument's own interpreter nor a python on PATH has what the script needs"
    notes.append(f"{text} (looked at {looked_at})")
    return Interpreter(own, "this interpreter", notes=tuple(notes))


def _pythons(env: Mapping[str, str]) -> Iterator[Path]:
    """Each other ``python3`` and ``python`` on PATH once, in order."""
    known = {_place(Path(sys.executable))}
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        for path in (Path(folder, "python3"), Path(folder, "python")):
            # A relative entry is whatever folder one stands in.
            if path.is_absolute() and _as_interpreter(path) and _place(path) not in known:
                known.add(_place(path))
                yield path


def _place(path: Path) -> tuple[str, str]:
    """What tells interpreters apart: two environments may link to one program."""
    return os.path.realpath(path.parent), os.path.realpath(path)


def lies_in(path: Path, folder: Path) -> bool:
    """Whether a program stands in a folder, whatever it is a link to."""
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(folder))


def _as_interpreter(path: Path) -> Path | None:
    try:
        inside = [path / "bin" / "python", path / "bin" / "python3"] if path.is_dir() else [path]
        files = [each for each in inside if each.is_file() and os.access(each, os.X_OK)]
    except PermissionError:  # PATH may name a folder that is another user's, as under sudo
        return None
    return files[0].absolute() if files else None


def _on_path(name: str, env: Mapping[str, str]) -> Path | None:
    if os.sep in name:
        return None
    found = shutil.which(name, path=env.get("PATH"))
    return Path(found) if found else None


def ask(
    python: Path, env: Mapping[str, str], folders: Iterable[Path] = ()
) -> tuple[str, dict[str, Package]]:
    """An interpreter's version and packages, in its own words.

    Args:
        folders: searched ahead of its own, as PYTHONPATH would be.

    Raises:
        NotReady: it does not start or does not answer.
    """
    source = read_text(Path(__file__).parents[1] / "runtime" / "probe.py")
    try:
        answer = subprocess.run(
            [str(python), "-I", "-c", source, *map(str, folders)],
            env=dict(env),
            cwd=NEUTRAL,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            text=True,
            errors="replace",
            check=False,
        )
        # A sitecustomize of its own may print; the answer is the last line.
        told = parsed((answer.stdout.strip().splitlines() or [""])[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise NotReady(
            f"The interpreter {python} does not answer: {error}",
            "Name another one with --python (3.8 or newer).",
        ) from error
    return str(told["version"]), _packages(told["packages"])


def look(python: Path, folders: Iterable[Path] = ()) -> tuple[str, dict[str, Package]]:
    """An environment's version and packages as its folders show them, without starting it.

    Returns:
        the version, empty where nothing says it, and the packages.
    """
    from instrumentor.runtime import probe

    prefix = python.parent.parent
    libraries = sorted((prefix / "lib").glob("python3.*/site-packages"))
    try:
        written = _VERSION.search(read_text(prefix / "pyvenv.cfg", "replace"))
    except OSError:
        written = None
    named = [folder.parent.name.removeprefix("python") for folder in libraries[-1:]]
    version = written[1] if written else "".join(named)
    path = [str(folder) for folder in (*folders, *libraries[-1:])]
    return version, _packages(probe.packages(path, with_own=False))


def _packages(found: Mapping[str, Found]) -> dict[str, Package]:
    return {
        name: Package(name, value["version"], tuple(Path(folder) for folder in value["folders"]))
        for name, value in found.items()
    }
