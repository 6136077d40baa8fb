"""A kill, a power loss or a failing disk at each operation of an in-place run."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from instrumentor.shared.errors import InstrumentError, RestoreNeeded
from instrumentor.shared.project import find_project
from instrumentor.workspace.in_place import in_place
from instrumentor.workspace.in_place.disk import SWAP_SUFFIX, Disk
from instrumentor.workspace.in_place.restoring import restore
from tests.workspace.disks import FaultyDisk, Killed, LossyDisk
from tests.workspace.test_in_place import INSTRUMENTED, TEXT, facts, left_over, listing

OTHER = b"y = 1\n"


@pytest.fixture
def repo(git_repo) -> Path:
    return git_repo({"train.py": TEXT, "pkg/other.py": OTHER})


def run(repo: Path, disk: Disk) -> None:
    files = [repo / "train.py", repo / "pkg" / "other.py"]
    originals = {path: path.read_bytes() for path in files}
    texts = {path: INSTRUMENTED + data for path, data in originals.items()}
    with in_place(find_project(files[0]), files[0], repo, originals, texts, disk=disk):
        assert [path.read_bytes() for path in files] == list(texts.values())


def both(repo: Path) -> list[tuple[bytes, int, int]]:
    return [facts(repo / "train.py"), facts(repo / "pkg" / "other.py")]


def operations(repo: Path) -> int:
    disk = FaultyDisk()
    run(repo, disk)
    return disk.count


def until_done(repo: Path) -> None:
    restore()
    restore(repo)


def check(repo: Path, before: object) -> None:
    assert both(repo) == before
    assert left_over(repo) == [] and listing(repo / "pkg") == ["other.py"]


def test_a_kill_at_every_operation(repo: Path) -> None:
    before = both(repo)
    total = operations(repo)
    assert total > 30
    for at in range(total):
        with suppress(Killed):
            run(repo, FaultyDisk(at))
        until_done(repo)
        check(repo, before)


def test_a_power_loss_at_every_operation(repo: Path, tmp_path: Path) -> None:
    before = both(repo)
    for at in range(operations(repo)):
        graveyard = tmp_path / f"graveyard{at}"
        graveyard.mkdir()
        with suppress(Killed):
            run(repo, LossyDisk(graveyard, at))
        for path in sorted(graveyard.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        until_done(repo)
        check(repo, before)


def test_a_power_loss_after_the_end_brings_nothing_back(repo: Path, tmp_path: Path) -> None:
    before = both(repo)
    disk = LossyDisk(tmp_path)
    run(repo, disk)
    disk.stopped()
    check(repo, before)


def test_a_kill_of_the_restoration_at_every_operation(repo: Path) -> None:
    """Killed in the run, then killed again at each operation of the restoration."""
    before = both(repo)
    whole = FaultyDisk()
    run(repo, whole)
    swapped = [number for number, name in enumerate(whole.done) if name == "swap"][1] + 1
    at = 0
    while True:
        with suppress(Killed):
            run(repo, FaultyDisk(swapped))
        disk = FaultyDisk(at)
        try:
            restore(disk=disk)
        except Killed:
            until_done(repo)
            check(repo, before)
            at += 1
            continue
        check(repo, before)
        break
    assert at > 8


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_failing_disk_at_every_operation(repo: Path, number: int) -> None:
    """Either the run does not begin, or it ends with the originals, now or at the next start."""
    before = both(repo)
    told = 0
    for at in range(operations(repo)):
        try:
            run(repo, FaultyDisk(at, number))
        except RestoreNeeded as error:
            assert error.exit_code == 5
            told += 1
        except (InstrumentError, OSError):
            assert both(repo) == before
        until_done(repo)
        check(repo, before)
    assert told > 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_stays_full(repo: Path, number: int) -> None:
    """Nothing can be written any more: the file's own inode still comes back."""

    class Full(FaultyDisk):
        full = False

        def before(self, name: str, values: object) -> None:
            if self.full and name == "write":
                raise OSError(number, os.strerror(number))

    before = both(repo)
    disk = Full()
    files = [repo / "train.py"]
    originals = {path: path.read_bytes() for path in files}
    with in_place(
        find_project(files[0]), files[0], repo, originals, {files[0]: INSTRUMENTED}, disk=disk
    ):
        disk.full = True
    check(repo, before)


class Stepwise(FaultyDisk):
    """A file system that takes several steps for one exchange, with or without hard links."""

    def __init__(self, links: bool, at: int = -1) -> None:
        super().__init__(at)
        self.links = links

    def swap(self, one: Path, other: Path) -> None:
        aside = one.with_name(one.name + SWAP_SUFFIX)
        if self.links:
            self.link(other, aside)
        else:
            self.rename(other, aside)
        self.rename(one, other)
        self.rename(aside, one)


@pytest.mark.parametrize("links", [True, False])
def test_a_kill_without_an_exchange(repo: Path, links: bool) -> None:
    before = both(repo)
    whole = Stepwise(links)
    run(repo, whole)
    for at in range(whole.count):
        with suppress(Killed):
            run(repo, Stepwise(links, at))
        until_done(repo)
        check(repo, before)


def test_what_is_exchanged_and_what_is_run_is_on_the_disk(repo: Path, tmp_path: Path) -> None:
    """A file system may keep one change of a folder and lose another: no name is lost then."""

    class Strict(LossyDisk):
        def before(self, name: str, values: Any) -> None:
            if name == "swap":
                assert not self.volatile and values[0].parent not in self.durable
            super().before(name, values)

    disk, path = Strict(tmp_path), repo / "train.py"
    texts = {path: INSTRUMENTED + TEXT}
    with in_place(find_project(path), path, repo, {path: TEXT}, texts, disk=disk):
        assert not disk.volatile and not disk.durable
    assert disk.done.count("swap") == 2
