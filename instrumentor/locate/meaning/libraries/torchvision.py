"""torchvision: models and data sets; what its transforms give is data."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, Switch, rows
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
    tracks_in_training=(
        (
            Switch(is_on=False),
            rows("torchvision.models.*", "vgg11 vgg13 vgg16 vgg19 alexnet squeezenet* vit_* swin_*")
            + rows("torchvision.models.", "convnext* detection.* *Weights* list_models"),
        ),
        (Switch(), ("torchvision.models.*",)),
    ),
    on_host=True,
)
