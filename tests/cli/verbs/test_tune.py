"""`instrument tune`: what to type next, whatever came of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace as Like
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor.cli import next_commands
from instrumentor.cli.main import call
from instrumentor.cli.verbs import tune as verb
from instrumentor.tune import report
from instrumentor.tune.judge import NOT_PROVEN
from instrumentor.tune.settings import Value, parsed
from tests.tune.test_report import tuned


def following(
    monkeypatch: pytest.MonkeyPatch, promising: tuple[str, Value] | None, **document: Any
) -> str:
    """The next command for a script of which these facts were found out."""
    monkeypatch.setattr(verb, "_typed", lambda context, sibling: ["--steps", "8"])
    known = {"patch": None, "best_arguments": None, "withheld": None, "best": {}, "trials": []}
    known |= document
    asked = {name: known.pop(name, False) for name in ("out_of_budget", "too_noisy")}
    search = Like(**asked, promising=lambda: promising)
    target = Like(script=Path.cwd() / "tr ain.py", arguments=("--lr", "a b"))
    done: Any = Like(search=search, target=target, folder=Path.cwd() / "tuned")
    context: Any = Like()
    made: Any = Like(document=known)
    return verb._next(context, done, made)


def test_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(Path.cwd())
    patch = following(monkeypatch, None, patch="best.diff", patch_root=root)
    assert patch == f"git apply {root}/tuned/best.diff"
    chosen = following(monkeypatch, None, best_arguments=["--batch", "64"])
    assert chosen == "instrument run --steps 8 'tr ain.py' --batch 64"
    assert following(monkeypatch, None) == "instrument run --steps 8 'tr ain.py' --lr 'a b'"
    goes_on = following(monkeypatch, None, out_of_budget=True, withheld="busy")
    assert goes_on == "instrument tune --resume tuned"


@pytest.mark.parametrize("promising", [("amp", "bfloat16"), ("tf32", True), ("num_workers", 4)])
def test_what_nothing_is_concluded_of_can_be_compared_in_pairs(
    monkeypatch: pytest.MonkeyPatch, promising: tuple[str, Value]
) -> None:
    said = following(monkeypatch, promising, withheld="the machine was busy")
    assert said.startswith("instrument compare --steps 8 --set ")
    assert said.endswith(" 'tr ain.py' --lr 'a b'")
    assert parsed(said.split()[5]) == promising


def test_a_tuning_that_was_too_noisy_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    said = following(monkeypatch, ("amp", "bfloat16"), withheld="differ", too_noisy=True)
    again = "instrument tune --steps 8 'tr ain.py' --lr 'a b'"
    assert said == f"{again}  # when the machine is quiet"


def test_a_tuning_that_proved_nothing_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [{"name": "amp", "verdict": NOT_PROVEN}]
    again = "instrument tune --steps 8 'tr ain.py' --lr 'a b'  # when the machine is quiet"
    assert following(monkeypatch, None, trials=trials) == again
    best = following(monkeypatch, None, trials=trials, best={"tf32": True})
    assert best.startswith("instrument run ")


def test_what_a_tuning_found_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "project").mkdir()
    made = tuned(tmp_path / "project")
    folder = tmp_path / "mlp_tune-1"
    (folder / "trials/01_baseline/run").mkdir(parents=True)
    report.write(replace(made, folder=folder), report.make_report(made))
    assert call(["report", str(folder)]) == 0
    shown = capsys.readouterr()
    assert "optimization_level 1" in shown.out and "Best: " in shown.out
    assert f"instrument report {folder}/trials/01_baseline/run" in shown.err
    assert call(["report", "--json", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "instrument-tune/2"
    assert call(["report", "--ops", str(folder)]) == 2
    assert "ops belong to a single run" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "instrument-tune/2"}'])
def test_a_damaged_tuning_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "tune.json").write_text(text)
    assert call(["report", str(tmp_path)]) == 2
    assert "it is no document of a tuning" in capsys.readouterr().err


def test_options_of_another_verb_that_was_not_built() -> None:
    context: Any = Like(parent=Like(command=Like(commands={})))
    names = next_commands._names(context, "compare")
    assert {"steps", "set", "python"} <= names and "budget" not in names
