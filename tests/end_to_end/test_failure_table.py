"""Every row of the table of known failures, provoked in a real run and answered with its remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instrumentor.failures import FAILURES
from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import read, script

# (row, what is printed before the script fails, words of what is said)
PRINTED = [
    ("device-locked-elsewhere",
     "Waiting for lock 'CHIP_IN_USE_0_PCIe' which is currently held by thread TID: 1, PID: 1",
     "another container"),
    ("device-locked",
     "Waiting for lock 'CHIP_IN_USE_0_PCIe' which is currently held by thread TID: 77, PID: 4242",
     "kill -INT 4242"),
    ("device-stuck", "Timeout waiting for Ethernet core service remote IO request", "tt-smi -r"),
    ("plugin-out-of-step",
     "ImportError: cannot import name 'setup_tt_metal_home' from 'pjrt_plugin_tt'", "--tt-xla"),
    ("tracy-payload-missing", "No module named 'tracy._original'", "--python"),
    ("tracy-payload-missing", "No module named 'pjrt_plugin_tt'", "--python"),
    ("tracy-payload-missing", "No module named 'websockets'", "install websockets"),
    ("tracy-payload-missing", "No module named 'loguru'", "install loguru"),
    ("tools-not-found",
     "Tracy tools were not found. Please make sure you are on a Tracy-enabled build (default).",
     "--tracy-tools-folder"),
    ("tools-folder-missing", "Tracy tools folder /x/bin does not exist", "--tracy-tools-folder"),
    ("capture-died", "tracy capture out not found, will try again in 1 second", "--port"),
    ("capture-died", "tracy capture output file /x was not generated", "--port"),
    ("no-profiling-data",
     "No profiling data could be captured. Please make sure you are on a Tracy-enabled build",
     "own error first"),
    ("port-busy", "capture-release -o x.tracy -f -p 8086' timed out after 15 seconds", "--port"),
    ("no-port", "No available port found", "--port"),
    ("buffer-overflow",
     "Profiler DRAM buffers were full, markers were dropped! device 0, worker core 1, 2",
     "--op-support-count"),
    ("buffer-overflow",
     "Device data missing: Op 1024 not present in cpp_device_perf_report.csv for device 0",
     "--op-support-count"),
    ("buffer-overflow", "Device data mismatch: Expected 1203 but received 1000 ops on device 0",
     "--dump-device-data-mid-run"),
    ("markers-dropped", "End marker BRISC-FW found without a corresponding start marker",
     "fewer steps"),
    ("pandas-3", "TypeError: Invalid value '[1]' for dtype 'str'. Value should be", "pandas < 3"),
    ("trace-and-profiler", "TT_FATAL: !trace_id_.has_value() (assert.hpp:104)",
     "--profiler wallclock"),
    ("trace-and-profiler", "Event Synchronization is not supported during trace capture.",
     "enable_trace off"),
    ("trace-shape", "Host tensor has different shape", "static"),
    ("trace-region", "Creating trace buffers of size 73400320B on MeshDevice 1",
     "TT_RUNTIME_TRACE_REGION_SIZE"),
    ("device-out-of-memory",
     "Out of Memory: Not enough space to allocate 268435456 B DRAM buffer across 12 banks",
     "smaller batch"),
    ("no-device-operations", "No device operations found", "both signposts"),
    ("blacksmith-not-found", "ModuleNotFoundError: No module named 'blacksmith'", "PYTHONPATH"),
    ("module-not-found", "ModuleNotFoundError: No module named 'somewhere'", "--python"),
]  # fmt: skip


def test_every_row_is_provoked_here() -> None:
    assert {name for name, _, _ in PRINTED} == {row.name for row in FAILURES}


@pytest.mark.parametrize(("name", "text", "words"), PRINTED, ids=[row[1][:40] for row in PRINTED])
def test_a_log_is_explained(
    tmp_path: Path, run_cli: RunCli, name: str, text: str, words: str
) -> None:
    log = tmp_path / "their.log"
    log.write_text(f"step 1\n\x1b[31m{text}\x1b[0m\nstep 2\n")
    done = run_cli("diagnose", log, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (found,) = read_text(done.stdout)["failures"]
    assert found["name"] == name
    assert words in found["remedy"] + found["cause"]
    assert (found["line"], found["line_number"]) == (text, 2)


def read_text(text: str) -> dict[str, list[dict[str, object]]]:
    document: dict[str, list[dict[str, object]]] = json.loads(text)
    return document


# A row of each group in a whole run: the words reach the user, and the exit code is 1.
GROUPS = ("device-stuck", "device-out-of-memory", "blacksmith-not-found", "trace-shape")
WHOLE = [row for row in PRINTED if row[0] in GROUPS]


@pytest.mark.parametrize(("name", "text", "words"), WHOLE, ids=[row[0] for row in WHOLE])
def test_a_failing_run_is_explained(
    git_repo: RepoFactory, measure: Measure, name: str, text: str, words: str
) -> None:
    repo = git_repo({"train.py": script(before=f"raise RuntimeError({text!r})")})
    ran = measure(repo, "train.py")
    assert ran.code == 1
    assert text in ran.err and "why: " in ran.err
    assert words in ran.err.partition("why: ")[2]


# The stand-in's failures, as its real counterpart shows them.
TRACY = [
    ("ethernet", "tt-smi -r"),
    ("trace", "--profiler wallclock"),
    ("shape", "static"),
    ("region", "TT_RUNTIME_TRACE_REGION_SIZE"),
    ("oom", "smaller batch"),
    ("no-tools", "--tracy-tools-folder"),
    ("no-port", "--port"),
    ("capture-died", "--port"),
    ("capture-timeout", "--port"),
    ("no-data", "without os._exit"),
    ("pandas", "pandas < 3"),
    ("overflow", "--op-support-count"),
    ("plugin", "--tt-xla"),
    ("module:loguru", "install loguru"),
]


@pytest.mark.parametrize(("failure", "words"), TRACY)
def test_a_failure_of_tracy_is_explained(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str], failure: str, words: str
) -> None:
    env = {**tracy, "STANDIN_TRACY_FAIL": failure, "STANDIN_TRACY_WAIT": "1"}
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "train.py", profiler="tracy", env=env)
    assert ran.code in (1, 4), ran.err
    assert words in ran.err.partition("error: ")[2], ran.err
    if failure == "overflow":
        assert "running once more with room for 10000 programs" in ran.err
        assert (ran.folder / "first_attempt_run.log").is_file()


@pytest.mark.parametrize("failure", ["no-tools", "no-port"])
def test_a_script_that_never_started_is_not_blamed(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str], failure: str
) -> None:
    repo = git_repo({"train.py": script()})
    env = {**tracy, "STANDIN_TRACY_FAIL": failure}
    ran = measure(repo, "train.py", profiler="tracy", env=env)
    assert ran.code == 1
    assert "the profiler ended with code 1 before the script started: " in ran.err


def test_a_script_that_leaves_before_tracy_has_its_data_did_run(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str]
) -> None:
    repo = git_repo({"train.py": script(after="os._exit(0)")})
    env = {**tracy, "STANDIN_TRACY_WAIT": "1"}
    ran = measure(repo, "train.py", profiler="tracy", env=env)
    assert ran.code == 1
    assert "the profiler ended with code" in ran.err
    assert "the script ended with code" not in ran.err + ran.out
    assert "never" not in ran.err.partition("error: ")[2]
    assert "the script left without its usual end (os._exit, or a crash)" in ran.err
    assert read(ran.folder)["script_exit_code"] is None


def test_missing_markers_are_told_of_a_good_run(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str]
) -> None:
    env = {**tracy, "STANDIN_TRACY_FAIL": "markers"}
    ran = measure(git_repo({"train.py": script()}), "train.py", profiler="tracy", env=env)
    assert ran.code == 0, ran.err


def test_waiting_for_a_lock_is_said_and_limited(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str]
) -> None:
    env = {**tracy, "STANDIN_TRACY_FAIL": "lock", "STANDIN_LOCK_PID": "4242"}
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "--timeout", "6", "train.py", profiler="tracy", env=env)
    assert ran.code == 1
    assert "did not end within --timeout 6 s" in ran.err
    assert "Process 4242 holds CHIP_IN_USE_0_PCIe" in ran.err


def test_an_overflow_is_mended_by_a_second_attempt(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str]
) -> None:
    env = {**tracy, "STANDIN_TRACY_PROGRAMS": "300"}
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "train.py", profiler="tracy", env=env)
    assert ran.code == 0, ran.err
    assert "buffers on the device were full: running once more" in ran.err
    assert "--op-support-count 10000" in read(ran.folder, "run.json")["command_line"]
    assert read(ran.folder)["op_count"] == 300
    # The next run knows, and makes room at once.
    again = measure(repo, "train.py", profiler="tracy", env=env, folder="repo_baseline-2")
    assert again.code == 0, again.err
    assert "an earlier run counted 300 programs a step" in again.err
    assert "once more" not in again.err


def test_room_for_programs_can_be_given(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str]
) -> None:
    env = {**tracy, "STANDIN_TRACY_PROGRAMS": "300"}
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "--op-support-count", "4000", "train.py", profiler="tracy", env=env)
    assert ran.code == 0, ran.err
    assert "once more" not in ran.err
    assert "--op-support-count 4000" in read(ran.folder, "run.json")["command_line"]


def test_enable_trace_is_not_for_tracy(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str]
) -> None:
    repo = git_repo({"train.py": script(), "x.yaml": "enable_trace: true\n"})
    ran = measure(repo, "train.py", "--config", "x.yaml", profiler="tracy", env=tracy)
    assert ran.code == 4
    assert "enable_trace" in ran.err and "--profiler wallclock" in ran.err
    assert not ran.folder.exists()


def test_diagnose_reads_run_folders_pipes_and_unknown_logs(tmp_path: Path, run_cli: RunCli) -> None:
    folder = tmp_path / "x_baseline"
    folder.mkdir()
    (folder / "run.log").write_text("hello\nNo available port found\n")
    assert "Tracy found no free port" in run_cli("diagnose", folder, cwd=tmp_path).stdout
    (tmp_path / "odd.log").write_bytes(b"one\nthe last \xff words\n")
    done = run_cli("diagnose", "odd.log", cwd=tmp_path)
    assert done.returncode == 0
    assert "No known failure in odd.log" in done.stdout and "the last" in done.stdout
    missing = run_cli("diagnose", "none.log", cwd=tmp_path)
    assert missing.returncode == 2 and "cannot be read" in missing.stderr
