"""What every profiler takes and gives; see :class:`Profiler`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from instrumentor.runtime.bundle import MODULE
from instrumentor.shared.errors import RunFailed
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.files import copy, write_whole

RUNTIME = Path(__file__).resolve().parents[2] / "runtime"


class LaunchRequest(Struct, frozen=True):
    """What is to be run.

    Attributes:
        python: the script's interpreter.
        script: absolute path of the instrumented script.
        arguments: the script's own arguments, handed over exactly.
        cwd: working directory of the script.
        env: the environment to start from (the user's).
        scratch: an empty folder of our own, absolute; Tracy needs it free of spaces and of
            characters that a shell reads.
        record: where the recorder in the script writes its samples (timings.jsonl).
        steps: steps to measure, the first ones included.
        warmup: of these, steps that count as compile or warm-up.
        budget_s: seconds for as many steady steps as the median needs, in the place of these
            numbers where no profiler's buffers are in the way; None: exactly so many.
        phases: extra iterations with a barrier around each phase; None: where they cost little.
        tools_folder: folder of Tracy's capture and csvexport programs.
        port: Tracy's port; None lets us choose a free one.
        import_paths: folders put before the user's PYTHONPATH.
        programs_per_read: programs that Tracy's device buffers must hold; None keeps its 1000.
        mid_run_dump: read the device buffers during the run.
        counters: groups of counters that Tracy is to collect, ``waits`` among them.
        noc_trace: Tracy is to record the traffic on the NoC.
        module: name of the script's module when it runs as ``python -m`` does, else ''.
        typed: the script as the user typed it, where that leads to ``script`` from ``cwd``: what
            the script sees as ``sys.argv[0]``. Empty: its absolute path.
        observe: what the recorder's module, in the first of ``import_paths``, is to do with a
            script that is not instrumented: "step" or "whole step"; empty for one that is.
        command: an order for runtime/launch.py in the place of a script. Its environment stays the
            user's, and its exit code is no reason to have no report.
    """

    python: Path
    script: Path
    arguments: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    scratch: Path
    record: Path
    steps: int = 5
    warmup: int = 1
    budget_s: float | None = None
    phases: int | None = None
    tools_folder: Path | None = None
    port: int | None = None
    import_paths: tuple[Path, ...] = ()
    programs_per_read: int | None = None
    mid_run_dump: bool = False
    counters: tuple[str, ...] = ()
    noc_trace: bool = False
    typed: str = ""
    module: str = ""
    observe: str = ""
    command: Mapping[str, Any] | None = None

    @property
    def order(self) -> dict[str, Any]:
        """What launch.py is to run: the script, watched when it runs as it is, or the command."""
        if self.command is not None:
            return dict(self.command)
        named = {"module": self.module} if self.module else {"script": str(self.script)}
        plain: dict[str, Any] = {**named, "arguments": list(self.arguments)}
        if not self.observe:
            return plain
        module = self.import_paths[0] / f"{MODULE}.py"
        return {**plain, "observe": self.observe, "observer": str(module), "typed": self.typed}


class Launch(Struct, frozen=True):
    """A process to start.

    Attributes:
        argv: program and arguments; no shell is involved.
        env: the whole environment.
        cwd: working directory.
        pid_file: names the process that runs the script when it is not the one we start.
        finish_s: time that the profiler may take for its report after the script has ended.
        side_log: where a program of the profiler's speaks; of interest when the run failed.
        warnings: what makes this profile doubtful from the start.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    pid_file: Path | None = None
    finish_s: float = 0.0
    side_log: Path | None = None
    warnings: tuple[Caveat, ...] = ()


class Artifacts(Struct, frozen=True):
    """What a run left behind, in its final place.

    Attributes:
        files: name -> path, only what exists: ``profile`` (folder), ``ops_csv``, ``host_trace``,
            ``device_log``, ``report`` (Tracy); ``ops``, ``trace`` (torch).
        warnings: for the summary.
        script_exit_code: the script's own code where the profiler hides it, else None.
        failure: the run ended well, but what it wrote cannot be used.
    """

    files: Mapping[str, Path] = field(default_factory=dict)
    warnings: tuple[Caveat, ...] = ()
    script_exit_code: int | None = None
    failure: RunFailed | None = None


class Profiler(Protocol):
    """One way to measure a run."""

    @property
    def name(self) -> str:
        """``tracy``, ``torch`` or ``wallclock``."""
        ...

    def launch(self, request: LaunchRequest) -> Launch:
        """Prepare the scratch folder and say what to start.

        Raises:
            NotReady: something the profiler needs is missing.
        """
        ...

    def collect(self, scratch: Path, output: Path, returncode: int) -> Artifacts:
        """Move what the run wrote from ``scratch`` into ``output``.

        Args:
            returncode: of the started process.
        """
        ...


def base_environment(request: LaunchRequest, profiler: str) -> dict[str, str]:
    """The user's environment with the recorder's settings and the interpreter's folder first."""
    env = dict(request.env)
    paths = [str(path) for path in request.import_paths]
    if env.get("PYTHONPATH"):
        paths.append(env["PYTHONPATH"])  # unsplit: an empty entry is the working directory
    if paths:
        env["PYTHONPATH"] = os.pathsep.join(paths)
    # As in the activated environment: scripts start `python` and `torchrun` by name.
    env["PATH"] = os.pathsep.join([str(request.python.parent), env.get("PATH", os.defpath)])
    if request.command is None:
        env["INSTRUMENT_RECORD"] = str(request.record)
        env["INSTRUMENT_PROFILER"] = profiler
        env["INSTRUMENT_STEPS"] = str(request.steps)
        env["INSTRUMENT_WARMUP"] = str(request.warmup)
        env["INSTRUMENT_BUDGET_S"] = "" if request.budget_s is None else str(request.budget_s)
        env["INSTRUMENT_PHASES"] = "" if request.phases is None else str(request.phases)
        # Five steps are no experiment: none is to show among the user's, or to wait for a network.
        env["WANDB_MODE"] = "disabled"
    return env


def direct_argv(request: LaunchRequest) -> tuple[str, ...]:
    """``PYTHON SCRIPT ARGS`` or ``PYTHON -m MODULE ARGS``, exactly.

    What is to be watched is started by a launcher in scratch.
    """
    if request.observe:
        launcher = request.scratch / "launch.py"
        copy(RUNTIME / "launch.py", launcher)
        order = json.dumps(request.order)
        write_whole(request.scratch / "launch.json", order.encode())
        return (str(request.python), str(launcher))
    if request.module:
        return (str(request.python), "-m", request.module, *request.arguments)
    typed = request.typed
    if typed.startswith("-"):  # or Python takes it for options
        typed = f"./{typed}"
    return (str(request.python), typed or str(request.script), *request.arguments)


def move_folder(source: Path, target: Path) -> None:
    """Move ``source`` to ``target``, merging into what is there; also to another file system."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)
        return
    for entry in source.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            move_folder(entry, target / entry.name)
        else:
            shutil.move(entry, target / entry.name)
