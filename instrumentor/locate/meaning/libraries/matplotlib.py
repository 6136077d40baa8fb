"""Matplotlib, and other packages that only draw, write or decode pictures."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect, Kind

LIBRARY = Library(
    packages=("matplotlib", "PIL", "cv2", "imageio"),
    makes=((Kind.LOGGER, rows("matplotlib.", "*.figure *.gcf *.gca *.axes *.subplot *.Figure")),),
    parts=dict.fromkeys(
        rows("matplotlib.", "pyplot.subplots pylab.subplots"), (Kind.LOGGER, Kind.LOGGER)
    ),
    effects=(
        (
            Effect.SAVES,
            rows("", "matplotlib.pyplot.savefig cv2.imwrite imageio.*write* imageio.*save"),
        ),
        (Effect.LOADS, rows("", "cv2.imread imageio.*read*")),
        (Effect.SAVES, ("cv2.VideoWriter",)),
        (Effect.PROCESS, rows("cv2.", "set* ocl.set* waitKey* imshow named* destroy*")),
        (
            Effect.FIRST,
            rows("cv2.", "rectangle putText *ine circle ellipse poly* fill* draw* flood*"),
        ),
        (Effect.NOTHING, ("matplotlib.*", "PIL.*", "cv2.*")),
    ),
    on_host=True,
)
