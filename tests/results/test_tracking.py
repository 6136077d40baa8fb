"""Runs logged with trackers of experiments: stand-ins, and the real ones where they are there."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.results.reporting import ReportFiles
from instrumentor.results.tracking import SERIES, TRACKERS, Tracker, log
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
    assert options["mode"] == "offline" and Path(options["dir"]).name == "wandb"
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
    assert str(tmp_path) in log("mlflow", RUN, tmp_path)
    assert mlflow.of("set_tracking_uri")[0][0][0].startswith(("sqlite:///", "file:///"))
    ((_, made),) = mlflow.of("create_experiment")
    assert made["artifact_location"] == (tmp_path / "mlflow" / "artifacts").as_uri()
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
    name: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("wandb", "mlflow", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=name) as raised:
        log(name, RUN, tmp_path)
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
        dataclasses.replace(ReportFiles(), export="comet")


@pytest.mark.parametrize("name", TRACKERS)
def test_it_logs_into_a_folder_of_its_own(
    name: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the run's folder by that name may be anybody's: links, settings, a database."""
    mine, run = tmp_path / "mine", tmp_path / "run"
    mine.mkdir()
    run.mkdir()
    (run / name).symlink_to(mine)
    stand_in = tracker_that(lambda folder: (folder / "figures").write_text("0.25"))
    for module in ("wandb", "mlflow", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, stand_in)
    assert f"{run / name}-2" in log(name, RUN, run)
    assert (run / f"{name}-2" / "figures").read_text() == "0.25"
    assert not list(mine.iterdir())


def tracker_that(logs: Callable[[Path], object]) -> SimpleNamespace:
    """A stand-in that calls a function with the folder into which it is to write, once."""
    folders: list[Path] = []

    def called(*_: Any, **__: Any) -> Called:
        if not folders:
            folders.append(Path(os.environ["WANDB_DIR"]))
            logs(folders[0])
        return Called()

    return SimpleNamespace(
        init=called, SummaryWriter=called, set_tracking_uri=called, set_experiment=called,
        start_run=called, log_params=called, log_metrics=called, log_metric=called,
        create_experiment=called,
    )  # fmt: skip


@pytest.mark.parametrize("name", TRACKERS)
@pytest.mark.parametrize("exchanged", ["run", "tracker's"])
def test_what_is_exchanged_while_a_tracker_logs_leads_it_nowhere(
    name: Tracker, exchanged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's folder may be somebody else's, who can put a link in its place at any moment."""
    mine, run, moved = tmp_path / "mine", tmp_path / "run", tmp_path / "moved"
    (mine / name).mkdir(parents=True)
    run.mkdir()
    there = run if exchanged == "run" else run / name

    def logs(folder: Path) -> None:
        there.rename(moved)
        there.symlink_to(mine)
        (folder / "inner").mkdir()
        (folder / "inner" / "figures").write_text("0.25")
        (folder / "latest").symlink_to("inner")

    for module in ("wandb", "mlflow", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, tracker_that(logs))
    log(name, RUN, run)
    assert not any(path.is_file() for path in mine.rglob("*"))
    made = moved / name if exchanged == "run" else moved
    assert (made / "latest" / "figures").read_text() == "0.25"


@pytest.mark.parametrize("name", TRACKERS)
def test_what_is_told_to_trackers_is_so_while_they_log_alone(
    name: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ask no git of the folder one stands in, and tell their makers nothing."""
    names = ("WANDB_DISABLE_GIT", "WANDB_DISABLE_CODE", "MLFLOW_DISABLE_TELEMETRY")
    monkeypatch.setenv(names[0], "false")
    monkeypatch.delenv(names[2], raising=False)
    seen: dict[str, str | None] = {}

    def called(*_: Any, **__: Any) -> None:
        seen.update({key: os.environ.get(key) for key in (*names, "WANDB_ERROR_REPORTING")})
        raise RuntimeError("enough")

    stand_in = SimpleNamespace(init=called, SummaryWriter=called, set_tracking_uri=called)
    for module in ("wandb", "mlflow", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, stand_in)
    with pytest.raises(UsageError, match="enough"):
        log(name, RUN, tmp_path)
    assert [*seen.values()] == ["true", "true", "true", "false"]
    assert os.environ[names[0]] == "false" and names[2] not in os.environ
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")
def test_real_wandb_obeys_no_settings_of_the_folder_one_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text("[default]\nbase_url = http://127.0.0.1:9\n")
    os.mkfifo(tmp_path / "config-defaults.yaml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    log("wandb", RUN, tmp_path / "run")
    (written,) = (tmp_path / "run" / "wandb").rglob("*.wandb")
    assert b"127.0.0.1:9" not in written.read_bytes()


@pytest.mark.filterwarnings("ignore")
def test_real_mlflow_reads_back_what_was_logged(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(log("mlflow", RUN, tmp_path).rpartition(" ")[2])
    (run,) = mlflow.search_runs(experiment_names=["instrument"], output_format="list")
    assert run.data.metrics["perf/step_time"] == 0.25
    assert run.data.params == {"scope": "fwd+bwd"}
    assert run.info.artifact_uri.startswith((tmp_path / "mlflow" / "artifacts").as_uri())


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
    assert list((tmp_path / "wandb" / "wandb").glob("offline-run-*/*.wandb"))
