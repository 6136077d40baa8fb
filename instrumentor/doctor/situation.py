"""What the checks look at, from what a user would give to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from instrumentor.doctor.model import Situation


def situation_of(
    script: Path | str | None = None,
    arguments: Sequence[str] = (),
    *,
    profiler: str = "auto",
    steps: int = 5,
    python: str | None = None,
    tt_xla: Path | None = None,
    tools_folder: Path | None = None,
) -> Situation:
    """Look at this machine for a script, or for the working folder alone.

    Args:
        arguments: the script's own (`--config x.yaml` is looked at).

    Raises:
        UsageError: something that was named does not exist.
        NotReady: the interpreter does not run.
    """
    from instrumentor.environment import examine
    from instrumentor.prepare import script_path
    from instrumentor.profilers import choose
    from instrumentor.project import find_project
    from instrumentor.runner import config_of
    from instrumentor.workspace.places import cache_folder

    path = script_path(Path(script)) if script is not None else None
    project = find_project(path) if path is not None else None
    root = project.root if project is not None else Path.cwd()
    machine = examine(
        root,
        python=python,
        tt_xla=tt_xla,
        tools_folder=tools_folder,
        cwd=Path.cwd(),
        import_paths=project.import_roots if project is not None else (),
    )
    config: Mapping[str, object] = {}
    if path is not None:
        config = config_of(path, arguments, Path.cwd())
    return Situation(
        machine=machine,
        profiler=choose(profiler, machine)[0].name if profiler == "auto" else profiler,
        config=config,
        steps=steps,
        folders=(cache_folder(root), Path.cwd()),
    )
