"""tt-crank: its scripts are plain torch loops on the device `tt`."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library
from instrumentor.locate.meaning.roles import Role

LIBRARY = Library(
    packages=("tt_crank",),
    roles=((Role.WAIT, ("tt_crank.*synchronize",)),),
)
