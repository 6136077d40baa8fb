"""Scripts that open a real ttnn device, on the vendor's functional simulator of a Wormhole.

Everything above the silicon is real: runtime, dispatch, compiler, kernels, results. Its times are
those of a simulation, so only shares of one step are compared here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, STANDINS, TTSIM, TTSIM_CACHE, TTSIM_PYTHON, RunCli
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.ttsim

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]
LEFT = re.compile(r"^step (\d+): loss ([\d.]+), left ([\d.]+)$", re.MULTILINE)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of tt-metal; what is compiled for one test serves the others."""
    cache = TTSIM_CACHE or str(tmp_path_factory.mktemp("kernels"))
    return {
        "TT_METAL_SIMULATOR": TTSIM,
        "TT_METAL_SLOW_DISPATCH_MODE": "1",
        "TT_METAL_DISABLE_SFPLOADMACRO": "1",
        "TT_METAL_CACHE": cache,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "fixtures" / "ttnn" / "train.py", project)
    return project


@pytest.fixture
def run(run_cli: RunCli, folder: Path, environment: dict[str, str]) -> Run:
    """``instrument run train.py``, into the folder `out` unless another is named."""

    def start(*options: str, script: tuple[str, ...] = (), out: str = "out") -> Done:
        words = ("run", "--python", TTSIM_PYTHON, "--output", folder / out, *options)
        return run_cli(*words, "train.py", *script, cwd=folder, env=environment)

    return start


def events(out: Path, *kinds: str) -> list[dict[str, Any]]:
    lines = (out / "timings.jsonl").read_text(encoding="utf-8").splitlines()
    return [each for each in map(json.loads, lines) if each["event"] in kinds]


def shares_left(log: str) -> list[float]:
    """Of each step: what the script's own wait found left, over the time up to there."""
    return [float(share) for _, _, share in LEFT.findall(log)]


def test_a_step_whose_products_a_device_makes(run: Run, folder: Path) -> None:
    done = run("--steps", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "region verified: forward, backward, optimizer" in said
    # `auto` knows that such a wheel cannot be profiled, and does not look for a device of torch's.
    assert re.search(r"Profiler wallclock: .*libtt_metal\.so is built without Tracy", said)
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["barrier"]["method"] == "ttnn.synchronize_device"
    assert summary["barrier"]["left_ms"] is not None and summary["barrier"]["cost_ms"] is not None
    kinds = [sample["kind"] for sample in events(folder / "out", "sample")]
    assert (kinds[0], kinds[-1]) == ("compile", "steady")
    # The early stop has closed the device: its last word comes before Python's end.
    log = (folder / "out" / "run.log").read_text()
    assert "end of the script" in log and "Closing user mode device drivers" in log


def test_no_time_is_taken_before_the_device_is_idle(
    run: Run, folder: Path, environment: dict[str, str]
) -> None:
    leaving = ("--left", "6")
    plain = subprocess.run(
        [TTSIM_PYTHON, "train.py", "--steps", "6", *leaving],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    # The script by itself leaves work behind; its first step compiles, which takes longer.
    assert statistics.median(shares_left(plain.stdout)[1:]) > 0.05
    done = run("--steps", "5", script=leaving)
    assert done.returncode == 0, done.stdout + done.stderr
    # What is printed behind the region, where the script waits for itself: nothing was left.
    assert statistics.median(shares_left((folder / "out" / "run.log").read_text())) < 0.02
    # The product that stays is in the DRAM of the device at the end of each sample: 64 tiles of
    # 2,048 bytes, which lie in 12 banks, so 6 in the fullest and as much room in each.
    held = [each["memory"] for each in events(folder / "out", "sample")]
    assert {each["held"] for each in held} == {6 * 12 * 2048}
    assert {each["room"] for each in held} == {next(iter(held))["room"]} and held[0]["room"] > 1e10
    # Of L1, in which nothing stays, each of 72 cores has 1.4 MB that can be given out.
    assert {each["held_l1"] for each in held} == {0}
    assert {each["room_l1"] // 72 for each in held} == {1_393_312}
    memory = json.loads((folder / "out" / "summary.json").read_text())["memory"]
    assert (memory["l1_bytes"], memory["l1_room_bytes"]) == (0, 72 * 1_393_312)
    assert len(memory["samples"]) == len(held)


def test_the_programs_of_a_step_are_counted_where_ttnn_keeps_them(run: Run, folder: Path) -> None:
    assert run("--steps", "4", out="with").returncode == 0
    assert run("--steps", "4", out="without", script=("--no-program-cache",)).returncode == 0
    first, *others = events(folder / "with", "sample")
    assert first["compiled"]["ttnn"] > 0
    assert all("compiled" not in sample for sample in others)
    assert all("compiled" not in sample for sample in events(folder / "without", "sample"))


def test_doctor_on_such_an_environment(
    run_cli: RunCli, folder: Path, environment: dict[str, str]
) -> None:
    doctor = ("doctor", "--json", "--python", TTSIM_PYTHON)
    done = run_cli(*doctor, "train.py", cwd=folder, env=environment)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert "simulated" in checks["device"]["text"]
    assert checks["ttnn"]["status"] == "ok" and "pjrt-plugin" not in checks
    assert "built without Tracy" in checks["tracy-build"]["text"]
    missing = {**environment, "TT_METAL_SIMULATOR": str(folder / "none.so")}
    done = run_cli(*doctor, "train.py", cwd=folder, env=missing)
    assert done.returncode == 4 and "none.so, which is not there" in done.stdout


def test_two_runs_at_once(run: Run, folder: Path) -> None:
    """A simulator is a process's own: no run waits for another."""
    assert run("--steps", "3", out="first").returncode == 0  # compiles, into a cache of all
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(lambda out: run("--steps", "3", out=out), ("a", "b"))
    assert [done.returncode for done in both] == [0, 0]
    assert [len(events(folder / out, "sample")) for out in ("a", "b")] == [3, 3]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("--out-of-memory", "the device is out of L1"),
        ("--crash", "the program crashed in native code"),
    ],
)
def test_what_ends_a_run_in_its_middle_is_explained(
    run: Run, run_cli: RunCli, folder: Path, wrong: str, told: str
) -> None:
    done = run("--steps", "8", script=(wrong,))
    assert done.returncode != 0
    assert told in done.stderr
    assert len(events(folder / "out", "sample")) == 4
    again = run_cli("diagnose", folder / "out" / "run.log", cwd=folder)
    assert told in again.stdout


def test_an_interrupt_keeps_what_was_measured(folder: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "instrumentor", "run", "--python", TTSIM_PYTHON]
    command += ["--output", str(folder / "out"), "--steps", "8", "train.py", "--hang"]
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True
    ) as tool:
        log = folder / "out" / "run.log"
        wait_for(lambda: log.is_file() and "hanging in" in log.read_text())
        tool.send_signal(signal.SIGINT)
        _, said = tool.communicate(timeout=HANG_S)
    assert tool.returncode == 130, said
    assert len(events(folder / "out", "sample")) == 4
    (pid,) = map(int, re.findall(r"hanging in (\d+)", log.read_text()))
    assert not Path(f"/proc/{pid}").exists()


def test_a_hang_ends_at_its_limit(run: Run, folder: Path) -> None:
    began = time.monotonic()
    assert run("--steps", "4", out="whole").returncode == 0
    # At this machine's own pace, busy or not, and before the test itself is ended.
    limit_s = min(3 * (time.monotonic() - began) + 20, HANG_S / 2)
    done = run("--steps", "8", "--timeout", f"{limit_s:.0f}", script=("--hang",))
    assert done.returncode != 0 and "hanging in" in (folder / "out" / "run.log").read_text()
    assert len(events(folder / "out", "sample")) == 4


def test_a_build_without_tracy_says_why_it_ends(run: Run, folder: Path) -> None:
    tools = str(STANDINS / "tools-tracy")
    done = run("--profiler", "tracy", "--tracy-tools-folder", tools)
    assert done.returncode != 0
    assert "tt-metal is built without Tracy" in done.stderr
    assert not re.search(r"rtoptions\.cpp:\d+: false", done.stderr)


def test_any_command_on_a_build_without_tracy_is_told_before_and_after(
    run_cli: RunCli, folder: Path, environment: dict[str, str]
) -> None:
    words = ("profile", "--python", TTSIM_PYTHON, "--tracy-tools-folder", STANDINS / "tools-tracy")
    command = ("--", "python", "train.py", "--steps", "2")
    done = run_cli(*words, *command, cwd=folder, env=environment)
    assert done.returncode == 1
    before, _, after = done.stderr.partition("Running python train.py")
    assert "built without Tracy" in before
    assert "error: the script ended with code 1: tt-metal is built without Tracy" in after
    # The script has ended, and nobody waits two minutes for a client that never was.
    assert "so there was no Tracy client" in after
    assert not (folder / "results" / "perf" / "device_ops_perf_trace.csv").exists()


def test_a_log_at_its_default_levels_names_no_failure(
    run_cli: RunCli, folder: Path, environment: dict[str, str]
) -> None:
    with (folder / "good.log").open("w") as log:
        subprocess.run(
            [TTSIM_PYTHON, "train.py", "--steps", "2"],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=HANG_S,
            check=True,
        )
    done = run_cli("diagnose", "good.log", cwd=folder)
    assert (done.returncode, done.stdout.strip()) == (0, "This log shows no error.")
