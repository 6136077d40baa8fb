"""What says that a copy was kept: a file of our own, of this boot, not too old."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from instrumentor.workspace import kept_mark


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    found = kept_mark.mark_of(tmp_path)
    assert found is not None
    found.touch()
    return found


def test_a_file_of_this_boot_counts_for_a_week(mark: Path) -> None:
    assert kept_mark.is_kept(mark.parent)
    for beyond_s in (-kept_mark.KEPT_S - 60, kept_mark.KEPT_S + 60):
        os.utime(mark, (time.time() + beyond_s,) * 2)
        assert not kept_mark.is_kept(mark.parent)
    mark.unlink()
    assert not kept_mark.is_kept(mark.parent)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("new")])
def test_what_is_no_file_counts_for_nothing(mark: Path, make) -> None:
    (mark.parent / "new").touch()
    mark.unlink()
    make(mark)
    assert not kept_mark.is_kept(mark.parent)


def test_a_file_of_another_boot_counts_for_nothing(mark: Path, tmp_path: Path, monkeypatch) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("0123-4567\n")
    monkeypatch.setattr(kept_mark, "BOOT", boot)
    assert kept_mark.mark_of(mark.parent) == mark.parent / ".kept-0123-4567"
    assert not kept_mark.is_kept(mark.parent)


@pytest.mark.parametrize("boot", [b"", b"../x", b"a/b", "ä".encode(), None])
def test_where_the_boot_has_no_name_nothing_counts(
    mark: Path, tmp_path: Path, monkeypatch, boot: bytes | None
) -> None:
    monkeypatch.setattr(kept_mark, "BOOT", tmp_path / "boot_id")
    if boot is not None:
        (tmp_path / "boot_id").write_bytes(boot)
    assert kept_mark.mark_of(mark.parent) is None
    assert not kept_mark.is_kept(mark.parent)
