"""What is changed in a script besides the measuring: the settings of a tuning trial, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from instrumentor.shared.edits import Edit


@dataclass(frozen=True)
class Variant:
    """Edits and data files that go into the copy together with the instrumentation.

    Attributes:
        edits: (module, edit), in the order in which they are applied.
        files: (data file, its new bytes), such as the YAML that the run reads.
        rebinds: names of the modules that the edits may bind anew (`os`, a model).
        arguments: of the script, as they are then.
    """

    edits: tuple[tuple[Path, Edit], ...] = ()
    files: tuple[tuple[Path, bytes], ...] = ()
    rebinds: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def modules(self) -> tuple[Path, ...]:
        """The Python files that are edited."""
        return tuple(dict.fromkeys(path for path, _ in self.edits))

    @property
    def first_line(self) -> tuple[Path, int]:
        """Module and line of the first edit that has one."""
        return next((path, edit.at.line) for path, edit in self.edits if edit.at is not None)
