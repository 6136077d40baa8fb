"""`instrument compare`: what it takes, what it writes, its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from instrumentor.cli.main import call
from instrumentor.results.history import History, place_of
from tests.analysis.compare.sides import summary
from tests.conftest import RunCli

STEADY = (100.0, 101.0, 99.0, 100.5, 99.5)
SCRIPT = ("project", "train.py")


def run(folder: Path, factor: float = 1.0, samples: int = 5, **more: Any) -> Path:
    """A kept summary of a run that takes so many times as long."""
    folder.mkdir(parents=True)
    document = summary([ms * factor for ms in STEADY[:samples]], **more).to_json()
    (folder / "summary.json").write_text(json.dumps(document))
    return folder


def compared(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = call(["compare", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_console_says_which_is_faster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = compared(capsys, run(tmp_path / "old"), run(tmp_path / "new", 0.5))
    assert code == 0
    assert "new is 2.00 times as fast" in out


def test_finished_runs_are_compared_without_what_runs_a_script(tmp_path: Path) -> None:
    runs = [str(run(tmp_path / "old")), str(run(tmp_path / "new"))]
    code = (
        "import sys\nfrom instrumentor.cli.main import call\n"
        f"assert call(['compare', *{runs!r}]) == 0\n"
        "print(*(m for m in sys.modules), file=sys.stderr)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "instrumentor_analysis.compare.comparing" in loaded
    assert not {"libcst", "git", "instrumentor.run.training"} & loaded


def test_json_of_two_and_of_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = run(tmp_path / "old"), run(tmp_path / "new")
    two = json.loads(compared(capsys, "--json", old, new)[1])
    assert two["schema"] == "instrument-comparison/1"
    three = json.loads(compared(capsys, "--json", old, new, new)[1])
    assert three["schema"] == "instrument-comparisons/1"
    assert [each["schema"] for each in three["comparisons"]] == ["instrument-comparison/1"] * 2


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, markdown = tmp_path / "c.html", tmp_path / "c.md"
    code, _, err = compared(
        capsys, run(tmp_path / "a"), run(tmp_path / "b"), "--html", html, "--markdown", markdown
    )
    assert code == 0 and f"Wrote {html}" in err
    assert html.read_text().startswith("<!DOCTYPE html>")
    assert markdown.read_text().startswith("## b against a")


@pytest.mark.parametrize("option", ["--html", "--markdown"])
def test_a_file_of_the_user_is_replaced_only_by_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    mine = tmp_path / "notes.txt"
    mine.write_text("mine")
    runs = run(tmp_path / "a"), run(tmp_path / "b")
    code, out, err = compared(capsys, *runs, option, mine)
    assert (code, out) == (2, "") and f"{mine} exists" in err and "--force" in err
    assert mine.read_text() == "mine"
    assert compared(capsys, *runs, option, mine, "--force")[0] == 0
    assert "b against a" in mine.read_text()


def repeats(folder: Path, *factors: float) -> list[Path]:
    """Runs of one code."""
    return [run(folder.with_name(f"{folder.name}{at}"), each) for at, each in enumerate(factors)]


@pytest.mark.parametrize(
    ("factor", "code", "said"),
    [
        (1.0, 0, "No regression by more than 5 % (fwd+bwd) is shown"),
        (0.5, 0, "No regression by more than 5 % (fwd+bwd) is shown"),
        (1.04, 0, "No regression by more than 5 % (fwd+bwd) is shown"),
        (1.2, 6, "b0 (3 runs): slower than a0 (3 runs) by more than 5 % (fwd+bwd, significant)"),
        (
            1.08,
            7,
            "undecided whether b0 (3 runs) is slower than a0 (3 runs) by more than 5 % (fwd+bwd)",
        ),
    ],
)
def test_a_regression_is_an_exit_code_and_undecided_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float, code: int, said: str
) -> None:
    base = repeats(tmp_path / "a", 0.999, 1.0, 1.001)
    new = repeats(tmp_path / "b", *(factor * each for each in (0.987, 1.0, 1.013)))
    found = compared(capsys, *base, "--", *new, "--fail-on-regression", 5)
    assert found[0] == code, found[2]
    assert said in found[2]
    assert ("runs on each side (--repeat" in found[2]) == (code == 7)


@pytest.mark.parametrize(("factor", "code"), [(1.0, 7), (1.676, 7), (3.0, 6), (0.5, 0)])
def test_one_run_each_decides_only_what_no_noise_explains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: float, code: int
) -> None:
    pair = run(tmp_path / "a"), run(tmp_path / "b", factor)
    found = compared(capsys, *pair, "--fail-on-regression", 5)
    assert found[0] == code
    assert ("Takes 3 runs on each side at first" in found[2]) == (code == 7)


def test_one_of_several_that_regresses_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [run(tmp_path / "a"), run(tmp_path / "fine"), run(tmp_path / "slow", 3)]
    code, _, err = compared(capsys, *runs, "--fail-on-regression", 5)
    assert code == 6 and "error: slow: slower than a" in err


def test_options_may_stand_behind_the_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = repeats(tmp_path / "a", 1.0, 1.01), repeats(tmp_path / "b", 1.0, 1.01)
    code, out, _ = compared(capsys, *base, "--", *new, "--batch-size", "8,8", "--json")
    document = json.loads(out)
    assert code == 0 and document["base"]["runs"] == ["a0", "a1"]
    assert document["timings"][0]["between"]["noise"]["freedom"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["A"], "a comparison takes two runs"),
        (["A", "nothing"], "does not exist"),
        (["A", "B", "--batch-size", "1"], "for each of the 2 runs"),
        (["A", "B", "--batch-size", "1,x"], "for each of the 2 runs"),
        (["A", "B", "--fail-on-regression", "-1"], "must be 0 or more"),
        (["A", "B", "--judge", "step"], "--judge step: must be one of iteration, region"),
        (["--", "A"], "separates the runs of two versions"),
        (["A", "--", "B", "--", "B"], "separates the runs of two versions"),
        (["A", "@nope"], "no run is pinned under that name"),
        (["A", "@last"], "has no run"),
        (["A", "TRACY"], "measured under Tracy"),
    ],
)
def test_what_is_refused_has_a_reason_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    places = {
        "A": run(tmp_path / "a"),
        "B": run(tmp_path / "b"),
        "TRACY": run(tmp_path / "tracy", profiler="tracy"),
    }
    code, out, err = compared(capsys, *(places.get(each, each) for each in arguments))
    assert (code, out) == (2, "")
    assert said in err


def test_the_batch_size_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = run(tmp_path / "a"), run(tmp_path / "b", 1.5)
    found = json.loads(compared(capsys, *runs, "--json", "--batch-size", "32,64")[1])
    assert found["basis"] == "sample"
    assert found["timings"][0]["ratio"] == pytest.approx(0.75)


def remembered(tmp_path: Path, *factors: float, place: tuple[str, str] = SCRIPT) -> History:
    """Runs of a script in the history, in the folders 1, 2 ..."""
    history = History()
    for number, factor in enumerate(factors, 1):
        folder = run(tmp_path / place[1] / str(number), factor)
        document = json.loads((folder / "summary.json").read_text())
        history.add(folder, document, place)
    return history


def test_runs_of_the_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = remembered(tmp_path, 1.0, 2.0, 0.5)
    history.pin(history.of_script(SCRIPT)[0], "main")
    code, out, _ = compared(capsys, "@main", "@last")
    assert code == 0
    assert out.startswith("@last (run 3) against @main (run 1)")
    assert "2.00 times as fast" in out


def test_the_newest_run_is_never_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = remembered(tmp_path, 1.0, 2.0)
    newest = history.of_script(SCRIPT)[1]
    folder = Path(newest.folder)
    history.pin(newest, "main")
    for first in ("@main", "@last", folder, folder / "summary.json"):
        code, out, err = compared(capsys, first, "@last", "--fail-on-regression", 5)
        assert (code, out) == (2, "")
        assert f"newest run of project/train.py is run 2, which is {first} itself" in err
        assert "Measure again: instrument run project/train.py" in err
    code, out, _ = compared(capsys, folder.parent / "1", "@last")
    assert code == 0 and out.startswith("@last (run 2) against 1")


def test_a_later_run_in_the_same_folder_is_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = remembered(tmp_path, 1.0)
    folder = Path(history.of_script(SCRIPT)[0].folder)
    (folder / "run.json").write_text(json.dumps({"started": "later"}))
    code, out, err = compared(capsys, folder / "summary.json", "@last")
    assert code == 0, err
    assert out.startswith("@last (run 1) against 1")


@pytest.fixture
def two_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One history with two scripts; each has @main and a newer run, the second is slower by it."""
    monkeypatch.chdir(tmp_path)
    for name, factor in (("one.py", 1.0), ("my two.py", 2.0)):
        (tmp_path / name).touch()
        place = place_of(tmp_path / name)
        history = remembered(tmp_path / "runs", 1.0, factor, place=place)
        history.pin(history.of_script(place)[0], "main")
    return tmp_path


def test_the_script_that_is_offered_stands_in_this_folder(
    two_scripts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = two_scripts / "here"
    here.mkdir()
    (here / "three.py").touch()
    remembered(two_scripts / "more", 1.0, 1.0, place=place_of(here / "three.py"))
    monkeypatch.chdir(here)
    code, _, err = compared(capsys, "@last", two_scripts / "runs" / "one.py" / "1")
    assert code == 2 and "Say which: three.py@last" in err


@pytest.mark.parametrize("name", ["main", "last"])
def test_a_name_that_several_scripts_have(
    two_scripts: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, _, err = compared(capsys, two_scripts / "runs" / "one.py" / "1", f"@{name}")
    assert code == 2 and f"@{name}: several scripts have such a run (" in err
    assert "one.py, " in err and "my two.py)" in err
    assert f"one.py@{name}" in err


@pytest.mark.parametrize(
    ("names", "regressed"),
    [
        (("one.py@main", "@last"), False),
        (("my two.py@main", "@last"), True),
        (("@main", "my two.py@last"), True),
        (("my two.py@main", "my two.py@last"), True),
        (("one.py@last", "my two.py@last"), True),
    ],
)
def test_a_name_of_one_script(
    two_scripts: Path,
    capsys: pytest.CaptureFixture[str],
    names: tuple[str, str],
    regressed: bool,
) -> None:
    code, _, err = compared(capsys, *names, "--fail-on-regression", 5)
    assert code == (6 if regressed else 7), err


def test_a_path_with_an_at_sign_is_a_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = compared(capsys, run(tmp_path / "run@main"), run(tmp_path / "run@last"))
    assert code == 0 and out.startswith("run@last against run@main")
    code, _, err = compared(capsys, tmp_path / "run@main", tmp_path / "gone.py@last")
    assert code == 2 and "gone.py: no such file" in err


@pytest.mark.parametrize(
    "runs", [("one", "latest"), ("two", "one", "--", "three", "latest"), ("one", "two", "./one")]
)
def test_a_run_against_itself_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    runs: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two", "three"):
        run(tmp_path / name)
    (tmp_path / "latest").symlink_to("one")
    code, _, err = compared(capsys, *runs)
    assert code == 2 and f"{runs[-1]} and one are one run: one" in err


def test_without_anything_to_compare_it_says_what_it_takes(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("compare", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing to compare was given" in done.stderr and "--refs BASE..NEW" in done.stderr
