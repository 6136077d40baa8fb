"""The journal: what was done survives a kill at any byte; what was not is done again."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from instrumentor.shared.errors import UsageError
from instrumentor.tune import journal as journals
from instrumentor.tune.journal import Journal
from instrumentor.tune.outcome import KILLED, Outcome
from tests.attackers import TWO_USERS, as_another_user, shared_tmp, without_rights

__all__ = ["shared_tmp"]
pytestmark = pytest.mark.usefixtures("no_hang")

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
    journal = Journal.resumed(tmp_path)
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
        journal = Journal.resumed(tmp_path)
        assert set(journal.outcomes) <= {"one"}
        journal.end("three", DONE)
        assert "three" in Journal.resumed(tmp_path).outcomes


@pytest.mark.parametrize("content", ["", '{"schema": "other/1"}\n'])
def test_something_else_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match="there is no"):
        Journal.resumed(tmp_path)
    (tmp_path / "journal.jsonl").write_text(content)
    with pytest.raises(UsageError, match="not of this version"):
        Journal.resumed(tmp_path)


THEIRS = b"one\ntwo\nthree, without an end"


@pytest.mark.parametrize(
    "text", [THEIRS, b"no line at all", b"[" * 100_000, b'{"schema": []}\n[\n']
)
def test_what_is_no_journal_keeps_every_byte(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=r"journal\.jsonl is "):
        Journal.resumed(tmp_path)
    assert path.read_bytes() == text


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_a_journal_behind_a_link_is_not_written_through(tmp_path: Path, make) -> None:
    """A tuning folder may have come from anybody, the file at the link's end is the user's."""
    filled(tmp_path)
    mine = tmp_path / "mine"
    (tmp_path / "journal.jsonl").rename(mine)
    mine.write_bytes(mine.read_bytes() + b"my last line, without an end")
    before = mine.read_bytes()
    make(tmp_path / "journal.jsonl", mine)
    with pytest.raises(UsageError, match=r"is a symbolic link|names \(hard links\)"):
        Journal.resumed(tmp_path)
    assert mine.read_bytes() == before


def test_a_journal_that_is_exchanged_for_a_link_is_not_added_to(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    journal.path.unlink()
    journal.path.symlink_to(mine)
    with pytest.raises(OSError, match="is a symbolic link"):
        journal.end("two", DONE)
    assert mine.read_bytes() == b"mine"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal.jsonl")
    with pytest.raises(UsageError, match="is a pipe"):
        Journal.resumed(tmp_path)


@TWO_USERS
def test_a_journal_of_another_user_is_not_gone_on_from(shared_tmp: Path) -> None:
    def plant() -> None:
        filled(shared_tmp)

    as_another_user(plant)
    with pytest.raises(UsageError, match="belongs to another user"):
        Journal.resumed(shared_tmp)


def test_a_journal_that_may_not_be_read_is_said_to_be_closed(shared_tmp: Path) -> None:
    filled(shared_tmp)
    (shared_tmp / "journal.jsonl").chmod(0)

    def resume() -> None:
        said = r"journal\.jsonl cannot be read: Permission denied"
        with pytest.raises(UsageError, match=said) as refused:
            Journal.resumed(shared_tmp)
        assert "ls -l" in refused.value.hint

    without_rights(resume)


def test_killed_trials_are_to_be_done_again(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    journal.end("two", Outcome(KILLED, "signal 9"))
    assert list(journal.outcomes) == ["one", "two"]
    assert list(Journal.resumed(tmp_path).outcomes) == ["one"]


def test_an_outcome_survives_json_with_infinite_losses() -> None:
    made = Outcome("measured", losses=(1.0, float("inf")), samples_ms=(1.0,))
    assert Outcome.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False))) == made
    assert Outcome.from_json({**made.to_json(), "later": 1}) == made


@pytest.mark.parametrize(
    "place",
    ["/", "/proc/self", "..", "trials/../..", "linked", "linked/02", "a" * 5000],
)
def test_a_trial_that_lies_elsewhere_is_none(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "tune"
    folder.mkdir()
    filled(folder)
    (folder / "linked").symlink_to(tmp_path)
    with (folder / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"event": "begun", "key": "three", "folder": place}) + "\n")
    with pytest.raises(UsageError, match="is damaged: "):
        Journal.resumed(folder)


def test_a_journal_larger_than_any_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is looked at, and what it tells is held."""
    filled(tmp_path)
    path = tmp_path / "journal.jsonl"
    monkeypatch.setattr(journals, "LIMIT_BYTES", path.stat().st_size)
    assert Journal.resumed(tmp_path).count == 2
    monkeypatch.setattr(journals, "MOST_TRIALS", 1)
    with pytest.raises(UsageError, match="is damaged: it tells of more than 1 trials"):
        Journal.resumed(tmp_path)
    monkeypatch.setattr(journals, "LIMIT_BYTES", path.stat().st_size - 1)
    with pytest.raises(UsageError, match="is larger than"):
        Journal.resumed(tmp_path)


def test_no_trial_is_kept_behind_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "tune"
    folder.mkdir()
    journal = Journal.create(folder, {})
    (folder / "trials").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="trials: no trial can be kept: is a symbolic link"):
        journal.free("batch")
    assert [path.name for path in tmp_path.iterdir()] == ["tune"]


def test_a_folder_that_a_kill_left_is_no_obstacle(tmp_path: Path) -> None:
    """The one of a trial is made before the journal tells of it."""
    journal = Journal.create(tmp_path, {})
    made = [journal.free("batch") for _ in range(2)]
    assert [path.name for path in made] == ["01_batch", "01_batch-2"]
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "trials").touch()
    with pytest.raises(UsageError, match="no trial can be kept"):
        Journal.create(tmp_path / "file", {}).free("batch")
