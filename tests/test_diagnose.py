"""The table of known failures: each text as it is printed, its row, and the remedy filled in."""

from __future__ import annotations

import re

import pytest

from instrumentor.diagnose import diagnose, last_traceback, plain, relevant_tail
from instrumentor.failures import FAILURES

LOCK = "Waiting for lock 'CHIP_IN_USE_0_PCIe' which is currently held by thread TID: 77, PID: {}"
EXAMPLES = [
    ("device-locked", LOCK.format(12345)),
    ("device-locked-elsewhere", LOCK.format(1)),
    ("device-stuck", "Timeout waiting for Ethernet core service remote IO request."),
    ("plugin-out-of-step", "cannot import name 'setup_tt_metal_home' from 'pjrt_plugin_tt' (x)"),
    ("tracy-payload-missing", "ModuleNotFoundError: No module named 'tracy._original'"),
    ("tracy-payload-missing", "ModuleNotFoundError: No module named 'pjrt_plugin_tt'"),
    ("tracy-payload-missing", "No module named 'websockets'"),
    ("tracy-payload-missing", "ModuleNotFoundError: No module named 'loguru'"),
    (
        "tools-not-found",
        "Tracy tools were not found. Please make sure you are on a Tracy-enabled build (default).",
    ),
    ("tools-folder-missing", "Tracy tools folder /opt/x does not exist"),
    ("capture-died", "tracy capture out not found, will try again in 1 second. Run in verbose"),
    ("capture-died", "tracy capture output file /a/b.tracy was not generated. Run in verbose"),
    (
        "capture-died",
        "Tracy capture tool (tracy-capture) exited with code 1 before writing a trace. The",
    ),
    ("no-profiling-data", "Tracy capture did not finish within 120 seconds after the test exited."),
    ("no-profiling-data", "No profiling data could be captured. Please make sure you are on a"),
    (
        "port-busy",
        "Command '/t/bin/capture-release -o tracy_profile_log_host.tracy -f -p 8086' timed out "
        "after 15 seconds",
    ),
    ("no-port", "No available port found"),
    ("buffer-overflow", "Profiler DRAM buffers were full, markers were dropped! device 0, worker"),
    (
        "buffer-overflow",
        "Device data missing: Op 51200 not present in cpp_device_perf_report.csv for device 0",
    ),
    ("buffer-overflow", "Device data mismatch: Expected 1203 but received 1000 ops on device 0"),
    ("markers-dropped", "End marker BRISC-FW found without a corresponding start marker"),
    ("pandas-3", "TypeError: Invalid value '[1 2]' for dtype 'str'. Value should be a string"),
    ("trace-and-profiler", "TT_FATAL @ mesh_device.cpp:104: !trace_id_.has_value()"),
    ("trace-and-profiler", "Reads are not supported during trace capture."),
    ("trace-shape", "Host tensor has different shape"),
    ("trace-region", "Creating trace buffers of size 73400320B on MeshDevice 1, but only 0B is"),
    (
        "device-out-of-memory",
        "Out of Memory: Not enough space to allocate 268435456 B DRAM buffer across 12 banks",
    ),
    ("no-device-operations", "No device operations found in the CSV data."),
    ("blacksmith-not-found", "ModuleNotFoundError: No module named 'blacksmith'"),
    ("module-not-found", "ModuleNotFoundError: No module named 'datasets'"),
]


@pytest.mark.parametrize(("name", "text"), EXAMPLES)
def test_each_text_finds_its_row_first(name: str, text: str) -> None:
    log = f"starting\n2026-01-01 | \x1b[31mERROR\x1b[0m    | {text}\nending\n"
    found = diagnose(log, 1)
    assert [one.name for one in found] == [name]
    assert found[0].line_number == 2
    assert text[:40] in found[0].line
    assert found[0].cause
    assert found[0].remedy
    assert "{" not in found[0].cause + found[0].remedy


def test_every_row_has_an_example() -> None:
    assert {failure.name for failure in FAILURES} == {name for name, _ in EXAMPLES}


def test_every_pattern_compiles_and_fills_what_its_texts_name() -> None:
    for failure in FAILURES:
        groups = set(re.compile(failure.pattern).groupindex)
        named = set(
            re.findall(
                r"\{(\w+)\}",
                failure.cause + failure.remedy + failure.cause_if_ran + failure.remedy_if_ran,
            )
        )
        assert named <= groups, failure.name


def test_values_stand_in_the_remedy() -> None:
    (found,) = diagnose(LOCK.format(12345), None)
    assert "kill -INT 12345" in found.remedy
    assert "CHIP_IN_USE_0_PCIe" in found.cause
    (found,) = diagnose("ModuleNotFoundError: No module named 'peft'", 1)
    assert "peft" in found.cause


def test_the_cause_is_told_before_its_consequences() -> None:
    log = "No profiling data could be captured.\nNo module named 'loguru'\n"
    assert [one.name for one in diagnose(log, 1)] == [
        "tracy-payload-missing",
        "no-profiling-data",
    ]


def test_a_script_that_ran_is_not_said_to_have_never_run() -> None:
    for log in (
        "No profiling data could be captured.",
        "tracy capture out not found, will try again",
    ):
        (unknown,) = diagnose(log, 1)
        assert "never" in unknown.cause and "own error first" in unknown.remedy
        (ran,) = diagnose(log, 1, ran=True)
        assert "never" not in ran.cause and "own error" not in ran.remedy
        assert "--port" in ran.remedy


def test_a_good_run_only_hears_what_spoils_it() -> None:
    log = "tracy capture out not found, will try again\nmarkers: Profiler DRAM buffers were full, "
    log += "markers were dropped! device 0\nNo device operations found\n"
    assert [one.name for one in diagnose(log, 0)] == ["buffer-overflow", "no-device-operations"]


def test_an_unknown_failure_gives_nothing() -> None:
    assert diagnose("ValueError: the user's own", 1) == ()


SCRIPT_ERROR = """\
Traceback (most recent call last):
  File "/x/train.py", line 3, in <module>
    main()
  File "/x/train.py", line 2, in main
    raise ValueError("no")
ValueError: no"""
WRAPPER_ERROR = """\
Traceback (most recent call last):
  File "/x/tracy/__main__.py", line 300, in main
    subprocess.run(command, check=True)
subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1."""


@pytest.mark.parametrize(
    "log",
    [
        SCRIPT_ERROR,
        f"before\n{SCRIPT_ERROR}\nafter\n",
        f"{SCRIPT_ERROR}\n{WRAPPER_ERROR}\n",
        f"{WRAPPER_ERROR}\n{SCRIPT_ERROR}\nKeyboardInterrupt\n",
    ],
)
def test_last_traceback_is_the_scripts(log: str) -> None:
    assert last_traceback(log) == SCRIPT_ERROR


def test_last_traceback_inside_a_prefixed_log() -> None:
    log = "\n".join(f"[rank0] {line}" for line in SCRIPT_ERROR.splitlines())
    found = last_traceback(log)
    assert found is not None
    assert found.endswith("ValueError: no")


def test_a_syntax_error_has_no_traceback_header() -> None:
    log = '  File "/x/train.py", line 3\n    x = = 1\n        ^\nSyntaxError: invalid syntax\nbye\n'
    assert last_traceback(log) == log[: log.index("\nbye")]


def test_no_traceback() -> None:
    assert last_traceback("all is well\n") is None


def test_progress_bars_and_colours_go() -> None:
    assert plain("\x1b[1mbold\x1b[0m\r\n 1%|#\r 50%|##\r100%|###\r\nend") == "bold\n100%|###\nend"


def test_tail_is_short_and_says_something() -> None:
    log = "\n".join([*map(str, range(50)), "", "again", "again", "again", "", "last", ""])
    assert relevant_tail(log, lines=3) == "49\nagain\nlast"
    assert len(relevant_tail(log).splitlines()) == 15
