"""Where an instrumented script runs: a temporary copy of its project, or the project itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from instrumentor.shared.errors import Restored
from instrumentor.shared.project import Project
from instrumentor.workspace.copy_plan import ShadowPlan
from instrumentor.workspace.copying import Mark, snapshot
from instrumentor.workspace.environment import run_environment
from instrumentor.workspace.slots import Slot
from instrumentor_analysis.reports.formatting import plural


class Workspace(Struct, frozen=True):
    """A place that stands.

    Attributes:
        project: the script's.
        slot: our own folder for this run; of a copy it holds the tree.
        root: of the project where the script runs: the tree of the slot, or in place its own.
        cwd: where the script runs: of a copy the counterpart of the user's working folder, or that
            folder itself when it lies outside the project.
        script: absolute path of the script there.
        replaced: the user's files in whose place there is an instrumented text, absolute.
        plan: of a copy, what it was made from.
        linked: the user's files and folders that a copy links to, absolute.
        restored: of a run in place, what became of each file at its end.
    """

    project: Project
    slot: Slot
    root: Path
    cwd: Path
    script: Path
    replaced: tuple[Path, ...]
    plan: ShadowPlan | None = None
    linked: tuple[Path, ...] = ()
    restored: list[Restored] = field(default_factory=list)
    _copied: Mapping[str, Mark] | None = None

    @property
    def scratch(self) -> Path:
        """A folder of our own for what the run needs only while it lasts."""
        return self.slot.scratch

    @property
    def stage(self) -> str:
        """What has been done, as the progress names it."""
        return "in place" if self._copied is None else "copied"

    @property
    def description(self) -> str:
        """What was copied or swapped, in a few words."""
        if self._copied is None:
            names = ", ".join(path.name for path in self.replaced)
            return f"{names}: instrumented in place until the run ends"
        count = sum(not isinstance(each, str) for each in self._copied.values())
        linked = f", {len(self.linked)} linked" if self.linked else ""
        return f"{plural(count, 'file')} to {self.root}{linked}"

    def environment(
        self, base: Mapping[str, str], extra_paths: Sequence[Path] = ()
    ) -> dict[str, str]:
        """``base`` changed for this place; see :func:`run_environment`."""
        # The user's PYTHONPATH counts from where the user stands, not from the copy of that.
        start = self.plan.cwd if self.plan else self.cwd
        return run_environment(base, self.project, self.root, self.slot, start, extra_paths)

    def new_files(self) -> tuple[Path, ...]:
        """Files that the script wrote into its copy, relative to the root, changed ones included.

        None in place: what the script writes is where it always writes it.
        """
        if self._copied is None:
            return ()
        found = snapshot(self.root)
        return tuple(Path(name) for name in sorted(found) if self._copied.get(name) != found[name])

    def source_of(self, path: Path) -> Path:
        """The user's file behind a path of this place; other paths as they are."""
        full = self.cwd / path
        return _moved(full, self.root, self.project.root) or full

    def counterpart(self, path: Path) -> Path:
        """The path here of a file of the user's (relative to the root); others unchanged."""
        full = self.project.root / path
        starts = (self.root, self.project.root)
        return next(filter(None, (_moved(full, start, self.root) for start in starts)), full)


def _moved(full: Path, start: Path, end: Path) -> Path | None:
    """A path below one folder as the one below another, links resolved where that is needed."""
    for spelling in (Path(os.path.normpath(full)), full.resolve()):
        if spelling.is_relative_to(start):
            return end / spelling.relative_to(start)
    return None
