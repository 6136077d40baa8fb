"""What a script changed through the links of a copy."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from instrumentor.workspace import linked_data as linked
from instrumentor.workspace.linked_data import Linked, UsersFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a data folder and a large file."""
    project = tmp_path / "project"
    for name in ("data/tokens.bin", "data/sub/deep/a.bin", "data/sub/gone.bin", "weights.bin"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(b"before")
        os.utime(project / name, ns=(1, 1))
    return project


def taken(root: Path, *, apart: tuple[Path, ...] = ()) -> Linked:
    return Linked.take(root, [root / "data", root / "weights.bin"], apart)


def test_what_is_only_read_is_no_change(root: Path) -> None:
    before = taken(root)
    (root / "data/tokens.bin").read_bytes()
    (root / "data/lock").touch()
    (root / "data/lock").unlink()
    assert before.changed() == () and before.whole
    assert before.names == (Path("data"), Path("weights.bin"))


def test_new_changed_and_missing_files_are_found_at_any_depth(root: Path) -> None:
    before = taken(root)
    (root / "data/tokens.bin").write_bytes(b"longer than before")
    (root / "data/sub/deep/a.bin").write_bytes(b"BEFORE")  # of the same size
    (root / "data/sub/gone.bin").unlink()
    (root / "data/new").mkdir()
    (root / "data/new/b.bin").touch()
    (root / "weights.bin").write_bytes(b"after!")
    assert set(before.changed()) == {
        *map(Path, ("data/tokens.bin", "data/sub/deep/a.bin", "data/sub/gone.bin")),
        *map(Path, ("data/new", "weights.bin")),
    }


def test_a_folder_that_was_removed_is_named_once_with_its_files(root: Path) -> None:
    before = taken(root)
    (root / "data/sub/deep/a.bin").unlink()
    (root / "data/sub/deep").rmdir()
    assert before.changed() == (Path("data/sub/deep"),)


def test_what_a_symlink_in_the_folder_leads_to_is_watched(root: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "b.bin").write_bytes(b"before")
    (root / "data/store").symlink_to(store)
    (root / "data/around").symlink_to(root)  # no end, and all of the project
    (root / "data/nowhere").symlink_to("missing")
    before = taken(root)
    (store / "b.bin").write_bytes(b"after this")
    (root / "weights.bin").read_bytes()
    (root / "train.py").touch()
    assert before.changed() == (Path("data/store/b.bin"),)


def test_our_own_folder_below_a_link_is_no_change(root: Path) -> None:
    folder = root / "data/runs/instrument-runs/repo-1"
    folder.mkdir(parents=True)
    before = taken(root, apart=(folder,))
    (folder / "run.json").touch()
    assert before.changed() == ()


def test_a_large_folder_is_compared_in_part(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "MAX_ENTRIES", 2)
    before = taken(root)
    assert not before.whole
    (root / "data/new.bin").touch()
    (root / "data/sub/gone.bin").unlink()  # below what was noted
    (root / "data/tokens.bin").write_bytes(b"longer than before")
    assert Path("data/tokens.bin") in before.changed()
    assert Path("data/sub/gone.bin") not in before.changed()


@pytest.mark.parametrize("late", [1.0, 100.0])
def test_a_slow_disk_ends_the_comparison(root: Path, late: float) -> None:
    ticks = count(step=late)
    before = Linked.take(root, [root / "data"], clock=lambda: next(ticks))
    before.changed()
    assert not before.whole


def test_the_sentence_names_files_links_and_the_way_out(root: Path) -> None:
    before = taken(root)
    changed = [Path(f"data/{name}.bin") for name in "abcde"]
    assert before.sentence(changed) == (
        "your own files changed during the run: data/a.bin, data/b.bin, data/c.bin and 2 more; "
        "they are linked, not copied: --no-link data copies them"
    )
    assert "--no-link data --no-link weights.bin" in before.sentence(
        [*changed, Path("weights.bin")]
    )


def test_what_is_said_at_the_end_is_what_was_seen() -> None:
    changed, partly = UsersFiles(linked_changed=(Path("data"),)), UsersFiles(linked_whole=False)
    assert UsersFiles().fate == "your files were not touched"
    assert changed.fate == "files in linked folders changed: see above"
    assert changed.then(partly).fate == partly.then(changed).fate == changed.fate
    assert "as far as" in partly.then(UsersFiles()).fate


def test_a_folder_that_cannot_be_read_holds_nothing(tmp_path: Path) -> None:
    assert linked._entries(str(tmp_path / "gone")) == []
    (tmp_path / "file").touch()
    assert linked._entries(str(tmp_path / "file")) == []
