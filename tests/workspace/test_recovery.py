"""What any start undoes of killed runs, and what it says of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.shared import private
from instrumentor.shared.errors import NotReady
from instrumentor.workspace import recovery
from instrumentor.workspace.in_place import journal, restoring
from instrumentor.workspace.kept_mark import mark_of
from tests.conftest import RunCli
from tests.workspace.in_place.test_restoring import SAVED, killed
from tests.workspace.test_in_place import TEXT, start


@pytest.fixture
def repo(git_repo) -> Path:
    return git_repo({"train.py": TEXT, "pkg/other.py": b"y = 1\n"})


def undone() -> tuple[list[str], list[str]]:
    said: list[str] = []
    warned: list[str] = []
    recovery.recover(said.append, warned.append)
    return said, warned


def damage() -> None:
    """A journal that nobody can read; it stays until the user removes it."""
    folder = private.made(private.cache_folder(), "journal")
    (folder / "0123456789ab.json").write_text("{")


def leftover_copy(name: str = "repo") -> Path:
    copy = private.made(private.cache_folder(), "shadows") / f"{name}-0123456789"
    copy.mkdir()
    (copy / ".instrument-shadow").touch()
    return copy


def test_a_start_with_nothing_to_undo_says_and_imports_nothing(repo: Path) -> None:
    assert undone() == ([], [])
    copy = leftover_copy("kept")  # for the next run
    mark = mark_of(copy)
    assert mark
    mark.touch()
    code = (
        "import sys; from instrumentor.workspace import recovery; recovery.recover(print, print);"
        "sys.exit('instrumentor.workspace.slots' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"" and copy.exists()


def test_a_copy_alone_is_removed_and_a_refused_folder_named_once(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = leftover_copy()
    monkeypatch.setattr(private, "refused", lambda: ["its folder is another user's"])
    assert undone() == ([], ["its folder is another user's"]) and not copy.exists()
    assert undone() == ([], [])


def test_what_keeps_everything_from_being_put_back_is_said(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise NotReady("git cannot be started", "Install it.")

    killed(repo, "train.py")
    monkeypatch.setattr(restoring, "restore", fail)
    assert undone() == ([], ["git cannot be started\nInstall it."])


def test_folders_of_processes_that_are_gone_are_removed_silently(repo: Path) -> None:
    dead = private.made(private.cache_folder(), "asked") / "4194305-dead"
    dead.mkdir()
    assert undone() == ([], []) and not dead.exists()


def test_what_is_put_back_is_said_and_what_was_edited_is_warned_of(repo: Path) -> None:
    killed(repo, "train.py", "pkg/other.py")
    (repo / "pkg" / "other.py").write_bytes(SAVED)
    said, warned = undone()
    assert said == [
        f"{repo}/train.py is restored, as it was before the run (an earlier run in place was ended)"
    ]
    assert warned == [
        f"{repo}/pkg/other.py was edited during the run; both versions are kept: it, and "
        f"{repo}/pkg/other.py.before-instrument\n"
        "Compare the versions and keep the one you want."
    ]
    assert (repo / "train.py").read_bytes() == TEXT and journal.pending() == ()
    assert undone() == ([], [])


def test_a_damaged_journal_keeps_no_copy_from_being_removed(repo: Path) -> None:
    copy = leftover_copy()
    damage()
    said, warned = undone()
    assert said == [] and len(warned) == 1 and not copy.exists()


def test_a_warning_is_given_once_as_long_as_its_cause_stays(repo: Path) -> None:
    damage()
    _, warned = undone()
    assert len(warned) == 1 and undone() == ([], [])
    (location,) = journal.pending()
    location.unlink()
    assert undone() == ([], [])
    damage()
    assert undone() == ([], warned)


def test_a_command_that_recovers_before_its_run_as_well_warns_once(
    repo: Path, run_cli: RunCli
) -> None:
    damage()
    done = run_cli("run", "train.py", cwd=repo)
    assert done.returncode == 3 and done.stderr.count("cannot be read") == 1
    assert "then run: instrument restore" in done.stderr


def test_a_living_run_is_neither_undone_nor_spoken_of(repo: Path) -> None:
    process = start(repo / "train.py")
    assert undone() == ([], []) and (repo / "train.py").read_bytes() != TEXT
    process.kill()
    process.communicate()
    said, _ = undone()
    assert len(said) == 1 and (repo / "train.py").read_bytes() == TEXT
