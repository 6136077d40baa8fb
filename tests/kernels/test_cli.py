"""`instrument kernel` as a subprocess: words, exit codes, JSON, help."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RunCli, git
from tests.kernels.conftest import Environment
from tests.kernels.scripts import ROOT
from tests.waiting import HANG_S

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kernel(run_cli: RunCli, kernels: Path, standin: Environment) -> Cli:
    """`instrument kernel` in the repository of kernels; the stand-in's failures by name."""

    def call(*words: object, failures: str = "") -> subprocess.CompletedProcess[str]:
        return run_cli("kernel", *map(str, words), cwd=kernels, env=standin(failures))

    return call


def test_explain(kernel: Cli) -> None:
    done = kernel("explain", "scale_multicore.py")
    assert done.returncode == 0
    assert "scale_multicore.py:12: @ttl.kernel _scale, grid 'auto'" in done.stdout
    assert "call 1: _scale(a, out)  [runs]" in done.stdout
    assert "reached from line 49: scale(once)" in done.stdout
    assert "a: 1024 x 1024, bfloat16, DRAM" in done.stdout


def test_explain_of_several_kernels_says_what_to_type(kernel: Cli) -> None:
    done = kernel("explain", "two_kernels.py")
    assert done.returncode == 3
    assert "declined:" in done.stdout
    assert "hint: Choose one: --kernel scores." in done.stdout
    done = kernel("explain", "--json", "--kernel", "apply", "two_kernels.py")
    assert json.loads(done.stdout)["chosen"]["kernel"] == "apply"
    declined = kernel("explain", "--json", "two_kernels.py")
    assert json.loads(declined.stdout)["declined"][0]["kind"] == "several-kernels"


def test_explain_diff(kernel: Cli) -> None:
    done = kernel("explain", "--diff", "loop.py")
    assert done.stdout.startswith("--- a/")
    assert "+    state = _instrument_gate.at(1, step)(state, out)" in done.stdout


def test_run_prints_the_bottleneck_and_the_next_command(kernel: Cli, kernels: Path) -> None:
    validate = ("--validate", f"{sys.executable} -c pass")
    done = kernel("run", *validate, "--production-shape", "32768x32768", "add_one_core.py")
    assert done.returncode == 0, done.stderr
    assert "Bottleneck  the kernel runs on a single core  [use all cores]" in done.stdout
    assert "the test data fits L1, production's does not" in done.stdout
    shape = "--production-shape 32768x32768"
    again = f"instrument kernel iterate --validate '{validate[1]}' {shape} add_one_core.py"
    assert f"Next: {again}\n" in done.stderr
    assert "Validated by" in done.stderr
    report = kernel("report", "instrument-runs/add_one_core_kernel-1", "--json")
    assert json.loads(report.stdout)["wall_time_us"] == pytest.approx(123.6)
    log = kernels / "instrument-runs/add_one_core_kernel-1" / "run.log"
    page = kernels / "page.html"
    assert kernel("report", log, "--html", page).returncode == 0
    assert "<svg" in page.read_text()
    again = kernel("report", log, "--html", page)
    assert (again.returncode, again.stdout) == (2, "") and "page.html exists" in again.stderr
    forced = kernel("report", log, "--html", page, "--force")
    assert forced.returncode == 0


def test_a_failed_validation_is_exit_code_1(kernel: Cli) -> None:
    done = kernel("run", "--json", "--validate", f"{sys.executable} -c 'exit(1)'", "loop.py")
    assert done.returncode == 1
    assert json.loads(done.stdout)["validated"] is False
    assert "error: the validation failed" in done.stderr


def test_a_failed_run_shows_what_was_printed(kernel: Cli) -> None:
    done = kernel("run", "--mode", "auto-profile", "add_one_core.py", failures="die")
    assert done.returncode == 1
    assert "without the THREAD SUMMARY that follows" in " ".join(done.stdout.split())
    assert "the script ended with code 7" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--mode", "fast", "loop.py"], "must be one of auto-profile, perf, signposts"),
        (["run", "none.py"], "no such file"),
        (["run", "--kernel", "x", "loop.py"], "no such kernel"),
        (["run", "--reference", "r.npy", "loop.py"], "belong together"),
        (["report", "."], "no run.log"),
        (["iterate", "--mode", "signposts", "loop.py"], "no wall time"),
        (["run", "--production-shape", "ax", "loop.py"], "expected ROWSxCOLS"),
    ],
)
def test_usage_errors(kernel: Cli, kernels: Path, arguments: list[str], words: str) -> None:
    done = kernel(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert git(kernels, "status", "--porcelain") == ""


def test_iterate_once_then_restore(kernel: Cli, kernels: Path) -> None:
    script = kernels / "add_one_core.py"

    def once(before: str, after: str) -> subprocess.CompletedProcess[str]:
        script.write_text(script.read_text().replace(before, after))
        return kernel("iterate", "--once", "--repeat", "4", script.name)

    first = once("", "")
    assert first.returncode == 0, first.stderr
    assert "nothing validates the kernel" in first.stderr
    assert "change: Distribute the blocks" in first.stderr  # before anything is edited
    second = once("BLOCK = 1", "BLOCK = 2")
    assert "version 2: FASTER, 43.4 us" in second.stdout
    assert "Speed-up  2.85x" in second.stdout
    third = once("a_block + b_block", "a_block + a_block")
    assert third.returncode == 1
    assert "version 3: WRONG RESULT, its time does not count" in third.stdout
    assert "instrument kernel iterate --restore" in third.stderr
    restored = kernel("iterate", "--restore", script.name)
    assert "Restored version 2" in restored.stderr
    assert "a_block + b_block" in script.read_text()


def test_iterate_watches_until_interrupted(kernels: Path, standin: Environment) -> None:
    script = kernels / "loop.py"
    process = subprocess.Popen(
        [sys.executable, "-m", "instrumentor", "kernel", "iterate", "--repeat", "1", script.name],
        cwd=kernels,
        env={**os.environ, **standin(), "PYTHONPATH": f"{standin()['PYTHONPATH']}:{ROOT}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    seen: list[str] = []
    limit = time.monotonic() + 120
    edited = False
    for line in process.stderr:
        seen.append(line)
        if line.startswith("Edit ") and edited:
            process.send_signal(signal.SIGINT)
            break
        if line.startswith("Edit "):
            script.write_text(script.read_text().replace("shape=(2, 2)", "shape=(4, 4)"))
            edited = True
        assert time.monotonic() < limit
    out, rest = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, "".join(seen) + rest
    assert any("version 2: no significant difference" in line for line in seen)
    assert "Baseline" in out
    assert "version 2" in out
