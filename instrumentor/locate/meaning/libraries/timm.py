"""timm: models, optimizers, schedules and averages of weights."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, Switch, rows
from instrumentor.locate.meaning.roles import Effect, Kind

LIBRARY = Library(
    packages=("timm",),
    makes=(
        (Kind.SCHEDULER, ("timm.scheduler.*",)),
        (Kind.AVERAGE, ("timm.utils.ModelEma*",)),
        (Kind.OPTIMIZER, ("timm.optim.*",)),
        (Kind.MODEL, rows("timm.", "create_model models.create_model")),
    ),
    tracks_in_training=((Switch(), rows("timm.", "create_model models.create_model")),),
    effects=((Effect.NOTHING, rows("timm.utils.", "accuracy get_state_dict unwrap_model")),),
)
