"""What the user is told of each file that is put back, and what a failure leaves to try again."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor.locate.located import Declined
from instrumentor.shared.errors import NotReady, Restored, RestoreNeeded
from instrumentor.workspace.in_place import inspect, journal, put
from instrumentor.workspace.in_place.disk import Disk
from instrumentor.workspace.in_place.journal import Journal
from instrumentor.workspace.in_place.restoring import restore, state
from tests.conftest import git
from tests.workspace.test_in_place import INSTRUMENTED, TEXT, facts, left_over, listing, opened

SAVED = b"mine\n"


@pytest.fixture
def repo(git_repo) -> Path:
    return git_repo({"train.py": TEXT, "pkg/other.py": b"y = 1\n"})


def killed(repo: Path, *names: str) -> Journal:
    """A run in place of these files that was killed while they were instrumented."""
    disk = Disk()
    paths = [repo / name for name in names or ("train.py",)]
    record = journal.new(tuple(inspect(p, p.read_bytes(), INSTRUMENTED, disk) for p in paths), repo)
    with journal.written(record, disk):
        journal.hold(record, disk)
        for entry in record.entries:
            put(entry, INSTRUMENTED, disk)
    return record


def failed(*arguments: Path | None, disk: Disk | None = None) -> tuple[RestoreNeeded, Restored]:
    with pytest.raises(RestoreNeeded) as caught:
        restore(*arguments, disk=disk)
    return caught.value, caught.value.restored[0]


def test_each_file_has_a_record_that_says_what_became_of_it(repo: Path) -> None:
    killed(repo, "train.py", "pkg/other.py")
    one, other = restore()
    assert one.to_json() == {
        "path": f"{repo}/train.py",
        "action": "restored",
        "text": f"{repo}/train.py is restored, as it was before the run",
        "kept": [],
    }
    assert other.path == repo / "pkg" / "other.py" and left_over(repo) == []


def test_what_gits_bytes_do_not_bring_back_is_said(repo: Path) -> None:
    killed(repo).entries[0].side.unlink()
    (one,) = restore()
    assert one.action == "restored" and (repo / "train.py").read_bytes() == TEXT
    assert "but for owner, access lists and extended attributes" in one.text


def test_one_file_that_fails_keeps_the_journal_and_no_other_file_away(repo: Path) -> None:
    record = killed(repo, "pkg/other.py", "train.py")
    shutil.move(repo / "pkg", repo / "away")
    error, first = failed()
    blob = record.entries[0].blob
    assert first.action == "failed" and first.text == (
        f"{repo}/pkg/other.py could not be put back: the folder {repo}/pkg is gone; its original "
        f"is git's blob {blob} "
        f"(git --no-replace-objects --git-dir {repo}/.git cat-file blob {blob})"
        f"; to give up on it: rm {record.location}"
    )
    assert error.hint == "Fix that, then run: instrument restore"
    assert (repo / "train.py").read_bytes() == TEXT
    shutil.move(repo / "away", repo / "pkg")
    assert [each.action for each in restore()] == ["restored", "unchanged"]
    assert (repo / "pkg" / "other.py").read_bytes() == b"y = 1\n" and left_over(repo) == []


def test_everything_that_needs_the_user_is_named_at_once(repo: Path) -> None:
    killed(repo, "train.py", "pkg/other.py")
    for path in (repo / "train.py", repo / "pkg" / "other.py"):
        path.write_bytes(SAVED)
    error, first = failed()
    assert error.message == "; ".join(
        f"{path} was edited during the run; both versions are kept: it, and "
        f"{path}.before-instrument"
        for path in (repo / "train.py", repo / "pkg" / "other.py")
    )
    assert first.kept == (repo / "train.py.before-instrument",)
    assert first.to_json()["kept"] == [f"{repo}/train.py.before-instrument"]
    assert error.hint == "Compare the versions and keep the one you want."


def test_what_was_saved_beside_and_in_the_file_is_kept_under_free_names(repo: Path) -> None:
    record = killed(repo)
    for name in ("train.py.edited", "train.py.edited-2"):
        (repo / name).write_text("older")
    record.entries[0].side.write_bytes(b"hm\n")
    (repo / "train.py").write_bytes(SAVED)
    before = record.entries[0]
    _, found = failed()
    assert found.kept == (repo / "train.py.edited-3", repo / "train.py.before-instrument")
    assert found.text.endswith(
        f"it, and {repo}/train.py.edited-3, {repo}/train.py.before-instrument"
    )
    assert found.kept[0].read_bytes() == b"hm\n"
    assert facts(found.kept[1])[::2] == (TEXT, before.mtime_ns)
    assert (repo / "train.py").read_bytes() == SAVED


@pytest.mark.parametrize("field", ["mode", "mtime_ns"])
def test_what_cannot_be_set_back_is_said(repo: Path, field: str) -> None:
    """Some network disks take a mode or a time and keep their own."""

    class Stubborn(Disk):
        def stamp(self, path: Path, mode: int, mtime_ns: int) -> None:
            if field == "mode":
                os.utime(path, ns=(1, mtime_ns))
            else:
                path.chmod(mode)

    killed(repo)
    side = next(repo.glob(".instrument-*"))
    side.chmod(0o600)
    os.utime(side, ns=(1, 1))
    error, found = failed(disk=Stubborn())
    assert "its mode or its modification time could not be set back" in error.message
    assert found.action == "failed" and (repo / "train.py").read_bytes() == TEXT
    assert [each.action for each in restore()] == ["restored"]


def test_bytes_that_are_not_the_originals_at_the_end_are_said(repo: Path) -> None:
    class Spoiling(Disk):
        def stamp(self, path: Path, mode: int, mtime_ns: int) -> None:
            path.write_bytes(SAVED)
            super().stamp(path, mode, mtime_ns)

    killed(repo)
    os.utime(next(repo.glob(".instrument-*")), ns=(1, 1))
    error, _ = failed(disk=Spoiling())
    assert "its bytes are not those of before the run" in error.message
    assert journal.pending() != ()


def test_a_journal_that_cannot_be_removed_is_named(repo: Path) -> None:
    class Full(Disk):
        def remove(self, path: Path) -> None:
            if path.suffix == ".json":
                raise OSError(30, "Read-only file system", str(path))
            super().remove(path)

    record = killed(repo)
    with pytest.raises(RestoreNeeded) as caught:
        restore(disk=Full())
    assert [each.action for each in caught.value.restored] == ["restored", "failed"]
    assert f"{record.location}: the journal cannot be removed:" in caught.value.message
    assert "Read-only file system" in caught.value.message
    assert (repo / "train.py").read_bytes() == TEXT


def test_folders_that_no_repository_holds_have_nothing_to_restore(tmp_path: Path) -> None:
    assert restore(tmp_path) == () and restore(tmp_path / "missing") == ()


def test_what_is_no_file_in_the_files_place_is_the_users(repo: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.py"
    theirs.write_text("theirs")
    os.utime(theirs, ns=(1, 1))
    before, path = facts(theirs), repo / "train.py"
    for make in (Path.mkdir, os.mkfifo, lambda link: link.symlink_to(theirs)):
        killed(repo)
        path.unlink()
        make(path)
        _, found = failed()
        assert found.action == "kept-both" and found.kept[0].read_bytes() == TEXT
        path.rmdir() if not path.is_symlink() and path.is_dir() else path.unlink()
        found.kept[0].rename(path)
    assert listing(repo) == [".git", "pkg", "train.py"] and facts(theirs) == before


def test_an_original_that_git_and_the_disk_have_lost_is_said(repo: Path) -> None:
    record = killed(repo)
    entry = record.entries[0]
    entry.side.unlink()
    (repo / ".git" / "objects" / entry.blob[:2] / entry.blob[2:]).unlink()
    error, found = failed()
    assert found.action == "failed" and entry.blob in error.message
    assert (repo / "train.py").read_bytes() == INSTRUMENTED
    assert journal.pending() == (record.location,)


def test_a_dead_journal_in_git_does_not_follow_a_process_number(repo: Path) -> None:
    """Numbers come round again: the time at which the process began tells it apart."""
    record = killed(repo)
    record.location.unlink()
    assert journal.run_is_alive(record)
    for other in (
        replace(record, process_started=record.process_started - 60),
        replace(record, host="another"),
        replace(record, pid=2**22 + 1),
    ):
        assert not journal.run_is_alive(other)
    assert [each.action for each in restore(repo)] == ["running"]


@pytest.mark.parametrize("damaged", ["HEAD", "config", "packed-refs"])
def test_a_repository_whose_refs_cannot_be_listed_is_named(repo: Path, damaged: str) -> None:
    """Not "nothing to restore"; what the cache knows of is put back all the same."""
    (repo / ".git" / damaged).write_bytes(b"[damaged\n")
    error, found = failed(repo)
    assert found.text.startswith(f"no refs of runs in place could be looked for in {repo}: git ")
    assert error.hint == "Fix that, then run: instrument restore"


def test_a_script_that_makes_its_repository_bare_is_put_back_once_that_is_taken_out(
    repo: Path,
) -> None:
    killed(repo)
    git(repo, "config", "core.bare", "true")
    error, _ = failed()
    assert f"{repo} is in no working tree of {repo}/.git: core.bare is true" in error.message
    git(repo, "config", "--unset", "core.bare")
    assert [each.action for each in restore()] == ["restored"] and left_over(repo) == []


DAMAGED = [b"", b"\0" * 41, b"garbage\n", b"0" * 40 + b"\n"]


@pytest.mark.parametrize("text", DAMAGED)
@pytest.mark.parametrize("packed", [False, True])
def test_a_ref_that_a_power_loss_has_emptied_goes_with_its_journal(
    repo: Path, text: bytes, packed: bool
) -> None:
    """git removes none that it cannot read; the journal in the cache tells what it kept."""
    record = killed(repo)
    if packed:
        git(repo, "pack-refs", "--all")
    ref = repo / ".git" / record.ref
    ref.parent.mkdir(exist_ok=True)
    ref.write_bytes(text)
    other = ref.with_name("0123456789ab")
    other.write_bytes(text)
    assert [each.action for each in restore()] == ["restored"]
    assert (repo / "train.py").read_bytes() == TEXT and left_over(repo) == []
    assert not ref.exists() and other.read_bytes() == text


def test_a_ref_that_git_reads_is_removed_by_git_alone(repo: Path) -> None:
    record = killed(repo)
    lock = repo / ".git" / "packed-refs.lock"
    git(repo, "pack-refs", "--all")
    git(repo, "update-ref", record.ref, "HEAD")
    lock.touch()
    error, _ = failed()
    assert f"{record.location}: the journal cannot be removed: " in error.message
    assert (repo / ".git" / record.ref).exists() and record.location.exists()
    lock.unlink()
    assert restore()[0].action == "unchanged" and left_over(repo) == []


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_ref_without_a_journal_is_named_with_what_to_do(repo: Path, text: bytes) -> None:
    record = killed(repo)
    record.location.unlink()
    ref = repo / ".git" / record.ref
    ref.write_bytes(text)
    ref.with_name("0123456789ab.lock").touch()
    error, found = failed(repo / "pkg")
    assert found.path == ref and error.message.startswith(f"{ref} is damaged, so that git passes")
    seek, remove = found.text.partition("(")[2].split("); when none is left: ")
    beside = subprocess.run(shlex.split(seek), capture_output=True, check=True, cwd="/").stdout
    assert beside.decode().split() == [str(record.entries[0].side)]
    assert ref.read_bytes() == text and (repo / "train.py").read_bytes() == INSTRUMENTED
    record.entries[0].side.replace(repo / "train.py")
    subprocess.run(shlex.split(remove), check=True, cwd="/")
    assert restore(repo) == () and (repo / "train.py").read_bytes() == TEXT


def test_a_damaged_ref_of_a_run_that_is_alive_is_left_alone(repo: Path) -> None:
    record = killed(repo)
    (repo / ".git" / record.ref).write_bytes(b"")
    with journal.taken(record.location):
        assert [each.action for each in restore(repo)] == ["running"]


def test_damaged_refs_of_others_have_an_end_and_make_no_command(repo: Path) -> None:
    folder = repo / ".git" / "refs" / "instrumentor"
    (folder / "inner").mkdir(parents=True)
    (folder / "rm\n").touch()
    error, _ = failed(repo)
    assert "rm\\n' is no ref that git can read: no run made it" in error.message
    assert "\n" not in error.message
    for number in range(60):
        (folder / f"{number:012x}").touch()
    error, _ = failed(repo)
    assert len(error.restored) == 51 and "holds 61 refs under" in error.message


def test_a_folder_to_which_files_can_only_be_added_still_holds_the_original(repo: Path) -> None:
    """As after `chattr +a`: what the run has begun to write stays, and nothing was exchanged."""

    class AppendOnly(Disk):
        def rename(self, source: Path, target: Path) -> None:
            if source.suffix == ".part" and target.suffix != ".json":
                raise PermissionError(1, "Operation not permitted", str(source))
            super().rename(source, target)

        def remove(self, path: Path) -> None:
            raise PermissionError(1, "Operation not permitted", str(path))

    before = facts(repo / "train.py")
    with pytest.raises(RestoreNeeded) as caught, opened(repo / "train.py", disk=AppendOnly()):
        pytest.fail("it begins")
    (part,) = repo.glob(".instrument-*.part")
    (found,) = caught.value.restored
    assert found.action == "failed" and found.text.startswith(
        f"{repo}/train.py holds its original, but not all of the run could be undone: "
        f"{part}: Operation not permitted; to give up on it: rm "
    )
    assert facts(repo / "train.py") == before
    assert [each.action for each in restore()] == ["unchanged"] and left_over(repo) == []


def test_an_original_is_kept_whatever_stands_in_its_place(repo: Path) -> None:
    """`git replace` gives other bytes for an object to whoever asks for it."""
    git(repo, "replace", git(repo, "rev-parse", "HEAD:train.py").strip(), "HEAD:pkg/other.py")
    record = killed(repo)
    record.entries[0].side.unlink()
    shown = journal.shown_by(record.entries[0])
    assert subprocess.run(shlex.split(shown), capture_output=True, check=True).stdout == TEXT
    (one,) = restore()
    assert one.action == "restored" and (repo / "train.py").read_bytes() == TEXT


def test_a_project_that_is_gone_for_good_can_be_given_up(repo: Path) -> None:
    record = killed(repo)
    shutil.rmtree(repo)
    repo.mkdir()
    subprocess.run(["git", "init", "-q", repo], check=True)
    error, found = failed()
    assert "git cat-file failed" in found.text and "git --git-dir failed" not in error.message
    assert found.text.endswith(f"to give up on it: rm {record.location}")
    record.location.unlink()
    assert restore() == ()


def test_a_link_that_appears_after_the_look_is_not_read(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = killed(repo).entries
    link, before = tmp_path / "link", entry.path.lstat()
    link.symlink_to(entry.path)
    assert state(entry, entry.path) == "instrumented"
    monkeypatch.setattr(Path, "lstat", lambda _: before)
    assert state(entry, link) == "other"


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda p: p.symlink_to("train.py")])
def test_what_is_no_regular_file_is_not_exchanged(repo: Path, make: Callable[[Path], None]) -> None:
    make(repo / "other.py")
    with pytest.raises(NotReady, match=r"other\.py is not a regular file"):
        inspect(repo / "other.py", TEXT, INSTRUMENTED, Disk())


def test_what_has_a_second_name_is_not_exchanged(repo: Path) -> None:
    os.link(repo / "train.py", repo / "second.py")
    with pytest.raises(Declined):
        inspect(repo / "train.py", (repo / "train.py").read_bytes(), INSTRUMENTED, Disk())
