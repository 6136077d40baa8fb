"""A file of a kilobyte takes no gigabytes when it is unpacked."""

from __future__ import annotations

import os
import tracemalloc
import zipfile
import zlib
from itertools import product
from pathlib import Path

import pytest

from instrumentor_analysis.shared import packed
from instrumentor_analysis.shared.files import Unfit
from instrumentor_analysis.shared.packed import members, unpacked

LIMIT = 1 << 20


def archive(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as new:
        for name in ("a", "b"):
            new.writestr(name, content)
    return path


def test_members_of_an_archive(tmp_path: Path) -> None:
    found = members(archive(tmp_path / "x.zip", b"words"), LIMIT)
    assert list(found) == [("a", b"words"), ("b", b"words")]


def test_what_comes_out_is_bounded_together(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.zip", bytes(LIMIT // 2 + 1))
    assert path.stat().st_size < 4096
    with pytest.raises(Unfit, match="unpacks to more than 1 MiB") as error:
        next(members(path, LIMIT))
    assert str(path) in str(error.value)


def test_an_entry_gives_no_more_than_it_says(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.zip", bytes(32 * LIMIT))
    size = (32 * LIMIT).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))
    tracemalloc.start()
    with pytest.raises(ValueError, match="CRC"):
        list(members(path, LIMIT))
    assert tracemalloc.get_traced_memory()[1] < 16 * LIMIT  # nor takes more out on the way
    tracemalloc.stop()


@pytest.mark.usefixtures("no_hang")
def test_a_pipe_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.zip")
    with pytest.raises(Unfit, match="is a pipe"):
        next(members(tmp_path / "x.zip", LIMIT))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(tmp_path: Path, method: int) -> None:
    with pytest.raises(ValueError, match="another way"):
        next(members(archive(tmp_path / "x.zip", b"words", method), LIMIT))


def test_an_archive_of_any_size_and_any_number_of_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "x.zip", b"words")
    with pytest.raises(Unfit, match="is larger"):
        next(members(path, 10))
    monkeypatch.setattr(packed, "_PORTION_BYTES", 50)
    with pytest.raises(Unfit, match="of names"):
        next(members(path, LIMIT))


@pytest.mark.parametrize("size", [64 * LIMIT, -1])
def test_no_more_than_a_portion_is_taken_in(tmp_path: Path, size: int) -> None:
    """A list of names, by its own word, or all that there is."""
    path = tmp_path / "x.zip"
    path.touch()
    os.truncate(path, 64 * LIMIT)
    tracemalloc.start()
    with path.open("rb") as stream, pytest.raises(Unfit, match="of names"):
        packed._Portions(stream, 64 * LIMIT).read(size)
    assert tracemalloc.get_traced_memory()[1] < 16 * LIMIT
    tracemalloc.stop()


def test_no_archive_is_one_kind_of_error(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK\5\6junk")
    with pytest.raises(ValueError, match="not a zip file"):
        next(members(path, LIMIT))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_changed_at_any_byte_is_read_or_refused(tmp_path: Path, method: int) -> None:
    """Encrypted, of a later version, cut short, of another sum: with a reason each."""
    path = archive(tmp_path / "x.zip", b"words " * 4, method)
    whole, refused = path.read_bytes(), 0
    for at, new in product(range(len(whole)), (1, 8, 65)):
        path.write_bytes(whole[:at] + bytes([new]) + whole[at + 1 :])
        try:
            list(members(path, LIMIT))
        except (ValueError, OSError) as error:
            assert str(error), (at, new)
            refused += 1
    assert refused > len(whole)


def test_unpacked() -> None:
    assert unpacked(zlib.compress(b"words"), 5) == b"words"
    with pytest.raises(ValueError, match="cut short, or more"):
        unpacked(zlib.compress(bytes(LIMIT + 1)), LIMIT)
    with pytest.raises(ValueError, match="cut short, or more"):
        unpacked(zlib.compress(b"words")[:-4], 5)
