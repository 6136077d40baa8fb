"""JAX and what is built on it."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library

LIBRARY = Library(
    packages=("jax", "flax", "optax", "easydel"),
    without_torch="jax",
    why="gradients come from transformations, not from backward()",
    trains=(b"jax.grad", b"value_and_grad", b".fit("),
)
