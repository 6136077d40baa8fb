"""DeepSpeed: model and optimizer in one engine."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library
from instrumentor.locate.meaning.roles import Kind, Role

LIBRARY = Library(
    packages=("deepspeed",),
    roles=(
        (Role.ACTIVATION_CHECKPOINT, ("deepspeed.checkpointing.checkpoint",)),
        (Role.DISTRIBUTED, ("deepspeed.init_distributed",)),
    ),
    parts={"deepspeed.initialize": (Kind.ENGINE, Kind.OPTIMIZER, Kind.DATA, Kind.SCHEDULER)},
)
