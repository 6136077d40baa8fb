"""The environment variables under which a script runs in its shadow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from instrumentor.project import Project
from instrumentor.workspace import git
from instrumentor.workspace.slots import Slot


def shadow_environment(
    base: Mapping[str, str],
    project: Project,
    slot: Slot,
    user_cwd: Path,
    extra_paths: Sequence[Path],
    stands: Callable[[Path], bool],
) -> dict[str, str]:
    """The user's environment, changed so that imports, git and bytecode stay in the shadow.

    PYTHONPATH is the shadow's import roots, then ``extra_paths``, then the user's own entries,
    those inside the project mapped into the shadow.

    Args:
        base: the user's environment.
        slot: where the shadow stands.
        user_cwd: the user's working folder, from which relative PYTHONPATH entries count.
        stands: whether the shadow holds a path of its own; a plan answers from what it will hold.
    """

    def mapped(path: Path) -> Path:
        """The shadow's counterpart, unless it has none (an environment, a left-out clone)."""
        for spelling in (path, path.resolve()):
            if spelling.is_relative_to(project.root):
                counterpart = slot.tree / spelling.relative_to(project.root)
                return counterpart if stands(counterpart) else path
        return path

    environment = dict(base)
    roots = (slot.tree / folder.relative_to(project.root) for folder in project.search_path)
    own = [entry for entry in base.get("PYTHONPATH", "").split(os.pathsep) if entry]
    theirs = [mapped(Path(os.path.normpath(user_cwd / entry))) for entry in own]
    paths = dict.fromkeys(map(str, (*filter(stands, roots), *extra_paths, *theirs)))
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment |= _settings(base, slot.bytecode)
    for name in {"PWD", "OLDPWD"} & environment.keys():
        environment[name] = str(mapped(Path(environment[name])))
    if project.git and git.available():
        environment = git.clean_environment(environment)
        environment["GIT_DIR"] = str(slot.git)
        environment["GIT_WORK_TREE"] = str(slot.tree)
        environment["GIT_OPTIONAL_LOCKS"] = "0"
    return environment


def in_place_environment(
    base: Mapping[str, str], import_paths: Sequence[Path], bytecode: Path
) -> dict[str, str]:
    """The user's environment for a run in the project itself.

    Args:
        base: the user's environment.
        import_paths: joined to PYTHONPATH in front of the user's own entries.
        bytecode: where bytecode goes: beside the files it would outlive the instrumented text.
    """
    environment = dict(base)
    paths = [str(path) for path in import_paths]
    if base.get("PYTHONPATH"):
        paths.append(base["PYTHONPATH"])
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    return environment | _settings(base, bytecode)


def _settings(base: Mapping[str, str], bytecode: Path) -> dict[str, str]:
    """W&B is off; bytecode goes elsewhere, unless none is written: it would hide what is there."""
    settings = {"WANDB_MODE": "disabled"}
    if not base.get("PYTHONDONTWRITEBYTECODE"):
        settings["PYTHONPYCACHEPREFIX"] = str(bytecode)
    return settings
