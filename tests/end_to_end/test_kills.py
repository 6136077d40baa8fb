"""The whole tool is killed at many moments: nothing is lost, nothing lives on, nothing is left.

INSTRUMENT_TEST_KILLS says how many moments (20); half of the runs are in place, half in a copy,
and of both half under the stand-in of Tracy.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli, git
from tests.end_to_end.small import processes_with, script, snapshot, start
from tests.waiting import wait_for

KILLS = int(os.environ.get("INSTRUMENT_TEST_KILLS", "20"))
WRITER = """\
import subprocess
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
with open("written.txt", "a") as stream:
    stream.write("x")
"""
SOURCE = script(before=WRITER).replace("time.sleep(0.002)", "time.sleep(0.03)")
OURS = ("journal", "shadows", "asked")


def leftovers(repo: Path, cache: Path) -> list[object]:
    """What a run may have left: ours in the cache, beside the script, in git, in /tmp."""
    found: list[object] = [p for name in OURS for p in (cache / name).glob("*")]
    found += repo.rglob(".instrument-*")
    found += git(repo, "for-each-ref", "refs/instrumentor").splitlines()
    # Locks of devices are files that stay.
    return found + [p for p in Path(os.environ["TMPDIR"]).glob("*") if p.is_dir()]


def kept(repo: Path) -> dict[str, object]:
    """The user's files, without what the script itself writes in place."""
    return {name: facts for name, facts in snapshot(repo).items()
            if name in ("train.py", "other.py", "notes.txt")}  # fmt: skip


@pytest.mark.slow
def test_a_kill_at_any_moment(
    git_repo: RepoFactory,
    run_cli: RunCli,
    tracy: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    cache = Path(os.environ["INSTRUMENT_CACHE"])
    repo = git_repo({"train.py": SOURCE, "other.py": "x = 1\r\n"})
    (repo / "train.py").chmod(0o755)
    (repo / "other.py").write_bytes(b"uncommitted\r\n")
    (repo / "notes.txt").write_text("untracked")
    before, index = kept(repo), (repo / ".git" / "index").read_bytes()
    chance = random.Random(os.environ.get("INSTRUMENT_TEST_SEED", "4"))
    length = {"wallclock": 4.0, "tracy": 7.0}
    swapped = finished = 0
    for number in range(KILLS):
        profiler = "tracy" if number % 4 > 1 else "wallclock"
        in_place = number % 2 == 0
        words = ["--in-place"] if in_place else []
        output = tmp_path / f"run{number}"
        process = start(
            *("run", *words, "--profiler", profiler, "-o", output, "train.py"),
            cwd=repo,
            env=tracy,
        )
        # The first moments belong to imports: rather in the middle than there.
        moment = chance.uniform(0.3, length[profiler])
        try:
            process.wait(moment)
            finished += 1
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        swapped += (repo / "train.py").read_bytes() != SOURCE.encode()
        wait_for(lambda: processes_with(str(cache)) == [])
        done = run_cli("restore", cwd=repo)
        assert done.returncode == 0, (number, moment, done.stdout, done.stderr)
        assert kept(repo) == before, (number, moment, profiler, in_place)
        assert (repo / ".git" / "index").read_bytes() == index
        assert leftovers(repo, cache) == [], (number, moment, profiler, in_place)
    with capsys.disabled():
        print(
            f"\n{KILLS} kills: {swapped} found the file swapped, {finished} came after the end; "
            "0 bytes lost, 0 processes, 0 leftovers"
        )
    assert finished < KILLS


def test_any_next_command_puts_the_file_back(
    git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path
) -> None:
    repo = git_repo({"train.py": SOURCE})
    before = kept(repo)
    process = start(
        "run", "--in-place", "--profiler", "wallclock", "--steps", "900", "train.py", cwd=repo
    )
    wait_for(lambda: kept(repo) != before)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert kept(repo) != before
    done = run_cli("explain", "train.py", cwd=repo)
    assert done.returncode == 0, done.stderr
    assert "train.py is restored, as it was before the run" in done.stderr
    assert kept(repo) == before
    cache = Path(os.environ["INSTRUMENT_CACHE"])
    wait_for(lambda: processes_with(str(cache)) == [])
