"""Transformers and the trainers that derive from its own."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Kind

LIBRARY = Library(
    packages=("transformers", "trl", "sentence_transformers"),
    makes=(
        (Kind.SCHEDULER, rows("transformers.", "get_*schedule* optimization.get_*schedule*")),
        (Kind.OPTIMIZER, rows("transformers.", "Adafactor AdamW")),
        (Kind.DATA, rows("transformers.", "*Tokenizer* *Processor* *FeatureExtractor*")),
        (Kind.DATA, rows("transformers.", "*DataCollator* *Config.from_pretrained")),
        (Kind.MODEL, ("transformers.*.from_*",)),
        (Kind.DATA, ("transformers.*Config",)),
        (Kind.MODEL, rows("transformers.", "*Model* *For*")),
    ),
    trainer="hf-trainer",
)
