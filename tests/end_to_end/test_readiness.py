"""What is done around a device before a run: doctor, holders, the lock, a reset."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import STANDINS, RepoFactory, RunCli
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import script, start
from tests.waiting import HANG_S, wait_for


def hold(node: Path, *more: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [str(STANDINS / "bin" / "hold-device"), str(node), *more],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    return process


def test_a_device_in_use_stops_the_run_and_yes_frees_it(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str], device: Path
) -> None:
    repo = git_repo({"train.py": script()})
    holder = hold(device / "0")
    try:
        ran = measure(repo, "train.py", profiler="tracy", env=tracy)
        assert ran.code == 4
        assert ran.err.count(f"process {holder.pid} of") == 1 and "hold-device" in ran.err
        assert "--yes" in ran.err and not ran.folder.exists()
        freed = measure(repo, "--yes", "train.py", profiler="tracy", env=tracy)
        assert freed.code == 0, freed.err
        assert f"ended {holder.pid}" in freed.err
        assert holder.wait(HANG_S) != -signal.SIGKILL
    finally:
        holder.kill()
        holder.communicate()


def test_one_run_has_a_device_at_a_time(
    git_repo: RepoFactory, run_cli: RunCli, tracy: dict[str, str]
) -> None:
    slow = script().replace("time.sleep(0.002)", "time.sleep(0.05)")
    repo = git_repo({"train.py": slow})
    first = start(
        *("run", "--profiler", "wallclock", "--steps", "1000", "-o", "first", "train.py"),
        cwd=repo, env=tracy,
    )  # fmt: skip
    wait_for(lambda: (repo / "first" / "timings.jsonl").exists())
    done = run_cli("run", "--profiler", "wallclock", "train.py", cwd=repo, env=tracy)
    assert done.returncode == 4
    assert f"process {first.pid} of" in done.stderr
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=HANG_S)


@pytest.mark.parametrize(("failure", "code"), [("", 0), ("error", 4)])
def test_a_reset_before_the_run(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str], tmp_path: Path, failure: str,
    code: int,
) -> None:  # fmt: skip
    state = tmp_path / "smi"
    env = {
        **tracy,
        "PATH": f"{STANDINS / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "STANDIN_TT_SMI_STATE": str(state),
        "STANDIN_TT_SMI_FAIL": failure,
    }
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "train.py", profiler="tracy", env=env)
    assert ran.code == 0 and not state.exists()  # never unasked
    ran = measure(
        repo, "--reset", "train.py", profiler="tracy", env=env, folder="instrument-runs/repo-2"
    )
    assert ran.code == code, ran.err
    assert state.read_text() == "reset\n"
    assert ("boards are back" if not failure else "failed to reset") in ran.err


def test_doctor(
    git_repo: RepoFactory, run_cli: RunCli, tracy: dict[str, str], device: Path
) -> None:
    repo = git_repo({"train.py": script(), "x.yaml": "enable_trace: true\n"})
    done = run_cli("doctor", "--profiler", "wallclock", "train.py", cwd=repo)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok       interpreter" in done.stdout
    assert re.search(r"^ok +script +training loop at train\.py:\d+$", done.stdout, re.M)
    busy = "the machine is busy" in done.stdout
    following = "instrument run --profiler wallclock train.py\n"
    assert done.stderr == f"Next{', when it is quiet' * busy}: {following}"
    (repo / "other.py").write_text("print(1)\n")
    other = run_cli("doctor", "--profiler", "wallclock", "other.py", cwd=repo)
    assert re.search(r"^warning +script +declined: .+\n +hint: instrument explain other\.py$",
                     other.stdout, re.M)  # fmt: skip
    assert "Next" not in other.stderr, "a run would decline it as well"
    (repo / "hidden.py").write_text("import started_elsewhere, torch  # which trains there\n")
    hidden = run_cli("doctor", "--profiler", "wallclock", "hidden.py", cwd=repo)
    assert "hint: A run looks for its step by running it for two steps in a copy" in hidden.stdout
    assert "instrument run --profiler wallclock hidden.py\n" in hidden.stderr
    done = run_cli("doctor", "--profiler", "tracy", "--json", "train.py", "--config", "x.yaml",
                   cwd=repo, env=tracy)  # fmt: skip
    document = json.loads(done.stdout)
    assert document["schema"] == "instrument-doctor/1" and document["ready"] is False
    status = {check["name"]: check["status"] for check in document["checks"]}
    assert status["tracy"] == status["tracy-tools"] == status["device"] == "ok"
    assert status["runtime-trace"] == "failed"
    assert all(check["remedy"] for check in document["checks"] if check["status"] != "ok")
    assert done.returncode == 4
    behind = run_cli("doctor", "--profiler", "wallclock", "train.py", "--json", cwd=repo)
    assert "Passed to train.py: --json" in behind.stderr
    mistyped = run_cli("doctor", "--jsn", cwd=repo)
    assert mistyped.returncode == 2 and "No such option: --jsn" in mistyped.stderr
    nothing = run_cli("doctor", "--profiler", "tracy", cwd=repo)
    assert nothing.returncode == 4 and "hint: " in nothing.stdout


def test_doctor_fixes_what_it_may(
    git_repo: RepoFactory, run_cli: RunCli, tracy: dict[str, str], device: Path
) -> None:
    repo = git_repo({"train.py": script()})
    holder = hold(device / "0")
    try:
        shown = run_cli("doctor", "--fix", cwd=repo, env=tracy)
        assert f"process {holder.pid} of" in shown.stderr + shown.stdout
        assert holder.poll() is None
        run_cli("doctor", "--fix", "--yes", cwd=repo, env=tracy)
        assert holder.wait(HANG_S) is not None
    finally:
        holder.kill()
        holder.communicate()
