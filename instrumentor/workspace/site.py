"""Where an instrumented script runs: in a temporary copy, or in the user's own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from instrumentor.project import Project
from instrumentor.workspace import places
from instrumentor.workspace.in_place import InPlace, in_place
from instrumentor.workspace.shadow import Workspace

Site: TypeAlias = Workspace | InPlace


@contextmanager
def original(
    project: Project,
    script: Path,
    cwd: Path,
    originals: Mapping[Path, bytes],
    replacements: Mapping[Path, bytes],
) -> Iterator[InPlace]:
    """The user's own files, with a place of ours for what is not theirs; see :func:`in_place`."""
    places.sweep()
    with (
        places.acquired(project.root) as place,
        in_place(project, script, cwd, originals, replacements) as site,
    ):
        yield replace(site, scratch=places.scratch(place))
