"""The journal: what was done survives a kill at any byte; what was not is done again."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from instrumentor.shared.errors import UsageError
from instrumentor.tune.journal import Journal
from instrumentor.tune.outcome import KILLED, Outcome

DONE = Outcome("measured", samples_ms=(1.5, 2.0), losses=(0.5, math.nan), batch_shape=(4, 8))


def filled(folder: Path) -> Journal:
    """A journal with one trial done and one begun."""
    journal = Journal.create(folder, {"script": "train.py"})
    journal.begin("one", folder / "trials" / "01")
    journal.end("one", DONE)
    journal.begin("two", folder / "trials" / "02")
    return journal


def test_read_back(tmp_path: Path) -> None:
    filled(tmp_path)
    journal = Journal.open(tmp_path)
    assert journal.header["script"] == "train.py"
    assert list(journal.outcomes) == ["one"]
    back = journal.outcomes["one"]
    assert back.samples_ms == DONE.samples_ms and back.batch_shape == (4, 8)
    assert math.isnan(back.losses[1])
    assert journal.begun == {"two": tmp_path / "trials" / "02"}
    assert journal.count == 2


def test_cut_anywhere_it_opens_and_goes_on(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / "journal.jsonl"
    whole = path.read_bytes()
    for size in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:size])
        journal = Journal.open(tmp_path)
        assert set(journal.outcomes) <= {"one"}
        journal.end("three", DONE)
        assert "three" in Journal.open(tmp_path).outcomes


@pytest.mark.parametrize("content", ["", '{"schema": "other/1"}\n'])
def test_something_else_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match="there is no"):
        Journal.open(tmp_path)
    (tmp_path / "journal.jsonl").write_text(content)
    with pytest.raises(UsageError, match="not of this version"):
        Journal.open(tmp_path)


def test_killed_trials_are_to_be_done_again(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    journal.end("two", Outcome(KILLED, "signal 9"))
    assert list(journal.outcomes) == ["one", "two"]
    assert list(Journal.open(tmp_path).outcomes) == ["one"]


def test_an_outcome_survives_json_with_infinite_losses() -> None:
    made = Outcome("measured", losses=(1.0, float("inf")), samples_ms=(1.0,))
    assert Outcome.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False))) == made
    assert Outcome.from_json({**made.to_json(), "later": 1}) == made
