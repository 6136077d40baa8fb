"""Kornia: augmentations and filters that are modules, with nothing to train in them."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows

LIBRARY = Library(
    packages=("kornia",),
    without_parameters=(
        *rows("kornia.", "augmentation.* color.* enhance.* filters.*"),
        *rows(
            "kornia.geometry.", "*Resize *Rescale *Rotate *Translate *Scale *Shear *Hflip *Vflip"
        ),
        *rows(
            "kornia.geometry.", "*resize *rescale *rotate *translate *scale *shear *flip *warp_*"
        ),
    ),
    containers=("kornia.augmentation.*Sequential",),
)
