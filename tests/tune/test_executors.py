"""Where trials run, and what is said when that is not possible."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from instrumentor.errors import NotReady, UsageError
from instrumentor.tune import executors
from instrumentor.tune.executors import Plain, Submitted, choose


@pytest.fixture
def without_submitit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where submitit is not installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_local_is_submitits_where_that_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    chosen = choose("local", tmp_path, jobs=8)
    assert isinstance(chosen, Submitted)
    assert chosen.jobs == 1  # trials at once on one machine would time each other


def test_without_it_trials_are_plain_processes_and_that_is_said(
    tmp_path: Path, without_submitit: None
) -> None:
    chosen = choose("local", tmp_path)
    assert isinstance(chosen, Plain)
    assert "submitit is not installed" in chosen.description
    assert "pip install submitit" in chosen.description


def test_slurm_needs_submitit_and_sbatch(
    tmp_path: Path, without_submitit: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotReady, match="submitit is not installed"):
        choose("slurm", tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotReady, match="no sbatch"):
        choose("slurm", tmp_path)


def test_an_unknown_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="local, slurm"):
        choose("cloud", tmp_path)


def test_submitits_local_jobs_get_the_gpus_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert executors.environment_of_trials("local") == {"CUDA_VISIBLE_DEVICES": "1"}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert executors.environment_of_trials("local") == {"CUDA_VISIBLE_DEVICES": None}
    assert executors.environment_of_trials("slurm") == {}


def test_an_option_that_submitit_does_not_know_is_a_usage_error(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    wrong = Submitted("local", tmp_path, 1, {"no_such_parameter": 1})
    with pytest.raises(UsageError, match="--executor-option"):
        wrong.start(tmp_path / "spec.json", 5.0)
