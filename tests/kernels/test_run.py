"""One invocation in a real process, with the stand-in for tt-lang: every mode, every failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instrumentor.kernels.options import Choice, Criteria, KernelOptions
from instrumentor.kernels.run import KernelRun, run_kernel
from instrumentor.machine.device_locks import LOCKS, held
from instrumentor.shared.errors import NotReady, RunFailed, UsageError
from instrumentor.workspace.folder_roles import is_our_run
from tests.conftest import RunCli, git
from tests.kernels.conftest import Environment


class Here:
    """The repository of kernels, and how they are measured in it."""

    def __init__(self, folder: Path, standin: Environment) -> None:
        self.folder, self.env = folder, standin()

    def measure(self, name: str, failures: str = "", **options: Any) -> KernelRun:
        env = {**self.env, "STANDIN_TTL": failures}
        return run_kernel(
            name, (), KernelOptions(cwd=self.folder, env=env, run_test="no", **options)
        )

    def failed(self, name: str, failures: str = "", **options: Any) -> RunFailed:
        with pytest.raises(RunFailed) as caught:
            self.measure(name, failures, **options)
        return caught.value

    def edit(self, name: str, before: str, after: str) -> None:
        text = (self.folder / name).read_text()
        assert before in text
        (self.folder / name).write_text(text.replace(before, after, 1))

    def put_standin_beside(self) -> None:
        """In the folder of the scripts, where Python finds it without PYTHONPATH."""
        for name in ("ttl", "ttnn"):
            (self.folder / name).symlink_to(Path(self.env["PYTHONPATH"]) / name)
        self.env["PYTHONPATH"] = ""


@pytest.fixture
def here(kernels: Path, standin: Environment) -> Here:
    return Here(kernels, standin)


def events(run: KernelRun, kind: str) -> list[dict[str, Any]]:
    lines = (run.folder / "kernel.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


# -- the device ---------------------------------------------------------------------------------

# Leaves with code 0 where another process holds the lock.
_TAKEN = """
import fcntl, sys
try:
    fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(0)
sys.exit("the device is free")
"""


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """A device node; its lock is removed afterwards."""
    node = tmp_path / "dev" / "0"
    node.parent.mkdir()
    node.touch()
    yield node
    lock_of(node).unlink(missing_ok=True)


def lock_of(device: Path) -> Path:
    return LOCKS / f"instrument-{'-'.join(device.parts[1:])}.lock"


def test_a_kernel_runs_on_a_device_that_no_other_run_has(here: Here, device: Path) -> None:
    here.env["INSTRUMENT_DEVICE_ROOT"] = str(device.parent)
    with held([device]), pytest.raises(NotReady, match=f"Another run uses {device}"):
        here.measure("add_one_core.py")
    assert not (here.folder / "instrument-runs/add_one_core_kernel-1").exists()
    taken = Criteria((sys.executable, "-c", _TAKEN, str(lock_of(device))))
    run = here.measure("add_one_core.py", criteria=taken)
    assert run.verdict is not None and run.verdict.ok, run.verdict
    with held([device]):  # given back
        pass


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_kernel_that_fails_is_told_in_the_users_own_lines(here: Here) -> None:
    error = here.failed("add_one_core.py", "fail")
    assert "TT_FATAL: kernel add could not be compiled" in error.message
    assert f'File "{here.folder}/add_one_core.py", line 49, in <module>' in error.message
    assert "in called" not in error.message
    assert "shadows" not in error.message


def test_the_output_is_kept_when_the_watching_process_is_killed(here: Here) -> None:
    killing = "print('so far', flush=True)\nos.kill(os.getppid(), signal.SIGKILL)\n"
    script = here.folder / "loop.py"
    script.write_text(f"import os, signal\n{killing}{script.read_text()}")
    error = here.failed("loop.py")
    log = here.folder / "instrument-runs/loop_kernel-1" / "run.log"
    assert str(log) in error.hint
    assert "so far" in log.read_text()


def test_a_run_that_dies_keeps_what_it_printed(here: Here) -> None:
    partial: KernelRun = here.failed("add_one_core.py", "die", mode="auto-profile").result
    assert partial.report.facts.lines
    assert "without the THREAD SUMMARY" in partial.report.warnings[-1]
    assert (partial.folder / "summary.json").is_file()


def test_what_a_script_writes_through_a_link_is_told(here: Here) -> None:
    (here.folder / "data").mkdir()
    (here.folder / "data" / "x.bin").write_bytes(b"mine")
    (here.folder / ".gitignore").write_text("data/\n")
    here.edit(
        "add_one_core.py", "import ttl\n", "import ttl\nopen('data/x.bin', 'w').write('no')\n"
    )
    run = here.measure("add_one_core.py")
    assert run.users_files.linked_changed == (Path("data/x.bin"),)
    assert any("changed during the run: data/x.bin" in text for text in run.report.warnings)
    assert not here.measure("loop.py").users_files.linked_changed


def test_sigterm_during_the_validation_keeps_what_was_measured(here: Here, run_cli: RunCli) -> None:
    # The command ends what started the guards that it hangs on.
    code = (
        "import os, psutil, signal, time; guards = psutil.Process().parent().parent(); "
        "os.kill(guards.ppid(), signal.SIGTERM); time.sleep(3600)"
    )
    asked = ("--run-test", "no", "--validate", f"{sys.executable} -c '{code}'")
    done = run_cli("kernel", "run", *asked, "add_one_core.py", cwd=here.folder, env=here.env)
    assert done.returncode == 130, done.stderr
    assert "interrupted during the validation" in done.stderr
    folder = here.folder / "instrument-runs/add_one_core_kernel-1"
    assert (folder / "run.json").is_file() and (folder / "summary.json").is_file()


def test_a_validation_that_cannot_start_keeps_what_was_measured(here: Here) -> None:
    nowhere = Criteria(("/nowhere/check",))
    with pytest.raises(UsageError, match="--validate: /nowhere/check could not be") as caught:
        here.measure("add_one_core.py", criteria=nowhere)
    partial: KernelRun = caught.value.result
    assert partial.report.wall_us and (partial.folder / "run.json").is_file()


def test_a_script_that_writes_into_its_original_is_told(here: Here, run_cli: RunCli) -> None:
    script = here.folder / "add_one_core.py"
    script.write_text(script.read_text() + f"\nopen({str(script)!r}, 'a').write('# more')\n")
    done = run_cli("kernel", "run", "--run-test", "no", script, cwd=here.folder, env=here.env)
    assert done.returncode == 0, done.stderr
    assert "your files changed during the run: see above" in done.stdout + done.stderr


def test_nothing_printed_and_a_stale_device_log(here: Here, tmp_path: Path) -> None:
    logs = tmp_path / "tt-metal" / "generated" / "profiler" / ".logs"
    logs.mkdir(parents=True)
    stale = logs / "profile_log_device.csv"
    stale.write_text("of another kernel\n")
    os.utime(stale, (1, 1))
    assert "none of tt-lang's profiles" in here.failed("loop.py", "silent").message
    assert not list(here.folder.glob("*/profile_log_device.csv"))


@pytest.mark.parametrize(
    ("missing", "options", "said", "hint"),
    [
        ("TT_METAL_HOME", {"mode": "perf"}, "TT_METAL_HOME is not set", "export TT_METAL_HOME="),
        ("TT_METAL_HOME", {"mode": "auto-profile"}, "TT_METAL_HOME is not", "export TT_"),
        ("PYTHONPATH", {}, r"ttl \(tt-lang\) is not installed in ", "--python"),
    ],
)  # fmt: skip
def test_without_what_it_needs_nothing_starts(
    here: Here, missing: str, options: dict[str, Any], said: str, hint: str
) -> None:
    here.env[missing] = ""
    before = sorted(here.folder.iterdir())
    with pytest.raises(NotReady, match=said) as caught:
        here.measure("loop.py", **options)
    assert hint in caught.value.hint
    assert sorted(here.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("range(STEPS)", "range(0)", "the chosen invocation of step (line 34) never ran"),
        ("STEPS = 5", "import os\n\nSTEPS = 1\nos.fork()", "2 invocations ran, in 2 processes"),
        ("device = ", "import time\ntime.sleep(60)\ndevice = ", "--timeout 5 s"),
    ],
)
def test_not_exactly_one_invocation(here: Here, before: str, after: str, said: str) -> None:
    here.edit("loop.py", before, after)
    limit_s = 5.0 if "timeout" in said else None
    assert said in here.failed("loop.py", timeout_s=limit_s).message


# -- what goes well -------------------------------------------------------------------------------


def test_one_call_of_a_loop(here: Here) -> None:
    run = here.measure("loop.py")
    assert len(events(run, "kernel-start")) == 1
    assert events(run, "kernel-count")[0]["skipped"] == {"step at [1]": 4}
    assert run.script_exit_code == 0
    assert "step 4" in (run.folder / "run.log").read_text()
    assert [a.shape for a in run.report.facts.arguments] == [(512, 512), (512, 512)]
    assert git(here.folder, "status", "--porcelain") == ""


def test_the_chosen_call_of_a_wrapper(here: Here) -> None:
    run = here.measure("scale_multicore.py", mode="signposts", choice=Choice("_scale", 2))
    assert events(run, "kernel-start")[0]["path"] == [3, 1]
    assert [row.name for row in run.report.facts.log.signposts] == ["math"]


def test_the_chosen_call_of_a_factory(here: Here) -> None:
    run = here.measure("factory.py", choice=Choice("relu", 3))
    assert events(run, "kernel-start")[0]["path"] == [3]
    assert run.report.to_json()["invocation"]["number"] == 3


def test_perf_mode_names_the_single_core(here: Here) -> None:
    run = here.measure("add_one_core.py")
    document = json.loads((run.folder / "summary.json").read_text())
    assert document["bottleneck"]["kind"] == "single-core"
    assert document["wall_time_us"] == pytest.approx(123.6)
    assert document["program"]["dram_read"] == {"bytes": 262144, "transfers": 128}
    assert document["buffers"][0]["copies"][0]["line"] == 25  # of the user's file, not the copy's
    assert "<svg" in (run.folder / "report.html").read_text()
    assert document["rerun"].endswith(f"python {here.folder}/add_one_core.py")


def test_auto_profile_maps_lines_to_the_users_file(here: Here) -> None:
    run = here.measure("add_one_core.py", mode="auto-profile")
    source = (here.folder / "add_one_core.py").read_text().splitlines()
    for row in run.report.facts.lines:
        assert source[row.line - 1].strip() == row.source.strip()
    assert run.report.facts.log.roofline is not None
    assert run.report.facts.device is not None


def test_older_spellings_end_to_end(here: Here) -> None:
    run = here.measure("add_one_core.py", "old")
    titles = [section.title for section in run.report.facts.log.sections]
    assert titles == ["NOC PROFILER SUMMARY", "CB FLOW GRAPH", "PIPE GRAPH"]


@pytest.mark.parametrize(
    ("name", "failures", "mode", "kind"),
    [
        ("unequal.py", "", "auto-profile", "unequal-counts"),
        ("add_one_core.py", "drop", "auto-profile", "dropped-markers"),
        ("loop.py", "twice", "perf", "several-outputs"),
    ],
)
def test_what_a_profile_shows(here: Here, name: str, failures: str, mode: str, kind: str) -> None:
    run = here.measure(name, failures, mode=mode)
    assert kind in [finding.kind for finding in run.report.found]


def test_forbidden_variables_do_not_reach_the_run(here: Here) -> None:
    here.env |= {"TTLANG_PERF_SERV": "1", "TTLANG_AUTO_PROFILE": "1"}
    run = here.measure("loop.py", timeout_s=30.0)
    assert any("TTLANG_PERF_SERV was taken out" in w for w in run.report.warnings)
    assert run.report.facts.log.threads == ()


def test_checks_of_the_script_after_held_back_calls_say_nothing(here: Here) -> None:
    run = here.measure("two_kernels.py", choice=Choice("apply"))
    assert run.script_exit_code == 1
    assert run.valid
    assert any("its own checks do not count" in w for w in run.report.warnings)
    assert "kernels-chained" in [f.kind for f in run.report.found]


def test_checks_of_the_script_count_when_nothing_was_held_back(here: Here) -> None:
    here.edit("add_one_core.py", "a_block + b_block", "a_block + a_block")
    run = here.measure("add_one_core.py")
    assert not run.valid
    assert run.report.to_json()["validated"] is False


def test_validation_by_command_and_by_reference(here: Here) -> None:
    wrong = here.folder / "wrong.npy"
    np.save(wrong, np.full((256, 256), 4.0))
    both = Criteria((sys.executable, "-c", "pass"), wrong, Path("add_out.npy"))
    verdict = here.measure("add_one_core.py", criteria=both).verdict
    assert verdict is not None and not verdict.ok
    assert "65,536 of 65,536 elements differ" in verdict.detail


def test_the_command_by_hand_runs_one_call(here: Here) -> None:
    run = here.measure("loop.py")
    assert "TTLANG_PERF_DUMP" not in run.report.rerun
    command = ["sh", "-c", run.report.rerun.replace(" python ", f" {sys.executable} ")]
    # It sets PYTHONPATH for the script's own folder; the stand-in is found beside it.
    here.put_standin_beside()
    done = subprocess.run(command, env=here.env, cwd=here.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("THREAD SUMMARY") == 1


def test_run_test_sh_is_used_and_its_events_come_from_the_log(here: Here, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "run-test.sh"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\n[ \"$1 $2 $3\" = '-v --perf --hw' ] || exit 9\n"
        '[ -z "$INSTRUMENT_RECORD" ] || exit 8\n'
        f'echo "Runner: hardware"; exec {sys.executable} "$4"\n'
    )
    tool.chmod(0o755)
    env = {**here.env, "PATH": f"{tool.parent}:/usr/bin:/bin"}
    run = run_kernel("loop.py", (), KernelOptions(cwd=here.folder, env=env))
    assert json.loads((run.folder / "run.json").read_text())["via"] == str(tool)
    assert is_our_run(str(run.folder)), "the next run would copy it"
    assert len(events(run, "kernel-start")) == 1
    assert run.report.wall_us


def test_kernels_of_a_module_of_the_project(here: Here) -> None:
    here.put_standin_beside()
    head = (here.folder / "loop.py").read_text().partition("device = ")[0]
    (here.folder / "ops.py").write_text(head)
    (here.folder / "bench.py").write_text(
        "import ttnn\nfrom ops import step\n\n"
        "a = ttnn.ones((64, 64), dtype=ttnn.bfloat16)\n"
        "for _ in range(3):\n    step(a, a)\n"
    )
    run = here.measure("bench.py")
    assert len(events(run, "load")) == 2
    assert events(run, "kernel-count")[0]["ran"] == 1
    assert (here.folder / "ops.py").read_text() == head


def test_a_kernel_that_only_its_module_calls(here: Here) -> None:
    here.put_standin_beside()
    head = (here.folder / "loop.py").read_text().partition("device = ")[0]
    repeated = "\n\ndef repeated(a):\n    for _ in range(3):\n        step(a, a)\n"
    (here.folder / "ops.py").write_text(head + repeated)
    (here.folder / "bench.py").write_text(
        "import ttnn\nfrom ops import repeated\n\n"
        "repeated(ttnn.ones((64, 64), dtype=ttnn.bfloat16))\n"
    )
    run = here.measure("bench.py")
    assert events(run, "kernel-count")[0]["ran"] == 1
    assert run.report.rerun.endswith(f"python {here.folder / 'bench.py'}")
