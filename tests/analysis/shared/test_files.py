"""The door to files: what it opens, what it refuses, and that what it writes is whole."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.shared import files
from instrumentor_analysis.shared.files import (
    Unfit,
    appended,
    copy,
    created,
    held,
    lines_of,
    opened,
    opened_text,
    read_bytes,
    read_text,
    refuse_links,
    write_below,
    write_whole,
)
from tests.attackers import TWO_USERS, as_another_user, shared_tmp
from tests.descriptors import none_left_open

__all__ = ["shared_tmp"]


def test_a_file_that_must_not_be_replaced_is_left(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_whole(target, b"first", replace=False)
    with pytest.raises(FileExistsError) as caught:
        write_whole(target, b"second", replace=False)
    assert caught.value.filename == str(target)
    assert target.read_bytes() == b"first"
    write_whole(target, b"third")
    assert target.read_bytes() == b"third" and list(tmp_path.iterdir()) == [target]


def test_a_file_has_the_mode_asked_for_whatever_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who owns the folder can put a link in the place of any name in it."""
    mine = tmp_path / "mine"
    mine.touch(0o600)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "chmod", lambda *_: pytest.fail("by its name"))
        write_whole(tmp_path / "x", b"text", mode=0o751)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o751
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def served(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(path))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("make", "kind"), [(os.mkfifo, "a pipe"), (device, "a device"), (served, "a socket")]
)
def test_what_is_no_regular_file_is_refused_before_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make, kind: str
) -> None:
    """Opening alone can act: a watchdog's device restarts the machine when it is closed again."""
    make(tmp_path / "x")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", lambda *_: pytest.fail("opened"))
        with pytest.raises(Unfit, match=f"is {kind}, not a regular file"):
            read_bytes(tmp_path / "x")
    with pytest.raises(Unfit):
        appended(tmp_path / "x")


def exchanged(monkeypatch: pytest.MonkeyPatch, path: Path, make: Callable[[Path], object]) -> None:
    """Something else stands at the path between the look at it and its opening."""
    real = os.open

    def exchange(name, flags, mode=0o777):
        if Path(name) == path and not flags & os.O_CREAT:
            assert flags & os.O_NONBLOCK, "a pipe would be waited for"
            path.unlink()
            make(path)
        return real(name, flags, mode)

    monkeypatch.setattr(os, "open", exchange)


@pytest.mark.parametrize("make", [os.mkfifo, device])
def test_what_is_exchanged_before_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"first")
    exchanged(monkeypatch, path, make)
    with none_left_open(), pytest.raises(Unfit, match="not a regular file"):
        read_bytes(path)


TERMINAL = """
import os, pty, sys
from instrumentor_analysis.shared import files
_, terminal = pty.openpty()
real = os.open
os.open = lambda path, flags, *more, **named: real(
    os.ttyname(terminal) if path == sys.argv[1] else path, flags, *more, **named)
try:
    files.read_bytes(sys.argv[1])
except files.Unfit as error:
    print(error.strerror)
try:
    real("/dev/tty", os.O_RDONLY)
except OSError as error:
    print(os.strerror(error.errno))
"""


def test_a_terminal_that_appears_before_the_opening_does_not_become_ours(tmp_path: Path) -> None:
    """A process without one, a service's, would be ended by its Ctrl-C and its end."""
    (tmp_path / "x").touch()
    done = subprocess.run(
        [sys.executable, "-c", TERMINAL, str(tmp_path / "x")],
        capture_output=True, text=True, check=True, start_new_session=True,
    )  # fmt: skip
    assert done.stdout == "is a device, not a regular file\nNo such device or address\n"


def test_a_link_that_appears_before_the_opening_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, mine = tmp_path / "x", tmp_path / "mine"
    mine.write_bytes(b"mine")
    for read in (partial(read_bytes, follow=False), appended):
        path.unlink(missing_ok=True)
        path.write_bytes(b"first")
        with monkeypatch.context() as patched:
            exchanged(patched, path, lambda link: link.symlink_to(mine))
            with pytest.raises(OSError, match="symbolic link"):
                read(path)
    assert mine.read_bytes() == b"mine"


def test_a_link_is_followed_where_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"text\r\n")
    (tmp_path / "link").symlink_to("real")
    assert read_bytes(tmp_path / "link") == b"text\r\n"
    assert read_text(tmp_path / "link") == "text\n"
    with opened_text(tmp_path / "link", newline="") as stream:
        assert stream.read() == "text\r\n"
    with pytest.raises(Unfit, match="is a symbolic link"):
        read_bytes(tmp_path / "link", follow=False)
    with pytest.raises(Unfit, match="is a symbolic link"):
        appended(tmp_path / "link")


def test_a_second_name_is_refused_where_one_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"mine")
    (tmp_path / "y").hardlink_to(tmp_path / "x")
    assert read_bytes(tmp_path / "x") == b"mine"
    with pytest.raises(Unfit, match="has 2 names"):
        read_bytes(tmp_path / "x", single=True)
    with pytest.raises(Unfit, match="has 2 names"):
        appended(tmp_path / "x")


def test_no_more_is_read_than_may_be(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert read_bytes(tmp_path / "x", 5) == b"12345"
    with pytest.raises(Unfit, match="is larger than"):
        read_bytes(tmp_path / "x", 4)
    os.truncate(tmp_path / "x", 1 << 42)  # more than any memory, without a byte on the disk
    with pytest.raises(Unfit, match="is larger than"):
        read_bytes(tmp_path / "x", 4)


def test_a_line_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a\n\r\nlonger" + b"\nb")
    with opened(path) as stream:
        assert list(lines_of(stream)) == [b"a\n", b"\r\n", b"longer\n", b"b"]
    with opened_text(path, newline="") as text:
        assert list(text) == ["a\n", "\r\n", "longer\n", "b"]
    os.truncate(path, 1 << 42)
    with opened(path) as stream, pytest.raises(Unfit, match="has a line of more than 16") as caught:
        list(islice(lines_of(stream), 9))
    assert caught.value.filename == str(path)
    monkeypatch.setattr(files, "LINE_BYTES", 100)
    with opened_text(path) as text, pytest.raises(Unfit, match="has a line of more than"):
        list(text)


def test_a_file_takes_the_memory_of_its_size(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * 1000)
    code = (
        "import resource, sys\n"
        "from instrumentor_analysis.shared.files import LIMIT_BYTES, read_bytes\n"
        "has = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (has + LIMIT_BYTES // 4,) * 2)\n"
        "print(len(read_bytes(sys.argv[1])), len(read_bytes('/proc/self/status')) > 1)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "small")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "1000 True\n", done.stderr


def test_a_place_behind_a_link_is_refused_and_the_last_name_may_be_one(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "plain").mkdir(parents=True)
    (folder / "astray").symlink_to(tmp_path)
    (folder / "plain" / "last").symlink_to(tmp_path)
    refuse_links(folder, folder / "plain" / "last")
    refuse_links(folder, folder / "new" / "file")
    with pytest.raises(Unfit, match="behind which nothing is written"):
        refuse_links(folder, folder / "astray" / "file")
    with pytest.raises(ValueError):
        refuse_links(folder, tmp_path / "file")
    (tmp_path / "named").symlink_to(folder)  # by the user
    refuse_links(tmp_path / "named", tmp_path / "named" / "plain" / "file")


def test_a_folder_that_is_held_stays_the_one_whatever_takes_its_name(tmp_path: Path) -> None:
    outer, moved, mine = tmp_path / "run", tmp_path / "moved", tmp_path / "mine"
    (mine / "inner").mkdir(parents=True)
    outer.mkdir()
    with none_left_open(), held(outer, Path("inner"), make=True) as place:
        outer.rename(moved)
        outer.symlink_to(mine)
        (place / "file").write_bytes(b"x")
    assert (moved / "inner" / "file").is_file() and not any((mine / "inner").iterdir())


def test_a_link_that_appears_after_any_look_is_not_gone_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, run = tmp_path / "mine", tmp_path / "run"
    mine.mkdir()
    run.mkdir()
    real = os.mkdir

    def exchanging(*words: Any, **named: Any) -> None:
        real(*words, **named)
        (run / "inner").rmdir()
        (run / "inner").symlink_to(mine)

    monkeypatch.setattr(os, "mkdir", exchanging)
    for inside in ("inner", "inner/more"):
        with none_left_open(), pytest.raises(Unfit, match="behind which nothing") as raised:
            write_below(run, run / inside / "file", b"x")
        assert raised.value.filename == str(run / "inner")
        (run / "inner").unlink()
    assert not any(mine.iterdir())


@pytest.mark.parametrize("make", [os.mkfifo, Path.touch])
def test_what_is_no_folder_is_not_gone_through(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "x")
    with none_left_open(), pytest.raises(NotADirectoryError) as raised:
        write_below(tmp_path, tmp_path / "x" / "file", b"x")
    assert raised.value.filename == str(tmp_path / "x")
    with none_left_open(), pytest.raises(FileNotFoundError), held(tmp_path, Path("none")):
        pass
    assert not (tmp_path / "none").exists()


def test_an_error_below_a_folder_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full") as raised:
        write_below(tmp_path, tmp_path / "a" / "b", b"x")
    assert raised.value.filename == str(tmp_path / "a" / "b")


def test_a_folder_is_what_the_system_calls_it(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path)


def test_what_is_put_in_place_is_on_the_disk_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr(Path, "replace", lambda *_: synced.append(-1))
    write_whole(tmp_path / "x", b"text")
    assert synced == [4, -1]


def test_an_error_of_the_source_names_the_source(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        copy(tmp_path / "gone", tmp_path / "target")
    assert missing.value.filename == str(tmp_path / "gone")
    with (
        pytest.raises(OSError, match="elsewhere") as other,
        files.becoming(tmp_path / "target"),
    ):
        raise OSError(5, "is bad", "elsewhere")
    assert other.value.filename == "elsewhere"


@TWO_USERS
def test_a_file_of_another_user_is_refused_where_ones_own_is_asked_for(
    shared_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared_tmp / "x"
    as_another_user(lambda: path.write_bytes(b"theirs"))
    assert read_bytes(path) == b"theirs"
    with pytest.raises(Unfit, match="belongs to another user"):
        read_bytes(path, own=True)
    with pytest.raises(Unfit, match="belongs to another user"):
        appended(path)
    os.chown(path, 0, 0)  # root's counts for everybody: who is root needs no plant
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert read_bytes(path, own=True) == b"theirs"


def test_what_is_added_and_made(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        with appended(tmp_path / "x") as stream:
            stream.write(text)
    assert read_bytes(tmp_path / "x") == b"one\ntwo\n"
    with appended(tmp_path / "x") as stream, appended(tmp_path / "x") as other:
        for each in (stream, other, stream):
            each.write(b"more\n")
            each.flush()
    assert read_bytes(tmp_path / "x").count(b"more\n") == 3
    (tmp_path / "link").symlink_to("nowhere")
    for taken in ("x", "link"):
        with pytest.raises(FileExistsError):
            created(tmp_path / taken)
    assert not (tmp_path / "nowhere").exists()


def test_a_copy_is_of_a_regular_file_and_replaces_a_link(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"text")
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "target").symlink_to("mine")
    copy(tmp_path / "x", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"text"
    assert not (tmp_path / "target").is_symlink() and (tmp_path / "mine").read_bytes() == b"mine"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unfit):
        copy(tmp_path / "pipe", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "pipe", "target", "x"]
