"""Tuning under Slurm: a real controller and a real node on this machine, for the test alone."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import processes_with, read
from tests.end_to_end.test_tune import interrupt_first_trial, kill_third_trial
from tests.tune.scripts import STANDINS, TRAIN
from tests.waiting import wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
FEW = ("--steps", "8", "--warmup", "2", "--executor", "slurm")
ENV = {"PYTHONPATH": str(STANDINS)}

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
SlurmdPort={next_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's programs find a cluster of this one machine."""
    pytest.importorskip("submitit")
    programs = ("sbatch", "squeue", "slurmctld", "slurmd", "munged")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (Debian: apt install slurm-wlm)")
    if os.geteuid() != 0:
        pytest.skip("needs root, to start Slurm's daemons")
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # a socket's path must be short
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    port = 20000 + os.getpid() % 20000
    values = {"host": platform.node().partition(".")[0], "folder": folder, "cpus": os.cpu_count(),
              "port": port, "next_port": port + 1}  # fmt: skip
    (folder / "slurm.conf").write_text(CONFIG.format(**values))
    env = {"SLURM_CONF": str(folder / "slurm.conf")}
    pid_files = [folder / name for name in ("slurmd.pid", "slurmctld.pid", "munged.pid")]
    try:
        _start_daemons(folder, env)
        yield env
    finally:
        for file in pid_files:
            if file.is_file():
                os.kill(int(file.read_text()), signal.SIGTERM)
        wait_for(lambda: not any(file.is_file() for file in pid_files))
        shutil.rmtree(folder)


def _start_daemons(folder: Path, env: dict[str, str]) -> None:
    own = {name: f"{folder}/{name}" for name in ("key", "socket", "munged.log", "seed")}
    commands = [
        ["munged", "--force", f"--key-file={own['key']}", f"--socket={own['socket']}",
         f"--pid-file={folder}/munged.pid", f"--log-file={own['munged.log']}",
         f"--seed-file={own['seed']}"],
        ["slurmctld", "-c"],
        ["slurmd", "-c"],
    ]  # fmt: skip
    whole = {**os.environ, **env}
    for command in commands:
        done = subprocess.run(command, env=whole, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{command[0]} does not start here: {done.stderr.strip()}")
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        words = ["sinfo", "-h", "-o", "%T"]
        told = subprocess.run(words, env=whole, capture_output=True, text=True, check=False)
        if told.stdout.strip() == "idle":
            return
        time.sleep(0.3)
    pytest.skip(f"the node does not come up: {told.stdout.strip()} {told.stderr.strip()}")


def test_trials_are_jobs_and_independent_ones_run_at_once(
    cluster: dict[str, str], git_repo: RepoFactory, run_cli: RunCli
) -> None:
    repo = git_repo({"train.py": TRAIN, "pyproject.toml": ""})
    done = run_cli(
        "tune", *FEW, "--jobs", "2", "--settings", "optimization_level", "--executor-option",
        "slurm_partition=test", "train.py", cwd=repo, env={**ENV, **cluster},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    folder = repo / "instrument-runs/repo_tune-1"
    document = read(folder, "tune.json")
    assert document["best"] == {"optimization_level": 2}
    jobs = [json.loads(p.read_text())["slurm"] for p in folder.glob("trials/*/process.json")]
    # Twice the script as it is, two levels, and the script as it is once more at the end.
    assert len(set(jobs)) == 5 and all(jobs)
    # Both levels were in the queue before one of them was done.
    events = (folder / "journal.jsonl").read_text().splitlines()
    assert [json.loads(event)["event"] for event in events[5:7]] == ["begun", "begun"]


def test_a_killed_job_costs_only_itself(cluster: dict[str, str], git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": TRAIN, "pyproject.toml": ""})
    kill_third_trial(repo, cluster, "--executor", "slurm")


def test_an_interruption_takes_the_job_out_of_the_queue(
    cluster: dict[str, str], git_repo: RepoFactory
) -> None:
    repo = git_repo({"train.py": TRAIN, "pyproject.toml": ""})
    interrupt_first_trial(repo, cluster, "--executor", "slurm")
    squeue, env = ["squeue", "--noheader"], {**os.environ, **cluster}
    wait_for(lambda: not subprocess.check_output(squeue, env=env).strip())
    assert not processes_with(str(repo / "instrument-runs/repo_tune-1"))
