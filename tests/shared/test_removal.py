"""Folders of ours go whatever a script made of them, and nothing that they lead to does."""

from __future__ import annotations

import errno
import os
import resource
import sys
from pathlib import Path

import pytest

from instrumentor.shared.removal import LeftOver, remove_tree
from tests.attackers import TWO_USERS, as_another_user, shared_tmp
from tests.descriptors import descriptors

__all__ = ["shared_tmp"]


def nested(top: Path, name: str, depth: int) -> None:
    """Folders one in the other, whatever the length of the whole path; a file in each."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_a_file_goes_and_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remove_tree(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        remove_tree(tmp_path / "file")


def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "thesis.tex").write_text("x")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "data").symlink_to(tmp_path / "real")
    (tree / "file").symlink_to(tmp_path / "real" / "thesis.tex")
    os.link(tmp_path / "real" / "thesis.tex", tree / "hard")
    (tmp_path / "link").symlink_to(tree)
    remove_tree(tmp_path / "link")
    assert tree.is_dir() and not (tmp_path / "link").is_symlink()
    remove_tree(tree)
    assert not tree.exists() and (tmp_path / "real" / "thesis.tex").read_text() == "x"


def test_thousands_of_nested_folders_with_long_names_go(tmp_path: Path) -> None:
    """Their path is a hundred times longer than the kernel takes, and no stack is as deep."""
    assert sys.getrecursionlimit() < 2000
    tree = tmp_path / "tree"
    tree.mkdir()
    nested(tree, "n" * 200, 2000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(descriptors()) + 16, hard))
    try:
        remove_tree(tree)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not tree.exists()


@TWO_USERS
@pytest.mark.parametrize("mode", [0o000, 0o500, 0o300])
def test_a_folder_that_the_script_closed_goes_too(shared_tmp: Path, mode: int) -> None:
    """Root is not kept out by modes: seen as another user."""
    tree = shared_tmp / "tree"

    def act() -> None:
        (tree / "closed" / "inner" / "below").mkdir(parents=True)
        for folder in (tree / "closed" / "inner", tree / "closed", tree):
            folder.chmod(mode)
        remove_tree(tree)

    as_another_user(act)
    assert not tree.exists()


def test_what_cannot_go_is_named_and_all_else_goes(tmp_path: Path, monkeypatch) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    for name in ("first", "a/keep", "a/b/last", "mark"):
        (tree / name).touch()
    unlink = os.unlink

    def refused(path: str, **more: object) -> None:
        if path == "keep":
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        unlink(path, **more)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(LeftOver, match=r"keep: Operation not permitted") as caught:
        remove_tree(tree, last="mark")
    assert caught.value.errno == errno.EPERM and caught.value.filename == str(tree)
    assert sorted(path.name for path in tree.rglob("*") if path.is_file()) == ["keep", "mark"]


def test_a_folder_that_cannot_be_moved_is_not_entered(tmp_path: Path, monkeypatch) -> None:
    """So is one on which something is mounted: the files in it are not of the copy."""
    tree = tmp_path / "tree"
    (tree / "mounted").mkdir(parents=True)
    (tree / "mounted" / "thesis.tex").touch()
    (tree / "other").touch()

    def busy(old: str, new: str, **more: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy", old)

    monkeypatch.setattr(os, "rename", busy)
    with pytest.raises(LeftOver, match="mounted: Device or resource busy"):
        remove_tree(tree)
    assert (tree / "mounted" / "thesis.tex").exists() and not (tree / "other").exists()


def test_a_folder_exchanged_for_a_link_is_not_followed(tmp_path: Path, monkeypatch) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o500)
    (tmp_path / "tree" / "folder").mkdir(parents=True)
    rename = os.rename

    def exchanged(old: str, new: str, **more: int) -> None:
        rename(old, new, **more)
        os.rmdir(new, dir_fd=more["dst_dir_fd"])
        os.symlink(precious, new, dir_fd=more["dst_dir_fd"])

    monkeypatch.setattr(os, "rename", exchanged)
    with pytest.raises(LeftOver):
        remove_tree(tmp_path / "tree")
    assert precious.is_dir() and precious.stat().st_mode & 0o777 == 0o500


def test_a_folder_exchanged_for_a_second_name_of_a_file_changes_no_mode(
    tmp_path: Path, monkeypatch
) -> None:
    precious = tmp_path / "precious"
    precious.touch()
    precious.chmod(0o444)
    (tmp_path / "tree" / "folder").mkdir(parents=True)
    rename = os.rename

    def exchanged(old: str, new: str, **more: int) -> None:
        rename(old, new, **more)
        os.rmdir(new, dir_fd=more["dst_dir_fd"])
        os.link(precious, new, dst_dir_fd=more["dst_dir_fd"])

    monkeypatch.setattr(os, "rename", exchanged)
    with pytest.raises(LeftOver):
        remove_tree(tmp_path / "tree")
    assert precious.stat().st_mode & 0o777 == 0o444


def test_a_folder_exchanged_after_the_look_at_it_is_not_entered(
    tmp_path: Path, monkeypatch
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").touch()
    tree = tmp_path / "tree"
    (tree / "folder").mkdir(parents=True)
    real, names = os.open, []

    def exchanging(name: str, flags: int, *more: int, **named: int) -> int:
        descriptor = real(name, flags, *more, **named)
        names.append(name)
        if str(name).startswith(".") and len(name) > 1:
            os.rmdir(name, dir_fd=named["dir_fd"])
            os.symlink(precious, name, dir_fd=named["dir_fd"])
        return descriptor

    monkeypatch.setattr(os, "open", exchanging)
    with pytest.raises(LeftOver):
        remove_tree(tree)
    assert (precious / "thesis.tex").exists() and "." in names
