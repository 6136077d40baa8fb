"""What the shadow will hold: copied, linked, or left out with the reason. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from instrumentor.shared.errors import UsageError
from instrumentor.shared.project import Project
from instrumentor.workspace import folder_roles, git, slots
from instrumentor.workspace.copy_planner import Planner
from instrumentor.workspace.environment import run_environment
from instrumentor.workspace.file_stamps import Stamp
from instrumentor.workspace.git_listing import list_with_git


class ShadowPlan(Struct, frozen=True):
    """What the shadow will hold.

    Attributes:
        root: where the shadow will stand unless another run holds the slot.
        copies: files copied, relative, with their size in bytes.
        symlinks: symbolic links of the project that are made again.
        links: files and folders of the user's that the shadow will link to, relative.
        folders: folders made empty, relative.
        left_out: what of the project the shadow will not hold, and why.
        stamps: of the files copied, where no link leads to them.
    """

    project: Project
    cwd: Path
    root: Path
    copies: dict[str, int]
    symlinks: tuple[str, ...]
    links: tuple[str, ...]
    folders: tuple[str, ...]
    left_out: Mapping[str, str]
    stamps: Mapping[str, Stamp] = field(default_factory=dict)

    @property
    def copied_bytes(self) -> int:
        """Total size of the copied files, in bytes."""
        return sum(self.copies.values())

    @property
    def linked(self) -> tuple[Path, ...]:
        """Absolute paths of the user's files and folders that are linked."""
        return tuple(self.project.root / name for name in self.links)

    def environment(
        self, base: Mapping[str, str], extra_paths: Sequence[Path] = ()
    ) -> dict[str, str]:
        """``base`` as it will be for the shadow."""
        slot = slots.slot_of(self.project.root)
        return run_environment(
            base, self.project, self.root, slot, self.cwd, extra_paths, self._holds
        )

    def _holds(self, path: Path) -> bool:
        name = path.relative_to(self.root).as_posix()
        linked = any(name == link or name.startswith(f"{link}/") for link in self.links)
        return name in {".", *self.copies, *self.symlinks, *self.folders} or linked

    def largest_folders(self, count: int = 3) -> tuple[tuple[str, int], ...]:
        """The folders that cost most to copy: (relative path, bytes), largest first."""
        sizes: dict[str, int] = {}
        for name, size in self.copies.items():
            if "/" in name:
                top = "/".join(name.split("/")[:-1][:2])
                sizes[top] = sizes.get(top, 0) + size
        return tuple(sorted(sizes.items(), key=lambda item: -item[1])[:count])


def plan_shadow(
    project: Project,
    script: Path,
    cwd: Path,
    replacements: Iterable[Path] = (),
    *,
    link: Sequence[Path] = (),
    no_link: Sequence[Path] = (),
) -> ShadowPlan:
    """Plan the shadow of a project.

    Args:
        script: relative to ``cwd``.
        cwd: the user's working folder; a relative ``link`` or ``no_link`` starts there, or else at
            the root.
        replacements: files whose instrumented text will stand in place of theirs.
        link: folders or files to link although they would be copied or left out.
        no_link: folders or files to copy although they would be linked or left out.

    Raises:
        UsageError: a path does not belong to the project, or a linked folder holds a file that
            has to be replaced.
        NotReady: git failed, or the folder is too wide to be a project.
    """
    replaced = [relative_name(project, path) for path in (cwd / script, *replacements)]
    anchors = list(replaced)
    folder = cwd.resolve()
    if folder.is_relative_to(project.root) and folder != project.root:
        anchors.append(folder.relative_to(project.root).as_posix())
    planner = Planner(
        root=project.root,
        anchors=frozenset(anchors),
        link=frozenset(_option(project, cwd, path, "--link") for path in link),
        no_link=frozenset(_option(project, cwd, path, "--no-link") for path in no_link),
    )
    with_git = project.git and git.available()
    planner.run(list_with_git(project.root) if with_git else None)
    planner.folders.update(anchors[len(replaced) :])
    return ShadowPlan(
        project=project,
        cwd=folder,
        root=slots.slot_of(project.root).tree,
        copies=planner.copies,
        symlinks=tuple(sorted(planner.symlinks)),
        links=tuple(sorted(planner.links)),
        folders=tuple(sorted(planner.folders)),
        left_out=dict(sorted(planner.left_out.items())),
        stamps=planner.stamps,
    )


def relative_name(project: Project, path: Path) -> str:
    """Path of a project's file relative to the root, symlinks resolved, with forward slashes.

    Raises:
        UsageError: the file lies outside the project or in an environment inside it.
    """
    real = (project.root / path).resolve()
    if not real.is_relative_to(project.root):
        raise UsageError(
            f"{real} lies outside the project {project.root}",
            "Only files of the script's own project can be instrumented. Install that package's "
            "sources inside the project, or start from a script that lies beside it.",
        )
    around = (parent for parent in real.parents if parent.is_relative_to(project.root))
    environment = next(filter(folder_roles.is_environment, around), None)
    if environment is not None:
        raise UsageError(
            f"{real} belongs to the environment {environment}, an installed package",
            "Instrument a script of your own whose loop is in your project.",
        )
    return real.relative_to(project.root).as_posix()


def _option(project: Project, cwd: Path, path: Path, option: str) -> str:
    for base in (cwd, project.root):
        # not resolve(): a linked data folder is itself often a symbolic link to elsewhere
        found = Path(os.path.normpath(base.resolve() / path))
        if os.path.lexists(found) and found.is_relative_to(project.root) and found != project.root:
            return found.relative_to(project.root).as_posix()
    raise UsageError(
        f"{option} {path}: no such file or folder in {project.root}",
        "Give a path relative to the working folder or to the project's root.",
    )
