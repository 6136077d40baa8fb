"""The environment variables under which a script runs, in its copy or in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from instrumentor.shared.project import Project
from instrumentor.workspace import git
from instrumentor.workspace.slots import Slot


def run_environment(
    base: Mapping[str, str],
    project: Project,
    root: Path,
    slot: Slot,
    cwd: Path,
    extra_paths: Sequence[Path],
    stands: Callable[[Path], bool] = Path.exists,
) -> dict[str, str]:
    """The user's environment, changed so that imports, git and bytecode stay in the run's place.

    PYTHONPATH is the import roots below ``root``, then ``extra_paths``, then the user's own
    entries, those inside the project mapped to ``root``.

    Args:
        base: the user's environment.
        root: where the script runs: the tree of the slot, or the project's own root.
        slot: holds the private git folder of a copy, and leads to the folder for bytecode.
        cwd: the user's working folder, from which relative PYTHONPATH entries count.
        stands: whether there is a path below ``root``; a plan answers from what it will hold.
    """

    def mapped(path: Path) -> Path:
        """The counterpart, unless it has none (an environment, a left-out clone)."""
        for spelling in (path, path.resolve()):
            if spelling.is_relative_to(project.root):
                counterpart = root / spelling.relative_to(project.root)
                return counterpart if stands(counterpart) else path
        return path

    environment = dict(base)
    roots = (root / folder.relative_to(project.root) for folder in project.search_path)
    own = base.get("PYTHONPATH")
    theirs = [mapped(Path(os.path.normpath(cwd / e))) for e in own.split(os.pathsep)] if own else []
    paths = dict.fromkeys(map(str, (*filter(stands, roots), *extra_paths, *theirs)))
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    # A measured run is no experiment of the user's: nothing is uploaded, nobody is asked to log in.
    environment["WANDB_MODE"] = "disabled"
    if not base.get("PYTHONDONTWRITEBYTECODE"):  # else our folder would only hide what is there
        environment["PYTHONPYCACHEPREFIX"] = str(slot.bytecode)
    if root == project.root:
        return environment
    # Shells and os.environ["PWD"] trust these more than the process's working folder.
    for name in {"PWD", "OLDPWD"} & environment.keys():
        environment[name] = str(mapped(Path(environment[name])))
    if project.git and git.available():
        environment = git.clean_environment(environment)
        # The copy has no .git of its own, and git must not find the user's in a folder above.
        environment["GIT_DIR"] = str(slot.git)
        environment["GIT_WORK_TREE"] = str(root)
        environment["GIT_OPTIONAL_LOCKS"] = "0"
    return environment
