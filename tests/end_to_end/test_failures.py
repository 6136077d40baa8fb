"""Runs that do not end well: exit codes, what is kept, what is said, and never a trace."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import (
    interrupt_after_samples,
    processes_with,
    read,
    records,
    script,
    snapshot,
    start,
)
from tests.waiting import wait_for
from tests.warned import texts

SLOW = script().replace("time.sleep(0.002)", "time.sleep(0.05)")


def test_the_code_of_a_failing_script_stands_in_the_summary(measured: Measure) -> None:
    ran = measured(script(loop="if batch == 2:\n    raise ValueError('lost it')"))
    assert ran.code == 1
    assert "error: the script ended with code 1" in ran.err
    assert "ValueError: lost it" in ran.err
    assert "Kept in instrument-runs/repo-1/" in ran.err
    assert "instrument-runs/repo-1/run.log" in ran.err
    assert " ms, median of 2 steps, " in ran.out
    summary = read(ran.folder)
    assert (summary["script_exit_code"], summary["partial"]) == (1, True)
    assert summary["wall_clock_ms"]["samples"] == 2
    assert read(ran.folder, "run.json")["script_exit_code"] == 1


def test_latest_and_hints_lead_to_runs_with_figures(
    git_repo: RepoFactory, measure: Measure, run_cli: RunCli
) -> None:
    mistyped = "import sys\nif sys.argv[1:]:\n    raise SystemExit('no such option')"
    repo = git_repo({"train.py": script(before=mistyped)})
    runs = repo / "instrument-runs"
    assert measure(repo, "train.py", "--itrs", "3").code == 1
    assert not (runs / "latest").exists()
    assert measure(repo, "train.py", folder="instrument-runs/repo-2").code == 0
    assert measure(repo, "train.py", "--itrs", "3", folder="instrument-runs/repo-3").code == 1
    assert (runs / "latest").resolve() == runs / "repo-2"
    hint = run_cli("report", "nope", cwd=repo).stderr.partition("hint: ")[2]
    assert "instrument-runs/repo-2" in hint and "-1" not in hint and "-3" not in hint


@pytest.mark.parametrize("profiler", ["wallclock", "torch", "tracy"])
def test_a_script_that_fails_before_its_loop_has_a_summary_all_the_same(
    measured: Measure, tracy: dict[str, str], profiler: str
) -> None:
    ran = measured(script(before="sys.exit(7)"), profiler=profiler, env=tracy)
    assert ran.code == 1
    assert "the script ended with code 7" in ran.err
    summary = read(ran.folder)
    assert (summary["profiler"], summary["script_exit_code"]) == (profiler, 7)
    assert summary["wall_clock_ms"]["median"] is None
    assert summary["wall_clock_ms"]["samples"] == 0
    assert read(ran.folder, "run.json")["script_exit_code"] == 7
    assert "Nothing was measured\n" in ran.err and "wall clock" not in ran.err
    shown = f"instrument-runs/{ran.folder.name}"
    assert f"Kept in {shown}/: the script's output, run.log\n" in ran.err


def test_the_exit_code_of_a_script_that_was_measured_counts(measured: Measure) -> None:
    ran = measured(script(after="print('almost')\nsys.exit(9)"), "--json")
    assert ran.code == 1
    assert "the script ended with code 9; its last lines:" in ran.err
    summary = read(ran.folder)
    assert (summary["script_exit_code"], summary["wall_clock_ms"]["samples"]) == (9, 4)


def test_a_traceback_is_told_in_the_users_own_files_and_lines(
    git_repo: RepoFactory, measure: Measure
) -> None:
    source = script(loop="if batch == 2:\n    raise ValueError('boom')")
    repo = git_repo({"train.py": source})
    line = source.splitlines().index("            raise ValueError('boom')") + 1
    ran = measure(repo, "train.py")
    assert ran.code == 1
    assert f'File "train.py", line {line}, in train' in ran.err
    assert ran.err.rstrip().endswith(f"run.log. The script raised it at train.py:{line}.")
    assert "shadows" not in ran.err.partition("error:")[2]
    # The output as it was stands in the log.
    assert "shadows" in (ran.folder / "run.log").read_text()


@pytest.mark.parametrize("steps", [(), ("--steps", "9")], ids=["budget", "steps"])
def test_a_script_that_fails_in_its_warm_up_shows_its_own_traceback(
    git_repo: RepoFactory, measure: Measure, steps: tuple[str, ...]
) -> None:
    repo = git_repo({"train.py": script(loop="if batch == 1:\n    raise ValueError('boom')")})
    ran = measure(repo, *steps, "train.py")
    assert ran.code == 1
    assert ran.err.partition("error: ")[2].partition("hint: ")[0].endswith("ValueError: boom\n")
    assert "division by zero" not in ran.err


def test_a_script_that_is_killed(measured: Measure) -> None:
    crash = "if batch == 3:\n    os.kill(os.getpid(), 11)"
    ran = measured(script(loop=crash))
    assert ran.code == 1
    assert "signal 11" in ran.err
    assert read(ran.folder)["wall_clock_ms"]["samples"] == 3


def test_data_that_runs_out_is_said(measured: Measure) -> None:
    ran = measured(script(batches=3))
    assert ran.code == 0, ran.err
    summary = read(ran.folder)
    assert summary["wall_clock_ms"]["samples"] == 2
    assert any("3 of 5 samples" in warning for warning in texts(summary["warnings"]))
    assert "3 of 5 samples" in " ".join(ran.out.split())


def test_a_loop_that_never_runs(measured: Measure) -> None:
    ran = measured(script(batches=0))
    assert ran.code == 1
    assert "without running the loop at train.py:34" in ran.err
    assert "give the arguments with which it trains" in ran.err
    assert read(ran.folder)["script_exit_code"] == 0


@pytest.mark.parametrize("where", ["before", "loop"])
def test_a_script_that_stops_the_clock_is_not_believed(measured: Measure, where: str) -> None:
    """As freezegun does: the steps would take 0 ms."""
    ran = measured(script(**{where: "import time\ntime.perf_counter = lambda: 5.0"}))
    assert ran.code == 1
    assert "error: the clock stood still or went back at step_" in ran.err
    assert "time.perf_counter" in ran.err
    summary = read(ran.folder)
    assert (summary["wall_clock_ms"]["samples"], summary["verification"]) == (0, None)
    assert "region verified" not in ran.out


def test_a_time_limit(measured: Measure) -> None:
    ran = measured(script(loop="if batch == 2:\n    time.sleep(3600)"), "--timeout", "5")
    assert ran.code == 1
    assert "did not end within --timeout 5 s" in ran.err
    # Two, unless the machine was so busy that the limit came before them.
    steady = [r for r in records(ran.folder, "sample") if r["kind"] == "steady"]
    assert read(ran.folder)["wall_clock_ms"]["samples"] == len(steady)


@pytest.mark.parametrize(
    ("number", "profiler"), [(signal.SIGINT, "tracy"), (signal.SIGTERM, "wallclock")]
)
def test_an_interrupted_run_keeps_what_was_measured(
    git_repo: RepoFactory, tracy: dict[str, str], number: int, profiler: str
) -> None:
    repo = git_repo({"train.py": SLOW})
    before = snapshot(repo)
    process = start(
        *("run", "--profiler", profiler, "--steps", "1000", "train.py"), cwd=repo, env=tracy
    )
    folder = repo / "instrument-runs/repo-1"
    out, err = interrupt_after_samples(process, folder, 3, number)
    assert process.returncode == 130, err
    assert "\nfwd+bwd  " in out
    assert "Traceback" not in err
    assert "error: interrupted" in err and (out + err).count("interrupted") == 1
    summary = read(folder)
    assert (summary["interrupted"], summary["partial"]) == (True, True)
    assert summary["wall_clock_ms"]["samples"] >= 2
    after = snapshot(repo)
    assert {name: after[name] for name in before} == before
    shadows = Path(os.environ["INSTRUMENT_CACHE"]) / "shadows"
    assert not list(shadows.glob("*"))
    assert processes_with(str(shadows)) == []


def test_a_killed_tool_leaves_no_process_and_the_next_start_sweeps(
    git_repo: RepoFactory, measure: Measure, run_cli: RunCli
) -> None:
    repo = git_repo({"train.py": SLOW})
    before = snapshot(repo)
    process = start("run", "--profiler", "wallclock", "--steps", "1000", "train.py", cwd=repo)
    folder = repo / "instrument-runs/repo-1"
    interrupt_after_samples(process, folder, 2, signal.SIGKILL)
    shadows = Path(os.environ["INSTRUMENT_CACHE"]) / "shadows"
    wait_for(lambda: not processes_with(str(shadows)))
    after = snapshot(repo)
    assert {name: after[name] for name in before} == before
    assert list(shadows.glob("*"))

    reported = run_cli("report", "instrument-runs/repo-1", cwd=repo)
    assert reported.returncode == 0, reported.stderr
    assert "Wall clock" in reported.stdout
    assert read(folder)["partial"] is True

    ran = measure(repo, "train.py", folder="instrument-runs/repo-2")
    assert ran.code == 0, ran.err
    assert "Copied 1 file" in ran.err


DECLINED = {
    "no loop": ("print('hello')\n", "no"),
    "lightning": ("import lightning as L\n\n\nclass M(L.LightningModule):\n"
                  "    def training_step(self, b):\n        return b\n\n\n"
                  "L.Trainer().fit(M())\n", "ightning"),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(DECLINED))
def test_declined(measured: Measure, case: str) -> None:
    source, word = DECLINED[case]
    ran = measured(source, "--no-discover")
    assert ran.code == 3
    assert "train.py:" in ran.err
    assert word in ran.err
    assert not ran.folder.exists()


def test_a_declined_script_that_fails_by_itself_is_no_decline(measured: Measure) -> None:
    """It is run to find its step, and cannot be."""
    ran = measured(DECLINED["lightning"][0].replace("lightning", "pytorch_lightning"))
    assert ran.code == 1
    assert "the script ended with code 1: a module is missing" in ran.err
    assert (
        "The error is the script's own, raised at train.py:1: it ran without any edit." in ran.err
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("missing.py",), "missing.py: no such file"),
        (("--steps", "1", "train.py"), "--steps 1 leaves no steady step"),
        (("--steps", "many", "train.py"), "Invalid value for '--steps'"),
        (("--scope", "all", "train.py"), "must be one of"),
        (("--profiler", "perf", "train.py"), "must be one of"),
        (("--label", "a/b", "train.py"), "must be a plain name"),
        (("--loop", "train.py", "train.py"), "expected FILE:LINE"),
        (("--loop", "train.py:3", "train.py"), "no training loop starts there"),
        (("--timeout", "0", "train.py"), "must be above 0"),
        (("--skip", "nothing", "train.py"), "no pass is called 'nothing'"),
        (("--python", "no-python-here", "train.py"), "there is no such interpreter"),
        (("--tt-xla", "nowhere", "train.py"), "does not exist"),
        (("--tracy-tools-folder", ".", "train.py"), "in it"),
        (("--link", "nowhere", "train.py"), "nowhere"),
        (("--surprise", "train.py"), "--surprise"),
        ((), "no script was given"),
    ],
)
def test_usage(git_repo: RepoFactory, run_cli: RunCli, arguments: tuple[str, ...],
               said: str) -> None:  # fmt: skip
    repo = git_repo({"train.py": script()})
    done = run_cli("run", *arguments, cwd=repo)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [p.name for p in repo.iterdir() if p.name != ".git"] == ["train.py"]


@pytest.mark.parametrize("profiler", ["tracy", "torch"])
def test_the_machine_is_not_ready_for_a_profiler(
    measured: Measure, tracy: dict[str, str], bare_python: Path, profiler: str
) -> None:
    ran = measured(script(), "--python", bare_python, profiler=profiler)
    assert ran.code == 4
    assert f"{profiler} is not installed in" in ran.err
    assert "hint: " in ran.err
    assert not ran.folder.exists()


def test_missing_tracy_tools(measured: Measure, tracy: dict[str, str]) -> None:
    del tracy["INSTRUMENT_TRACY_TOOLS_FOLDER"]
    ran = measured(script(), profiler="tracy", env=tracy)
    assert ran.code in (1, 4)
    assert "tools" in ran.err
    assert "hint: " in ran.err


def test_a_profile_without_device_operations_is_not_believed(
    measured: Measure, tracy: dict[str, str]
) -> None:
    env = {**tracy, "STANDIN_TRACY_FAIL": "no-ops"}
    ran = measured(script(), profiler="tracy", env=env)
    assert ran.code == 1
    assert "no operation on a device" in ran.err
    summary = read(ran.folder)
    assert summary["device_time_ms"] is None
    assert summary["wall_clock_ms"]["samples"] == 4


@pytest.mark.parametrize("profiler", ["", "wallclock", "tracy"])
def test_an_interpreter_without_anything_of_ours(
    measured: Measure, tracy: dict[str, str], bare_python: Path, profiler: str
) -> None:
    without = "try:\n    import instrumentor\nexcept ImportError:\n    print('not here')\n"
    env = tracy if profiler == "tracy" else None
    ran = measured(script(before=without), "--python", bare_python, profiler=profiler, env=env)
    assert ran.code == 0, ran.err
    assert "not here" in ran.log
    assert read(ran.folder)["profiler"] == (profiler or "wallclock")
    assert read(ran.folder, "run.json")["python"] == str(bare_python)


def test_a_script_without_its_torch_is_not_started(measured: Measure, bare_python: Path) -> None:
    ran = measured(script(before="import torch"), "--python", bare_python, profiler="")
    assert ran.code == 4
    assert f"not ready: no torch in {bare_python}" in ran.err and "--python PATH" in ran.err
    assert not ran.folder.parent.exists()


def test_the_copy_must_have_run(git_repo: RepoFactory, measure: Measure, bare_python: Path) -> None:
    """An import hook, as an editable install may have one, leads to the user's own file."""
    library = script().replace('if __name__ == "__main__":\n    main()\n', "")
    repo = git_repo({"trainer.py": library, "train.py": "import trainer\n\ntrainer.main()\n"})
    (site,) = (bare_python.parent.parent / "lib").glob("python*/site-packages")
    (site / "own_finder.py").write_text(
        "import importlib.util, sys\n\n\nclass Finder:\n"
        "    @staticmethod\n    def find_spec(name, path=None, target=None):\n"
        "        if name == 'trainer':\n"
        f"            own = {str(repo / 'trainer.py')!r}\n"
        "            return importlib.util.spec_from_file_location(name, own)\n"
        "\n\nsys.meta_path.insert(0, Finder)\n"
    )
    (site / "own.pth").write_text("import own_finder\n")
    short = library.replace("train(1000)", "train(20)")
    (repo / "trainer.py").write_text(short)
    subprocess.run(["git", "commit", "-qam", "Short"], cwd=repo, check=True)
    ran = measure(repo, "--python", bare_python, "train.py")
    assert ran.code == 1
    assert "its copy never ran" in ran.err
    assert "your own trainer.py was imported instead" in ran.err


WORKERS = {
    "spawn": script(
        imports="import multiprocessing\n",
        before="with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "    print('workers', sorted(pool.map(abs, [-1, -2])))",
    ),
    "fork": script(
        imports="import multiprocessing\n",
        loop="child = multiprocessing.get_context('fork').Process(target=model, args=(1,))\n"
        "child.start()\nchild.join()",
    ),
}


@pytest.mark.parametrize("method", sorted(WORKERS))
@pytest.mark.parametrize("profiler", ["wallclock", "tracy"])
def test_workers_never_record(
    measured: Measure, tracy: dict[str, str], method: str, profiler: str
) -> None:
    ran = measured(WORKERS[method], profiler=profiler, env=tracy)
    assert ran.code == 0, ran.err
    assert len({record["pid"] for record in records(ran.folder)}) == 1
    assert len(records(ran.folder, "load")) == 1
    assert not any(
        "processes recorded" in warning for warning in texts(read(ran.folder)["warnings"])
    )


def test_workers_of_a_data_loader_never_record(measured: Measure, torch_python: Path) -> None:
    source = (
        "import torch\nfrom torch.utils.data import DataLoader\n\n"
        "model = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for batch in DataLoader([torch.ones(1)] * 20, num_workers=2):\n"
        "    loss = model(batch).sum()\n    loss.backward()\n    optimizer.step()\n"
    )
    ran = measured(source, "--python", torch_python)
    assert ran.code == 0, ran.err
    assert len({record["pid"] for record in records(ran.folder)}) == 1
    assert len(records(ran.folder, "sample")) == 5


def test_records_of_several_processes_are_reported(measured: Measure) -> None:
    child = "if len(sys.argv) == 1:\n    subprocess.run([sys.executable, __file__, 'child'])"
    ran = measured(script(imports="import subprocess\n", before=child))
    assert ran.code == 0, ran.err
    assert any("process" in warning for warning in texts(read(ran.folder)["warnings"]))
    assert read(ran.folder)["wall_clock_ms"]["samples"] in (4, 8)
