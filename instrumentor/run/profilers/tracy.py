"""Tracy: device time of every operation, through ``python -m tracy``.

Three traps decide the shape of this module. Tracy joins its command line with spaces and gives it
to a shell, so it only ever sees paths of our own without special characters (the script and its
arguments travel in launch.json, see runtime/launch.py). It leaves files where it works, so that is
a folder of ours (runtime/tracy_start.py). And its options differ by version (tracy_options.py).
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from instrumentor.machine.tracy_tools import TOOL_NAMES, tools_in
from instrumentor.run.profilers.base import (
    RUNTIME,
    Artifacts,
    Launch,
    LaunchRequest,
    base_environment,
    move_folder,
)
from instrumentor.run.profilers.tracy_options import absolute_entries, read_options
from instrumentor.shared.errors import NotReady, RunFailed, UsageError
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import object_in
from instrumentor_analysis.shared.files import copy, write_whole

FOLDER = "tracy_profile"
OUT = "tracy"
WORK = "work"  # Tracy's working directory
CAPTURE_LOG = "capture.log"
LAUNCHED = "launch.pid"  # written by runtime/launch.py when the script begins
PERF_FOLDER = "tracy_perf"
OPS_CSV = "ops_perf_results.csv"
FINISH_S = 180.0  # for Tracy's report, once the script has ended
PROGRAMS_PER_READ = 1000  # what the device buffers hold by default, per core
NOTHING_ON_DEVICE = (
    "Tracy's report is empty: the run executed no operation on a device.",
    "See in its output whether the model was moved to the device; an install without the profiler "
    "build also looks like this (`instrument doctor`).",
)
LEFT_EARLY = (
    "Tracy's report is empty: the script exited before the device's log was written (os._exit, or "
    "a crash).",
    "Let the script end by itself, without os._exit: the log is written when the process ends.",
)

_DEBUGGING = ("TT_METAL_WATCHER", "TT_METAL_DPRINT")
_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def shell_safe(path: Path | str) -> bool:
    """Whether a shell takes this text as one plain word."""
    return _SHELL_SAFE.fullmatch(str(path)) is not None


def free_port() -> int:
    """A TCP port nobody listens on, below the range the kernel hands out by itself."""
    # Chosen here, not by Tracy, which takes the first of 8086-8499: a capture program that a killed
    # run left on such a port would take the connection of this one.
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


class Tracy(Struct, frozen=True):
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
                f"Tracy cannot work in {scratch}: it passes paths to a shell.",
                "Set TMPDIR to a folder whose path has no spaces or special characters.",
            )
        env = _environment(request)
        options = read_options(request.python, env, request.cwd)
        launcher = _write_launcher(request, env)
        # Tracy is started in another folder, where a relative entry would lead elsewhere.
        env["PYTHONPATH"] = absolute_entries(env.get("PYTHONPATH"), request.cwd)
        for folder in (OUT, WORK):
            (scratch / folder).mkdir(parents=True, exist_ok=True)
        # A link to the whole prefix, not to the program: pyvenv.cfg is looked up beside it.
        prefix = _plain_link(scratch, "interpreter", request.python.parent.parent)
        python = prefix / request.python.parent.name / request.python.name
        # Up to ttnn 0.71 Tracy starts the script by the first `python3` on PATH.
        env["PATH"] = os.pathsep.join([str(python.parent), env["PATH"]])
        return Launch(
            argv=(
                str(python),
                str(RUNTIME / "tracy_start.py"),
                *_arguments(request, options),
                str(launcher),
            ),
            env=env,
            cwd=scratch / WORK,
            pid_file=scratch / LAUNCHED,
            side_log=scratch / CAPTURE_LOG,
            finish_s=FINISH_S,
            warnings=(*_debug_tools(env), *_longer_kernels(request)),
        )

    def collect(self, scratch: Path, output: Path, returncode: int) -> Artifacts:
        """Move Tracy's folder and pick the newest report's table of operations.

        A run that ended well and has an empty report is a failure, and is moved all the same.
        """
        target = output / FOLDER
        if (scratch / OUT).is_dir():
            move_folder(scratch / OUT, target)
        files: dict[str, Path] = {"profile": target} if target.is_dir() else {}
        report = newest_report(target / "reports")
        if report is not None:
            ops_csv = output / PERF_FOLDER / OPS_CSV
            ops_csv.parent.mkdir(parents=True, exist_ok=True)
            copy(report, ops_csv)
            files |= {"report": report, "ops_csv": ops_csv}
        folders = [target / ".logs"] + ([report.parent] if report else [])
        for folder in folders:
            for name, file in (
                ("host_trace", "tracy_profile_log_host.tracy"),
                ("device_log", "profile_log_device.csv"),
            ):
                if (folder / file).is_file():
                    files[name] = folder / file
        code = script_outcome(scratch)
        if report is not None:
            return Artifacts(files, script_exit_code=code)
        if returncode != 0:
            return Artifacts(files, (Caveat("no-report", "Tracy made no report"),), code)
        left_early = code is None and (scratch / LAUNCHED).is_file()
        failure = RunFailed(*(LEFT_EARLY if left_early else NOTHING_ON_DEVICE))
        return Artifacts(files, (), code, failure)


def _environment(request: LaunchRequest) -> dict[str, str]:
    env = base_environment(request, "tracy")
    env["TRACY_NO_WEB_SERVER"] = "1"  # see tracy_start.py; the child is a process of its own
    # What Tracy's options set; versions without these options read the variables all the same.
    if request.programs_per_read is not None:
        env["TT_METAL_PROFILER_PROGRAM_SUPPORT_COUNT"] = str(request.programs_per_read)
    if request.mid_run_dump:
        env["TT_METAL_PROFILER_MID_RUN_DUMP"] = "1"
    return env


def _debug_tools(env: Mapping[str, str]) -> Iterator[Caveat]:
    """The watcher and kernel prints: they share the memory of the cores with the profiler."""
    on = sorted(name for name in env if name.startswith(_DEBUGGING) and env[name] not in ("", "0"))
    if on:
        text = (
            f"{', '.join(on)} was set: it slows kernels down and takes the profiler's memory. "
            "Do not trust these times; unset it and measure again."
        )
        yield Caveat("debug-tools", text)


def _longer_kernels(request: LaunchRequest) -> Iterator[Caveat]:
    collected = [f"--counters {','.join(request.counters)}"] if request.counters else []
    collected += ["--noc-trace"] if request.noc_trace else []
    if collected:
        text = (
            f"{' and '.join(collected)} made kernels longer. What limits the ops holds; take times "
            "from a run without it."
        )
        yield Caveat("counters", text)


def _collecting(request: LaunchRequest, options: frozenset[str]) -> Iterator[str]:
    """Options that have Tracy collect more than times.

    Raises:
        NotReady: this version has no such option.
    """
    hardware = ",".join(group for group in request.counters if group != "waits")
    wanted = (
        # Its sums are worked out by the older of Tracy's two ways to read the log, as all else.
        ("--counters waits", "waits" in request.counters, "--enable-sum-profiling", ""),
        ("--counters", bool(hardware), "--profiler-capture-perf-counters", hardware),
        ("--noc-trace", request.noc_trace, "--collect-noc-traces", ""),
    )
    for asked, needed, option, value in wanted:
        if needed and option not in options:
            raise NotReady(
                f"{asked}: this version of Tracy has no {option}",
                f"Leave {asked} out, or use a newer ttnn or tt-metal (--python).",
            )
        if needed:
            yield f"{option}={value}" if value else option


def _write_launcher(request: LaunchRequest, env: Mapping[str, str]) -> Path:
    launcher = request.scratch / "launch.py"
    copy(RUNTIME / "launch.py", launcher)
    whole = {
        **request.order,
        "typed": request.typed,
        "cwd": str(request.cwd),
        "environment": {name: env.get(name) for name in ("PYTHONPATH", "PWD", "OLDPWD")},
    }
    write_whole(request.scratch / "launch.json", json.dumps(whole).encode())
    return launcher


def _tools(scratch: Path, folder: Path) -> Path:
    """A folder with the same programs, whose capture program speaks into a file of its own.

    Tracy throws away what it says, which is often the cause; with Tracy's -v it would stand in the
    middle of the script's lines.
    """
    folder = folder.absolute()
    # A build that was updated has both spellings, and the installed Tracy asks for one of them.
    given = [found for pair in TOOL_NAMES if (found := tools_in(folder, (pair,))) is not None]
    if not given:
        return _plain_link(scratch, "tools", folder)
    ours = scratch / "tools"
    ours.mkdir()
    for each in given:
        (ours / each.csvexport.name).symlink_to(each.csvexport)
        capture = ours / each.capture.name
        words = [shlex.quote(str(path)) for path in (each.capture, scratch / CAPTURE_LOG)]
        write_whole(capture, f'#!/bin/sh\nexec {words[0]} "$@" >>{words[1]} 2>&1\n'.encode())
        capture.chmod(0o700)
    return ours


def _arguments(request: LaunchRequest, options: frozenset[str]) -> list[str]:
    """Tracy's own options, as far as this version offers them."""
    # Without -p every Python call becomes a zone. Not `-pr`, on which Tracy of ttnn 0.65 fails.
    wanted = ["-p", "-r"]
    for flag in ("--sync-host-device", "--check-exit-code", "--no-web-server"):
        if flag in options and (request.command is None or flag != "--check-exit-code"):
            wanted.append(flag)
    # tt-xla's wrapper replaces TT_METAL_PROFILER_DIR, and a relative folder is lost when the script
    # changes its directory: hence -o, absolute.
    wanted += ["-o", str(request.scratch / OUT), "-t", str(request.port or free_port())]
    if request.tools_folder is not None:
        wanted += ["--tracy-tools-folder", str(_tools(request.scratch, request.tools_folder))]
    if request.programs_per_read is not None and "--op-support-count" in options:
        wanted += ["--op-support-count", str(request.programs_per_read)]
    if request.mid_run_dump and "--dump-device-data-mid-run" in options:
        wanted.append("--dump-device-data-mid-run")
    return [*wanted, *_collecting(request, options)]


def script_outcome(scratch: Path) -> int | None:
    """The script's own exit code as the launcher noted it; None when it did not get that far."""
    code = object_in(scratch / "outcome.json").get("exit_code")
    return code if isinstance(code, int) else None
