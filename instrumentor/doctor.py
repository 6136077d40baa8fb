"""Is this machine ready for a run? Each check answers ok, warning or failed, with a remedy.

``run`` does the same checks quietly first and stops at a failed one. Nothing is changed here, no
device is opened, and no environment is activated (blacksmith's activation upgrades packages).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from instrumentor.device import find_smi
from instrumentor.environment import Holder, Machine, device_holders, device_root
from instrumentor.errors import NotReady
from instrumentor.profilers.tracy import PROGRAMS_PER_READ, free_port, read_options

OLDEST_PYTHON = (3, 8)
# What Tracy's own report generation imports, and the names to install them by.
REPORT_MODULES = {
    "yaml": "pyyaml",
    "click": "click",
    "loguru": "loguru",
    "pandas": "pandas",
    "seaborn": "seaborn",
}
NEEDS_HOME = re.compile(r"from\s+pjrt_plugin_tt\s+import\s+[\s(\w,]*setup_tt_metal_home")
SPACE_NEEDED_BYTES = 200 * 2**20
SPACE_WISHED_BYTES = 2 * 2**30


class Status(str, Enum):
    """The answer of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report.

    Attributes:
        name: stable, for programs: ``tracy-tools``.
        text: what was found, one sentence.
        remedy: what to do; empty when it is ok.
    """

    name: str
    status: Status
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Situation:
    """What the checks look at.

    Attributes:
        profiler: the one the run will use; what only another one needs is at most a warning.
        config: the script's configuration, as read from its YAML.
        steps: steps that will be measured.
        programs_per_step: as counted in an earlier report, if known.
        folders: where the run will write: its scratch folder, its output.
        env: environment of the run.
        cwd: its working directory.
        device_folder: where the device nodes are.
    """

    machine: Machine
    profiler: str = "tracy"
    config: Mapping[str, object] = field(default_factory=dict)
    steps: int = 5
    programs_per_step: int | None = None
    folders: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=Path.cwd)
    device_folder: Path | None = None

    @property
    def for_tracy(self) -> bool:
        """Whether Tracy is what will run."""
        return self.profiler == "tracy"

    def lacking(self, name: str, text: str, remedy: str) -> Check:
        """Something that Tracy needs is not there."""
        status = Status.FAILED if self.for_tracy else Status.WARNING
        return Check(name, status, text, remedy)


def doctor(situation: Situation) -> tuple[Check, ...]:
    """All checks that apply, in the order in which they should be mended."""
    return tuple(check for one in CHECKS for check in one(situation))


def failed(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks that stop a run."""
    return tuple(check for check in checks if check.status is Status.FAILED)


def _interpreter(situation: Situation) -> Iterator[Check]:
    machine = situation.machine
    text = f"{machine.python} (Python {machine.python_version}, {machine.python_source})"
    version = tuple(int(part) for part in machine.python_version.split(".")[:2])
    if version < OLDEST_PYTHON:
        yield Check("interpreter", Status.FAILED, text, "Python 3.8 or newer is needed.")
    else:
        yield Check("interpreter", Status.OK, text)
    for note in machine.notes:
        remedy = "Activate the environment again, or name the interpreter with --python."
        yield Check("interpreter", Status.WARNING, note, remedy)


def _torch(situation: Situation) -> Iterator[Check]:
    machine = situation.machine
    if machine.has("torch"):
        yield Check("torch", Status.OK, f"torch {machine.version_of('torch') or 'from a folder'}")
        return
    status = Status.FAILED if situation.profiler == "torch" else Status.WARNING
    remedy = "Name the interpreter that the script runs under with --python."
    yield Check("torch", status, f"no torch in {machine.python}", remedy)


def _plugin(situation: Situation) -> Iterator[Check]:
    machine = situation.machine
    if not machine.has("pjrt_plugin_tt"):
        if machine.devices:
            yield situation.lacking(
                "pjrt-plugin",
                f"no pjrt_plugin_tt in {machine.python}",
                "Use blacksmith's environment (env/xla_env) with --python.",
            )
        return
    version = machine.version_of("pjrt_plugin_tt") or "from a folder"
    wrapper, plugin = _source(machine, "tracy"), _source(machine, "pjrt_plugin_tt")
    if NEEDS_HOME.search(wrapper) and "setup_tt_metal_home" not in plugin:
        yield situation.lacking(
            "pjrt-plugin",
            f"pjrt_plugin_tt {version} does not fit the tracy wrapper: setup_tt_metal_home is "
            "missing",
            "Give the tt-xla checkout with --tt-xla, so that its python_package comes first.",
        )
    else:
        yield Check("pjrt-plugin", Status.OK, f"pjrt_plugin_tt {version}")


def _source(machine: Machine, package: str) -> str:
    found = machine.packages.get(package)
    files = [file for folder in (found.folders if found else ()) for file in folder.glob("*.py")]
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


def _tracy(situation: Situation) -> Iterator[Check]:
    machine = situation.machine
    if not machine.has("tracy"):
        if situation.for_tracy or machine.devices:
            yield situation.lacking(
                "tracy",
                f"no tracy package in {machine.python}",
                "Use the environment that holds pjrt_plugin_tt, with --python.",
            )
        return
    try:
        options = read_options(machine.python, _tracy_environment(situation), situation.cwd)
    except NotReady as error:
        yield situation.lacking("tracy", error.message, error.hint)
        return
    absent = [
        option
        for option in ("--check-exit-code", "--tracy-tools-folder", "--op-support-count")
        if option not in options
    ]
    without = f", without {' '.join(absent)}" if absent else ""
    yield Check("tracy", Status.OK, f"python -m tracy offers {len(options)} options{without}")


def _tracy_environment(situation: Situation) -> dict[str, str]:
    env = dict(situation.env)
    paths = [str(path) for path in situation.machine.import_paths]
    env["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [env.get("PYTHONPATH")])])
    return env


def _report_modules(situation: Situation) -> Iterator[Check]:
    machine = situation.machine
    if not machine.has("tracy"):
        return
    missing = [name for module, name in REPORT_MODULES.items() if not machine.has(module)]
    if missing:
        yield situation.lacking(
            "report-modules",
            f"Tracy's report needs {', '.join(missing)}",
            f"{machine.python} -m pip install {' '.join(missing)}",
        )
    pandas = machine.version_of("pandas")
    if pandas and int(pandas.split(".")[0]) >= 3:
        yield Check(
            "pandas",
            Status.WARNING,
            f"pandas {pandas}: the older way in which Tracy reads device logs fails with pandas 3",
            "If the report fails with \"Invalid value ... for dtype 'str'\": install 'pandas<3'.",
        )


def _tools(situation: Situation) -> Iterator[Check]:
    machine = situation.machine
    if machine.tools is not None:
        tools = machine.tools
        text = f"{tools.capture.name} and {tools.csvexport.name} in {tools.folder}"
        yield Check("tracy-tools", Status.OK, text)
    elif situation.for_tracy or machine.has("tracy"):
        yield situation.lacking(
            "tracy-tools",
            "Tracy's capture and export programs were not found",
            "Find tracy-capture or capture-release, often below build_Release/tools/profiler/bin, "
            "and give its folder with --tracy-tools-folder.",
        )


def _perf_report(situation: Situation) -> Iterator[Check]:
    if importlib.util.find_spec("tt_perf_report") is not None:
        yield Check("tt-perf-report", Status.OK, "tt-perf-report is installed")
    else:
        yield situation.lacking(
            "tt-perf-report", "tt-perf-report is missing", "pip install tt-perf-report"
        )


def _devices(situation: Situation) -> Iterator[Check]:
    devices = situation.machine.devices
    folder = situation.device_folder or device_root(situation.env)
    if devices:
        yield Check("device", Status.OK, ", ".join(map(str, devices)))
    elif situation.for_tracy:
        yield Check(
            "device",
            Status.FAILED,
            f"no Tenstorrent device in {folder}",
            "Load the driver (tt-kmd), or measure with --profiler torch or wallclock.",
        )
    else:
        yield Check("device", Status.OK, f"no Tenstorrent device, {situation.profiler} needs none")


def _holders(situation: Situation) -> Iterator[Check]:
    if not situation.machine.devices:
        return
    holders = device_holders(situation.device_folder or device_root(situation.env))
    if not holders:
        yield Check("device-in-use", Status.OK, "no process has the device open")
    for holder in holders:
        yield situation.lacking("device-in-use", describe(holder), _ending(holder))


def describe(holder: Holder) -> str:
    """A process that has a device open, in one line."""
    return (
        f"process {holder.pid} of {holder.user} has had {', '.join(map(str, holder.devices))} "
        f"open, started {_ago(holder.age_s)}: {holder.command[:120]}"
    )


def _ending(holder: Holder) -> str:
    return (
        f"If it is left over: kill -INT {holder.pid}, then kill {holder.pid}; never kill -9, "
        "which leaves the device in a bad state."
    )


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} seconds ago"


def _smi(situation: Situation) -> Iterator[Check]:
    machine = situation.machine
    if not machine.devices:
        return
    found = find_smi(machine.python, situation.env)
    if found:
        yield Check("tt-smi", Status.OK, str(found))
    else:
        remedy = f"{machine.python} -m pip install tt-smi"
        yield Check("tt-smi", Status.WARNING, "tt-smi is missing: no reset is possible", remedy)


def _port(situation: Situation) -> Iterator[Check]:
    if not situation.for_tracy:
        return
    try:
        yield Check("port", Status.OK, f"port {free_port()} is free")
    except NotReady as error:
        yield Check("port", Status.FAILED, error.message, error.hint)


def _space(situation: Situation) -> Iterator[Check]:
    for folder in situation.folders:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        text = f"{free / 2**30:.1f} GiB free in {there}"
        remedy = "Make room, or choose other folders with TMPDIR and --output."
        if free < SPACE_NEEDED_BYTES:
            yield Check("disk", Status.FAILED, text, remedy)
        elif free < SPACE_WISHED_BYTES:
            yield Check("disk", Status.WARNING, text, remedy)
        else:
            yield Check("disk", Status.OK, text)


def _runtime_trace(situation: Situation) -> Iterator[Check]:
    if situation.for_tracy and situation.config.get("enable_trace") is True:
        yield Check(
            "runtime-trace",
            Status.FAILED,
            "the configuration sets enable_trace, which Tracy cannot profile",
            "Profile with enable_trace: false, and time the traced run with --profiler wallclock.",
        )


def _programs(situation: Situation) -> Iterator[Check]:
    if not situation.for_tracy or situation.programs_per_step is None:
        return
    total = situation.programs_per_step * situation.steps
    text = f"about {total} programs in {situation.steps} steps"
    if total <= PROGRAMS_PER_READ:
        yield Check("programs", Status.OK, text)
    else:
        yield Check(
            "programs",
            Status.WARNING,
            f"{text}, and Tracy's buffers hold {PROGRAMS_PER_READ}",
            "The run raises the number where this Tracy allows it; otherwise use fewer --steps.",
        )


CHECKS: tuple[Callable[[Situation], Iterator[Check]], ...] = (
    _interpreter,
    _torch,
    _plugin,
    _tracy,
    _report_modules,
    _tools,
    _perf_report,
    _devices,
    _holders,
    _smi,
    _port,
    _space,
    _runtime_trace,
    _programs,
)
