"""Where an instrumented script runs: in a temporary copy, or in the user's own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from instrumentor.project import Project
from instrumentor.workspace import places
from instrumentor.workspace.in_place import in_place
from instrumentor.workspace.shadow import shadow


class Site(Protocol):
    """What a run asks of the place in which it happens."""

    @property
    def project(self) -> Project:
        """The user's project."""
        ...

    @property
    def root(self) -> Path:
        """Root of the tree in which the script runs."""
        ...

    @property
    def cwd(self) -> Path:
        """Where it is started."""
        ...

    @property
    def script(self) -> Path:
        """The instrumented script."""
        ...

    @property
    def scratch(self) -> Path:
        """An empty folder of our own; a killed run's is swept with its place."""
        ...

    @property
    def linked(self) -> tuple[Path, ...]:
        """The user's files and folders that the tree only links to."""
        ...

    @property
    def description(self) -> str:
        """What was made, in a few words."""
        ...

    def environment(
        self, base: Mapping[str, str], extra_paths: Sequence[Path] = ()
    ) -> dict[str, str]:
        """The environment of a script that runs here."""
        ...

    def new_files(self) -> tuple[Path, ...]:
        """What the script wrote into a copy, relative to the root."""
        ...

    def source_of(self, path: Path) -> Path:
        """The user's file behind a path of this tree."""
        ...

    def counterpart(self, path: Path) -> Path:
        """This tree's path of a file of the user's."""
        ...


@contextmanager
def copied(
    project: Project,
    script: Path,
    cwd: Path,
    replacements: Mapping[Path, bytes],
    *,
    link: Sequence[Path] = (),
    no_link: Sequence[Path] = (),
    keep_to: Path | None = None,
) -> Iterator[Site]:
    """A temporary copy; see :func:`shadow`."""
    with shadow(
        project, script, cwd, replacements, link=link, no_link=no_link, keep_to=keep_to
    ) as workspace:
        yield workspace


@contextmanager
def original(
    project: Project,
    script: Path,
    cwd: Path,
    originals: Mapping[Path, bytes],
    replacements: Mapping[Path, bytes],
) -> Iterator[Site]:
    """The user's own files; see :func:`in_place`."""
    places.sweep()
    with (
        places.acquired(project.root) as place,
        in_place(project, script, cwd, originals, replacements) as site,
    ):
        yield replace(site, scratch=places.scratch(place))
