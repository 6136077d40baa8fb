"""Diffusers: models, their schedules of noise, and averages of weights."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Kind

LIBRARY = Library(
    packages=("diffusers",),
    makes=(
        (Kind.SCHEDULER, ("diffusers.optimization.get_*schedule*",)),
        (Kind.AVERAGE, ("diffusers.training_utils.EMAModel*",)),
        (Kind.DATA, rows("diffusers.", "*Tokenizer* *Processor* *FeatureExtractor*")),
        (Kind.DATA, rows("diffusers.", "*Config.from_pretrained *Scheduler*")),
        (Kind.MODEL, rows("diffusers.", "*.from_* *Model")),
    ),
)
