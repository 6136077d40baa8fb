"""`run --in-place` and `run --untraced` as a user types them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli, git
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
from tests.waiting import HANG_S, wait_for

WHERE = "print(__file__, os.getcwd(), sys.path[0], sep='|')"


@pytest.mark.parametrize("profiler", ["wallclock", "tracy"])
def test_the_original_path_runs(
    git_repo: RepoFactory, measure: Measure, tracy: dict[str, str], profiler: str
) -> None:
    repo = git_repo({"pkg/train.py": script(before=WHERE)})
    ran = measure(
        repo,
        "--in-place",
        "pkg/train.py",
        profiler=profiler,
        env=tracy,
        folder="instrument-runs/pkg-1",
    )
    assert ran.code == 0, ran.err
    file, cwd, first = next(line for line in ran.log.splitlines() if "|" in line
                            and "train.py|" in line).split("|")  # fmt: skip
    assert file == str(repo / "pkg" / "train.py")
    assert (cwd, first) == (str(repo), str(repo / "pkg"))
    assert "Swapped train.py: instrumented in place until the run ends" in ran.err
    assert "your file is restored" in ran.err
    assert read(ran.folder, "run.json")["in_place"] is True
    assert git(repo, "for-each-ref", "refs/instrumentor") == ""
    assert records(ran.folder, "load")[0]["file"] == str(repo / "pkg" / "train.py")


def test_an_import_hook_that_defeats_the_copy_is_no_matter_in_place(
    git_repo: RepoFactory, measure: Measure
) -> None:
    library = script().replace('if __name__ == "__main__":\n    main()\n', "")
    repo = git_repo({"trainer.py": library, "train.py": ""})
    start_it = f"import sys\nsys.path.insert(0, {str(repo)!r})\nimport trainer\n\ntrainer.main()\n"
    (repo / "train.py").write_text(start_it)
    git(repo, "commit", "-qam", "Absolute")
    copied = measure(repo, "train.py")
    assert copied.code == 1 and "--in-place" in copied.err
    ran = measure(repo, "--in-place", "train.py", folder="instrument-runs/repo-2")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_ended_run_restores_before_it_leaves(git_repo: RepoFactory, number: int) -> None:
    slow = script().replace("time.sleep(0.002)", "time.sleep(0.05)")
    repo = git_repo({"train.py": slow})
    before = snapshot(repo)
    process = start(
        *("run", "--in-place", "--profiler", "wallclock", "--steps", "1000", "train.py"), cwd=repo
    )
    interrupt_after_samples(process, repo / "instrument-runs/repo-1", 2, number)
    assert process.returncode == 130
    after = snapshot(repo)
    assert {name: after[name] for name in before} == before
    assert not list(repo.glob(".instrument-*"))


def test_an_edit_during_the_run_is_kept(git_repo: RepoFactory, run_cli: RunCli) -> None:
    edit = "with open(__file__, 'a') as stream:\n    stream.write('# mine\\n')"
    repo = git_repo({"train.py": script(before=edit)})
    original = (repo / "train.py").read_bytes()
    options = ("--in-place", "--profiler", "wallclock", "--steps", "5")
    done = run_cli("run", *options, "train.py", cwd=repo)
    assert done.returncode == 5, done.stderr
    assert "both versions are kept" in done.stderr and "train.py.before-instrument" in done.stderr
    assert (repo / "train.py").read_bytes().endswith(b"# mine\n")
    assert (repo / "train.py.before-instrument").read_bytes() == original
    assert read(repo / "instrument-runs/repo-1")["wall_clock_ms"]["samples"] == 4
    assert run_cli("restore", cwd=repo).stdout == "Nothing to restore\n"


def test_declined_in_place(git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "train.py").write_text(script())
    outside = run_cli("run", "--in-place", "train.py", cwd=plain)
    assert outside.returncode == 3 and "git" in outside.stderr
    repo = git_repo({"train.py": script()})
    os.link(repo / "train.py", repo / "second.py")
    linked = run_cli("run", "--in-place", "train.py", cwd=repo)
    assert linked.returncode == 3 and "hard link" in linked.stderr
    assert not (repo / "instrument-runs").exists()


def test_restore_as_json(git_repo: RepoFactory, run_cli: RunCli) -> None:
    slow = script().replace("time.sleep(0.002)", "time.sleep(0.05)")
    repo = git_repo({"train.py": slow})
    process = start(
        *("run", "--in-place", "--profiler", "wallclock", "--steps", "1000", "train.py"), cwd=repo
    )
    interrupt_after_samples(process, repo / "instrument-runs/repo-1", 1, signal.SIGKILL)
    done = run_cli("restore", "--json", cwd=repo)
    document = json.loads(done.stdout)
    assert document["schema"] == "instrument-restore/1"
    (file,) = document["files"]
    assert (file["path"], file["action"]) == (str(repo / "train.py"), "restored")
    assert git(repo, "status", "--porcelain", "--untracked-files=no") == ""
    wait_for(lambda: processes_with(os.environ["INSTRUMENT_CACHE"]) == [])


def test_untraced_first(measured: Measure, tracy: dict[str, str]) -> None:
    keep = "if os.path.exists('seen'):\n    sys.exit('a second run in one copy')\nopen('seen', 'w')"
    ran = measured(script(before=keep), "--untraced", profiler="tracy", env=tracy)
    assert ran.code == 0, ran.err
    assert (ran.folder / "untraced.log").is_file()
    facts = read(ran.folder, "run.json")["untraced"]
    assert facts["record"] == "untraced.jsonl" and facts["script_exit_code"] == 0
    assert len((ran.folder / "untraced.jsonl").read_text().splitlines()) >= 6
    assert "5 steps with timers alone" in ran.err and "5 steps under Tracy" in ran.err
    summary = read(ran.folder)
    assert summary["untraced_wall_clock_ms"]["samples"] == 4
    cost = summary["profiler_cost_percent"]
    traced, plain = summary["wall_clock_ms"], summary["untraced_wall_clock_ms"]
    assert cost == pytest.approx((traced["median"] / plain["median"] - 1) * 100)


def test_a_script_that_fails_untraced_is_not_run_again(
    measured: Measure, tracy: dict[str, str]
) -> None:
    ran = measured(script(before="sys.exit(7)"), "--untraced", profiler="tracy", env=tracy)
    assert ran.code == 1
    assert "the script ended with code 7" in ran.err and "under tracy" not in ran.err


def test_what_holds_a_device_at_the_time_limit_is_left_running_and_named(
    git_repo: RepoFactory, run_cli: RunCli, device: Path
) -> None:
    """Gentle signals, then it is left: SIGKILL would leave the device in a bad state."""
    stubborn = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "held = open(os.environ['INSTRUMENT_DEVICE_ROOT'] + '/0')\n"
        "print('holding', os.getpid(), flush=True)\n"
        "time.sleep(3600)"
    )
    repo = git_repo({"train.py": script(before=stubborn)})
    done = run_cli(
        *("run", "--profiler", "wallclock", "--timeout", "15", "train.py"),
        cwd=repo, env={"INSTRUMENT_DEVICE_ROOT": str(device)}, timeout=HANG_S,
    )  # fmt: skip
    log = (repo / "instrument-runs/repo-1" / "run.log").read_text()
    pid = int(log.split("holding ")[1].split()[0])
    try:
        assert done.returncode == 1, done.stderr
        assert "did not end within --timeout 15 s; left running" in done.stderr
        assert str(pid) in done.stderr and "never kill -9" in done.stderr
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    run_cli("restore", cwd=repo)
    assert not list((Path(os.environ["INSTRUMENT_CACHE"]) / "shadows").glob("*"))


def test_a_second_interrupt_says_what_it_leaves(git_repo: RepoFactory) -> None:
    stubborn = (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    )
    slow = script(before=stubborn).replace("time.sleep(0.002)", "time.sleep(0.05)")
    repo = git_repo({"train.py": slow})
    process = start("run", "--profiler", "wallclock", "--steps", "9000", "train.py", cwd=repo)
    record = repo / "instrument-runs/repo-1" / "timings.jsonl"
    wait_for(lambda: record.exists() and records(record.parent, "sample"))
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = ""
    while "Ctrl-C again" not in said:
        said = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    assert "still being ended" in err or "left running" in err, err
    cache = os.environ["INSTRUMENT_CACHE"]
    wait_for(lambda: processes_with(cache) == [])


def test_a_dry_run_in_place_names_the_original(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": script()})
    done = run_cli("run", "--dry-run", "--in-place", "--profiler", "wallclock", "train.py",
                   cwd=repo)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f" {repo}/train.py" in done.stderr and "shadows" not in done.stderr
    assert "in place" in done.stderr
    assert (repo / "train.py").read_text() == script()
