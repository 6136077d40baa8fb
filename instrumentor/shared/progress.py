"""Who listens to a run: the console's narrator, a program's own, or nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Progress(Protocol):
    """Listener of a run; every method may be called at any time from the running thread."""

    def stage(self, name: str, detail: str) -> None:
        """A stage begins."""

    def record(self, record: Mapping[str, Any]) -> None:
        """A record of the script: a sample, a warning."""

    def line(self, text: str) -> None:
        """A line of the script's output."""

    def note(self, text: str) -> None:
        """Something worth a line: a stall, an ending."""


class Silent:
    """A listener that says nothing; the library's default."""

    def stage(self, name: str, detail: str) -> None:
        """Nothing."""

    def record(self, record: Mapping[str, Any]) -> None:
        """Nothing."""

    def line(self, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""
