"""Checks of Tracy and of what it needs in the script's interpreter."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator

from instrumentor.doctor.model import Check, Situation, Status
from instrumentor.environment import Machine
from instrumentor.errors import NotReady
from instrumentor.profilers.tracy import PROGRAMS_PER_READ, check_port, free_port, read_options

# What Tracy's own report generation imports, and the names to install them by.
REPORT_MODULES = {
    "yaml": "pyyaml",
    "click": "click",
    "loguru": "loguru",
    "pandas": "pandas",
    "seaborn": "seaborn",
}
NEEDS_HOME = re.compile(r"from\s+pjrt_plugin_tt\s+import\s+[\s(\w,]*setup_tt_metal_home")


def plugin(situation: Situation) -> Iterator[Check]:
    """pjrt_plugin_tt, and whether it fits the tracy wrapper."""
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


def tracy(situation: Situation) -> Iterator[Check]:
    """Whether ``python -m tracy`` answers, and what it lacks."""
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


def report_modules(situation: Situation) -> Iterator[Check]:
    """What Tracy's report generation imports, and the pandas trap."""
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


def tools(situation: Situation) -> Iterator[Check]:
    """Tracy's capture and export programs."""
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


def perf_report(situation: Situation) -> Iterator[Check]:
    """tt-perf-report, in the tool's own environment."""
    if importlib.util.find_spec("tt_perf_report") is not None:
        yield Check("tt-perf-report", Status.OK, "tt-perf-report is installed")
    else:
        yield situation.lacking(
            "tt-perf-report", "tt-perf-report is missing", "pip install tt-perf-report"
        )


def port(situation: Situation) -> Iterator[Check]:
    """A port for Tracy: the one asked for, or any."""
    if not situation.for_tracy:
        return
    try:
        if situation.port is not None:
            check_port(situation.port)
        yield Check("port", Status.OK, f"port {situation.port or free_port()} is free")
    except NotReady as error:
        yield Check("port", Status.FAILED, error.message, error.hint)


def runtime_trace(situation: Situation) -> Iterator[Check]:
    """enable_trace, which Tracy cannot profile."""
    if situation.for_tracy and situation.config.get("enable_trace") is True:
        yield Check(
            "runtime-trace",
            Status.FAILED,
            "the configuration sets enable_trace, which Tracy cannot profile",
            "Profile with enable_trace: false; `instrument run --profiler wallclock` times the "
            "traced run.",
        )


def programs(situation: Situation) -> Iterator[Check]:
    """Programs per run against what Tracy's buffers hold."""
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
