"""Checks of Tracy and of what it needs in the script's interpreter."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator

from instrumentor.machine.environment import Machine
from instrumentor.machine.tracy_tools import TOOL_NAMES, spelled, tool_names
from instrumentor.run.profilers.tracy import check_port, free_port
from instrumentor.run.profilers.tracy_options import read_options
from instrumentor.run.ready.doctor.model import Check, PlannedRun, Status
from instrumentor.shared.errors import NotReady
from instrumentor_analysis.shared.files import read_text

# What Tracy's own report generation imports, and the names to install them by.
REPORT_MODULES = {
    "yaml": "pyyaml",
    "click": "click",
    "loguru": "loguru",
    "pandas": "pandas",
    "seaborn": "seaborn",
}
# tt-xla's wrapper imports this from the plugin, and fails with an installed wheel that is older.
NEEDS_HOME = re.compile(r"from\s+pjrt_plugin_tt\s+import\s+[\s(\w,]{0,400}setup_tt_metal_home")


def plugin(planned: PlannedRun) -> Iterator[Check]:
    """What drives the device: tt_crank, ttnn, or pjrt_plugin_tt that the tracy wrapper fits."""
    machine = planned.machine
    by_itself = [name for name in ("tt_crank", "ttnn") if machine.has(name)]
    for name in by_itself:
        version = machine.version_of(name) or "from a folder"
        yield Check(name.replace("_", "-"), Status.OK, f"{name} {version}")
    if not machine.has("pjrt_plugin_tt"):
        if machine.device and not by_itself:
            yield planned.lacking(
                "pjrt-plugin",
                f"none of pjrt_plugin_tt, tt_crank and ttnn in {machine.python}",
                "Name the environment that drives the device with --python (blacksmith's are "
                "env/crank_env and env/xla_env).",
            )
        return
    version = machine.version_of("pjrt_plugin_tt") or "from a folder"
    wrapper, plugin = _source(machine, "tracy"), _source(machine, "pjrt_plugin_tt")
    if NEEDS_HOME.search(wrapper) and "setup_tt_metal_home" not in plugin:
        yield planned.lacking(
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
    return "\n".join(read_text(file, "replace") for file in files)


def tracy(planned: PlannedRun) -> Iterator[Check]:
    """Whether ``python -m tracy`` answers, and what it lacks."""
    machine = planned.machine
    if not machine.has("tracy"):
        if planned.for_tracy or machine.device:
            yield planned.lacking(
                "tracy",
                f"no tracy package in {machine.python}",
                "Use the environment that holds pjrt_plugin_tt, tt_crank or ttnn, with --python.",
            )
        return
    if not planned.ask_tracy:
        text = "tracy is installed, not started: it is the project's"
        if machine.tt_xla is not None:
            text = (
                f"tracy is not started: {machine.tt_xla} was found, not named (--tt-xla "
                f"{shlex.quote(str(machine.tt_xla))} has it asked)"
            )
        yield Check("tracy", Status.OK, text)
        return
    try:
        options = read_options(machine.python, _tracy_environment(planned), planned.cwd)
    except NotReady as error:
        yield planned.lacking("tracy", error.message, error.hint)
        return
    # Without the first a failing script ends with 0, without the second Tracy's programs have to be
    # where it looks itself. The third came with ttnn 0.68.
    absent = [
        option
        for option in ("--check-exit-code", "--tracy-tools-folder", "--op-support-count")
        if option not in options
    ]
    without = f", without {' '.join(absent)}" if absent else ""
    yield Check("tracy", Status.OK, f"python -m tracy offers {len(options)} options{without}")


def _tracy_environment(planned: PlannedRun) -> dict[str, str]:
    env = dict(planned.env)
    paths = [str(path) for path in planned.machine.import_paths]
    env["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [env.get("PYTHONPATH")])])
    return env


def build(planned: PlannedRun) -> Iterator[Check]:
    """Whether the runtime can be profiled: wheels of package registries are built without Tracy."""
    machine = planned.machine
    if machine.has("tracy") and machine.untraced is not None:
        yield planned.lacking(
            "tracy-build",
            f"{machine.untraced} is built without Tracy: it ends in a TT_FATAL where the device's "
            "profiler is asked for",
            "Measure with --profiler wallclock, which has device times where ttnn tells of its "
            "programs, or use a build of tt-metal with Tracy (ENABLE_TRACY, its default).",
        )


def report_modules(planned: PlannedRun) -> Iterator[Check]:
    """What Tracy's report generation imports, and the pandas trap."""
    machine = planned.machine
    if not machine.has("tracy"):
        return
    missing = [name for module, name in REPORT_MODULES.items() if not machine.has(module)]
    if missing:
        yield planned.lacking(
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


def tools(planned: PlannedRun) -> Iterator[Check]:
    """Tracy's capture and export programs."""
    machine = planned.machine
    if machine.tools is not None:
        tools = machine.tools
        text = f"{tools.capture.name} and {tools.csvexport.name} in {tools.folder}"
        yield Check("tracy-tools", Status.OK, text)
    elif planned.for_tracy or machine.has("tracy"):
        wanted = spelled(tool_names(machine.packages.get("tracy")))
        yield planned.lacking(
            "tracy-tools",
            f"Tracy's capture and export programs ({wanted}) were not found",
            "Find them, often below build_Release/tools/profiler/bin, and give their folder with "
            "--tracy-tools-folder. Programs of another version of Tracy do not fit.",
        )


def captures(planned: PlannedRun) -> Iterator[Check]:
    """Capture programs of a killed run: each takes the next connection on its port."""
    if not planned.for_tracy:
        return
    for pid, port, command in orphans():
        text = f"process {pid} is left over from an earlier run and waits on port {port}: {command}"
        remedy = f"kill -INT {pid}, or use another port than {port}."
        taken = planned.port == port
        yield Check("tracy-capture", Status.FAILED if taken else Status.WARNING, text, remedy)


def orphans() -> Iterator[tuple[int, int, str]]:
    """Pid, port and command of each capture program that no run of Tracy stands behind."""
    import psutil

    names = {capture for capture, _ in TOOL_NAMES}
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            # The program, or the second word where an interpreter runs it.
            if not any(word.rpartition("/")[2] in names for word in words[:2]):
                continue
            if any(_runs_tracy(parent.cmdline()) for parent in process.parents()):
                continue
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        # 8086 is Tracy's own default.
        port = words[words.index("-p") + 1] if "-p" in words[:-1] else "8086"
        yield process.pid, int(port) if port.isdigit() else 8086, " ".join(words)[:120]


def _runs_tracy(words: list[str]) -> bool:
    """Whether a command line is `python -m tracy`, or our own start of it."""
    return any(word.rpartition("/")[2] in ("tracy", "tracy_start.py") for word in words[1:4])


def port(planned: PlannedRun) -> Iterator[Check]:
    """A port for Tracy: the one asked for, or any."""
    if not planned.for_tracy:
        return
    try:
        if planned.port is not None:
            check_port(planned.port)
        yield Check("port", Status.OK, f"port {planned.port or free_port()} is free")
    except NotReady as error:
        yield Check("port", Status.FAILED, error.message, error.hint)


def runtime_trace(planned: PlannedRun) -> Iterator[Check]:
    """enable_trace, which Tracy cannot profile."""
    if planned.for_tracy and planned.config.get("enable_trace") is True:
        yield Check(
            "runtime-trace",
            Status.FAILED,
            "the configuration sets enable_trace, which Tracy cannot profile",
            "Profile with enable_trace: false; `instrument run --profiler wallclock` times the "
            "traced run.",
        )
