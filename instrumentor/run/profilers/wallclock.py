"""Timers only: the script runs as it is, and the recorder's samples are the whole result."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from instrumentor.run.profilers.base import (
    Artifacts,
    Launch,
    LaunchRequest,
    base_environment,
    direct_argv,
)


class Wallclock(Struct, frozen=True):
    """Runs ``PYTHON SCRIPT ARGS`` and adds nothing."""

    name: str = "wallclock"

    def launch(self, request: LaunchRequest) -> Launch:
        """The script's own command."""
        return Launch(direct_argv(request), base_environment(request, self.name), request.cwd)

    def collect(self, scratch: Path, output: Path, returncode: int) -> Artifacts:
        """Nothing to move: the samples stand in the record file."""
        return Artifacts()
