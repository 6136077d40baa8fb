"""`instrument run`: what it says of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    "words",
    [("explain",), ("--dry-run",), ("run", "--dry-run"), ("apply", "-o", "copy.py")],
)
def test_a_note_is_shown_on_demand_by_every_command(
    git_repo: RepoFactory, run_cli: RunCli, words: tuple[str, ...]
) -> None:
    repo = git_repo({"train.py": TIMED})
    done = run_cli(*words, "train.py", cwd=repo)
    assert done.returncode == 0 and MESSAGE not in done.stdout + done.stderr
    (repo / "copy.py").unlink(missing_ok=True)
    told = run_cli(*words, "-v", "train.py", cwd=repo)
    assert f"note: {TIMER}" in told.stderr
    if "apply" not in words:
        (following,) = (
            line for text in (told.stdout, told.stderr) for line in text.splitlines()
            if line.startswith("Next: ")
        )  # fmt: skip
        assert "-v" not in following


def test_the_page_and_the_text_hold_notes_folded(
    git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path
) -> None:
    repo = git_repo({"train.py": TIMED})
    asked = ("--profiler", "wallclock", "--no-history", "-o", str(tmp_path / "out"))
    assert run_cli("run", *asked, "train.py", cwd=repo).returncode == 0
    page = (tmp_path / "out" / "report.html").read_text()
    before, _, folded = page.partition('<details class="notes">')
    words = "own timer stays"  # the page spells the apostrophe
    assert words not in before and words in folded.partition("</details>")[0]
    text = (tmp_path / "out" / "summary.md").read_text()
    before, _, folded = text.partition("<summary>Notes</summary>")
    assert words not in before and words in folded
