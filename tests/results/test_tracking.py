"""Runs logged with trackers of experiments: stand-ins, and the real ones where they are there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.results.tracking import SERIES, TRACKERS, log, tracker
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.reports.exports import Tracked

RUN = Tracked("run-1", {"perf/step_time": 0.25}, (0.2, 0.3), {"scope": "fwd+bwd"})


class Called:
    """Takes any call of a tracker and notes it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return self

        return self if name == "summary" else call

    def __enter__(self) -> Called:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def of(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(args, kwargs) for each, args, kwargs in self.calls if each == name]


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_MODE", "WANDB_PROJECT", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


def test_wandb_is_offline_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Called()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    assert "offline" in log("wandb", RUN, tmp_path)
    ((_, options),) = wandb.of("init")
    assert options["mode"] == "offline" and options["dir"] == str(tmp_path)
    assert [args[0] for args, _ in wandb.of("log")] == [{SERIES: 0.2}, {SERIES: 0.3}]
    assert wandb.of("update") == [(({"perf/step_time": 0.25},), {})]
    monkeypatch.setenv("WANDB_MODE", "online")
    log("wandb", RUN, tmp_path)
    assert wandb.of("init")[-1][1]["mode"] == "online"


def test_mlflow_stays_in_the_folder_unless_a_server_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = Called()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    log("mlflow", RUN, tmp_path)
    assert str(tmp_path) in mlflow.of("set_tracking_uri")[0][0][0]
    assert mlflow.of("log_metrics") == [(({"perf/step_time": 0.25},), {})]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking")
    assert "http://tracking" in log("mlflow", RUN, tmp_path)


def test_tensorboard_gets_scalars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Called()
    board = SimpleNamespace(SummaryWriter=lambda folder: writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    assert str(tmp_path / "tensorboard") in log("tensorboard", RUN, tmp_path)
    scalars = [args for args, _ in writer.of("add_scalar")]
    assert scalars == [(SERIES, 0.2, 0), (SERIES, 0.3, 1), ("perf/step_time", 0.25, 2)]


@pytest.mark.parametrize("name", TRACKERS)
def test_one_that_is_not_installed_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("wandb", "mlflow", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=name) as raised:
        log(tracker(name), RUN, tmp_path)
    assert "Install" in raised.value.hint and not list(tmp_path.iterdir())


def test_what_a_tracker_raises_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**_: object) -> None:
        raise RuntimeError("no login")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=fails))
    with pytest.raises(UsageError, match="no login"):
        log("wandb", RUN, tmp_path)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match="wandb, mlflow, tensorboard"):
        tracker("comet")


@pytest.mark.parametrize(
    ("name", "inner"),
    [("wandb", "wandb"), ("mlflow", "mlflow.db"), ("mlflow", "mlruns"),
     ("tensorboard", "tensorboard")],
)  # fmt: skip
def test_nothing_is_logged_behind_a_link(name: str, inner: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / inner).symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="is a symbolic link"):
        log(tracker(name), RUN, tmp_path / "run")
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.filterwarnings("ignore")
def test_real_mlflow_reads_back_what_was_logged(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    log("mlflow", RUN, tmp_path)
    (run,) = mlflow.search_runs(experiment_names=["instrument"], output_format="list")
    assert run.data.metrics["perf/step_time"] == 0.25
    assert run.data.params == {"scope": "fwd+bwd"}


@pytest.mark.filterwarnings("ignore")
def test_real_tensorboard_reads_back_what_was_logged(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log("tensorboard", RUN, tmp_path)
    found = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [each.value for each in found.Scalars(SERIES)] == pytest.approx([0.2, 0.3])


@pytest.mark.filterwarnings("ignore")
def test_real_wandb_writes_an_offline_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    log("wandb", RUN, tmp_path)
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
