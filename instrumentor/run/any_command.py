"""A command line as it is typed -> how to run it inside the one process that Tracy follows.

A Python command is run inside the process that Tracy starts (its script, module or code, by
runtime/launch.py), and any other program takes that process's place.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.files import opened

ONE_PROCESS = "Tracy follows one process: what other processes do on the device is not in the CSV"
# A quoted piece, an escaped character, or what only a shell would act on.
_SHELL = re.compile(
    r"""'[^']*'|\\.|"(?:\\.|[^"\\])*"|(\$\w+|\${\w+}|\$\(|`|&&|\|\||\d?>+|[|&;<*?])""", re.DOTALL
)
_EXPANDED = re.compile(r"\\.|(\$\w+|\${\w+}|\$\(|`)", re.DOTALL)  # within double quotes
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?\Z")
_SEVERAL = (
    (re.compile(r"op_by_op"), "op_by_op tests compile and run each op in a process of its own"),
    (re.compile(r"\A(torchrun|mpirun|mpiexec|deepspeed)\Z"), "it starts several processes"),
    (re.compile(r"\A(-n|--numprocesses)(=?\d+|=?auto|=?logical)?\Z"), "pytest-xdist runs workers"),
)
# Options of the interpreter that can be given to a running one by its environment.
_FLAGS = {"-u": ("PYTHONUNBUFFERED", "1"), "-B": ("PYTHONDONTWRITEBYTECODE", "1"),
          "-O": ("PYTHONOPTIMIZE", "1"), "-OO": ("PYTHONOPTIMIZE", "2"),
          "-v": ("PYTHONVERBOSE", "1"), "-s": ("PYTHONNOUSERSITE", "1"),
          "-P": ("PYTHONSAFEPATH", "1")}  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command to profile, as runtime/launch.py runs it.

    Attributes:
        order: for runtime/launch.py: script, module, code or program, and the arguments.
        python: the interpreter that the command itself names.
        variables: for its environment.
        warnings: what the user should know before it runs.
    """

    order: Mapping[str, Any]
    python: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def split(command: Sequence[str] | str, cwd: Path) -> list[str]:
    """The words of a command; a single quoted string is read as a shell would read it.

    Raises:
        UsageError: nothing to run, or a quotation mark is missing.
    """
    words = [command] if isinstance(command, str) else list(command)
    # A program whose path holds a blank is one word that exists: it is not taken apart.
    if len(words) == 1 and not (cwd / words[0]).exists():
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise UsageError(f"{words[0]!r}: {error}", "Close the quotation mark.") from error
    if not words:
        raise UsageError(
            "no command", "For example: instrument profile pytest -svv tests/test_mnist.py"
        )
    return words


def meant_for_a_shell(text: str) -> tuple[str, ...]:
    """Operators, variables and patterns in a command line that only a shell would act on."""
    found: list[str] = []
    for match in _SHELL.finditer(text):
        if match[1]:
            found.append(match[1])
        elif match[0].startswith('"'):
            found += filter(None, _EXPANDED.findall(match[0]))
    return tuple(dict.fromkeys(found))


def understand(words: Sequence[str], search: str, cwd: Path) -> Command:
    """How to run a command inside the process that Tracy follows.

    Args:
        search: PATH on which its program is looked for.

    Raises:
        UsageError: there is no such program.
    """
    warnings = tuple(
        f"{ONE_PROCESS} ({why})"
        for pattern, why in _SEVERAL
        if any(pattern.search(Path(word).name if not n else word) for n, word in enumerate(words))
    )
    first, *rest = words
    if first.endswith(".py") and (cwd / first).is_file():
        return Command({"script": str(cwd / first), "arguments": rest}, warnings=warnings)
    found = shutil.which(str(cwd / first) if "/" in first else first, path=search)
    if found is None:
        raise UsageError(f"{first}: there is no such program", "Give a program, or a script.py.")
    if _PYTHON.match(Path(first).name):
        # A bare `python` is the run's own interpreter (--python, the active environment).
        python = Path(found) if "/" in first else None
        return replace(_python_command(rest, cwd), python=python, warnings=warnings)
    # pip writes the environment's interpreter into the first line of a console script (pytest).
    interpreter = _shebang(Path(found))
    if interpreter is not None:
        order = {"script": found, "arguments": rest}
        return Command(order, python=interpreter, warnings=warnings)
    return Command({"program": found, "arguments": rest}, warnings=warnings)


def _python_command(words: Sequence[str], cwd: Path) -> Command:
    """``python [options] SCRIPT | -m MODULE | -c CODE ARGS``.

    Raises:
        UsageError: an option that only a starting interpreter can take, or nothing to run.
    """
    variables: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-m", "-c") and rest:
            key = "module" if word == "-m" else "code"
            return Command({key: rest[0], "arguments": rest[1:]}, variables=variables)
        if word in _FLAGS:
            variables.update([_FLAGS[word]])
        elif word == "-W" and rest:
            variables["PYTHONWARNINGS"] = rest.pop(0)
        elif word.startswith("-"):
            raise UsageError(
                f"python {word}: cannot be given to a program under Tracy",
                "Leave it out, or put what it does into the environment (PYTHON... variables).",
            )
        else:
            order = {"script": _script(cwd / word), "arguments": rest}
            return Command(order, variables=variables)
    raise UsageError("python: no script to run", "For example: instrument profile python train.py")


def _script(path: Path) -> str:
    """The path of a Python script, seen to be one before Tracy is started.

    Raises:
        UsageError: it is not there, or is a folder.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "there is no such script"
        raise UsageError(f"{path}: {what}", "Give a script, or python -m MODULE.")
    return str(path)


def _shebang(program: Path) -> Path | None:
    """The Python interpreter that a script names in its first line; None for other programs."""
    try:
        with opened(program) as stream:
            # Bounded: a binary may go on for megabytes without the end of a line.
            line = stream.readline(512)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    if words and Path(words[0]).name == "env" and len(words) > 1:
        found = shutil.which(words[1]) if _PYTHON.match(words[1]) else None
        return Path(found) if found else None
    return Path(words[0]) if words and _PYTHON.match(Path(words[0]).name) else None
