"""The table of known failures: each text as it is printed, its row, and the remedy filled in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from instrumentor.run import known_failures
from instrumentor.run.known_failures import (
    Failure,
    diagnose,
    error_lines,
    failures,
    last_traceback,
    plain,
    reasons,
    relevant_tail,
)

LOCK = "Waiting for lock 'CHIP_IN_USE_0_PCIe' which is currently held by thread TID: 77, PID: {}"
# As they were printed elsewhere than in the samples of the table.
EXAMPLES = [
    (
        "circular-buffers-clash",
        "TT_THROW: Statically allocated circular buffers in program 350188 clash with L1 buffers",
    ),
    (
        "l1-out-of-memory",
        "Out of Memory: Not enough space to allocate 86450176 B L1 buffer across 64 banks, where",
    ),
    (
        "device-out-of-memory",
        "Out of Memory: Not enough space to allocate 137438953472 B DRAM buffer across 12 banks",
    ),
    ("fabric-sync", "Fabric Router Sync: Timeout after 20000 ms. Device 5: Expected status 0xa2b"),
    ("arc-timeout", "Timed out after waiting 1 seconds for ARC to respond"),
    (
        "clock-throttled",
        "Waiting for AICLK value to settle failed on timeout after 100ms\n"
        "Expected to see 1350, last value observed 1337",
    ),
    (
        "dispatch-timeout",
        "TT_THROW: TIMEOUT: device timeout in fetch queue wait, potential hang detected",
    ),
    ("pandas-3", "TypeError: Invalid value for dtype 'str'. Value should be a string or missing"),
    ("legalize", "error: failed to legalize operation `ttir.convolution`"),
    ("kernel-build", "                 Always | FATAL    | brisc build failed"),
    ("trace-older", "Enqueue Record Event cannot be used with tracing"),
    ("shared-library", "ImportError: libmpi.so.40: cannot open shared object file: No such file"),
    ("tracy-payload-missing", "No module named 'websockets'"),
    ("capture-died", "tracy capture out not found, will try again in 1 second. Run in verbose"),
    ("capture-died", "tracy capture output file /a/b.tracy was not generated. Run in verbose"),
    ("pandas-3", "TypeError: Invalid value '[1 2]' for dtype 'str'. Value should be a string"),
    ("trace-and-profiler", "TT_FATAL @ mesh_device.cpp:104: !trace_id_.has_value()"),
    ("trace-and-profiler", "Reads are not supported during trace capture."),
    ("trace-shape", "Host tensor has different shape"),
    ("trace-region", "Creating trace buffers of size 73400320B on MeshDevice 1, but only 0B is"),
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


@pytest.mark.parametrize("row", failures(), ids=lambda row: f"{row.name}-{row.text[:20]}")
def test_each_row_is_found_by_its_sample_and_no_other_row_is(row: Failure) -> None:
    log = f"starting\n{row.sample}\nending\n"
    (found,) = diagnose(log, None)
    assert (found.name, found.title) == (row.name, row.title)
    assert found.line and found.line == row.sample.splitlines()[found.line_number - 2].strip()
    assert row.text in row.sample
    assert "{" not in found.cause + found.remedy and "None" not in found.cause + found.remedy
    assert row.seen.startswith("https://")


@pytest.mark.parametrize("row", failures(), ids=lambda row: f"{row.name}-{row.text[:20]}")
def test_a_row_that_matches_the_sample_of_another_is_the_more_general_one(row: Failure) -> None:
    rows = failures()
    for other in rows:
        if other.name != row.name and row.expression.search(other.sample):
            assert rows.index(other) < rows.index(row), other.name


def test_the_table_covers_what_users_meet() -> None:
    rows = failures()
    assert len({row.title for row in rows}) >= 80
    for part in ("tt-metal", "tt-xla", "tt-mlir", "tt-umd", "tt-smi", "tt-flash", "tracy", "xla"):
        assert any(f"/{part}/" in row.seen for row in rows), part


def test_several_failures_in_one_log_are_all_told() -> None:
    rows = {row.name: row for row in failures()}
    names = ["circular-buffers-clash", "pandas-3", "plugin-error", "profiler-api"]
    log = "\n".join(rows[name].sample for name in reversed(names))
    found = diagnose(log, 1)
    assert [each.name for each in found] == names
    assert [each.name for each in reasons(found)] == names[:3]


def test_a_line_is_told_once_and_others_of_the_same_text_too() -> None:
    log = "ModuleNotFoundError: No module named 'loguru'\nNo module named 'x'\n"
    log += "ModuleNotFoundError: No module named 'peft'\n"
    assert [(each.name, each.line_number) for each in diagnose(log, 1)] == [
        ("tracy-payload-missing", 1),
        ("module-not-found", 3),
    ]
    assert [each.line_number for each in diagnose(f"\n{log}{log}", 1)] == [2, 4]


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


def test_the_error_lines_of_a_log() -> None:
    log = ["loading", "2026-01-01 10:00:00.1 | ERROR | no luck"] + ["step"] * 40
    log += [f"2026-01-01 10:00:0{n}.1 | ERROR | no luck" for n in range(9)]
    log += [f"E{n}: cannot do {n}" for n in range(30)] + ["bye"]
    told = error_lines("\n".join(log), lines=6)
    assert told[0] == (2, "2026-01-01 10:00:00.1 | ERROR | no luck")
    assert [line for _, line in told[1:]] == [f"E{n}: cannot do {n}" for n in (0, 26, 27, 28, 29)]
    assert error_lines("a\n\nb\n") == ()
    assert error_lines("[TIMER] Step 1: fwd+bwd = 45.2 ms\n") == ()


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


def test_of_many_tracebacks_each_is_read_once_and_no_further_than_it_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server may log an exception a thousand times an hour."""
    read = 0

    def counted(text: str, start: int, end: int) -> Iterator[str]:
        nonlocal read
        for line in whole(text, start, end):
            read += 1
            yield line

    whole = known_failures._lines
    monkeypatch.setattr(known_failures, "_lines", counted)
    assert last_traceback(f"{SCRIPT_ERROR}\n" * 1000 + f"{WRAPPER_ERROR}\n" * 10) == SCRIPT_ERROR
    assert read == 10 * 4 + 6


def test_what_begins_as_a_syntax_error_is_not_searched_without_end() -> None:
    """Each of many spaces was a choice, and every line doubled them."""
    assert last_traceback('  File "x.py", line 1\n' + " " * 8 + ("x\n" + " " * 8) * 200) is None


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
