"""An error about a value that nobody typed names the file or the variable that it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.cli import main as cli

#: An option, what is wrong with it, and what is said: of Typer's checks, of ours, of conversions.
WRONG = [
    ("steps", '"many"', "many", "'many'", "not a whole number"),
    ("steps", "-3", "-3", "-3", "--steps -3: must be 1 or more"),
    ("time_budget", "-1", "-1", "-1", "--time-budget -1.0: must be above 0"),
    ("scope", '"all"', "all", "'all'", "--scope all: "),
    ("region", '"a-b"', "a-b", "'a-b'", "--region"),
]


def _said(capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.call(["run", "train.py"]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(("key", "value", "typed", "shown", "said"), WRONG)
def test_of_a_file(
    *,
    key: str,
    value: str,
    typed: str,
    shown: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").touch()
    file = tmp_path / "pyproject.toml"
    file.write_text(f"[tool.instrument]\n{key.replace('_', '-')} = {value}\n")
    monkeypatch.chdir(tmp_path)
    error = _said(capsys)
    assert error.startswith(f"error: pyproject.toml: [tool.instrument]: {key} = {shown}: ")
    assert said in error


@pytest.mark.parametrize(("key", "value", "typed", "shown", "said"), WRONG)
def test_of_a_variable(
    *,
    key: str,
    value: str,
    typed: str,
    shown: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(f"INSTRUMENT_{key.upper()}", typed)
    error = _said(capsys)
    assert error.startswith(f"error: INSTRUMENT_{key.upper()}={typed}: ")
    assert said in error


def test_of_what_was_typed_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "pyproject.toml").write_text("[tool.instrument]\nsteps = 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSTRUMENT_STEPS", "6")
    for typed in ("many", "-3"):
        assert cli.call(["run", f"--steps={typed}", "train.py"]) == 2
        said = capsys.readouterr().err
        assert "--steps" in said and "pyproject" not in said and "INSTRUMENT" not in said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--stpes", "No such option: --stpes; did you mean --steps?"),
        ("--xyzzy", "No such option: --xyzzy\n"),
    ],
)
def test_a_mistyped_option_has_one_suggestion(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.call(["run", typed, "3", "train.py"]) == 2
    error = capsys.readouterr().err
    assert said in error and "--yes" not in error
