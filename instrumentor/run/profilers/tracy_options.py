"""What this version of Tracy offers: its options differ, so they are read from its ``--help``."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from instrumentor.run.known_failures import diagnose, relevant_tail
from instrumentor.shared.errors import NotReady
from instrumentor.shared.private import throwaway

REQUIRED = ("-p", "-r", "-o", "-t")
# Importing tracy imports pandas and more; from a network file system that takes minutes.
ANSWER_S = 300.0
UNKNOWN_REMEDY = (
    "Use the environment that holds pjrt_plugin_tt or tt_crank (--python), put tt-xla's "
    "python_package on PYTHONPATH (--tt-xla), or measure with "
    "`instrument run --profiler wallclock`."
)
# A run changes these of the environment that was looked at before it: they change no option.
_OURS = re.compile(
    r"INSTRUMENT_|GIT_|TRACY_|TT_METAL_PROFILER_|"
    r"(PATH|PYTHONPATH|PYTHONPYCACHEPREFIX|WANDB_MODE|PWD|OLDPWD)$"
)

_OPTION_LINE = re.compile(r"\s{1,6}(?=-)")  # further in stand the descriptions
_OPTION = re.compile(r"(?:^|(?<=[\s,\[]))--?[A-Za-z][\w-]*")


def parse_options(help_text: str) -> frozenset[str]:
    """The option names that ``python -m tracy --help`` offers, short and long."""
    found: set[str] = set()
    for line in help_text.splitlines():
        if _OPTION_LINE.match(line):
            # the description starts after two spaces; options named in it are not offered ones
            column = re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]
            found.update(_OPTION.findall(column))
    return frozenset(found)


def absolute_entries(value: str | None, cwd: Path) -> str:
    """A PYTHONPATH that means the same from any folder; an empty entry stands for ``cwd``."""
    return os.pathsep.join(str(cwd / entry) for entry in value.split(os.pathsep)) if value else ""


def read_options(
    python: Path, env: Mapping[str, str], cwd: Path, timeout_s: float = ANSWER_S
) -> frozenset[str]:
    """Ask this interpreter's tracy for its options, without touching the working directory.

    Importing newer versions makes folders where one stands, so it is asked from a folder that is
    thrown away. Asked once: a later call for the same package and environment has the answer.

    Args:
        env: its environment; Tracy is found by its PYTHONPATH.
        cwd: the folder from which relative entries of PYTHONPATH count.
        timeout_s: how long it may take to answer.

    Raises:
        NotReady: it cannot be imported, does not answer, or lacks an option the run needs.
    """
    entries = absolute_entries(env.get("PYTHONPATH"), cwd)
    key = (
        python,
        next(
            (e for e in entries.split(os.pathsep) if Path(e, "tracy", "__init__.py").is_file()), ""
        ),
        frozenset((k, v) for k, v in env.items() if not _OURS.match(k)),
    )
    if key not in _answers:
        _answers[key] = _ask(python, {**env, "PYTHONPATH": entries}, timeout_s)
    return _answers[key]


_answers: dict[tuple[object, ...], frozenset[str]] = {}


def _ask(python: Path, env: Mapping[str, str], timeout_s: float) -> frozenset[str]:
    command = [str(python), "-m", "tracy", "--help"]
    try:
        with throwaway() as folder:
            answer = subprocess.run(
                command,
                env=env,
                cwd=folder,
                capture_output=True,
                timeout=timeout_s,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReady(
            f"`{' '.join(command)}` could not be run: {error}",
            "See what that command says; `instrument doctor` checks the rest.",
        ) from error
    options = parse_options(answer.stdout)
    missing = [option for option in REQUIRED if option not in options]
    if missing:
        last = relevant_tail(answer.stderr, lines=1)
        cause = last.strip() or f"it offers no {' '.join(missing)}"
        known = diagnose(answer.stderr, answer.returncode)
        raise NotReady(
            f"Tracy cannot be used by {python}: {cause}",
            known[0].remedy if known else UNKNOWN_REMEDY,
        )
    return options
