"""Tracy: device time of every operation, through ``python -m tracy``.

Two traps decide the shape of this module. Tracy joins its command line with spaces and gives it
to a shell, so it only ever sees paths of our own without special characters (the script and its
arguments travel in launch.json, see runtime/launch.py). And its options differ by version, so
they are read from its ``--help``.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from instrumentor.diagnose import diagnose, relevant_tail
from instrumentor.errors import NotReady, RunFailed, UsageError
from instrumentor.private import throwaway
from instrumentor.profilers.base import (
    RUNTIME,
    Artifacts,
    Launch,
    LaunchRequest,
    base_environment,
    move_folder,
)

FOLDER = "tracy_profile"
OUT = "tracy"
PERF_FOLDER = "tracy_perf"
OPS_CSV = "ops_perf_results.csv"
REQUIRED = ("-p", "-r", "-o", "-t")
FINISH_S = 180.0
PROGRAMS_PER_READ = 1000  # what the device buffers hold by default, per core
UNKNOWN_REMEDY = (
    "Use the environment that holds pjrt_plugin_tt (--python), put tt-xla's python_package on "
    "PYTHONPATH (--tt-xla), or measure with `instrument run --profiler wallclock`."
)
OVERFLOW = "Profiler DRAM buffers were full"

_OPTION_LINE = re.compile(r"\s{1,6}(?=-)")  # further in stand the descriptions
_OPTION = re.compile(r"(?:^|(?<=[\s,\[]))--?[A-Za-z][\w-]*")
_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


class NoDeviceOperations(RunFailed):
    """The run ended well, but Tracy's report holds no device operation.

    Attributes:
        artifacts: what was moved all the same.
    """

    def __init__(self, message: str, hint: str, artifacts: Artifacts) -> None:
        super().__init__(message, hint)
        self.artifacts = artifacts


def parse_options(help_text: str) -> frozenset[str]:
    """The option names that ``python -m tracy --help`` offers, short and long."""
    found: set[str] = set()
    for line in help_text.splitlines():
        if _OPTION_LINE.match(line):
            # the description starts after two spaces; options named in it are not offered ones
            column = re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]
            found.update(_OPTION.findall(column))
    return frozenset(found)


def read_options(
    python: Path, env: Mapping[str, str], cwd: Path, timeout_s: float = 60.0
) -> frozenset[str]:
    """Ask this interpreter's tracy for its options, without touching the working directory.

    Importing newer versions makes folders where one stands, so it is asked from a folder that is
    thrown away; what would be found from ``cwd`` is found all the same.

    Raises:
        NotReady: it cannot be imported, does not answer, or lacks an option the run needs.
    """
    command = [str(python), "-m", "tracy", "--help"]
    entries = env["PYTHONPATH"].split(os.pathsep) if env.get("PYTHONPATH") else []
    found_from = [str(cwd / entry) for entry in [*entries, ""]]
    try:
        with throwaway() as folder:
            answer = subprocess.run(
                command,
                env={**env, "PYTHONPATH": os.pathsep.join(found_from)},
                cwd=folder,
                capture_output=True,
                timeout=timeout_s,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReady(
            f"`{' '.join(command)}` could not be run: {error}",
            "See what that command says; `instrument doctor` checks the rest.",
        ) from error
    options = parse_options(answer.stdout)
    missing = [option for option in REQUIRED if option not in options]
    if missing:
        last = relevant_tail(answer.stderr, lines=1)
        cause = last.strip() or f"it offers no {' '.join(missing)}"
        known = diagnose(answer.stderr, answer.returncode)
        raise NotReady(
            f"Tracy cannot be used by {python}: {cause}",
            known[0].remedy if known else UNKNOWN_REMEDY,
        )
    return options


def shell_safe(path: Path | str) -> bool:
    """Whether a shell takes this text as one plain word."""
    return _SHELL_SAFE.fullmatch(str(path)) is not None


def free_port() -> int:
    """A TCP port nobody listens on, below the range the kernel hands out by itself."""
    candidates = random.sample(range(20000, 30000), 50)
    for port in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        return port
    raise NotReady("No free TCP port was found for Tracy.", "Name one with --port.")


def check_port(port: int) -> None:
    """See that a port that was asked for can be listened on.

    Raises:
        NotReady: it cannot.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as after a run just ended
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError as error:
            raise NotReady(
                f"port {port} cannot be used by Tracy: {error.strerror}",
                "Leave --port out for a free one, or end what listens there "
                f"(`ss -ltnp 'sport = :{port}'` names it).",
            ) from error


def newest_report(folder: Path) -> Path | None:
    """The ops CSV of the newest report below ``folder``, by the folder's timestamp and mtime."""
    found = list(folder.rglob("ops_perf_results*.csv"))
    if not found:
        return None
    return max(found, key=lambda path: (path.parent.name, path.stat().st_mtime_ns))


def _plain_link(scratch: Path, name: str, target: Path) -> Path:
    """``target`` itself when a shell can read it, else a link to it inside ``scratch``."""
    if shell_safe(target):
        return target
    link = scratch / name
    link.symlink_to(target, target_is_directory=True)
    return link


@dataclass(frozen=True)
class Tracy:
    """Runs the script under ``python -m tracy -p -r``."""

    name: str = "tracy"

    def launch(self, request: LaunchRequest) -> Launch:
        """Write the launcher, read Tracy's options, and build the command.

        Raises:
            NotReady: tracy is not usable in this interpreter, or no port is free.
            UsageError: the scratch folder's path is not plain enough for a shell.
        """
        scratch = request.scratch
        if not scratch.is_absolute() or not shell_safe(scratch):
            raise UsageError(
                f"Tracy cannot work in {scratch}: it hands paths to a shell.",
                "Set TMPDIR to a folder whose path has no spaces or special characters.",
            )
        env = base_environment(request, self.name)
        # Newer versions start a web server on all interfaces that outlives the run.
        env["TRACY_NO_WEB_SERVER"] = "1"
        options = read_options(request.python, env, request.cwd)
        out = scratch / OUT
        out.mkdir(parents=True, exist_ok=True)
        launcher = self._write_launcher(request)
        # A link to the whole prefix, not to the program: pyvenv.cfg is looked up beside it.
        prefix = _plain_link(scratch, "interpreter", request.python.parent.parent)
        python = prefix / request.python.parent.name / request.python.name
        env["PATH"] = os.pathsep.join([str(python.parent), env["PATH"]])
        argv = [str(python), "-m", "tracy", "-p", "-r"]
        for flag in ("--sync-host-device", "--check-exit-code", "--no-web-server"):
            if flag in options:
                argv.append(flag)
        argv += ["-o", str(out), "-t", str(request.port or free_port())]
        if request.tools_folder is not None:
            tools = _plain_link(scratch, "tools", request.tools_folder)
            argv += ["--tracy-tools-folder", str(tools)]
        if request.programs_per_read is not None:
            count = str(request.programs_per_read)
            env["TT_METAL_PROFILER_PROGRAM_SUPPORT_COUNT"] = count
            if "--op-support-count" in options:
                argv += ["--op-support-count", count]
        if request.mid_run_dump:
            env["TT_METAL_PROFILER_MID_RUN_DUMP"] = "1"
            if "--dump-device-data-mid-run" in options:
                argv.append("--dump-device-data-mid-run")
        argv.append(str(launcher))
        return Launch(
            argv=tuple(argv),
            env=env,
            cwd=request.cwd,
            description="Tracy",
            pid_file=scratch / "launch.pid",
            finish_s=FINISH_S,
        )

    def _write_launcher(self, request: LaunchRequest) -> Path:
        launcher = request.scratch / "launch.py"
        shutil.copyfile(RUNTIME / "launch.py", launcher)
        order = {"script": str(request.script), "arguments": list(request.arguments)}
        (request.scratch / "launch.json").write_text(json.dumps(order), encoding="utf-8")
        return launcher

    def collect(self, scratch: Path, output: Path, log: str, returncode: int) -> Artifacts:
        """Move Tracy's folder and pick the newest report's table of operations.

        Raises:
            NoDeviceOperations: the run ended well and the report is empty.
        """
        target = output / FOLDER
        if (scratch / OUT).is_dir():
            move_folder(scratch / OUT, target)
        files: dict[str, Path] = {"profile": target} if target.is_dir() else {}
        warnings: list[str] = []
        if OVERFLOW in log:
            warnings.append(
                "Tracy's device buffers were full and measurements were dropped: fewer steps, or "
                "more programs per read"
            )
        ops_csv = None
        report = newest_report(target / "reports")
        if report is not None:
            files["report"] = report
            ops_csv = output / PERF_FOLDER / OPS_CSV
            ops_csv.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(report, ops_csv)
            files["ops_csv"] = ops_csv
        folders = [target / ".logs"] + ([report.parent] if report else [])
        for folder in folders:
            for name, file in (
                ("host_trace", "tracy_profile_log_host.tracy"),
                ("device_log", "profile_log_device.csv"),
            ):
                if (folder / file).is_file():
                    files[name] = folder / file
        if ops_csv is None and returncode != 0:
            warnings.append("Tracy made no report")
        artifacts = Artifacts(files, ops_csv, tuple(warnings), script_outcome(scratch))
        if ops_csv is None and returncode == 0:
            raise NoDeviceOperations(
                "Tracy's report is empty: the run executed no operation on a device.",
                "See in its output whether the model was moved to the device; an install without "
                "the profiler build also looks like this (`instrument doctor`).",
                artifacts,
            )
        return artifacts


def script_outcome(scratch: Path) -> int | None:
    """The script's own exit code as the launcher noted it; None when it did not get that far."""
    path = scratch / "outcome.json"
    if not path.is_file():
        return None
    code = json.loads(path.read_text(encoding="utf-8")).get("exit_code")
    return code if isinstance(code, int) else None
