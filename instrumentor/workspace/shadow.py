"""The temporary copy of a project in which an instrumented script runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from instrumentor.shared.errors import NotReady
from instrumentor.shared.outputs import numbered
from instrumentor.shared.project import Project
from instrumentor.workspace import git, kept_copy, slots
from instrumentor.workspace.copy_plan import plan_shadow, relative_name
from instrumentor.workspace.copying import fill
from instrumentor.workspace.private_git import make_private_git
from instrumentor.workspace.run_location import Workspace


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
    kept: bool = True,
) -> Iterator[Workspace]:
    """Make the temporary copy, hold it during the body, remove or keep it afterwards.

    Args:
        script: relative to ``cwd``, the user's working folder.
        replacements: instrumented text by the file whose place it takes.
        link, no_link: see :func:`plan_shadow`.
        keep_to: folder into which the files that the script wrote are moved at the end.
        kept: a large copy stays for the next run, which brings it up to date.

    Raises:
        UsageError: a path does not belong to the project.
        NotReady: git failed, the copy does not fit, the cache cannot be written, or at the end
            the written files could not be kept.
    """
    texts = {relative_name(project, path): text for path, text in replacements.items()}
    plan = plan_shadow(project, script, cwd, list(replacements), link=link, no_link=no_link)
    inside = plan.cwd.is_relative_to(project.root)
    with slots.acquired(project.root, kept=kept) as slot:
        filled = fill(plan, slot.tree, texts, kept_copy.taken(slot, plan, texts))
        if project.git and git.available():
            make_private_git(project.root, slot.git)
        workspace = Workspace(
            project=project,
            slot=slot,
            root=slot.tree,
            cwd=slot.tree / plan.cwd.relative_to(project.root) if inside else plan.cwd,
            script=slot.tree / _script_name(project, cwd / script),
            replaced=tuple(project.root / name for name in texts),
            plan=plan,
            linked=tuple(project.root / name for name in filled.links),
            # Whatever differs from it later was written by the script.
            _copied=filled.marks(slot.tree, (*texts, *plan.symlinks)),
        )
        stays = kept and kept_copy.is_worth(plan, slot) and kept_copy.settled(slot, filled)
        try:
            yield workspace
        finally:
            if keep_to is not None:
                _keep(workspace, keep_to)
            if stays:
                kept_copy.keep(slot, plan, filled)


def _script_name(project: Project, script: Path) -> Path:
    """The script as the user spelled it, so that ``__file__`` has the neighbours they see."""
    spelled = script.absolute()
    spelled = spelled.parent.resolve() / spelled.name
    if not spelled.is_relative_to(project.root):
        spelled = spelled.resolve()
    return spelled.relative_to(project.root)


def _keep(workspace: Workspace, keep_to: Path) -> None:
    """Move what the script wrote; an existing file is never overwritten."""
    try:
        for name in workspace.new_files():
            wanted = numbered(keep_to / name, name.suffix)
            _move(workspace.root, name, next(p for p in wanted if not os.path.lexists(p)))
    except OSError as error:
        raise NotReady(
            f"the files that the script wrote could not be kept in {keep_to}: {error}",
            "Make room there, or name another output folder.",
        ) from error


def _move(tree: Path, name: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source = tree / name
    if not os.access(source.parent, os.W_OK):  # closed by the script
        source.parent.chmod(0o700)
    if source.is_symlink():
        leads_to = source.readlink()
        if leads_to.is_relative_to(tree):  # or it would lead to a copy that is gone
            leads_to = Path(os.path.relpath(leads_to, source.parent))
        target.symlink_to(leads_to)
    else:
        shutil.move(source, target)
