"""Slurm's queue, asked by `squeue`: submitit's own question to `sacct` needs Slurm's accounting."""

from __future__ import annotations

import subprocess
import time

_POLL_S = 0.2


def in_queue(job: str) -> bool:
    """Whether Slurm still has a job, waiting or running."""
    done = subprocess.run(
        ["squeue", "--noheader", "--jobs", job, "--format=%T"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode != 0:
        # A job that is long gone is an error of its own; any other one says nothing.
        return "Invalid job id" not in done.stderr
    return bool(done.stdout.strip())


def interrupt(job: str, grace_s: float) -> None:
    """SIGINT for the step of a job that is the trial; after the grace the job is taken away."""
    # Without --full, which would signal the batch script and not the step that is the trial.
    subprocess.run(["scancel", "--signal=INT", job], check=False)
    limit = time.monotonic() + grace_s
    while in_queue(job):
        if time.monotonic() > limit:
            subprocess.run(["scancel", job], check=False)
            return
        time.sleep(_POLL_S)
