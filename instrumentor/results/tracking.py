"""Figures of a run to a tracker of experiments: TensorBoard, MLflow or W&B.

The tracker is the one that is installed beside this tool; nothing is installed. Everything goes
into a new folder in the run's: what lies there already may be somebody else's, and a tracker would
follow its links and obey its settings. What goes over a network is the user's to say, in the
tracker's own words: MLFLOW_TRACKING_URI, or WANDB_MODE=online.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from instrumentor.shared.errors import UsageError
from instrumentor.shared.outputs import filled_below

if TYPE_CHECKING:
    from instrumentor_analysis.reports.exports import Tracked

Tracker = Literal["wandb", "mlflow", "tensorboard"]
TRACKERS: tuple[Tracker, ...] = ("wandb", "mlflow", "tensorboard")
#: Each iteration on its own; the figures of all are under their own keys.
SERIES = "perf/iteration_time"
PROJECT = "instrument"
#: What trackers are told besides: to look at no repository, and to tell their makers nothing.
_VARIABLES: Mapping[str, str] = {
    "WANDB_DISABLE_GIT": "true",
    "WANDB_DISABLE_CODE": "true",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def log(name: Tracker, run: Tracked, folder: Path) -> str:
    """Log a run; returns where its figures are, in a sentence.

    Raises:
        UsageError: the tracker is not installed, or refuses, or no folder can be made for it.
    """
    try:
        with filled_below(folder.resolve(), name) as (ours, place):
            return _logged(name, run, ours, place)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"--export {name}: {folder}: {why}") from error


def _logged(name: Tracker, run: Tracked, ours: Path, place: Path) -> str:
    try:
        # W&B takes settings, such as where to send what, from there.
        with _variables({**_VARIABLES, "WANDB_DIR": str(ours)}):
            return _LOGGERS[name](run, ours, place)
    except ImportError as error:
        hint = f"Install {name} into the environment of this tool. Nothing was logged."
        raise UsageError(f"--export {name}: {error}", hint) from error
    except Exception as error:  # whatever a tracker's version raises
        raise UsageError(f"--export {name}: {type(error).__name__}: {error}") from error


@contextmanager
def _standing_in(folder: Path) -> Iterator[None]:
    """Trackers take defaults from the folder one stands in, and make others there."""
    stood = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(stood)


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment, for as long as the body runs."""
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key, None)  # a tracker may have taken it away itself
            if value is not None:
                os.environ[key] = value


def _tensorboard(run: Tracked, ours: Path, place: Path) -> str:
    writer = import_module("torch.utils.tensorboard").SummaryWriter(str(ours))
    for number, seconds in enumerate(run.series):
        writer.add_scalar(SERIES, seconds, number)
    for key, value in run.figures.items():
        writer.add_scalar(key, value, len(run.series))
    for key, text in run.facts.items():
        writer.add_text(key, text)
    writer.close()
    return f"Logged to TensorBoard: tensorboard --logdir {shlex.quote(str(place))}"


def _mlflow(run: Tracked, ours: Path, place: Path) -> str:
    mlflow = import_module("mlflow")
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        mlflow.set_tracking_uri(uri)
        _to_mlflow(mlflow, run)
        return f"Logged to MLflow at {uri}"
    if find_spec("sqlalchemy") is not None and "?" not in str(place):
        told, uri = (f"sqlite:///{folder / 'mlflow.db'}" for folder in (place, ours))
    else:  # MLflow's older files where it has no database, or that no name for it
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        told, uri = ((folder / "mlruns").as_uri() for folder in (place, ours))
    with _standing_in(ours):
        mlflow.set_tracking_uri(uri)
        # Where files go that are added later: to the place, not to where all this is written.
        mlflow.create_experiment(PROJECT, artifact_location=(place / "artifacts").as_uri())
        _to_mlflow(mlflow, run)
    return f"Logged to MLflow at {told}"


def _to_mlflow(mlflow: Any, run: Tracked) -> None:
    mlflow.set_experiment(PROJECT)
    with mlflow.start_run(run_name=run.name):
        mlflow.log_params(dict(run.facts))
        mlflow.log_metrics(dict(run.figures))
        for number, seconds in enumerate(run.series):
            mlflow.log_metric(SERIES, seconds, step=number)


def _wandb(run: Tracked, ours: Path, place: Path) -> str:
    wandb = import_module("wandb")
    mode = os.environ.get("WANDB_MODE") or "offline"
    facts: Mapping[str, Any] = dict(run.facts)
    with _standing_in(ours):
        logged = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            name=run.name,
            config=facts,
            dir=str(ours),
            mode=mode,
        )
        for number, seconds in enumerate(run.series):
            logged.log({SERIES: seconds}, step=number)
        logged.summary.update(dict(run.figures))
        logged.finish()
    return f"Logged to W&B ({mode}), in {place / 'wandb'}"


_LOGGERS: Mapping[Tracker, Callable[[Tracked, Path, Path], str]] = {
    "wandb": _wandb,
    "mlflow": _mlflow,
    "tensorboard": _tensorboard,
}
