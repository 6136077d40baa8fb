"""Exchanging two files where the file system can, and where it cannot."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.workspace.in_place import disk as disk_module
from instrumentor.workspace.in_place.disk import Disk
from tests.waiting import HANG_S

pytestmark = pytest.mark.usefixtures("no_hang")

SYNC = """
import signal, sys
from pathlib import Path
from instrumentor.workspace.in_place.disk import Disk
signal.alarm(60)
Disk().sync(Path(sys.argv[1]))
"""


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("one", "other"):
        (tmp_path / name).write_text(name)
    return tmp_path / "one", tmp_path / "other"


def failing(number: int):
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_failure_of_the_exchange_is_no_lack_of_it(pair, monkeypatch) -> None:
    monkeypatch.setattr(disk_module, "exchange", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        Disk().swap(*pair)
    assert [path.read_text() for path in pair] == ["one", "other"]


def test_a_failure_of_the_link_is_no_lack_of_links(pair, monkeypatch) -> None:
    monkeypatch.setattr(disk_module, "exchange", failing(errno.EINVAL))
    monkeypatch.setattr(os, "link", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        Disk().swap(*pair)
    assert [path.read_text() for path in pair] == ["one", "other"]


#: What file systems and kernels say that have no exchange, or no links.
NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@pytest.mark.parametrize(
    ("no_exchange", "no_links"),
    [*((number, None) for number in NO_EXCHANGE), *((errno.ENOSYS, each) for each in NO_LINKS)],
)
def test_without_an_exchange_it_takes_steps(
    pair, monkeypatch, no_exchange: int, no_links: int | None
) -> None:
    monkeypatch.setattr(disk_module, "exchange", failing(no_exchange))
    if no_links is not None:
        monkeypatch.setattr(os, "link", failing(no_links))
    Disk().swap(*pair)
    assert [path.read_text() for path in pair] == ["other", "one"]
    assert len(list(pair[0].parent.iterdir())) == 2


def test_a_new_file_replaces_nothing(pair) -> None:
    one, other = pair
    with pytest.raises(FileExistsError):
        Disk().write(one, b"new", 0o644)
    one.unlink()
    one.symlink_to(other)
    with pytest.raises(FileExistsError):
        Disk().write(one, b"new", 0o644)
    assert other.read_text() == "other"
    other.unlink()
    Disk().write(other, b"new", 0o751)
    assert other.stat().st_mode & 0o7777 == 0o751


def test_a_new_file_is_private_until_it_has_its_mode(tmp_path: Path, monkeypatch) -> None:
    modes = []
    give = os.fchmod

    def noted(descriptor: int, mode: int) -> None:
        modes.append(os.fstat(descriptor).st_mode & 0o777)
        give(descriptor, mode)

    before = os.umask(0)
    try:
        monkeypatch.setattr(os, "fchmod", noted)
        Disk().write(tmp_path / "new", b"new", 0o644)
    finally:
        os.umask(before)
    assert modes == [0o600]


def test_bytes_and_names_go_to_the_disk_and_nothing_stays_open(pair, monkeypatch) -> None:
    synced, before = [], len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    Disk().sync(pair[0])
    Disk().sync_folder(pair[0].parent)
    assert synced == [pair[0].stat().st_ino, pair[0].parent.stat().st_ino]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_c_library_without_an_exchange_says_so(pair, monkeypatch) -> None:
    monkeypatch.setattr(disk_module.ctypes, "CDLL", lambda *_, **__: object())
    with pytest.raises(OSError, match="not implemented") as none:
        disk_module.exchange(*pair)
    assert none.value.errno == errno.ENOSYS


def test_an_exchange_of_what_is_not_there_says_so(pair) -> None:
    pair[1].unlink()
    with pytest.raises(FileNotFoundError):
        disk_module.exchange(*pair)


def test_what_took_a_files_place_is_neither_followed_nor_waited_for(pair) -> None:
    one, other = pair
    one.unlink()
    one.symlink_to(other)
    with pytest.raises(OSError, match="symbolic link"):
        Disk().sync(one)
    one.unlink()
    os.mkfifo(one)
    ended = subprocess.run(
        [sys.executable, "-c", SYNC, str(one)], capture_output=True, text=True, timeout=HANG_S
    )
    assert "Invalid argument" in ended.stderr


def test_a_stamp_is_mode_and_time(pair) -> None:
    Disk().stamp(pair[0], 0o604, 5 * 10**9)
    facts = pair[0].stat()
    assert (facts.st_mode & 0o7777, facts.st_mtime_ns) == (0o604, 5 * 10**9)


def test_a_stamp_goes_through_no_link(pair) -> None:
    """Who owns the folder can put one in a file's place after any look at it."""
    one, other = pair
    before = other.stat()
    one.unlink()
    for make in (lambda: one.symlink_to(other), lambda: os.mkfifo(one)):
        make()
        with pytest.raises(OSError, match="no regular file any more"):
            Disk().stamp(one, 0o777, 5)
        one.unlink()
    assert (other.stat().st_mode, other.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    other.chmod(0)  # closed to reading
    Disk().stamp(other, 0o400, 5)
    assert stat.S_IMODE(other.stat().st_mode) == 0o400
