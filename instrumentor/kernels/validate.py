"""Whether a kernel is still right: a command of the user's, or its output against a reference.

Both run the user's own, unchanged script or command, without any profiler: in the measured copy
other calls are skipped, so that what it computes says nothing.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor.device import end_gently
from instrumentor.errors import UsageError
from instrumentor.kernels.environment import without_profilers
from instrumentor.project import Project

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Criteria:
    """How a kernel is validated.

    Attributes:
        command: arguments of a command; its exit code decides.
        reference: file with the right output.
        output: the file that the script writes, relative to the working directory.
        rtol, atol: tolerances, as numpy's ``allclose`` has them.
    """

    command: tuple[str, ...] = ()
    reference: Path | None = None
    output: Path | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    timeout_s: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is anything to validate by."""
        return bool(self.command) or self.reference is not None


@dataclass(frozen=True)
class Verdict:
    """Outcome of a validation; ``detail`` is what it said."""

    ok: bool
    by: str
    detail: str


def make_criteria(
    command: str,
    reference: Path | None,
    output: Path | None,
    rtol: float,
    atol: float,
    timeout_s: float | None,
) -> Criteria:
    """Criteria from what the command line gave; the command is split as a shell would.

    Raises:
        UsageError: an option without its partner, or one that cannot be used.
    """
    if (reference is None) != (output is None):
        raise UsageError(
            "--reference and --output-file belong together",
            "Name the file with the right output, and the file that the script writes.",
        )
    if reference is not None and not reference.is_file():
        raise UsageError(f"--reference {reference}: does not exist")
    if rtol < 0 or atol < 0:
        raise UsageError("--rtol and --atol cannot be negative")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"--validate {command}: {error}") from error
    return Criteria(words, reference, output, rtol, atol, timeout_s)


def validate(
    criteria: Criteria,
    *,
    project: Project,
    script: Path,
    arguments: Sequence[str],
    python: Path,
    cwd: Path,
    env: Mapping[str, str],
) -> Verdict:
    """Check the user's files as they are now.

    Raises:
        UsageError: the command cannot be started, or a file cannot be compared.
        NotReady: the copy in which the script is checked cannot be made.
    """
    if criteria.command:
        by = shlex.join(criteria.command)
        verdict = _call(criteria.command, cwd, without_profilers(env), criteria.timeout_s, by)
        if not verdict.ok or criteria.reference is None:
            return verdict
    assert criteria.reference is not None and criteria.output is not None
    return _compare_output(criteria, project, script, arguments, python, cwd, env)


def _call(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout_s: float | None, by: str
) -> Verdict:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(
                argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=errors
            )
        except OSError as error:
            text = f"--validate: {argv[0]} cannot be started: {error.strerror}"
            raise UsageError(text) from error
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return Verdict(False, by, f"did not end within {timeout_s:g} s")
        finally:
            if child.poll() is None:  # it may have the device open: no SIGKILL
                end_gently([child.pid])
                child.poll()
        out.seek(0)
        errors.seek(0)
        text = (out.read() + errors.read()).decode("utf-8", "replace").strip()
    last = text.splitlines()[-1] if text else "no output"
    return Verdict(code == 0, by, f"code {code}: {last}")


def _compare_output(
    criteria: Criteria,
    project: Project,
    script: Path,
    arguments: Sequence[str],
    python: Path,
    cwd: Path,
    env: Mapping[str, str],
) -> Verdict:
    from instrumentor.workspace import shadow

    assert criteria.reference is not None and criteria.output is not None
    by = f"{criteria.output} against {criteria.reference}"
    with shadow(project, script, cwd, {}) as workspace:
        variables = without_profilers(workspace.environment(env))
        argv = (str(python), str(workspace.script), *arguments)
        ran = _call(argv, workspace.cwd, variables, criteria.timeout_s, by)
        if not ran.ok:
            return Verdict(False, by, f"the script itself failed: {ran.detail}")
        written = workspace.cwd / criteria.output
        if not written.is_file():
            return Verdict(False, by, f"the script did not write {criteria.output}")
        return compare_files(written, criteria.reference, criteria.rtol, criteria.atol, by)


def compare_files(output: Path, reference: Path, rtol: float, atol: float, by: str) -> Verdict:
    """Compare two files of numbers (.npy, .npz, .csv, .txt, .json), element by element.

    Raises:
        UsageError: a file is of another kind, or damaged.
    """
    import numpy as np

    new, old = _numbers(output), _numbers(reference)
    if sorted(new) != sorted(old):
        return Verdict(False, by, f"arrays {sorted(new)} instead of {sorted(old)}")
    worst = 0.0
    for name, values in old.items():
        if new[name].shape != values.shape:
            return Verdict(False, by, f"shape {new[name].shape} instead of {values.shape}")
        difference = np.abs(new[name] - values)
        if not np.allclose(new[name], values, rtol=rtol, atol=atol):
            wrong = int((~np.isclose(new[name], values, rtol=rtol, atol=atol)).sum())
            return Verdict(
                False,
                by,
                f"{wrong:,} of {values.size:,} elements differ by more than rtol {rtol:g}, "
                f"atol {atol:g}; at most by {np.nanmax(difference):g}",
            )
        if difference.size:
            worst = max(worst, float(difference.max()))
    return Verdict(True, by, f"equal within rtol {rtol:g}, atol {atol:g}; at most {worst:g} apart")


def _numbers(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    import json

    import numpy as np

    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name].astype(float) for name in archive.files}
        if path.suffix == ".npy":
            return {"": np.load(path, allow_pickle=False).astype(float)}
        if path.suffix == ".json":
            return {"": np.asarray(json.loads(path.read_text(encoding="utf-8")), dtype=float)}
        if path.suffix in (".csv", ".txt"):
            delimiter = "," if path.suffix == ".csv" else None
            return {"": np.loadtxt(path, delimiter=delimiter, ndmin=1)}
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise UsageError(f"{path}: cannot be read as numbers: {error}") from error
    raise UsageError(
        f"{path}: of a kind that is not compared",
        "Write .npy, .npz, .json, .csv or .txt, or use --validate COMMAND.",
    )
