"""Tuning through the command line: real trials in processes of their own, kills, resumption."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from instrumentor.shared.options import Options
from instrumentor.tune.edits import patch
from instrumentor.tune.settings import Configuration
from instrumentor.tune.target import read_target
from tests.conftest import RepoFactory, RunCli, git
from tests.end_to_end.small import processes_with, read, script, snapshot, start
from tests.tune.scripts import STANDINS, TORCH, TRAIN, wait_for_file
from tests.waiting import HANG_S, wait_for

ENV = {"PYTHONPATH": str(STANDINS)}
TUNED = "instrument-runs/repo_tune-1"
FEW = ("--steps", "8", "--warmup", "2")


@pytest.fixture
def repo(git_repo: RepoFactory) -> Path:
    """A repository with the script that runs on the stand-ins."""
    return git_repo({"train.py": TRAIN, "pyproject.toml": "", ".gitignore": "*_tune/\n"})


def trials(document: dict[str, Any]) -> dict[str, str]:
    """Verdict by trial."""
    return {trial["name"]: trial["verdict"] for trial in document["trials"]}


def begun(repo: Path, pattern: str, env: dict[str, str], *words: str) -> subprocess.Popen[str]:
    """A tuning of the optimization level, once there is such a file of its trials."""
    asked = (*FEW, *words, "--settings", "optimization_level", "train.py")
    process = start("tune", *asked, cwd=repo, env={**ENV, **env})
    wait_for_file(process, repo / TUNED, pattern)
    return process


def kill_third_trial(repo: Path, env: dict[str, str], *words: str) -> dict[str, str]:
    """The verdicts where the first level's trial is killed, and nothing else is."""
    process = begun(repo, "trials/03_*/run/timings.jsonl", {**env, "TUNING_HANGS": "1"}, *words)
    (facts,) = (repo / TUNED).glob("trials/03_*/process.json")
    os.kill(json.loads(facts.read_text())["pid"], signal.SIGKILL)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, err
    verdicts = trials(read(repo / TUNED, "tune.json"))
    assert verdicts["optimization_level 1"] == "killed"
    assert verdicts["optimization_level 2"] == "kept"
    return verdicts


def interrupt_first_trial(repo: Path, env: dict[str, str], *words: str) -> str:
    """What is said when Ctrl-C ends a tuning in its first trial."""
    process = begun(repo, "trials/01_*/run/timings.jsonl", {**env, "TUNING_HANGS": "0"}, *words)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, err
    return str(err)


def test_from_the_script_to_the_patch(repo: Path, run_cli: RunCli) -> None:
    before = snapshot(repo)
    done = run_cli("tune", *FEW, "--batch-sizes", "4,8,32", "train.py", cwd=repo, env=ENV)
    assert done.returncode == 0, done.stderr
    folder = repo / TUNED
    document = read(folder, "tune.json")
    assert {name: before[name] for name in before} == {
        name: facts for name, facts in snapshot(repo).items() if name in before
    }
    verdicts = trials(document)
    best = "optimization_level 2, dtype bfloat16, trace, batch_size 8"
    assert verdicts["baseline"] == verdicts["baseline again"] == "baseline"
    assert verdicts["optimization_level 2"] == "kept"
    assert verdicts["optimization_level 2, dtype bfloat16"] == "kept"
    assert verdicts["optimization_level 2, dtype bfloat16, bfp8"] == "changes the loss"
    assert verdicts["optimization_level 2, dtype bfloat16, trace"] == "kept"
    assert verdicts[best] == "kept"
    assert verdicts[best.replace("8", "32")] == "out of memory"
    assert document["best_against_baseline"]["times_as_fast"] > 3
    for name in ("tune.md", "tune.png", "best.diff", "journal.jsonl"):
        assert (folder / name).stat().st_size > 0
    for words in ("samples/s", "kept", "out of memory", "Wall clock only", "Best: optimization"):
        assert words in done.stdout
    assert "left: optimization_level" in done.stderr
    assert f"Next: git apply {folder / 'best.diff'}" in done.stderr
    assert not list(Path(os.environ["INSTRUMENT_CACHE"]).glob("shadows/*"))
    # The patch applies to the user's tree, and what it makes of the script is as fast.
    git(repo, "apply", str(folder / "best.diff"))
    again = run_cli("run", *FEW, "--profiler", "wallclock", "train.py", cwd=repo, env=ENV)
    assert again.returncode == 0, again.stderr
    measured = read(repo / "instrument-runs/repo-1")["wall_clock_ms"]["median"]
    trial = next(t for t in document["trials"] if t["name"] == best)
    assert measured == pytest.approx(trial["step_ms"], rel=0.5)


@pytest.mark.slow
def test_an_experiment_with_torch_itself(own_experiments_repo: Path, run_cli: RunCli) -> None:
    """bfloat16 and batch size on the CPU; then the patched experiment, validation included."""
    repo = own_experiments_repo
    config = repo / "blacksmith/experiments/torch/mnist/single_chip/mnist.yaml"
    text = config.read_text()
    for key, value in {"train_samples": 2560, "val_samples": 512, "hidden_size": 64,
                       "batch_size": 32, "num_epochs": 1}.items():  # fmt: skip
        text = re.sub(rf"(?m)^{key}: .*$", f"{key}: {value}", text)
    config.write_text(text)
    git(repo, "commit", "-qam", "Smaller")
    script = "blacksmith/experiments/torch/mnist/train.py"
    words = ("tune", *FEW, "--settings", "dtype,batch_size", "--batch-sizes", "32,64", "--json")
    done = run_cli(*words, script, cwd=repo)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert git(repo, "status", "--porcelain", "--untracked-files=no") == ""
    assert [setting["own"] for setting in document["settings"]] == [None, 32]
    by_name = {trial["name"]: trial for trial in document["trials"]}
    base, half = by_name["baseline"], by_name["dtype bfloat16"]
    assert half["status"] == "measured", half["reason"]
    assert base["batch_size"] == half["batch_size"] == 32
    assert half["loss"] == pytest.approx(base["loss"], rel=0.01)
    assert base["loss"] == by_name["baseline again"]["loss"]
    assert base["device"] == "cpu" and base["cuda_max_memory_allocated_bytes"] is None
    assert base["peak_rss_bytes"] > 50_000_000
    doubled = [t for name, t in by_name.items() if "batch_size 64" in name]
    assert doubled and doubled[0]["batch_size"] == 64

    # Whatever was faster here: the patch of both runs as a whole, with float32 nowhere left over.
    options = Options(steps=8, warmup=2)
    target = read_target(repo / script, (), repo, options)
    change = patch(target, Configuration.of({"dtype": "bfloat16", "batch_size": 64}))
    subprocess.run(["git", "apply", "-"], cwd=repo, input=change, check=True)
    whole = subprocess.run(
        [sys.executable, script], cwd=repo, env={**os.environ, "PYTHONPATH": str(repo)},
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert whole.returncode == 0, whole.stderr
    assert "Training finished" in whole.stdout + whole.stderr


@pytest.mark.slow
def test_what_users_of_pytorch_would_try(git_repo: RepoFactory, run_cli: RunCli) -> None:
    """On the CPU, with torch itself: each is measured, whatever is faster on this machine."""
    repo = git_repo({"train.py": TORCH, "pyproject.toml": ""})
    tried = "num_workers,persistent_workers,pin_memory,fused_optimizer,channels_last,tf32,amp"
    tried += ",compile,compile_optimizer"
    asked = ("tune", *FEW, "--allow-busy", "--settings", tried, "--json")
    done = run_cli(*asked, "train.py", cwd=repo)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    by_setting = {trial["setting"]: trial for trial in document["trials"]}
    measured = {"num_workers", "fused_optimizer", "channels_last", "amp", "compile"}
    assert set(by_setting) == {None, *measured}
    for trial in document["trials"]:
        assert (trial["status"], trial["label"]) == ("measured", "iteration"), trial["reason"]
        assert len(trial["samples_ms"]) == 6  # the series that reports show
        assert trial["loss"] == pytest.approx(document["trials"][0]["loss"], rel=0.02)
    assert by_setting["amp"]["loss_change"] > 0
    assert by_setting["compile"]["compile_ms"] > by_setting["compile"]["step_ms"]
    assert "Not applicable on cpu: pin_memory, tf32" in done.stderr
    (line,) = (text for text in done.stderr.splitlines() if "to this script:" in text)
    assert "persistent_workers, compile_optimizer" in line
    # All of it together is a script that trains.
    chosen = {"num_workers": 2, "fused_optimizer": True, "channels_last": True, "amp": "bfloat16"}
    change = patch(read_target(repo / "train.py", (), repo, Options()), Configuration.of(chosen))
    subprocess.run(["git", "apply", "-"], cwd=repo, input=change, check=True)
    whole = run_cli("run", *FEW, "--profiler", "wallclock", "train.py", cwd=repo)
    assert whole.returncode == 0, whole.stderr


@pytest.mark.slow
def test_writing_through_a_link_is_told(repo: Path, run_cli: RunCli) -> None:
    writes = "def train():\n    open('data/cache.txt', 'w').write('x' * 9)\n"
    (repo / "train.py").write_text(TRAIN.replace("def train():\n", writes))
    (repo / ".gitignore").write_text("*_tune/\ndata/\n")
    (repo / "data").mkdir()
    (repo / "data" / "read.txt").touch()
    done = run_cli("tune", *FEW, "--settings", "bfp8", "train.py", cwd=repo, env=ENV)
    assert done.returncode == 0, done.stderr
    assert "Linked into the copies: data (your own, not copied)" in done.stderr
    assert "warning: your own files changed during the trials: data/cache.txt;" in done.stderr
    assert (
        "Wrote instrument-runs/repo_tune-1/ (files in linked folders changed: see above)"
        in done.stderr
    )


@pytest.mark.slow
def test_what_does_not_work_is_a_result(repo: Path, run_cli: RunCli) -> None:
    env = {**ENV, "TUNING_BROKEN": "1", "TUNING_HANGS": "2"}
    done = run_cli(
        "tune", *FEW, "--settings", "optimization_level", "--trial-timeout", "30", "--json", "-q",
        "train.py", cwd=repo, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert trials(document) == {
        "baseline": "baseline",
        "baseline again": "baseline",
        "optimization_level 1": "compile failure",
        "optimization_level 2": "timeout",
        "baseline at the end": "baseline",
    }
    assert "failed to legalize" in document["trials"][2]["reason"]
    assert document["best"] == {} and document["patch"] is None
    assert not (repo / TUNED / "best.diff").exists()
    assert processes_with(str(repo / TUNED)) == []


@pytest.mark.slow
def test_killed_and_resumed_without_doing_a_trial_twice(repo: Path, run_cli: RunCli) -> None:
    process, folder = (
        begun(repo, "trials/03_*/process.json", {}),
        repo / TUNED,
    )
    process.kill()
    process.communicate(timeout=HANG_S)
    results = {p: p.stat().st_mtime_ns for p in folder.glob("trials/0[12]_*/result.json")}
    assert len(results) == 2
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('{"event": "ended", "key": "opt')  # a line that the kill cut
    with FileLock(folder / ".lock"):
        done = run_cli("tune", "--resume", folder, cwd=repo, env=ENV)
    assert done.returncode == 2 and "another tuning is using it" in done.stderr
    done = run_cli("tune", "--resume", folder, cwd=repo, env=ENV)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("(from the journal)") == 2
    assert {p: p.stat().st_mtime_ns for p in results} == results
    verdicts = trials(read(folder, "tune.json"))
    assert verdicts["optimization_level 2"] == "kept"
    assert len(verdicts) == 5


@pytest.mark.slow
def test_a_killed_trial_costs_only_itself(repo: Path, run_cli: RunCli) -> None:
    kill_third_trial(repo, {})
    done = run_cli("tune", "--resume", TUNED, cwd=repo, env=ENV)
    verdicts = trials(read(repo / TUNED, "tune.json"))
    assert verdicts["optimization_level 1"] == "kept", done.stderr


@pytest.mark.slow
def test_an_interruption_ends_the_trial_and_says_how_to_go_on(repo: Path, run_cli: RunCli) -> None:
    folder = repo / TUNED
    assert "Next: instrument tune --resume" in interrupt_first_trial(repo, {})
    wait_for(lambda: processes_with(str(folder)) == [])
    resumed = run_cli("tune", "--resume", folder, cwd=repo, env=ENV)
    assert trials(read(folder, "tune.json"))["optimization_level 2"] == "kept", resumed.stderr
    assert "is still running" not in resumed.stderr
    (repo / "train.py").write_text(TRAIN + "# changed\n")
    done = run_cli("tune", "--resume", folder, cwd=repo, env=ENV)
    assert done.returncode == 2
    assert "changed since" in done.stderr


@pytest.mark.slow
def test_the_terminals_interruption_goes_to_the_tuning_alone(repo: Path) -> None:
    """It reaches the whole foreground group; the trial gets one, from us, and time to end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "instrumentor", "tune", *FEW, "train.py"],
        cwd=repo, env={**os.environ, **ENV, "TUNING_HANGS": "0"}, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    folder = repo / TUNED
    wait_for_file(process, folder, "trials/01_*/run/timings.jsonl")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert "Traceback" not in err
    wait_for(lambda: processes_with(str(folder)) == [])
    (facts,) = folder.glob("trials/01_*/run/run.json")
    assert json.loads(facts.read_text())["interrupted"]  # it had the time to say so
    assert not list(Path(os.environ["INSTRUMENT_CACHE"]).glob("shadows/*"))


@pytest.mark.slow
def test_a_budget_ends_it_and_it_can_go_on_later(repo: Path, run_cli: RunCli) -> None:
    words = ("tune", *FEW, "--settings", "optimization_level", "--time-budget", "0.6", "train.py")
    done = run_cli(*words, cwd=repo, env=ENV)
    assert done.returncode == 0, done.stderr
    assert "Next: instrument tune --resume instrument-runs/repo_tune-1" in done.stderr
    document = read(repo / TUNED, "tune.json")
    assert document["out_of_budget"]
    # A trial that only the end of the budget cut off has no verdict, and is done when it goes on.
    assert "timeout" not in trials(document).values()
    done = run_cli("tune", "--resume", TUNED, cwd=repo, env=ENV)
    assert trials(read(repo / TUNED, "tune.json"))["optimization_level 2"] == "kept"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--settings", "speed", "train.py"), "Settings: num_workers, persistent_workers"),
        (("--steps", "5", "train.py"), "cannot show a significant difference"),
        (("--executor", "cloud", "train.py"), "local, slurm"),
        (("--executor-option", "x", "train.py"), "KEY=VALUE"),
        (("--batch-sizes", "a", "train.py"), "expected numbers"),
        (("--batch-sizes", "8,0", "train.py"), "must be 1 or more"),
        (("--loss-tolerance", "-1", "train.py"), "must be 0 or more"),
        (("--time-budget", "0", "train.py"), "--time-budget 0.0: must be above 0"),
        (("--trial-timeout", "0", "train.py"), "must be above 0"),
        (("--resume", "nowhere"), "there is no journal.jsonl"),
        (("--resume", "nowhere", "train.py"), "takes no script"),
        (("--strategy", "random", "train.py"), "one-at-a-time, grid"),
        ((), "which script?"),
    ],
)
def test_usage_errors(repo: Path, run_cli: RunCli, words: tuple[str, ...], said: str) -> None:
    done = run_cli("tune", *words, cwd=repo)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (repo / TUNED).exists()


def test_without_a_setting_that_applies_nothing_is_run(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    repo = git_repo({"train.py": script(), "pyproject.toml": ""})
    done = run_cli("tune", *FEW, "--settings", "dtype,batch_size", "train.py", cwd=repo)
    assert done.returncode == 3, done.stderr
    assert "no setting can be applied:" in done.stderr
    assert "  dtype: " in done.stderr and "  batch_size: " in done.stderr
    assert not (repo / TUNED).exists()
