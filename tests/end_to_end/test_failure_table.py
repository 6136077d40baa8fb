"""Known failures in real runs: what is said of them, and what of a log that shows none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import read, script
from tests.warned import texts

# What a script prints before it fails, and words of what is said: a row of each group.
PRINTED = [
    ("Timeout waiting for Ethernet core service remote IO request", "tt-smi -r"),
    ("Out of Memory: Not enough space to allocate 268435456 B DRAM buffer across 12 banks",
     "smaller batch"),
    ("ModuleNotFoundError: No module named 'blacksmith'", "PYTHONPATH"),
    ("Host tensor has different shape", "static"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), PRINTED)
def test_a_failing_run_is_explained(measured: Measure, text: str, words: str) -> None:
    ran = measured(script(before=f"raise RuntimeError({text!r})"))
    assert ran.code == 1
    assert text in ran.err and "why: " in ran.err
    assert words in ran.err.partition("why: ")[2]


def test_what_else_went_wrong_is_told_and_what_is_harmless_is_not_blamed(measured: Measure) -> None:
    harmless = "Profiler API not found for PJRT plugin"
    lines = [harmless, "Bad StatusOr access: INTERNAL: Error code: 13", "trisc2 build failed"]
    said = "\n".join(f"print({text!r})" for text in lines)
    ran = measured(script(before=f"{said}\nraise SystemExit(3)"))
    assert "code 3: a kernel could not be compiled" in ran.err
    assert "also: the device's plug-in failed" in ran.err
    assert harmless not in ran.err.partition("error: ")[2]


# Some of the stand-in's failures, all the way through a run; that each is recognised is pinned by
# the tests of the profiler.
TRACY = [
    ("no-port", "--port"),
    ("pandas", "pandas < 3"),
    ("overflow", "--op-support-count"),
    pytest.param("no-data", "opened no device", marks=pytest.mark.slow),
    pytest.param("no-tools", "--tracy-tools-folder", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("failure", "words"), TRACY)
def test_a_failure_of_tracy_is_explained(
    measured: Measure, tracy: dict[str, str], failure: str, words: str
) -> None:
    env = {**tracy, "STANDIN_TRACY_FAIL": failure}
    ran = measured(script(), profiler="tracy", env=env)
    assert ran.code in (1, 4), ran.err
    assert words in ran.err.partition("error: ")[2], ran.err
    if failure == "overflow":
        assert "running once more with room for 10000 programs" in ran.err
        assert (ran.folder / "first_attempt_run.log").is_file()
        warned = texts(read(ran.folder)["warnings"])
        assert any("device buffers were full" in text for text in warned)
    if failure in ("no-tools", "no-port"):
        assert "the profiler ended with code 1 before the script started: " in ran.err


def test_a_script_that_leaves_before_tracy_has_its_data_did_run(
    measured: Measure, tracy: dict[str, str]
) -> None:
    env = {**tracy, "STANDIN_TRACY_WAIT": "1"}
    ran = measured(script(after="os._exit(0)"), profiler="tracy", env=env)
    assert ran.code == 1
    assert "the profiler ended with code" in ran.err
    assert "the script ended with code" not in ran.err + ran.out
    assert "never" not in ran.err.partition("error: ")[2]
    assert "the script exited abruptly (os._exit, or a crash)" in ran.err
    assert read(ran.folder)["script_exit_code"] is None


def test_waiting_for_a_lock_is_said_and_limited(measured: Measure, tracy: dict[str, str]) -> None:
    env = {**tracy, "STANDIN_TRACY_FAIL": "lock", "STANDIN_LOCK_PID": "4242"}
    ran = measured(script(), "--timeout", "20", profiler="tracy", env=env)
    assert ran.code == 1
    assert "did not end within --timeout 20 s" in ran.err
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
    again = measure(repo, "train.py", profiler="tracy", env=env, folder="instrument-runs/repo-2")
    assert again.code == 0, again.err
    assert "an earlier run counted 300 programs a step" in again.err
    assert "once more" not in again.err


def test_room_for_programs_can_be_given(measured: Measure, tracy: dict[str, str]) -> None:
    env = {**tracy, "STANDIN_TRACY_PROGRAMS": "300"}
    ran = measured(script(), "--op-support-count", "4000", profiler="tracy", env=env)
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
    log = "hello\n\x1b[31mNo available port found\x1b[0m\nTracy tools folder /x does not exist\n"
    (folder / "run.log").write_text(log)
    done = run_cli("diagnose", folder, cwd=tmp_path, fresh=True)
    assert done.returncode == 0
    assert "what: Tracy found no free port\n  line 2: No available port found\n" in done.stdout
    assert "hint: Choose one with --port.\nseen: https://github.com/" in done.stdout
    assert "what: the folder of Tracy's tools does not exist\n" in done.stdout
    told = json.loads(run_cli("diagnose", folder, "--json", cwd=tmp_path).stdout)["failures"]
    assert [each["name"] for each in told] == ["tools-folder-missing", "no-port"]
    missing = run_cli("diagnose", "none.log", cwd=tmp_path)
    assert missing.returncode == 2 and "cannot be read" in missing.stderr


def test_an_unknown_log_shows_what_it_says_of_errors_and_is_no_success(
    tmp_path: Path, run_cli: RunCli
) -> None:
    lines = [
        "one",
        "widget refused: \udcff",
        *map(str, range(40)),
        "Profiler API not found for PJRT",
    ]
    text = "\n".join([*lines, "W Profiler API not found for PJRT plugin"])
    (tmp_path / "odd.log").write_bytes(text.encode(errors="surrogateescape"))
    done = run_cli("diagnose", "odd.log", cwd=tmp_path)
    assert done.returncode == 1
    assert "No known failure in odd.log" in done.stdout
    assert "  line 2: widget refused" in done.stdout and "line 20" not in done.stdout
    assert "note: the plug-in does not support torch_xla's own profiler" in done.stdout
    document = json.loads(run_cli("diagnose", "odd.log", "--json", cwd=tmp_path).stdout)
    assert document["telling_lines"][0]["line_number"] == 2


def test_a_healthy_log_shows_no_error(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "run.log").write_text("[TIMER] Step 1: fwd+bwd = 45.2 ms\n" * 15)
    done = run_cli("diagnose", "run.log", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "This log shows no error.\n")


def test_an_unknown_failure_is_told_once_in_the_words_of_the_run(
    tmp_path: Path, run_cli: RunCli
) -> None:
    last = "RuntimeError: shapes do not fit"
    trace = f'Traceback (most recent call last):\n  File "a.py", line 8, in <module>\n{last}'
    (tmp_path / "run.log").write_text(f"{trace}\nerror: widget refused\n")
    failure = {"failure": f"the script ended with code 1; its last lines:\n{trace}"}
    (tmp_path / "run.json").write_text(json.dumps(failure))
    said = run_cli("diagnose", "run.log", cwd=tmp_path).stdout
    assert "\nThe script ended with code 1; its last lines:\nTraceback" in said
    assert "Its last traceback" not in said and said.count(last) == 1
    assert "error: widget refused" in said
