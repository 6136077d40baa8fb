"""Trackers, progress bars and consoles: they take values and give none back."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect, Kind, Role

LIBRARY = Library(
    packages=("wandb", "tqdm"),
    roles=((Role.LOG, rows("", "wandb.* mlflow.* tqdm.*write")),),
    makes=(
        (Kind.LOGGER, rows("", "tensorboardX.* loguru.* rich.progress.* rich.console.* tqdm.*")),
        (Kind.LOGGER, ("progress.*",)),
        (Kind.LOGGER, rows("", "*.SummaryWriter wandb.init visdom.Visdom bless*.Terminal")),
    ),
    effects=(
        (Effect.PROCESS, ("wandb.init",)),
        (Effect.NOTHING, rows("", "tqdm.* wandb.* mlflow.* rich.* loguru.* progress.*")),
    ),
    on_host=True,
)
