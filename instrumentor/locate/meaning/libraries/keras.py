"""TensorFlow and Keras; beside torch they may only bring data: `keras.datasets`."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library

LIBRARY = Library(
    packages=("tensorflow", "keras"),
    without_torch="keras",
    why="model.fit() or a gradient tape holds the step",
    trains=(b"GradientTape", b".fit(", b"train_on_batch"),
)
