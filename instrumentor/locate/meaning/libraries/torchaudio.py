"""torchaudio: transforms of waveforms and spectrograms, with nothing to train in them."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library

LIBRARY = Library(
    packages=("torchaudio",),
    without_parameters=("torchaudio.transforms.*", "torchaudio.functional.*"),
)
