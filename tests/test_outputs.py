"""Files that the user named: whole or not at all, never over one that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.errors import UsageError
from instrumentor.outputs import refuse_existing, write_new


def test_a_file_is_written_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_new(target, b"new", force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert target.read_bytes() == b"new"


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists"):
        write_new(target, b"new", force=False)
    assert target.read_bytes() == b"mine"
    write_new(target, b"new", force=True)
    assert target.read_bytes() == b"new"


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_new(tmp_path / "nowhere" / "page.html", b"new", force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_empty_may_be_written_into(tmp_path: Path) -> None:
    full = tmp_path / "full"
    (full / "inner").mkdir(parents=True)
    refuse_existing([None, tmp_path / "missing", full / "inner"])
    with pytest.raises(UsageError, match="full exists"):
        refuse_existing([full])
