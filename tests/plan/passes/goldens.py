"""The cases in fixtures/passes: what is given, and what is rewritten.

A case is a folder with ``before.py`` (or ``before/`` with several files, entered at
``train.py``), optionally ``options.json``, and the goldens ``after.diff`` and ``explain.json``.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instrumentor import Options
from instrumentor.rewrite.prepare import Prepared, prepare
from tests.warned import texts

CASES = Path(__file__).resolve().parents[3] / "fixtures" / "passes"


@dataclass(frozen=True)
class Case:
    """One folder of fixtures/passes."""

    name: str

    @property
    def folder(self) -> Path:
        return CASES / self.name

    @property
    def is_tree(self) -> bool:
        """Whether the case has several files."""
        return (self.folder / "before").is_dir()

    @property
    def options(self) -> Options:
        path = self.folder / "options.json"
        return Options(**json.loads(path.read_text())) if path.is_file() else Options()

    def copy(self, folder: Path) -> Path:
        """A copy of the case that is a project of its own below `folder`; its entry script."""
        project = folder / self.name
        if self.is_tree:
            shutil.copytree(self.folder / "before", project)
        else:
            project.mkdir(parents=True)
            shutil.copy(self.folder / "before.py", project / "train.py")
        (project / "pyproject.toml").write_text("")
        return project / "train.py"

    def prepare(self, folder: Path, *, self_contained: bool = False) -> Prepared:
        """Rewrite a copy of the case below `folder`."""
        options = dataclasses.replace(self.options, self_contained=self_contained)
        return prepare(self.copy(folder), options)


def all_cases() -> list[Case]:
    """Every case, by name."""
    return [Case(path.name) for path in sorted(CASES.iterdir()) if path.is_dir()]


SELECTED = (
    "loop",
    "region",
    "forward",
    "backward",
    "call",
    "sync",
    "counter",
    "accumulation",
    "scope",
    "label",
    "stop",
    "skipped_validation",
    "skipped_checkpoints",
    "deferred_host_reads",
    "disabled_cache_clears",
    "warnings",
)


def selected(document: Mapping[str, Any], root: Path) -> str:
    """The fields of a plan that a golden pins, one line each, paths relative to the project.

    What a plan has none of is left out.
    """
    shown = {**document, "warnings": texts(document["warnings"])}
    lines = [
        f" {json.dumps(name)}: {json.dumps(shown[name])}"
        for name in SELECTED
        if shown[name] not in (None, [], "none")
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n").replace(f"{root}/", "")
