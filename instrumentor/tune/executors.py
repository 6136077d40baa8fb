"""Where trials run, as submitit's jobs: one after another on this machine, or under Slurm."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from instrumentor.errors import NotReady, UsageError
from instrumentor.tune import slurm
from instrumentor.tune.spec import Spec
from instrumentor.tune.trial import run_trial

_GRACE_S = 30.0
_NO_LIMIT_S = 24 * 3600.0


def check(name: str) -> None:
    """Refuse what cannot start any trial here.

    Raises:
        NotReady: Slurm was asked for, and its programs are missing.
    """
    if name == "slurm" and shutil.which("sbatch") is None:
        raise NotReady(
            "--executor slurm: there is no sbatch on PATH", "Run this on a machine with Slurm."
        )


class Job:
    """A trial that was started on this machine."""

    def __init__(self, job: Any) -> None:
        self.job = job

    def ended(self) -> bool:
        """It does not run any more."""
        return bool(self.job.done())

    def how(self) -> str:
        """How its process ended, for one that left no result."""
        return f"{self.job.state.lower()}; its output is in {self.job.paths.stderr}"

    def cancel(self) -> None:
        """End it gently and wait for that."""
        process = self.job._process
        _interrupt_below(process.pid)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.terminate()  # never SIGKILL: the run below may hold a device


class _SlurmJob(Job):
    def ended(self) -> bool:
        return not slurm.in_queue(self.job.job_id)

    def how(self) -> str:
        return f"job {self.job.job_id} left Slurm's queue; see {self.job.paths.stderr}"

    def cancel(self) -> None:
        slurm.interrupt(self.job.job_id, _GRACE_S)


class Executor:
    """Starts trials.

    Args:
        folder: of the tuning.
        jobs: how many trials may run at once under Slurm; on one machine they would time each
            other.
        parameters: for submitit's ``update_parameters``.
    """

    def __init__(self, name: str, folder: Path, jobs: int, parameters: Mapping[str, Any]) -> None:
        where = "on this machine, one after another" if name == "local" else "under Slurm"
        self.description = f"trials are submitit's jobs {where}"
        self.jobs = 1 if name == "local" else jobs
        self.name = name
        self.folder = folder / "submitit"
        self.parameters = parameters

    def start(self, spec: Spec) -> Job:
        """Submit a trial.

        Raises:
            NotReady: it cannot be submitted.
            UsageError: submitit does not know a parameter.
        """
        import submitit

        executor = submitit.AutoExecutor(folder=self.folder, cluster=self.name)
        minutes = int((spec.timeout_s or _NO_LIMIT_S) / 60) + 5  # the trial keeps its own limit
        try:
            executor.update_parameters(
                timeout_min=minutes, name="instrument", **{"nodes": 1, **self.parameters}
            )
            with _without_interrupts():
                job = executor.submit(run_trial, spec)
        except (submitit.core.utils.FailedJobError, OSError) as error:
            raise NotReady(f"the trial cannot be submitted: {error}") from error
        except (NameError, TypeError, ValueError) as error:
            raise UsageError(f"--executor-option: {error}") from error
        return Job(job) if self.name == "local" else _SlurmJob(job)


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


def environment_of_trials(executor: str) -> dict[str, str | None]:
    """Variables to put back in a trial: submitit's local jobs see no GPU unless they ask for it."""
    if executor != "local":
        return {}
    return {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES")}
