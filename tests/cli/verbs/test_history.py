"""`instrument history`: the list, the plot, the pin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instrumentor.cli.common import Remembered
from instrumentor.cli.main import call
from instrumentor.cli.verbs.history import remember
from instrumentor.results.history import History, place_of
from instrumentor.run.options import RunResult
from instrumentor.workspace.linked_data import UsersFiles
from instrumentor_analysis.model import Summary
from tests.analysis.compare.sides import summary


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script of which two runs are known."""
    path = tmp_path / "train.py"
    path.touch()
    for label, median in (("baseline", 10.0), ("trace", 5.0)):
        run = {"label": label, "started": "2026-01-02T03:04:05+00:00"}
        document = summary([median] * 5, run=run, environment={"git_commit": "a" * 40}).to_json()
        History().add(tmp_path / label, document, place_of(path))
    return path


def test_the_list(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["history", str(script)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:]] == ["baseline", "trace"]
    assert all("wallclock" in line for line in lines[2:])
    assert "10.0 ms" in lines[2] and " 5.0 ms" in lines[3]


def test_scripts_are_named_from_the_working_folder(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = script.parent / "part/main.py"
    other.parent.mkdir()
    other.touch()
    History().add(script.parent / "other-1", summary([3.0] * 5).to_json(), place_of(other))
    monkeypatch.chdir(script.parent)
    assert call(["history"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[1] for line in lines[2:]} == {"train.py", "part/main.py"}


def test_numbers_that_begin_elsewhere_are_explained(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["history", str(script)]) == 0
    assert "Numbers" not in capsys.readouterr().err
    other = tmp_path / "other.py"
    other.touch()
    History().add(tmp_path / "other-1", summary([3.0] * 5).to_json(), place_of(other))
    assert call(["history", str(other)]) == 0
    assert "Numbers are counted over the runs of all scripts" in capsys.readouterr().err


def test_of_many_runs_the_newest_are_shown_and_the_others_counted(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("instrumentor.cli.verbs.history.MOST_ROWS", 1)
    assert call(["history", str(script)]) == 0
    said = capsys.readouterr()
    assert "trace" in said.out and "baseline" not in said.out
    assert "Earlier runs that are not shown: 1; --json lists all" in said.err
    assert call(["history", str(script), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2


def test_without_a_script_all_are_listed(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.py").touch()
    document = summary([3.0] * 5).to_json()
    History().add(tmp_path / "other-1", document, place_of(tmp_path / "other.py"))
    assert call(["history"]) == 0
    said = capsys.readouterr()
    rows = [line.split() for line in said.out.splitlines()[2:]]
    assert ["train.py" in rows[0], "other.py" in rows[1]] == [True, True]
    assert f"instrument history {tmp_path / 'other.py'}" in said.err
    assert call(["history", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2
    assert call(["history", "--baseline", "x"]) == 2


def test_without_any_run_nothing_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["history"]) == 0
    assert "has no run yet" in capsys.readouterr().err


def test_json(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["history", str(script), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "instrument-history/1"
    assert [run["median_ms"] for run in found["runs"]] == [10.0, 5.0]


def test_a_pin_is_the_newest_run_or_the_one_named(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["history", str(script), "--baseline", "main"]) == 0
    assert "Run 2 is now @main" in capsys.readouterr().err
    assert call(["history", str(script), "--baseline", "main", "--run", "1"]) == 0
    said = capsys.readouterr()
    assert "Run 1 is now @main" in said.err and "baseline @main" in said.out


def test_a_plot(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = script.parent / "medians.png"
    assert call(["history", str(script), "--plot", str(target)]) == 0
    assert target.read_bytes().startswith(b"\x89PNG")


def test_without_a_steady_step_there_is_no_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, target = tmp_path / "short.py", tmp_path / "medians.png"
    script.touch()
    History().add(tmp_path / "short", summary([]).to_json(), place_of(script))
    assert call(["history", str(script), "--plot", str(target)]) == 2
    assert "no run has a steady step" in capsys.readouterr().err and not target.exists()


def test_a_plot_replaces_nothing_and_nothing_else_is_done(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = script.parent / "mine.svg"
    target.write_text("mine")
    asked = ["history", str(script), "--plot", str(target), "--baseline", "main"]
    assert call(asked) == 2
    assert f"{target} exists" in capsys.readouterr().err and target.read_text() == "mine"
    assert call(["history", str(script)]) == 0
    assert "@main" not in capsys.readouterr().out
    assert call([*asked, "--force"]) == 0
    assert "<svg" in target.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--plot", "x.txt"], "has to end in .png"),
        (["--run", "1"], "says which run to pin"),
        (["--baseline", "x", "--run", "9"], "no run of"),
        (["--baseline", "last"], "not a name"),
    ],
)
def test_what_is_refused(
    script: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert call(["history", str(script), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_script_without_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.py").touch()
    assert call(["history", str(tmp_path / "new.py")]) == 2
    assert "has no run of" in capsys.readouterr().err


def test_a_run_can_stay_out_of_it(script: Path) -> None:
    result = RunResult(script.parent / "run", summary([1.0] * 5), 0, UsersFiles())
    remember(result, script, Remembered(no_history=True))
    assert len(History().of_script(place_of(script))) == 2
    remember(result, script, Remembered())
    assert len(History().of_script(place_of(script))) == 3


def test_a_run_that_measured_nothing_is_not_added(script: Path) -> None:
    nothing = RunResult(script.parent / "run", Summary("torch"), 1, UsersFiles())
    remember(nothing, script, Remembered())
    assert len(History().of_script(place_of(script))) == 2


def failed(script: Path, folder: Path, why: str) -> None:
    """A run of the script that failed."""
    result = RunResult(folder, Summary(profiler="wallclock"), 1, UsersFiles())
    remember(result, script, Remembered(), why=why)


def test_runs_without_a_figure_are_counted_with_their_reasons(
    script: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed(script, tmp_path / "train-3", "interrupted")
    for number in (4, 5):
        failed(script, tmp_path / f"train-{number}", "the script ended with code 1")
    assert call(["history", str(script)]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 4 and "train-5" not in said.out
    assert (
        "Not listed: 3 incomplete runs: the script ended with code 1 (2), interrupted (1) "
        f"(the newest is {tmp_path / 'train-5'})\n"
    ) in said.err
    for folder, told in ((script.parent, True), (tmp_path.parent, False)):
        monkeypatch.chdir(folder)
        assert call(["history"]) == 0
        said_of_it = "Not listed of this project: 3 incomplete runs" in capsys.readouterr().err
        assert said_of_it is told, folder
    assert call(["history", str(script), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (len(document["runs"]), document["failed"][0]["why"]) == (2, "interrupted")


def test_a_script_of_which_no_run_has_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new.py"
    path.touch()
    failed(path, tmp_path / "new-1", "")  # nothing went wrong, and nothing was measured
    assert History().of_script(place_of(path)) == History().newest() == ()
    assert call(["history", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"1 incomplete run: nothing was measured ({tmp_path / 'new-1'})" in said
