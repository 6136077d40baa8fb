"""`instrument compare --refs A..B SCRIPT`: real runs of small scripts, the checkout untouched."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.end_to_end.small import script
from tests.workspace.test_shadow import snapshot

FEW = ("--pairs", "2", "--steps", "6", "--warmup", "1")


@pytest.fixture
def repo(git_repo: RepoFactory) -> Path:
    """The first commit waits 30 ms in each step, the second not; neither does what is edited."""
    made = git_repo({"train.py": "import pause\n" + script(), "pause.py": "import time\n"})
    (made / "pause.py").write_text("import time\nprint('second')\n")
    subprocess.run(["git", "commit", "-qam", "second"], cwd=made, check=True)
    (made / "pause.py").write_text("import time\nprint('edited')\n")
    return made


def said(folder: Path, run: str) -> str:
    return (folder / run / "run.log").read_text()


def test_each_version_runs_its_own_files(run_cli: RunCli, repo: Path) -> None:
    before = snapshot(repo)
    made = run_cli("compare", *FEW, "--json", "--refs", "HEAD~1..HEAD", "train.py", cwd=repo)
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    assert document["schema"] == "instrument-pairs/1" and len(document["pairs"]) == 2
    assert document["verdict"]["outcome"] == "undecided"
    assert document["base"]["commit"] != document["new"]["commit"]
    folder = Path(document["folder"])
    assert "second" not in said(folder, "01_base") and "second" in said(folder, "01_new")
    after = {name: facts for name, facts in snapshot(repo).items() if "instrument-runs" not in name}
    assert {**after, ".": 0} == {**before, ".": 0}


def test_uncommitted_changes_are_a_version(run_cli: RunCli, repo: Path) -> None:
    made = run_cli("compare", *FEW, "--refs", "HEAD..", "-o", "out", "train.py", cwd=repo)
    assert made.returncode == 0, made.stderr
    assert "second" in said(repo / "out", "01_base") and "edited" in said(repo / "out", "01_new")
    said_first = r"Your working tree .* HEAD .* in [012] of 2 pairs.*; no verdict before 10 pairs"
    assert re.match(said_first, made.stdout)
    assert "your files were not touched" in made.stderr


def test_words_behind_the_script_are_its_own(run_cli: RunCli, repo: Path) -> None:
    words = ("train.py", "--json", "--", "train.py", "--html", "x")
    made = run_cli("compare", *FEW, "-o", "out", *words, cwd=repo)
    assert made.returncode == 0, made.stderr
    document = json.loads((repo / "out" / "pairs.json").read_text())
    assert document["base"]["arguments"] == ["--json"]
    assert document["new"]["arguments"] == ["--html", "x"]


def test_modules_are_versions_too(run_cli: RunCli, repo: Path) -> None:
    (repo / "pkg").mkdir()
    (repo / "pkg/pause.py").write_text("")
    (repo / "pkg/train.py").write_text("from . import pause\n" + script())
    words = ("-m", "pkg.train", "--json", "--", "-m", "pkg.train", "-o", "x")
    made = run_cli("compare", *FEW, *words, cwd=repo)
    assert made.returncode == 0, made.stderr
    document = json.loads((repo / "instrument-runs/pkg_pairs-1/pairs.json").read_text())
    assert document["base"]["arguments"] == ["--json"]
    assert (document["new"]["name"], document["new"]["arguments"]) == (
        "-m pkg.train -o x",
        ["-o", "x"],
    )
    # At a commit, too: the name is looked for in the files as they stand, the module in the copy.
    made = run_cli("compare", *FEW, "--refs", "HEAD..", "-m", "train", cwd=repo)
    assert made.returncode == 0, made.stderr
    assert "second" in said(repo / "instrument-runs/repo_pairs-1", "01_base")


def test_a_setting_that_does_not_apply_names_the_user_s_file(run_cli: RunCli, repo: Path) -> None:
    made = run_cli("compare", *FEW, "--set", "num_workers=2", "train.py", cwd=repo)
    assert made.returncode == 3, made.stderr
    assert "error: train.py:1: num_workers: no torch.utils.data.DataLoader is made" in made.stderr


def test_a_gate_that_cannot_tell_ends_with_7(run_cli: RunCli, repo: Path) -> None:
    gate = ("--fail-on-regression", "5", "--refs", "HEAD..")
    made = run_cli("compare", *FEW, *gate, "train.py", cwd=repo)
    assert made.returncode == 7, made.stderr
    assert "undecided whether your working tree is slower than HEAD" in made.stderr


def test_an_undecided_comparison_goes_on_with_what_it_prints(run_cli: RunCli, repo: Path) -> None:
    made = run_cli("compare", *FEW, "--refs", "HEAD..", "train.py", cwd=repo)
    assert made.returncode == 0, made.stderr
    (told,) = re.findall(r"^Next: instrument (compare .*--resume .*?)  #", made.stderr, re.M)
    folder = repo / "instrument-runs" / "repo_pairs-1"
    kept = {run: (folder / run / "timings.jsonl").read_bytes() for run in ("01_base", "02_new")}
    (folder / "03_base").mkdir()  # of a pair that was cut off

    words = [*shlex.split(told)]
    words[words.index("--pairs") + 1] = "3"
    again = run_cli(*words, cwd=repo)
    assert again.returncode == 0, again.stderr
    assert re.search(r"in \d of 3 pairs", again.stdout)
    document = json.loads((folder / "pairs.json").read_text())
    assert len(document["pairs"]) == 3 and not (repo / "instrument-runs/repo_pairs-2").exists()
    assert {run: (folder / run / "timings.jsonl").read_bytes() for run in kept} == kept
    assert not list((folder / "03_base").iterdir())

    more = [*words[:-1], "--pairs", "9", words[-1]]
    (repo / "pause.py").write_text("import time\nprint('edited again')\n")
    refused = run_cli(*more, cwd=repo)
    assert refused.returncode == 2, refused.stderr
    assert "your working tree is not what its pairs were run with (its files)" in refused.stderr
    assert len(json.loads((folder / "pairs.json").read_text())["pairs"]) == 3


def test_one_version_twice_is_refused_before_the_first_pair(run_cli: RunCli, repo: Path) -> None:
    subprocess.run(["git", "commit", "-qam", "third"], cwd=repo, check=True)
    for words, hint in (
        (("--refs", "HEAD..", "train.py"), "Change something first"),
        (("train.py", "--a", "--", "train.py", "--a"), "Give other arguments"),
    ):
        made = run_cli("compare", *FEW, *words, cwd=repo)
        assert made.returncode == 2, made.stderr
        assert "the same files, started in the same way; there is nothing to com" in made.stderr
        assert f"hint: {hint}" in made.stderr
        assert not (repo / "instrument-runs").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--refs", "nowhere..HEAD", "train.py"), "--refs: nowhere is no commit"),
        (("--refs", "HEAD~9..HEAD", "train.py"), "in all. Against your next change: --refs HEAD.."),
        (("--refs", "main..HEAD", "absent.py"), "is not a file"),
        (("train.py",), "give one difference between the two versions"),
        (("--refs", "HEAD..", "-m"), "-m takes a module"),
        (("--refs", "HEAD..", "-m", "absent"), "absent"),
    ],
)
def test_what_is_no_version(run_cli: RunCli, repo: Path, words: tuple[str, ...], told: str) -> None:
    made = run_cli("compare", *words, cwd=repo)
    assert made.returncode == 2 and told in made.stderr, made.stderr
    assert not list(repo.glob("instrument-runs/*"))
