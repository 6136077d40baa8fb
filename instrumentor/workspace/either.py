"""Where an instrumented script runs: in a temporary copy, or in the user's own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from instrumentor.project import Project
from instrumentor.workspace import slots
from instrumentor.workspace.in_place import InPlace, in_place
from instrumentor.workspace.shadow import Shadow

Workspace: TypeAlias = Shadow | InPlace


@contextmanager
def original(
    project: Project,
    script: Path,
    cwd: Path,
    originals: Mapping[Path, bytes],
    replacements: Mapping[Path, bytes],
) -> Iterator[InPlace]:
    """The user's own files, with a slot of ours for what is not theirs; see :func:`in_place`."""
    slots.sweep()
    with (
        slots.acquired(project.root) as slot,
        in_place(project, script, cwd, originals, replacements) as workspace,
    ):
        yield replace(workspace, scratch=slots.scratch(slot))
