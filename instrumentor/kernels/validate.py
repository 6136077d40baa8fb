"""Whether a kernel is still right: a command of the user's, or its output against a reference.

Both run the user's own, unchanged script or command, without any profiler: in the measured copy
other calls are skipped, so that what it computes says nothing.
"""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from instrumentor.kernels.environment import without_profilers
from instrumentor.kernels.number_files import numbers_in
from instrumentor.kernels.options import Criteria
from instrumentor.run import process
from instrumentor.run.profilers import Launch
from instrumentor.shared.errors import NotReady, UsageError
from instrumentor.shared.project import Project

if TYPE_CHECKING:
    import numpy as np


#: The file of a frame, and whether the line that is shown of it raises.
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+).*(?:\n +(raise\b)?.*)?', re.MULTILINE)


class Verdict(Struct, frozen=True):
    """Outcome of a validation; ``detail`` is what it said.

    Attributes:
        later: calls of kernels between the one that is looked at and the validation: with some it
            may be about them.
    """

    ok: bool
    by: str
    detail: str
    later: int = 0


def is_check(traceback: str, root: Path) -> bool:
    """Whether a script that ended with this traceback says that a result is wrong.

    It does with an assertion, its own or a library's, and with what its own files below `root`
    raise. Anything else, such as a function that a module does not have, tells of no result.
    """
    if re.search(r"^AssertionError\b", traceback, re.MULTILINE):
        return True
    innermost = _FRAME.findall(traceback)[-1:]
    return any(Path(file).is_relative_to(root) and text for file, _, text in innermost)


def raised_at(traceback: str, root: Path) -> str:
    """Where the last line of a project's own in a traceback stands: `` (train.py:12)``."""
    own = [m for m in _FRAME.finditer(traceback) if Path(m[1]).is_relative_to(root)]
    return f" ({Path(own[-1][1]).name}:{own[-1][2]})" if own else ""


class Validation(Struct, frozen=True):
    """Checks the user's files as they are now.

    Attributes:
        cwd, env: of the user.
        log: gets the whole output.
        timeout_s: limit for the command, and for the script.
    """

    project: Project
    script: Path
    arguments: Sequence[str]
    python: Path
    cwd: Path
    env: Mapping[str, str]
    log: Path
    timeout_s: float | None = None

    def by(self, criteria: Criteria) -> Verdict:
        """By the command, and by the output where there is a reference.

        Raises:
            UsageError: the command cannot be started, or a file cannot be compared.
            NotReady: the copy in which the script is checked cannot be made.
            KeyboardInterrupt: interrupted; what was started is ended.
        """
        if criteria.validate:
            said = shlex.join(criteria.validate)
            verdict = self._run(criteria.validate, self.cwd, self.env, said)
            if not verdict.ok or criteria.reference is None:
                return verdict
        assert criteria.reference is not None and criteria.output_file is not None
        return self._compare(criteria, criteria.reference, criteria.output_file)

    def _run(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], said: str) -> Verdict:
        """A process tree to its end, as a run's is: gently, since it may have the device open."""
        last = ["no output"]

        def keep(line: str) -> None:
            last[:] = [line.strip()] if line.strip() else last

        variables = {**without_profilers(env), "PYTHONUNBUFFERED": "1"}
        launch = Launch(tuple(argv), variables, cwd)
        watch = process.Watch(on_line=keep, timeout_s=self.timeout_s)
        try:
            ended = process.run(launch, log=self.log, watch=watch)
        except NotReady as error:
            hint = "Give a program that exists, with its path or on PATH."
            raise UsageError(f"--validate: {error.message}", hint) from error
        if ended.interrupted:
            raise KeyboardInterrupt
        if ended.timed_out:
            return Verdict(False, said, f"did not end within {self.timeout_s:g} s")
        return Verdict(ended.returncode == 0, said, f"code {ended.returncode}: {last[0]}")

    def _compare(self, criteria: Criteria, reference: Path, output: Path) -> Verdict:
        from instrumentor.workspace.shadow import shadow

        said = f"{output} against {reference}"
        # In a copy, so that the script writes nothing into the user's project.
        with shadow(self.project, self.script, self.cwd, {}) as workspace:
            before = stamp(workspace.cwd / output)
            argv = (str(self.python), str(workspace.script), *self.arguments)
            ran = self._run(argv, workspace.cwd, workspace.environment(self.env), said)
            if not ran.ok:
                return Verdict(False, said, f"the script itself failed: {ran.detail}")
            written = workspace.cwd / output
            if stamp(written) in (None, before):
                return Verdict(False, said, f"the script did not write {output}")
            return compare_files(written, reference, criteria.rtol, criteria.atol, said)


def stamp(path: Path) -> tuple[int, ...] | None:
    """By what a file is known that was written again; None where there is no regular file."""
    try:
        status = path.stat()
    except OSError:
        return None
    known = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return known if stat.S_ISREG(status.st_mode) else None


def compare_files(output: Path, reference: Path, rtol: float, atol: float, by: str) -> Verdict:
    """Compare two files of numbers (.npy, .npz, .csv, .txt, .json), element by element.

    NaN equals nothing, NaN included.

    Args:
        rtol, atol: tolerances of numpy's ``isclose``, ``rtol`` relative to the reference.
        by: what the comparison is called in the verdict.

    Raises:
        UsageError: a file is of another kind, or damaged.
    """
    import numpy as np

    new, old = numbers_in(output), numbers_in(reference)
    if sorted(new) != sorted(old):
        return Verdict(False, by, f"arrays {sorted(new)} instead of {sorted(old)}")
    limits, worst = f"rtol {rtol:g}, atol {atol:g}", 0.0
    for name, values in old.items():
        if new[name].shape != values.shape:
            return Verdict(False, by, f"shape {new[name].shape} instead of {values.shape}")
        difference = np.abs(new[name] - values)
        apart = float(difference[~np.isnan(difference)].max(initial=0.0))
        wrong = int((~np.isclose(new[name], values, rtol=rtol, atol=atol)).sum())
        if wrong:
            amount = f"{wrong:,} of {values.size:,} elements differ by more than {limits}"
            return Verdict(False, by, f"{amount}{_worst(difference, apart)}")
        worst = max(worst, apart)
    return Verdict(True, by, f"equal within {limits}; at most {worst:g} apart")


def _worst(difference: np.ndarray[Any, Any], apart: float) -> str:
    """How far apart the numbers of two files are, and how many of them are none."""
    import numpy as np

    none = int(np.isnan(difference).sum())
    of = f"; {none:,} are no number" if none else ""
    return of if none == difference.size else f"{of}; at most by {apart:g}"
