"""The experiments on real torch_xla (its CPU backend): what a sample holds, and what it leaves.

``torch_xla.sync(wait=True)`` returns with most of the step still to run; the table printed here
shows for each experiment what a timer closed by it alone would have said.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conftest import RunCli
from tests.warned import texts
from tests.xla.runs import Measured, losses, measure, run_plainly

pytestmark = pytest.mark.xla

SCRIPTS = "blacksmith/experiments/torch"
STEPS = 9
SHORT = {
    "mnist": {"train_samples": 256 * (STEPS + 1), "val_samples": 512},
    "tiny_llama": {"train_samples": 16 * (STEPS + 3), "val_samples": 32},
}
SHORT["tiny_llama_lora"] = SHORT["tiny_llama"]
ALWAYS = {"device": "xla", "num_epochs": 1, "steps_freq": 1, "val_steps_freq": 100}
Run = Callable[[str], Measured]


@pytest.fixture(scope="module")
def config(experiments_repo: Path) -> Callable[[str], str]:
    """Writes a shortened variant of an experiment's YAML beside it; returns its path."""

    def write(name: str) -> str:
        folder = experiments_repo / SCRIPTS / name / "single_chip"
        path = folder / "xla.yaml"
        if not path.exists():
            (default,) = folder.glob("*.yaml")
            settings = yaml.safe_load(default.read_text(encoding="utf-8"))
            path.write_text(yaml.safe_dump({**settings, **ALWAYS, **SHORT[name]}))
        return str(path.relative_to(experiments_repo))

    return write


_measured: dict[str, Measured] = {}


@pytest.fixture
def run(
    experiments_repo: Path,
    config: Callable[[str], str],
    xla_python: Path,
    run_cli: RunCli,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """Measures an experiment once, however many tests ask."""

    def run_once(name: str) -> Measured:
        if name not in _measured:
            _measured[name] = measure(
                run_cli,
                xla_python,
                experiments_repo,
                f"{SCRIPTS}/{name}/train.py",
                *("--keep-validation", "--profiler", "torch", "--steps", str(STEPS)),
                arguments=("--config", config(name)),
                output=tmp_path_factory.mktemp("runs") / name,
            )
        return _measured[name]

    return run_once


@pytest.mark.parametrize("name", sorted(SHORT))
def test_a_sample_holds_its_whole_step(run: Run, name: str) -> None:
    waits = run(name).waits
    assert len(waits) >= STEPS
    assert all(wait.sync_only <= wait.barrier for wait in waits)
    assert statistics.median(wait.second / wait.barrier for wait in waits) < 0.5


@pytest.mark.parametrize("name", sorted(SHORT))
def test_the_summary_claims_nothing_about_xla_from_torch_profiler(run: Run, name: str) -> None:
    measured = run(name)
    assert {sample["device"] for sample in measured.samples} == {"xla"}
    of_the_profiler = [text for text in texts(measured.warnings) if "profiler" in text]
    text = "There is the wall clock alone: torch.profiler sees nothing of xla work."
    assert of_the_profiler == [text]
    assert not any(event["event"] == "profiled" for event in measured.events)
    summary = measured.summary
    assert summary["profiler"] == "wallclock"
    assert "torch.profiler sees nothing of xla work" in " ".join(texts(summary["warnings"]))
    assert "on the CPU" not in measured.console
    assert summary["wall_clock_ms"]["samples"] == len(measured.steady)
    for figure in ("device_time_ms", "overhead_percent", "dispatch_ms_per_op", "host_bound"):
        assert summary[figure] is None


def test_no_step_more_than_asked_for(run: Run) -> None:
    assert len(run("mnist").samples) == STEPS


@pytest.mark.parametrize("name", sorted(SHORT))
def test_losses_are_those_of_the_script_as_it_is(
    run: Run, config: Callable[[str], str], experiments_repo: Path, xla_python: Path, name: str
) -> None:
    script = f"{SCRIPTS}/{name}/train.py"
    plain = losses(run_plainly(xla_python, experiments_repo, script, "--config", config(name)))
    measured = losses(run(name).log)
    # The stop comes before the last step is logged.
    assert len(measured) >= 2
    assert measured == pytest.approx(plain[: len(measured)], rel=1e-5)


def test_table_of_waits(run: Run) -> None:
    """Accumulating micro-steps hide the gap: their gradients are donated, which makes sync wait."""
    print(f"\n{'median, ms':34}{'sync only':>10}{'with barrier':>14}{'second wait':>13}")
    for name in sorted(SHORT):
        accumulated = 1 if name == "mnist" else 4
        waits = run(name).waits
        fresh = [w for i, w in enumerate(waits) if i % accumulated == 0 and w.kind == "steady"]
        rows = {f"{name}, all steady samples": run(name).steady}
        if accumulated > 1:
            rows["  of these, first of accumulation"] = fresh
        for row, chosen in rows.items():
            sync_only, barrier, second = (
                statistics.median(getattr(wait, column) for wait in chosen)
                for column in ("sync_only", "barrier", "second")
            )
            print(f"{row:34}{sync_only:10.2f}{barrier:14.2f}{second:13.3f}")
            assert second < 0.5 * barrier
