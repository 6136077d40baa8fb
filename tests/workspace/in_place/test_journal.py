"""The record of an in-place run: written whole or not at all, kept in git, held by one process."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor.shared.errors import NotReady, RestoreNeeded
from instrumentor.workspace import git as git_module
from instrumentor.workspace.in_place import inspect, journal
from instrumentor.workspace.in_place.disk import Disk
from instrumentor.workspace.in_place.journal import Journal
from tests.conftest import git
from tests.workspace.disks import FaultyDisk

TEXT = b"x = 1\n"


@pytest.fixture
def repo(git_repo) -> Path:
    return git_repo({"train.py": TEXT, "other.py": TEXT})


def record_of(repo: Path, *names: str) -> Journal:
    entries = [inspect(repo / name, TEXT, b"new", Disk()) for name in names or ("train.py",)]
    return journal.new(tuple(entries), repo)


def kept_in(repo: Path) -> tuple[Journal, ...]:
    return tuple(journal.kept(repo / ".git", ref) for ref in journal.refs(repo / ".git"))


def test_its_text_gives_it_back(repo: Path) -> None:
    record = record_of(repo, "train.py", "other.py")
    assert journal.parse(record.text()) == record
    odd = replace(record.entries[0], path=repo / "\udcff.py")
    assert journal.parse(replace(record, entries=(odd,)).text()).entries == (odd,)
    document = json.loads(record.text())
    assert document["schema"] == "instrument-journal/1" and record.text().endswith(b"}\n")
    assert document["entries"][1]["stem"] == f".instrument-{record.id}-1"
    assert record.ref == f"refs/instrumentor/{record.id}"
    assert record.location.name == f"{record.id}.json" and record.pid == os.getpid()
    entry = record.entries[0]
    names = [path.name for path in (entry.part, entry.side, entry.aside)]
    assert names == [f"{entry.stem}{end}" for end in (".part", ".side", ".side.swap")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": "instrument-journal/2"}, "'instrument-journal/2' - at `$.schema`"),
        ({"id": "../../x"}, "at `$.id`"),
        ({"id": "0123456789abc"}, "at `$.id`"),
        ({"entries": 3}, "at `$.entries`"),
        ({"pid": "x"}, "at `$.pid`"),
        ({"pid": 0}, "at `$.pid`"),
        ({"location": None}, ""),
        ({"location": "/a\0b"}, "null character"),
        ({"location": "/\ud800"}, "surrogates not allowed"),
    ],
)
def test_one_of_another_kind_is_refused_with_the_reason(
    repo: Path, change: dict[str, object], why: str
) -> None:
    document = {**json.loads(record_of(repo).text()), **change}
    with pytest.raises(RestoreNeeded) as caught:
        journal.parse(json.dumps(document).encode())
    assert caught.value.message.startswith("a journal cannot be read: ")
    assert why in caught.value.message


@pytest.mark.parametrize(
    "change",
    [
        {"mode": 0o10000},
        {"mtime_ns": 10**30},
        {"blob": "--batch"},
        {"sha256": ""},
        {"stem": "x"},
        {"instrumented_blob": "--batch"},
    ],
)
def test_an_entry_that_the_system_could_not_take_is_refused(
    repo: Path, change: dict[str, object]
) -> None:
    document = json.loads(record_of(repo).text())
    document["entries"][0].update(change)
    with pytest.raises(RestoreNeeded, match="cannot be read"):
        journal.parse(json.dumps(document).encode())


def test_a_text_without_an_end_is_refused(repo: Path) -> None:
    with pytest.raises(RestoreNeeded, match="cannot be read"):
        journal.parse(b"[" * 100_000)


def test_during_the_run_it_is_whole_closed_to_others_and_held(repo: Path) -> None:
    record = record_of(repo)
    before = os.umask(0)
    try:
        with journal.written(record, Disk()):
            assert record.location.read_bytes() == record.text()
            assert stat.S_IMODE(record.location.stat().st_mode) == 0o600
            assert [path.name for path in record.location.parent.iterdir()] == [
                record.location.name
            ]
            with journal.taken(record.location) as found:
                assert found is None
            assert journal.pending() == (record.location,)
    finally:
        os.umask(before)
    with journal.taken(record.location) as found:
        assert found == record
        with journal.taken(record.location) as second:
            assert second is None
    with record.location.open() as stream:  # given back
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_one_that_cannot_be_written_leaves_nothing(repo: Path) -> None:
    record = record_of(repo)
    whole = FaultyDisk()
    with journal.written(record, whole):
        record.location.unlink()
    assert whole.done[:3] == ["write", "sync", "rename"]
    for at in range(1, whole.count):
        with (
            pytest.raises(NotReady, match=r"cannot be written: No space left") as caught,
            journal.written(record, FaultyDisk(at, 28)),
        ):
            pytest.fail("it begins")
        assert "set INSTRUMENT_CACHE" in caught.value.hint
        assert not list(record.location.parent.glob("*.part"))
        record.location.unlink(missing_ok=True)


def test_other_names_in_its_folder_are_none(repo: Path) -> None:
    record = record_of(repo)
    with journal.written(record, Disk()):
        folder = record.location.parent
        (folder / "notes.txt").touch()
        (folder / "0123456789ab.json.x.part").touch()
    assert journal.pending() == (record.location,)
    assert len(list(folder.iterdir())) == 3
    with journal.taken(folder / "missing.json") as found:
        assert found is None


def test_git_keeps_the_originals_and_the_journal_until_it_is_closed(repo: Path, git_repo) -> None:
    other = git_repo({"train.py": TEXT}, name="other")
    entries = [inspect(folder / "train.py", TEXT, b"new", Disk()) for folder in (repo, other)]
    record = journal.new(tuple(entries), repo)
    assert record.repositories == (repo / ".git", other / ".git")
    journal.hold(record, Disk())
    for number, folder in enumerate((repo, other)):
        listed = git(folder, "ls-tree", "--name-only", record.ref).split()
        assert listed == [str(number), "journal.json"]
        assert git(folder, "cat-file", "blob", f"{record.ref}:{number}").strip() == "x = 1"
        git(folder, "gc", "-q", "--prune=now")
        assert journal.load(entries[number].blob, folder / ".git") == TEXT
        assert kept_in(folder) == (record,)
    journal.close(record, Disk())
    assert kept_in(repo) == kept_in(other) == ()


def test_a_ref_that_bears_anothers_journal_is_not_that_run(repo: Path) -> None:
    record = record_of(repo)
    journal.hold(record, Disk())
    other = f"{journal.REFS}/0123456789ab"
    git(repo, "update-ref", other, record.ref)
    assert journal.kept(repo / ".git", record.ref) == record
    with pytest.raises(RestoreNeeded, match=f"keeps the journal of {record.ref}"):
        journal.kept(repo / ".git", other)


def test_bytes_that_git_does_not_give_back_stop_the_run(repo: Path, monkeypatch) -> None:
    monkeypatch.setattr(git_module, "read", lambda *values, **more: b"other")
    with pytest.raises(NotReady, match=r"does not give back the bytes of .*train\.py") as caught:
        journal.store(repo / "train.py", TEXT, repo / ".git", Disk())
    assert "git fsck" in caught.value.hint


def test_the_originals_are_on_the_disk_before_anything_is_swapped(repo: Path) -> None:
    synced: list[Path] = []

    class Noted(Disk):
        def sync_folder(self, folder: Path) -> None:
            synced.append(folder)

    blob = journal.store(repo / "train.py", b"unheard of\n", repo / ".git", Noted())
    objects = repo / ".git" / "objects"
    assert synced == [objects / blob[:2], objects]


def test_closing_survives_what_is_gone_already(repo: Path) -> None:
    record = record_of(repo)
    journal.close(record, Disk())  # neither written nor held
    gone = replace(record.entries[0], repository=repo / "gone.git")
    journal.close(replace(record, entries=(gone,)), Disk())
    with journal.written(record, Disk()):
        journal.hold(record, Disk())
    journal.close(record, Disk())
    assert not record.location.exists() and kept_in(repo) == ()
