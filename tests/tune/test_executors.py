"""Where trials run, and what is said when that is not possible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor.shared.errors import NotReady, UsageError
from instrumentor.tune.executors import PROCESS, Executor, check, runs, take_over
from instrumentor.tune.trial import read_result


def test_trials_at_once_on_one_machine_would_time_each_other(tmp_path: Path) -> None:
    assert Executor("local", tmp_path, 8, {}).jobs == 1
    assert Executor("slurm", tmp_path, 8, {}).jobs == 8


def test_slurm_needs_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotReady, match="no sbatch"):
        check("slurm")
    check("local")


def test_submitits_local_jobs_get_the_gpus_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, slurm = (Executor(name, tmp_path, 1, {}) for name in ("local", "slurm"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert local.environment == {"CUDA_VISIBLE_DEVICES": "1"}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert local.environment == {"CUDA_VISIBLE_DEVICES": None}
    assert slurm.environment == {}


def test_whether_a_trial_still_runs(tmp_path: Path) -> None:
    assert not runs(tmp_path)
    take_over(tmp_path)  # this very process
    assert runs(tmp_path)
    text = (tmp_path / PROCESS).read_text().replace(str(os.getpid()), "1")
    (tmp_path / PROCESS).write_text(text)  # a number that another process has now
    assert not runs(tmp_path)


@pytest.mark.parametrize(
    "facts",
    [
        "[]", "{}", '{"slurm": {"a": 1}}', '{"slurm": "", "pid": "x"}', '{"slurm": "", "pid": -1}',
        '{"slurm": "", "pid": 99999999999999999999, "host": "", "started": 0}',
        '{"slurm": "", "pid": 1}', '{"slurm": "", "pid": 1, "host": "h", "started": "x"}',
    ],
)  # fmt: skip
def test_whatever_a_trial_is_said_to_be(tmp_path: Path, facts: str) -> None:
    (tmp_path / PROCESS).write_text(facts)
    assert not runs(tmp_path)
    (tmp_path / PROCESS).unlink()
    os.mkfifo(tmp_path / PROCESS)
    os.mkfifo(tmp_path / "result.json")
    assert not runs(tmp_path) and read_result(tmp_path) is None


def test_an_option_that_submitit_does_not_know_is_a_usage_error(tmp_path: Path) -> None:
    wrong = Executor("local", tmp_path, 1, {"no_such_parameter": 1})
    with pytest.raises(UsageError, match="--executor-option"):
        wrong.start(print, "", 5.0)


def test_a_trial_that_slurm_does_not_take_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    (tmp_path / "srun").symlink_to(sbatch)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(NotReady, match=r"the trial cannot be submitted: .*invalid partition"):
        Executor("slurm", tmp_path, 1, {}).start(print, "", 5.0)
