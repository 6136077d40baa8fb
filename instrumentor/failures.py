"""The table of known failures, the most specific row first.

Some texts are only consequences ("no profiling data could be captured" also follows a syntax
error in the script): those rows come last.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """A row of the table.

    Attributes:
        name: stable, for programs: ``device-locked``.
        pattern: what the log shows; its named groups may stand in ``remedy`` and ``cause``.
        title: what happened, a few words.
        cause: why.
        remedy: what to do.
        on_success: worth telling even when the run ended with 0.
        link: a page that tells more, or an empty string.
        cause_if_ran, remedy_if_ran: of a run whose samples show that the script ran, where the
            others do not fit such a run.
    """

    name: str
    pattern: str
    title: str
    cause: str
    remedy: str
    on_success: bool = False
    link: str = ""
    cause_if_ran: str = ""
    remedy_if_ran: str = ""


TRACY_PAGE = "https://docs.tenstorrent.com/tt-metal/latest/tt-metalium/tools/tracy_profiler.html"
END_AND_RESET = (
    "End stale processes (`instrument doctor` lists them), run `tt-smi -r`, wait some seconds, "
    "and see with `tt-smi -ls` that the boards are back: tt-smi may exit 0 after a failed reset."
)
MORE_PROGRAMS = (
    "Raise the number of programs (--op-support-count of tracy, or "
    "TT_METAL_PROFILER_PROGRAM_SUPPORT_COUNT), read the buffers during the run "
    "(--dump-device-data-mid-run), or measure fewer steps."
)

FAILURES: tuple[Failure, ...] = (
    Failure(
        "device-locked-elsewhere",
        r"Waiting for lock '(?P<lock>[^']+)' which is currently held by thread TID: \d+, PID: 1\b",
        "the device is held by another container",
        "Process 1 is the first process of a container: another container holds {lock}.",
        "Find the container that uses the device and end its work there.",
        on_success=True,
    ),
    Failure(
        "device-locked",
        r"Waiting for lock '(?P<lock>[^']+)' which is currently held by thread "
        r"TID: \d+, PID: (?P<pid>\d+)",
        "the device is in use",
        "Process {pid} holds {lock}, and the run waits for it without end.",
        "See what it is with `ps -fp {pid}`. If it is left over, end it with `kill -INT {pid}`, "
        "then `kill {pid}`; never with -9, which leaves the device in a bad state.",
        on_success=True,
    ),
    Failure(
        "device-stuck",
        r"Timeout waiting for Ethernet core service",
        "the device is in a bad state",
        "A process that was killed, or several that opened the device, left it so.",
        END_AND_RESET,
    ),
    Failure(
        "plugin-out-of-step",
        r"cannot import name 'setup_tt_metal_home' from 'pjrt_plugin_tt'",
        "the installed pjrt_plugin_tt does not fit the tt-xla source",
        "The wheel and tt-xla's python_package are of different versions.",
        "Put tt-xla's python_package first on PYTHONPATH (--tt-xla DIR) and use "
        "`python3 -m tracy`, not the bare `tracy` command.",
    ),
    Failure(
        "tracy-payload-missing",
        r"No module named '?(?P<module>tracy\._original|pjrt_plugin_tt|websockets|loguru)'?",
        "a module that Tracy needs is missing",
        "The interpreter is not the one that holds pjrt_plugin_tt, or {module} was left out.",
        "Name the right interpreter with --python; if it is the right one, install {module} there.",
    ),
    Failure(
        "blacksmith-not-found",
        r"ModuleNotFoundError: No module named 'blacksmith'",
        "the repository is not on the import path",
        "The script imports `blacksmith`, whose folder is not on PYTHONPATH.",
        "Run from the repository, or add its root: PYTHONPATH=<repository root>.",
    ),
    Failure(
        "tools-folder-missing",
        r"Tracy tools folder (?P<folder>\S+) does not exist",
        "the folder of Tracy's tools does not exist",
        "{folder} was given, and it is not there.",
        "Give the folder that holds capture-release and csvexport-release (or tracy-capture and "
        "tracy-csvexport) with --tracy-tools-folder.",
    ),
    Failure(
        "tools-not-found",
        r"Tracy tools were not found",
        "Tracy's capture and export programs were not found",
        "Wheels built by CI ship without them.",
        "Find them (capture-release and csvexport-release, or tracy-capture and tracy-csvexport, "
        "often below build_Release/tools/profiler/bin) and pass --tracy-tools-folder.",
        link=TRACY_PAGE,
    ),
    Failure(
        "port-busy",
        r"(?:capture-release|tracy-capture)\b.*-p (?P<port>\d+)'? timed out after \S+ seconds",
        "the capture program got no connection",
        "Port {port} was busy, or another client or capture program was left on it.",
        "Choose a free port with --port, and end left-over capture programs.",
    ),
    Failure(
        "no-port",
        r"No available port found",
        "Tracy found no free port",
        "All of 8086-8499 are taken.",
        "Choose one with --port.",
    ),
    Failure(
        "buffer-overflow",
        r"Profiler DRAM buffers were full, markers were dropped",
        "Tracy's buffers on the device were full",
        "More programs per core than the buffers hold (1000 by default) ran between two reads.",
        MORE_PROGRAMS,
        on_success=True,
        link=TRACY_PAGE,
    ),
    Failure(
        "buffer-overflow",
        r"Device data missing: Op \d+ not present|"
        r"Device data mismatch: Expected \d+ but received \d+ ops",
        "the device data of some operations is missing",
        "Tracy's buffers on the device were full; what was dropped is gone.",
        MORE_PROGRAMS,
        link=TRACY_PAGE,
    ),
    Failure(
        "markers-dropped",
        r"End marker .*found without a corresponding start marker",
        "a marker of the device profile is missing",
        "Markers were probably dropped because the buffers were full.",
        "Measure fewer steps or a smaller batch.",
        on_success=True,
    ),
    Failure(
        "pandas-3",
        r"TypeError: Invalid value .* for dtype '?str",
        "Tracy's report does not work with pandas 3",
        "Its older way to read the device log writes numbers into a column of text.",
        "Install pandas < 3 in the script's environment; the newer way needs "
        "cpp_device_perf_report.csv, so see also why that file is absent.",
    ),
    Failure(
        "trace-and-profiler",
        r"TT_FATAL.*!trace_id_\.has_value\(\)|not supported during trace capture",
        "the profiler does not work together with runtime trace",
        "The configuration sets enable_trace, which the device profiler cannot follow.",
        "Profile with enable_trace off; `instrument run --profiler wallclock` measures the traced "
        "run.",
    ),
    Failure(
        "trace-shape",
        r"Host tensor has different shape",
        "a traced graph was replayed with another shape",
        "The shapes change between steps (masks, padding).",
        "Make the shapes static: pad to a fixed length, use static masks.",
    ),
    Failure(
        "trace-region",
        r"Creating trace buffers of size (?P<size>\d+)",
        "the trace does not fit its region",
        "The traced graph needs {size} bytes.",
        "Set TT_RUNTIME_TRACE_REGION_SIZE to more than that.",
    ),
    Failure(
        "device-out-of-memory",
        r"Out of Memory: Not enough space to allocate (?P<size>\d+) B .*buffer across",
        "the device is out of memory",
        "{size} bytes could not be allocated: the batch is too large, or the computation cache "
        "is cleared in each step.",
        "Use a smaller batch; xr.clear_computation_cache() must not run between steps.",
    ),
    Failure(
        "no-device-operations",
        r"No device operations found",
        "no device operation lies between the signposts",
        "One of the signposts is missing, or nothing ran on the device between them.",
        "See that both signposts are in the ops CSV and that operations stand between them.",
        on_success=True,
    ),
    Failure(
        "module-not-found",
        r"ModuleNotFoundError: No module named '(?P<module>[^']+)'",
        "a module is missing",
        "The script's interpreter does not find {module}.",
        "Install it there, name another interpreter with --python, or add its folder to "
        "PYTHONPATH.",
    ),
    Failure(
        "capture-died",
        r"tracy capture out(?:put file)? .*(?:not found, will try again|was not generated)|"
        r"Tracy capture tool .* before writing a trace",
        "the capture program left no file",
        "It died, or one left over from an earlier run took the connection; or the script never "
        "began.",
        "Read the script's own error first. Then end left-over capture programs and use another "
        "port (--port).",
        cause_if_ran="It died, or one left over from an earlier run took the connection.",
        remedy_if_ran="End left-over capture programs and use another port (--port).",
    ),
    Failure(
        "no-profiling-data",
        r"No profiling data could be captured|Tracy capture did not finish within",
        "Tracy captured nothing",
        "The script never ran, the port was wrong, the capture was not finished in time, or the "
        "client is built without Tracy.",
        "Read the script's own error first; then choose a port of your own with --port.",
        cause_if_ran="The script ran, but its process left before Tracy had its data (os._exit, a "
        "crash), the port was wrong, the capture was not finished in time, or the client is built "
        "without Tracy.",
        remedy_if_ran="Let the script end by itself, without os._exit; then choose a port of your "
        "own with --port.",
    ),
)
