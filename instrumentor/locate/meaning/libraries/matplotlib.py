"""Matplotlib, and other packages that only draw or decode pictures."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library
from instrumentor.locate.meaning.roles import Effect

LIBRARY = Library(
    packages=("matplotlib", "PIL", "cv2"),
    effects=(
        (Effect.SAVES, ("matplotlib.pyplot.savefig",)),
        (Effect.NOTHING, ("matplotlib.*", "PIL.*")),
    ),
    on_host=True,
)
