"""Proof that the copy ran: each instrumented module reports its load into the record file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import ValidationError

from instrumentor.shared.errors import RunFailed
from instrumentor.workspace.run_location import Workspace
from instrumentor_analysis.shared.documents import converted, parsed

ASK_TIMEOUT_S = 60
DATA_SUFFIXES = (".yaml", ".yml")
# find_spec of the top-level name only: a dotted one would run the package's own code. With -c the
# path begins with the working folder, where a script has its own.
ASK = """
import importlib.util, json, os, sys
sys.path[0] = sys.argv[1]
found = []
for module in sys.argv[2:]:
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except Exception:
        continue
    if spec and not rest:
        found.append(spec.origin)
    for place in spec.submodule_search_locations or () if spec and rest else ():
        inner = os.path.join(place, *rest)
        found += [inner + ".py", os.path.join(inner, "__init__.py")]
print()  # after what a sitecustomize may have begun to print
print(json.dumps([file for file in found if file and os.path.isfile(file)]))
"""


def check_loaded(
    records: Iterable[Mapping[str, object]],
    ws: Workspace,
    replaced: Iterable[Path],
    *,
    python: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Make sure that every instrumented module ran from the shadow.

    To be called for a script that ended well: one that failed early never came to its imports.

    Args:
        records: events of timings.jsonl, all kinds.
        ws: the workspace of the run; the shadow may be gone already, but then the interpreter
            cannot be asked.
        replaced: the instrumented files, as the user's paths or the shadow's.
        python: the script's interpreter, asked which file it imports instead.
        environment: the environment it ran with.

    Raises:
        RunFailed: a module reported another path, or none; names the file imported instead.
    """
    loads = (record for record in records if record.get("event") == "load")
    loaded = {_real(ws, str(record.get("file", ""))) for record in loads}
    for path in replaced:
        if path.suffix in DATA_SUFFIXES:  # read by the script, not imported
            continue
        expected = ws.counterpart(path)
        if {expected, Path(os.path.realpath(expected))} & loaded:
            continue
        name = ws.source_of(expected).relative_to(ws.project.root)
        instead = _other_report(loaded, name) or _asked(ws, expected, name, python, environment)
        raise RunFailed(
            f"{name} was instrumented, but its copy never ran"
            + (f": {_owner(ws, instead)} was imported instead" if instead else ""),
            _remedy(ws, name, instead),
        )


def _owner(ws: Workspace, instead: Path) -> str:
    """The file as its path, after whose it is: the copy's stands beside it by the same name."""
    return f"your own {instead}" if instead.is_relative_to(ws.project.root) else str(instead)


def _remedy(ws: Workspace, name: Path, instead: Path | None) -> str:
    if instead is None:
        return (
            f"Nothing imported {name} during the run. Check that the script uses this file and not "
            "an installed copy of it, or run with --in-place."
        )
    if instead.is_relative_to(ws.project.root):
        return (
            "An editable install or an import hook leads to your own file. Uninstall the editable "
            "package for the run (pip uninstall, then PYTHONPATH), or run with --in-place."
        )
    return (
        f"Another copy of the package goes first on the import path. Remove it (pip uninstall), "
        f"or instrument {instead} in its own project."
    )


def _real(ws: Workspace, file: str) -> Path:
    return Path(os.path.realpath(ws.cwd / file))


def _other_report(loaded: Iterable[Path], name: Path) -> Path | None:
    """A load report of a file with the same end of its path: a stale instrumented copy."""
    for parts in range(len(name.parts), 0, -1):
        tail = name.parts[-parts:]
        found = sorted(p for p in loaded if p.parts[-parts:] == tail)
        if found:
            return found[0]
    return None


def _asked(
    ws: Workspace,
    expected: Path,
    name: Path,
    python: Path | None,
    environment: Mapping[str, str] | None,
) -> Path | None:
    """The file that the script's interpreter finds under the module's name, when it is another."""
    if python is None or not ws.cwd.is_dir():
        return None
    try:
        done = subprocess.run(
            [str(python), "-c", ASK, str(ws.script.parent), *_module_names(ws, name)],
            cwd=ws.cwd,
            env=dict(environment) if environment is not None else None,
            capture_output=True,
            timeout=ASK_TIMEOUT_S,
            check=True,
        )
        files = converted(parsed(done.stdout.splitlines()[-1]), list[str])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, ValidationError):
        return None
    others = (file for file in files if os.path.realpath(file) != os.path.realpath(expected))
    return next(map(Path, others), None)


def _module_names(ws: Workspace, name: Path) -> list[str]:
    """Dotted names under which a file can be imported from the project's import roots."""
    file = ws.project.root / name
    found = []
    for root in ws.project.import_roots:
        if file.is_relative_to(root):
            parts = file.relative_to(root).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if parts and all(part.isidentifier() for part in parts):
                found.append(".".join(parts))
    # the name with the package in it first: the shortest root names the package
    return sorted(dict.fromkeys(found), key=lambda module: -module.count("."))
