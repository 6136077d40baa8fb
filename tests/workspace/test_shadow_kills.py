"""SIGKILL at any moment: nothing of the user's is lost, and the next start cleans up."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from instrumentor.shared.project import find_project
from instrumentor.workspace import kept_copy
from instrumentor.workspace.shadow import shadow
from instrumentor.workspace.slots import prune, sweep
from tests.workspace.test_shadow import snapshot

KILLS = int(os.environ.get("INSTRUMENT_TEST_KILLS", "15"))

RUN = """
import os, subprocess, sys
from pathlib import Path
from instrumentor.shared.project import find_project
from instrumentor.workspace import kept_copy
from instrumentor.workspace.shadow import shadow
kept_copy.WORTH_FILES, kept_copy.QUIET_NS = int(sys.argv[3]), 0
script = Path(sys.argv[1])
print("ready", flush=True)
while True:
    replacement = {script: script.read_bytes() + b"# instrumented"}
    with shadow(find_project(script), script, script.parent, replacement,
                keep_to=Path(sys.argv[2])) as workspace:
        print("open", flush=True)
        env = workspace.environment(os.environ)
        subprocess.run([sys.executable, "-S", workspace.script], cwd=workspace.cwd, env=env)
    print("closed", flush=True)
"""

SCRIPT = """
import shutil
from pathlib import Path
shutil.rmtree("checkpoints", ignore_errors=True)
for name in ("checkpoints", "pkg/deep"):
    Path(name).mkdir(parents=True, exist_ok=True)
    Path(name, "new.txt").write_text("x")
for path in Path("pkg").glob("*.py"):
    path.write_text("")
"""


@pytest.mark.slow
@pytest.mark.parametrize("worth_files", [0, 1_000])
def test_a_kill_at_any_moment_loses_nothing(
    git_repo, tmp_path: Path, monkeypatch, worth_files: int
) -> None:
    monkeypatch.setattr(kept_copy, "WORTH_FILES", worth_files)
    monkeypatch.setattr(kept_copy, "QUIET_NS", 0)
    cache = tmp_path / "cache"
    monkeypatch.setenv("INSTRUMENT_CACHE", str(cache))
    files = {f"pkg/{n}.py": f"x = {n}\n" for n in range(60)}
    repo = git_repo({"train.py": SCRIPT, **files, ".gitignore": "data/\ncheckpoints/\n"})
    for name in ("data/a.bin", "checkpoints/last.pt"):
        (repo / name).parent.mkdir()
        (repo / name).write_text("precious")
    (repo / "pkg" / "0.py").write_text("uncommitted")
    before = snapshot(repo)
    script = repo / "train.py"
    chance = random.Random(20)
    for number in range(KILLS):
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                RUN,
                str(script),
                str(tmp_path / f"kept{number}"),
                str(worth_files),
            ],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, 0.35))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert snapshot(repo) == before
    with shadow(find_project(script), script, repo, {}) as workspace:
        assert (workspace.root / "pkg" / "0.py").read_text() == "uncommitted"
        assert snapshot(workspace.root / "pkg") == snapshot(repo / "pkg")
    prune(0)
    sweep(pytest.fail)
    assert list((cache / "shadows").iterdir()) == []
    assert snapshot(repo) == before


@pytest.mark.parametrize("stage", ["open", "closed"])
def test_the_place_of_a_killed_run_is_free_for_the_next(
    git_repo, tmp_path: Path, monkeypatch, stage: str
) -> None:
    monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path / "cache"))
    script = git_repo({"train.py": "import time; time.sleep(0.2)\n"}) / "train.py"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(script), str(tmp_path / "kept"), "1000"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert any(line.decode().strip() == stage for line in process.stdout)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    with shadow(find_project(script), script, script.parent, {}) as workspace:
        assert workspace.root == workspace.plan.root
