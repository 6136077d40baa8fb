"""Whole folders: verdicts, the tally, the CSV, and that a bug of ours is named, not raised."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path

import pytest

from instrumentor import corpus
from instrumentor.errors import ProofFailed
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


def test_files_in_order_without_environments(folder: Path) -> None:
    names = [path.name for path in corpus.find_files([folder, folder / "none.py"])]
    assert names == ["broken.py", "done.py", "good.py", "none.py", "word.py", "none.py"]


@pytest.mark.parametrize(
    ("name", "outcome", "kind"),
    [
        ("good.py", "instrumented", ""),
        ("none.py", "declined", "no-backward"),
        ("word.py", "declined", "no-loop"),
        ("done.py", "declined", "UsageError"),
        ("missing.py", "error", "FileNotFoundError"),
    ],
)
def test_verdicts(folder: Path, name: str, outcome: str, kind: str) -> None:
    verdict = corpus.judge(folder / name)
    assert (verdict.outcome, verdict.kind) == (outcome, kind)
    assert (verdict.loop == 34) is (outcome == "instrumented")
    assert verdict.duration_ms >= 0


def test_a_file_that_is_no_python_is_declined(folder: Path) -> None:
    assert corpus.judge(folder / "broken.py").outcome == "declined"


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
    assert verdict.message == str(error)


def test_a_survey_counts(folder: Path) -> None:
    seen: list[corpus.Verdict] = []
    steps: list[tuple[int, int]] = []
    tally = corpus.survey([folder], jobs=1, progress=lambda *at: steps.append(at),
                          on_verdict=seen.append)  # fmt: skip
    assert tally.files == len(seen) == 5
    assert steps[-1] == (5, 5)
    assert tally.outcomes == {"instrumented": 1, "declined": 4}
    assert tally.declined["no-backward"] == 1
    assert tally.errors == ()
    text = corpus.report(tally)
    assert text.startswith("5 files in ")
    assert "declined by reason" in text


def test_the_tally_of_no_files(tmp_path: Path) -> None:
    assert corpus.report(corpus.survey([tmp_path], jobs=1)).startswith("0 files in ")


def test_main_writes_a_csv(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "rows.csv"
    assert corpus.main([str(folder), "--csv", str(target), "--jobs", "1"]) == 0
    with target.open(newline="") as stream:
        rows = {Path(row["file"]).name: row for row in csv.DictReader(stream)}
    assert rows["good.py"]["outcome"] == "instrumented"
    assert rows["good.py"]["bytes"] == str(len(script()))
    out, err = capsys.readouterr()
    assert out.startswith("5 files in ")
    assert f"Wrote {target}" in err


def test_a_bug_of_ours_stands_in_the_report(tmp_path: Path) -> None:
    verdict = corpus.Verdict(tmp_path / "a.py", "error", "KeyError", message="x")
    counts = corpus.Counter(error=1)
    tally = corpus.Tally(1, counts, corpus.Counter(), 0, 0.1, (verdict,))
    assert f"error: {tmp_path / 'a.py'}: KeyError: x" in corpus.report(tally)
