"""NumPy, and the packages that compute on the host with it."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect, Kind

LIBRARY = Library(
    packages=("numpy", "pandas", "sklearn", "scipy"),
    makes=((Kind.DATA, ("numpy.*",)),),
    effects=(
        (Effect.PROCESS, ("numpy.random.se*",)),
        (Effect.SAVES, ("numpy.save*",)),
        (Effect.LOADS, rows("", "numpy.load* pandas.read_*")),
        (Effect.FIRST, rows("numpy.", "*.shuffle copyto *.at fill_diagonal place put*")),
        (Effect.NOTHING, rows("", "numpy.* sklearn.* scipy.* pandas.*")),
    ),
    draws=("numpy.random.*",),
    numbers=rows("numpy.", "dtype finfo iinfo"),
    on_host=True,
)
