"""torch.profiler over one extra step: operations with their self time, and a Chrome trace.

The steps that give the wall clock run without it; only the extra step is slowed down. The hook
(runtime/torch_hook.py) runs in the script's interpreter, called by the recorder.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from instrumentor.run.profilers.base import (
    RUNTIME,
    Artifacts,
    Launch,
    LaunchRequest,
    base_environment,
    direct_argv,
    move_folder,
)
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.files import copy

FOLDER = "torch_profile"
#: Kind of the warnings that it has no ops to show.
NO_OPS = "no-torch-ops"
OPS = "ops.csv"
TRACE = "trace.json"


class TorchProfiler(Struct, frozen=True):
    """Runs ``PYTHON SCRIPT ARGS`` with the hook's path in the environment."""

    name: str = "torch"

    def launch(self, request: LaunchRequest) -> Launch:
        """The script's own command; the hook is copied beside its output."""
        folder = request.scratch / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        hook = request.scratch / "torch_hook.py"
        copy(RUNTIME / "torch_hook.py", hook)
        env = base_environment(request, self.name)
        env["INSTRUMENT_HOOK"] = str(hook)
        env["INSTRUMENT_HOOK_OUTPUT"] = str(folder)
        return Launch(direct_argv(request), env, request.cwd)

    def collect(self, scratch: Path, output: Path, returncode: int) -> Artifacts:
        """Move the table and the trace; without them the wall clock still stands."""
        source, target = scratch / FOLDER, output / FOLDER
        if not source.is_dir() or not any(source.iterdir()):
            return Artifacts(warnings=(_nothing("operations; there is the wall clock alone"),))
        move_folder(source, target)
        files = {"profile": target}
        for name, path in (("ops", target / OPS), ("trace", target / TRACE)):
            if path.is_file():
                files[name] = path
        warnings = () if "ops" in files else (_nothing("table of operations"),)
        return Artifacts(files=files, warnings=warnings)


def _nothing(what: str) -> Caveat:
    return Caveat(NO_OPS, f"torch.profiler wrote no {what}.")
