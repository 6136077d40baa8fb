"""Whole folders: verdicts, the tally, and that a bug of ours is named, not raised."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from instrumentor.cli import corpus
from instrumentor.shared.errors import ProofFailed
from tests.end_to_end.small import script

FILES = {
    "good.py": script(),
    "none.py": "print(1)\n",
    "word.py": "# backward\n",
    "broken.py": "def backward(:\n",
    "done.py": "x.backward()  # [instrument]\n",
    ".venv/lib/skipped.py": script(),
    "__pycache__/skipped.py": script(),
    "notes.txt": "backward",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "corpus"


@pytest.mark.parametrize(
    ("name", "outcome", "kind"),
    [
        ("good.py", "instrumented", ""),
        ("none.py", "declined", "no-backward"),
        ("word.py", "declined", "no-loop"),
        ("done.py", "declined", "instrumented"),
        ("missing.py", "error", "FileNotFoundError"),
    ],
)
def test_verdicts(folder: Path, name: str, outcome: str, kind: str) -> None:
    verdict = corpus.judge(folder / name)
    assert (verdict.outcome, verdict.kind) == (outcome, kind)


@pytest.mark.parametrize("error", [ProofFailed("not reversible"), ZeroDivisionError("ours")])
def test_a_bug_of_ours_is_an_error_with_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def rewrite(*_arguments: object, **_options: object) -> None:
        raise error

    # By the module itself: the package shows the function under this name.
    monkeypatch.setattr(import_module("instrumentor.rewrite"), "rewrite", rewrite)
    verdict = corpus.judge(folder / "good.py")
    assert (verdict.outcome, verdict.kind) == ("error", type(error).__name__)
    assert f"error: {folder / 'good.py'}: {verdict.kind}: {error}" in corpus.report([verdict], 1)


def test_a_survey_takes_the_files_in_order_and_no_environments(folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    verdicts = corpus.survey([folder, folder / "none.py"], lambda *at: steps.append(at))
    names = [verdict.file.name for verdict in verdicts]
    assert names == ["broken.py", "done.py", "good.py", "none.py", "word.py", "none.py"]
    assert steps[-1] == (6, 6)
    lines = corpus.report(verdicts, 0.26).splitlines()
    assert lines[0] == "6 files in 0.3 s"
    assert lines[1].split() == ["declined", "5"] and lines[2].split() == ["instrumented", "1"]
    assert ["no-backward", "2"] in [line.split() for line in lines]
    assert not any(line.startswith("error") for line in lines)


def test_a_survey_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.show([folder / "done.py", folder / "good.py"], json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "instrument-survey/1" and document["duration_s"] >= 0
    done, good = document["files"]
    assert (done["outcome"], done["kind"]) == ("declined", "instrumented")
    assert done["message"] and done["file"] == str(folder / "done.py")
    assert (good["outcome"], good["kind"]) == ("instrumented", "")


def test_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.show([tmp_path]) == 0
    assert capsys.readouterr().out.startswith("0 files in ")
