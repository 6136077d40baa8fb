"""Where trials run: one after another on this machine, or as jobs under Slurm (by submitit)."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from instrumentor.errors import NotReady, UsageError
from instrumentor.tune import slurm, trial

EXECUTORS = ("local", "slurm")
LOG = "trial.log"
_INSTALL = "pip install submitit"
_GRACE_S = 30.0
_NO_LIMIT_S = 24 * 3600.0


class Job(Protocol):
    """A trial that was started."""

    def ended(self) -> bool:
        """It does not run any more."""
        ...

    def how(self) -> str:
        """How its process ended, for one that left no result."""
        ...

    def cancel(self) -> None:
        """End it gently and wait for that."""
        ...


class Executor(Protocol):
    """Starts trials.

    Attributes:
        description: for people.
        jobs: how many trials may run at once.
    """

    description: str
    jobs: int

    def start(self, spec: Path, limit_s: float | None) -> Job:
        """Start the trial of a spec file; ``limit_s`` is its own time limit."""
        ...


def check(name: str) -> None:
    """Refuse what cannot start any trial here.

    Raises:
        UsageError: there is no such executor.
        NotReady: Slurm was asked for, and submitit or Slurm's programs are missing.
    """
    if name not in EXECUTORS:
        raise UsageError(f"--executor {name}: must be one of {', '.join(EXECUTORS)}")
    if name != "slurm":
        return
    if importlib.util.find_spec("submitit") is None:
        raise NotReady("--executor slurm: submitit is not installed", _INSTALL)
    if shutil.which("sbatch") is None:
        raise NotReady(
            "--executor slurm: there is no sbatch on PATH", "Run this on a machine with Slurm."
        )


def choose(
    name: str, folder: Path, *, jobs: int = 1, parameters: Mapping[str, Any] | None = None
) -> Executor:
    """The executor of a name.

    Without submitit local trials are plain processes, as the description says.

    Raises:
        UsageError, NotReady: see :func:`check`.
    """
    check(name)
    if name == "local" and importlib.util.find_spec("submitit") is None:
        return Plain()
    at_once = 1 if name == "local" else max(1, jobs)
    return Submitted(name, folder, at_once, parameters or {})


class Plain:
    """Trials as processes of this one, one at a time."""

    description = (
        "trials are plain processes, one after another: submitit is not installed "
        f"({_INSTALL} for the executors)"
    )
    jobs = 1

    def start(self, spec: Path, limit_s: float | None) -> Job:
        """Start a process with ``trial.log`` for its output; Ctrl-C does not reach it by itself."""
        with (spec.parent / LOG).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "instrumentor.tune.trial", str(spec)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return _Process(process)


class _Process:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def ended(self) -> bool:
        return self.process.poll() is not None

    def how(self) -> str:
        code = self.process.returncode
        return f"ended by signal {-code}" if code < 0 else f"ended with code {code}"

    def cancel(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _wait(self.process)


class Submitted:
    """Trials as submitit's jobs."""

    def __init__(
        self, cluster: str, folder: Path, jobs: int, parameters: Mapping[str, Any]
    ) -> None:
        where = "on this machine, one after another" if cluster == "local" else "under Slurm"
        self.description = f"trials are submitit's jobs {where}"
        self.jobs = jobs
        self.cluster = cluster
        self.folder = folder / "submitit"
        self.parameters = dict(parameters)

    def start(self, spec: Path, limit_s: float | None) -> Job:
        """Submit the trial as a job.

        Raises:
            NotReady: it cannot be submitted.
        """
        import submitit

        executor = submitit.AutoExecutor(folder=self.folder, cluster=self.cluster)
        minutes = int((limit_s or _NO_LIMIT_S) / 60) + 5  # the trial keeps its own limit
        try:
            executor.update_parameters(
                timeout_min=minutes, name="instrument", **{"nodes": 1, **self.parameters}
            )
            with _without_interrupts():
                job = executor.submit(trial.run_file, str(spec))
        except (submitit.core.utils.FailedJobError, OSError) as error:
            raise NotReady(f"the trial cannot be submitted: {error}") from error
        except (NameError, TypeError, ValueError) as error:
            raise UsageError(f"--executor-option: {error}") from error
        return _Submitit(job) if self.cluster == "local" else _Slurm(job)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started meanwhile do not get the terminal's Ctrl-C.

    submitit's controller would answer it by killing the trial a second later, whatever that holds.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Submitit:
    def __init__(self, job: Any) -> None:
        self.job = job

    def ended(self) -> bool:
        return bool(self.job.done())

    def how(self) -> str:
        return f"{self.job.state.lower()}; its output is in {self.job.paths.stderr}"

    def cancel(self) -> None:
        process = self.job._process
        _interrupt_below(process.pid)
        _wait(process)


class _Slurm:
    def __init__(self, job: Any) -> None:
        self.job = job

    def ended(self) -> bool:
        return not slurm.in_queue(self.job.job_id)

    def how(self) -> str:
        return f"job {self.job.job_id} left Slurm's queue; see {self.job.paths.stderr}"

    def cancel(self) -> None:
        slurm.interrupt(self.job.job_id, _GRACE_S)


def _interrupt_below(pid: int) -> None:
    """Ctrl-C for the trial itself, below submitit's controller, which only knows how to kill."""
    import psutil

    try:
        children = psutil.Process(pid).children()
    except psutil.Error:
        return
    for child in children:
        try:
            child.send_signal(signal.SIGINT)
        except psutil.Error:  # it has just ended
            continue


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.terminate()  # never SIGKILL: the run below may hold a device


def environment_of_trials(executor: str) -> dict[str, str | None]:
    """Variables to put back in a trial: submitit's local jobs see no GPU unless they ask for it."""
    if executor != "local":
        return {}
    return {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES")}
