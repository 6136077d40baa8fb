"""Lightning: its trainer holds the loop; with Fabric the script does."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library
from instrumentor.locate.meaning.roles import Kind

LIBRARY = Library(
    packages=("pytorch_lightning", "lightning", "lightning_fabric"),
    makes=((Kind.ACCELERATOR, ("*Fabric",)),),
    trainer="lightning",
    imported="lightning",
    trains=(b"Trainer", b"LightningModule", b"LightningDataModule", b"LightningCLI"),
)
