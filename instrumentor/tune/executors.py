"""Where trials run, as submitit's jobs: one after another on this machine, or under Slurm."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from instrumentor.shared.errors import NotReady, UsageError
from instrumentor_analysis.shared.documents import read
from instrumentor_analysis.shared.files import write_whole

PROCESS = "process.json"
#: How long a trial may take to end by itself before it is asked less gently.
_GRACE_S = 30.0
#: What Slurm is told of a trial without a limit.
_NO_LIMIT_S = 24 * 3600.0
_POLL_S = 0.2


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
        import psutil

        process = self.job._process
        # The trial itself is below submitit's controller, which only knows how to kill.
        with contextlib.suppress(psutil.Error):
            for trial in psutil.Process(process.pid).children():
                with contextlib.suppress(psutil.Error):  # it has just ended
                    trial.send_signal(signal.SIGINT)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.terminate()  # never SIGKILL: the run below may hold a device


class _SlurmJob(Job):
    def ended(self) -> bool:
        return not _in_queue(self.job.job_id)

    def how(self) -> str:
        return f"job {self.job.job_id} left Slurm's queue; see {self.job.paths.stderr}"

    def cancel(self) -> None:
        # Without --full, which would signal the batch script and not the step that is the trial.
        subprocess.run(["scancel", "--signal=INT", self.job.job_id], check=False)
        limit = time.monotonic() + _GRACE_S
        while not self.ended():
            if time.monotonic() > limit:
                subprocess.run(["scancel", self.job.job_id], check=False)
                return
            time.sleep(_POLL_S)


def _in_queue(job: str) -> bool:
    """Whether Slurm still has a job, waiting or running.

    submitit's own question to `sacct` needs Slurm's accounting, which not every cluster keeps.
    """
    command = ["squeue", "--noheader", "--jobs", job, "--format=%T"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        # squeue reports a job that is long gone as an error of its own; other failures say nothing
        # of the job.
        return "Invalid job id" not in done.stderr
    return bool(done.stdout.strip())


class Executor:
    """Starts trials.

    Args:
        folder: of the tuning.
        jobs: how many trials may run at once under Slurm; on one machine they would time each
            other.
        parameters: for submitit's ``update_parameters``.
    """

    def __init__(self, name: str, folder: Path, jobs: int, parameters: Mapping[str, Any]) -> None:
        where = "one after another on this machine" if name == "local" else "under Slurm"
        self.description = f"Trials run {where}"
        self.jobs = 1 if name == "local" else jobs
        self.name = name
        self.folder = folder / "submitit"
        self.parameters = parameters

    def start(self, work: Callable[[Any], None], spec: object, limit_s: float | None) -> Job:
        """Submit ``work(spec)``, which keeps the limit itself.

        Args:
            work: called with ``spec`` in the process of the job.
            limit_s: time limit of the work, seconds; None without one.

        Raises:
            NotReady: it cannot be submitted.
            UsageError: submitit does not know a parameter.
        """
        import submitit

        executor = submitit.AutoExecutor(folder=self.folder, cluster=self.name)
        # The trial ends itself gently at its limit; Slurm, which kills, comes later.
        minutes = int((limit_s or _NO_LIMIT_S) / 60) + 5
        try:
            executor.update_parameters(
                timeout_min=minutes, name="instrument", **{"nodes": 1, **self.parameters}
            )
            with _without_interrupts():
                job = executor.submit(work, spec)
        except (submitit.core.utils.FailedJobError, OSError) as error:
            raise NotReady(f"the trial cannot be submitted: {error}") from error
        except (NameError, TypeError, ValueError) as error:
            raise UsageError(f"--executor-option: {error}") from error
        return Job(job) if self.name == "local" else _SlurmJob(job)

    @property
    def environment(self) -> dict[str, str | None]:
        """Variables that a trial puts back (None: takes away).

        submitit's local jobs see no GPU unless they ask for it.
        """
        names = ("CUDA_VISIBLE_DEVICES",) if self.name == "local" else ()
        return {name: os.environ.get(name) for name in names}


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


def take_over(folder: Path) -> None:
    """Make this process the job's: off the terminal, open to our own SIGINT, and on record."""
    import psutil

    # A trial under Slurm is a job of its own, unless the whole tuning runs in one.
    own_job = os.environ.get("SUBMITIT_EXECUTOR") == "slurm"
    if os.environ.get("SUBMITIT_EXECUTOR") == "local":
        os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    facts = {
        "pid": os.getpid(),
        "started": psutil.Process().create_time(),
        "host": platform.node(),
        "slurm": os.environ.get("SLURM_JOB_ID") if own_job else None,
    }
    write_whole(folder / PROCESS, (json.dumps(facts) + "\n").encode())


def runs(folder: Path) -> bool:
    """Whether the process that took a folder over lives: here, or in Slurm's queue."""
    import psutil

    try:
        facts = read(folder / PROCESS)
        if facts["slurm"]:
            return _in_queue(facts["slurm"])
        started = psutil.Process(facts["pid"]).create_time()
        # A process ID alone may belong to another process by now.
        return bool(facts["host"] == platform.node() and abs(started - facts["started"]) < 1)
    except (OSError, ValueError, LookupError, TypeError, OverflowError, psutil.Error):
        return False
