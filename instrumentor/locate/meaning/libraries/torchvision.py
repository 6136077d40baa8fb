"""torchvision: models and data sets; what its transforms give is data."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect, Kind

LIBRARY = Library(
    packages=("torchvision",),
    makes=(
        (Kind.DATA, rows("torchvision.", "datasets.* transforms.*")),
        (Kind.MODEL, ("torchvision.models.*",)),
        (Kind.LOSS, ("torchvision.ops.*",)),
    ),
    without_parameters=("torchvision.transforms.*",),
    containers=rows("torchvision.transforms.", "*Compose *RandomApply *RandomChoice *RandomOrder"),
    effects=(
        (Effect.SAVES, ("torchvision.utils.save_*",)),
        (Effect.NOTHING, ("torchvision.*",)),
    ),
    on_host=True,
)
