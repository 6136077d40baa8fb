"""The temporary copy of a project in which an instrumented script runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, field

from instrumentor.errors import NotReady
from instrumentor.project import Project
from instrumentor.workspace import git, slots
from instrumentor.workspace.copying import Filled, fill, written_since
from instrumentor.workspace.plan import ShadowPlan, plan_shadow, relative_name
from instrumentor.workspace.private_git import make_private_git
from instrumentor.workspace.slots import Slot
from instrumentor_analysis.reports.words import plural


class Shadow(Struct, frozen=True):
    """A shadow that stands.

    Attributes:
        project: the project shadowed.
        cwd: where the script runs: the counterpart of the user's working folder, or that folder
            itself when it lies outside the project.
        script: absolute path of the script in the shadow.
        replaced: the user's files in whose place the shadow holds an instrumented text, absolute.
        plan: the plan it was made from.
    """

    project: Project
    cwd: Path
    script: Path
    replaced: tuple[Path, ...]
    plan: ShadowPlan
    _filled: Filled
    _slot: Slot
    _closed: list[tuple[Path, ...]] = field(default_factory=list)
    stage: ClassVar[str] = "copied"

    @property
    def root(self) -> Path:
        """Shadow of the project's root."""
        return self._slot.tree

    @property
    def linked(self) -> tuple[Path, ...]:
        """The user's files and folders that the shadow links to, absolute."""
        return tuple(self.project.root / name for name in self._filled.links)

    @property
    def scratch(self) -> Path:
        """A folder of our own beside the tree: a killed run's is swept with it."""
        return slots.scratch(self._slot)

    @property
    def description(self) -> str:
        """What was copied, in a few words."""
        linked = f", {len(self.linked)} linked" if self.linked else ""
        return f"{plural(self._filled.copied_files, 'file')} to {self.root}{linked}"

    def environment(
        self, base: Mapping[str, str], extra_paths: Sequence[Path] = ()
    ) -> dict[str, str]:
        """``base`` changed for the shadow; see :func:`shadow_environment`."""
        return self.plan.environment(base, extra_paths, self._slot)

    def new_files(self) -> tuple[Path, ...]:
        """Files that the script wrote, relative to the root, changed copies included.

        After the shadow is gone: what was there when it ended.
        """
        if self._closed:
            return self._closed[0]
        return tuple(Path(name) for name in written_since(self.root, self._filled))

    def source_of(self, path: Path) -> Path:
        """The user's file behind a path of the shadow; other paths as they are."""
        full = self.cwd / path
        return _moved(full, self.root, self.project.root) or full

    def counterpart(self, path: Path) -> Path:
        """The shadow's path of a file of the user's (relative: to the root); others as they are."""
        full = self.project.root / path
        starts = (self.root, self.project.root)
        return next(filter(None, (_moved(full, start, self.root) for start in starts)), full)


def _moved(full: Path, start: Path, end: Path) -> Path | None:
    """A path below one folder as the one below another, links resolved where that is needed."""
    for spelling in (Path(os.path.normpath(full)), full.resolve()):
        if spelling.is_relative_to(start):
            return end / spelling.relative_to(start)
    return None


@contextmanager
def shadow(
    project: Project,
    script: Path,
    cwd: Path,
    replacements: Mapping[Path, bytes],
    *,
    link: Sequence[Path] = (),
    no_link: Sequence[Path] = (),
    keep_to: Path | None = None,
) -> Iterator[Shadow]:
    """Make the temporary copy, hold it during the body, remove it afterwards.

    Args:
        project: the script's project.
        script: the training script; relative to ``cwd``.
        cwd: the user's working folder.
        replacements: instrumented text by the file whose place it takes.
        link: see :func:`plan_shadow`.
        no_link: see :func:`plan_shadow`.
        keep_to: folder into which the files that the script wrote are moved at the end.

    Raises:
        UsageError: a path does not belong to the project.
        NotReady: git failed, the copy does not fit, the cache cannot be written, or at the end
            the written files could not be kept.
    """
    slots.sweep()
    texts = {relative_name(project, path): text for path, text in replacements.items()}
    plan = plan_shadow(project, script, cwd, list(replacements), link=link, no_link=no_link)
    with slots.acquired(project.root) as slot:
        filled = fill(plan, slot.tree, texts)
        if project.git and git.available():
            _private_git(project, slot)
        workspace = Shadow(
            project=project,
            cwd=_counterpart_of_cwd(project, cwd, slot.tree),
            script=slot.tree / _script_name(project, cwd / script),
            replaced=tuple(project.root / name for name in texts),
            plan=plan,
            _filled=filled,
            _slot=slot,
        )
        try:
            yield workspace
        finally:
            workspace._closed.append(workspace.new_files())
            if keep_to is not None:
                _keep(workspace, keep_to)


def _private_git(project: Project, slot: Slot) -> None:
    try:
        make_private_git(project.root, slot.git)
    except OSError as error:
        raise NotReady(
            f"the git folder of {project.root} cannot be read: {error}",
            "Check that `git status` works there.",
        ) from error


def _script_name(project: Project, script: Path) -> Path:
    """The script as the user spelled it, so that ``__file__`` has the neighbours they see."""
    spelled = script.absolute()
    spelled = spelled.parent.resolve() / spelled.name
    if not spelled.is_relative_to(project.root):
        spelled = spelled.resolve()
    return spelled.relative_to(project.root)


def _counterpart_of_cwd(project: Project, cwd: Path, tree: Path) -> Path:
    real = cwd.resolve()
    if not real.is_relative_to(project.root):
        return real
    return tree / real.relative_to(project.root)


def _keep(workspace: Shadow, keep_to: Path) -> None:
    try:
        _move(workspace.root, workspace.new_files(), keep_to)
    except OSError as error:
        raise NotReady(
            f"the files that the script wrote could not be kept in {keep_to}: {error}",
            "Make room there, or name another output folder.",
        ) from error


def _move(tree: Path, written: Sequence[Path], keep_to: Path) -> None:
    """Move what the script wrote; an existing file is never overwritten."""
    for name in written:
        target = _free(keep_to / name)
        target.parent.mkdir(parents=True, exist_ok=True)
        source = tree / name
        if not os.access(source.parent, os.W_OK):
            source.parent.chmod(0o700)
        if source.is_symlink():
            leads_to = source.readlink()
            if leads_to.is_relative_to(tree):
                leads_to = Path(os.path.relpath(leads_to, source.parent))
            target.symlink_to(leads_to)
        else:
            shutil.move(source, target)


def _free(path: Path) -> Path:
    number = 2
    free = path
    while os.path.lexists(free):
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return free
