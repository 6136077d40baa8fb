"""`instrument run`: what it says of a run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import script

BEGINS = "        optimizer.zero_grad()\n"
TIMED = script(loop="print(time.time() - start)").replace(
    BEGINS, f"        start = time.time()\n{BEGINS}"
)
MESSAGE = "The script's own timer stays."
TIMER = f"train.py:{TIMED.splitlines().index('        start = time.time()') + 1}: {MESSAGE}"


def test_what_nearly_every_script_has_is_no_warning_on_the_terminal(
    git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path
) -> None:
    repo = git_repo({"train.py": TIMED})

    def run(*options: str) -> str:
        asked = ("--profiler", "wallclock", "--no-history", "-o", str(tmp_path / f"{options}"))
        done = run_cli("run", *asked, *options, "train.py", cwd=repo)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert TIMER not in run()
    warnings = json.loads((tmp_path / "()" / "summary.json").read_text())["warnings"]
    (told,) = [each for each in warnings if each["kind"] == "own-timer"]
    assert (told["weight"], told["place"]) == ("note", TIMER.partition(": ")[0])
    assert TIMER in run("--verbose")
    assert MESSAGE in run("--json")
    assert TIMER not in run_cli("report", tmp_path / "()", cwd=repo).stdout
    assert TIMER in run_cli("report", "--verbose", tmp_path / "()", cwd=repo).stdout
