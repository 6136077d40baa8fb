"""The environment variables under which a script runs in its shadow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from instrumentor.workspace import git


def shadow_environment(
    base: Mapping[str, str],
    *,
    root: Path,
    tree: Path,
    user_cwd: Path,
    import_roots: Sequence[Path],
    extra_paths: Sequence[Path],
    bytecode: Path,
    git_folder: Path | None,
    stands: Callable[[Path], bool] = Path.exists,
) -> dict[str, str]:
    """The user's environment, changed so that imports, git and bytecode stay in the shadow.

    Args:
        base: the user's environment.
        root: root of the project.
        tree: root of the shadow.
        user_cwd: the user's working folder, from which relative PYTHONPATH entries count.
        import_roots: the project's folders (not the shadow's) for PYTHONPATH.
        extra_paths: joined to PYTHONPATH behind the shadow's roots.
        bytecode: where bytecode goes.
        git_folder: the private git folder; None outside git.
        stands: whether the shadow holds a path of its own; a plan answers from what it will hold.
    """
    environment = dict(base)
    roots = [tree / folder.relative_to(root) for folder in import_roots]
    own = [entry for entry in base.get("PYTHONPATH", "").split(os.pathsep) if entry]
    mapped = [_mapped(Path(os.path.normpath(user_cwd / e)), root, tree, stands) for e in own]
    paths = dict.fromkeys(str(p) for p in (*filter(stands, roots), *extra_paths, *mapped))
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment |= _settings(base, bytecode)
    for name in ("PWD", "OLDPWD"):
        if name in environment:
            environment[name] = str(_mapped(Path(environment[name]), root, tree, stands))
    if git_folder is not None:
        environment = git.clean_environment(environment)
        environment["GIT_DIR"] = str(git_folder)
        environment["GIT_WORK_TREE"] = str(tree)
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


def _mapped(path: Path, root: Path, tree: Path, stands: Callable[[Path], bool]) -> Path:
    """The shadow's counterpart, unless the shadow has none (an environment, a left-out clone)."""
    real = path.resolve()
    for spelling in (path, real):
        if spelling.is_relative_to(root):
            counterpart = tree / spelling.relative_to(root)
            return counterpart if stands(counterpart) else path
    return path
