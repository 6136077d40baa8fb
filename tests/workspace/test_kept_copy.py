"""A copy that stays for the next run: what of it is used again, and what never is."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from instrumentor.run import discovery, training
from instrumentor.run.options import RunOptions
from instrumentor.shared.project import find_project
from instrumentor.shared.removal import LeftOver
from instrumentor.workspace import copying, kept_copy, kept_mark, shadow, slots
from instrumentor.workspace.recovery import recover
from instrumentor.workspace.run_location import Workspace
from instrumentor.workspace.versions import frozen
from tests.conftest import RunCli
from tests.workspace.test_shadow import snapshot

FILES = {"train.py": "", "same.py": "a = 1\n", "edited.py": "b = 1\n", "pkg/deep/in.py": "c = 1\n"}


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path / "own_cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / "own_cache"


@pytest.fixture(autouse=True)
def _keeps_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tests' folders lie, and however new their files are."""
    monkeypatch.setattr(kept_copy, "WORTH_FILES", 0)
    monkeypatch.setattr(kept_copy, "QUIET_NS", 0)
    monkeypatch.setattr(kept_copy, "TICK_S", 10.0)
    monkeypatch.setattr(kept_copy, "_file_system", lambda path: "ext4")


@pytest.fixture
def repo(git_repo, cache: Path) -> Path:
    return git_repo(FILES)


def opened(repo: Path, **options):
    script = repo / "train.py"
    return shadow.shadow(find_project(script), script, repo, {}, **options)


def inodes(workspace: Workspace) -> dict[str, tuple[int, int]]:
    """By what a file is known that was not made anew: an inode's number is used again."""
    found = ((path, path.lstat()) for path in workspace.root.rglob("*") if path.is_file())
    root = workspace.root
    return {p.relative_to(root).as_posix(): (facts.st_ino, facts.st_ctime_ns) for p, facts in found}


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "shadows").iterdir())


def as_in(workspace: Workspace, repo: Path) -> bool:
    mine = {name: facts for name, facts in snapshot(repo).items() if name.split("/")[0] != ".git"}
    return snapshot(workspace.root) == mine


@contextmanager
def with_times_of(path: Path) -> Iterator[None]:
    """What a program does that wants a change to be unseen."""
    facts = path.stat()
    yield
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def test_only_what_changed_is_copied_again(repo: Path, cache: Path) -> None:
    with opened(repo) as first:
        before = inodes(first)
    (repo / "edited.py").write_text("b = 22\n")
    (repo / "new.py").write_text("")
    (repo / "pkg" / "deep" / "in.py").unlink()
    with opened(repo) as second:
        after = inodes(second)
        assert second.root == first.root and as_in(second, repo)
        assert second.new_files() == ()
    assert after["same.py"] == before["same.py"] and after["train.py"] == before["train.py"]
    assert len(left(cache)) == 1


def test_an_instrumented_text_is_never_kept(repo: Path) -> None:
    script = repo / "train.py"
    for text in (b"print(1)\n", b"print(2)\n"):
        with shadow.shadow(find_project(script), script, repo, {script: text}) as workspace:
            assert workspace.script.read_bytes() == text
        assert not workspace.script.exists() and (workspace.root / "same.py").exists()
    with opened(repo) as workspace:
        assert workspace.script.read_bytes() == b""


def test_an_instrumented_text_takes_the_place_of_what_was_kept(repo: Path) -> None:
    (repo / "link").symlink_to("same.py")
    with opened(repo) as workspace:
        assert workspace.script.read_bytes() == b""
        before = (workspace.root / "link").lstat().st_ino
    script = repo / "train.py"
    with shadow.shadow(find_project(script), script, repo, {script: b"1\n"}) as workspace:
        assert workspace.script.read_bytes() == b"1\n"
        assert (workspace.root / "link").lstat().st_ino == before


def test_a_link_that_leads_where_it_did_is_not_made_anew(repo: Path) -> None:
    (repo / "link").symlink_to("same.py")
    seen = []
    for _ in range(2):
        with opened(repo) as workspace:
            facts = (workspace.root / "link").lstat()
            seen.append((facts.st_ino, facts.st_ctime_ns))
    assert seen[0] == seen[1]


def test_a_link_that_goes_while_the_run_lasts_costs_nothing_else(repo: Path) -> None:
    (repo / "link").symlink_to("same.py")
    with opened(repo) as workspace:
        before = inodes(workspace)
        (repo / "link").unlink()
    with opened(repo) as workspace:
        assert as_in(workspace, repo)
        assert inodes(workspace)["same.py"] == before["same.py"]


@pytest.fixture
def clones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system whose files can share blocks, to whoever does not look at them."""

    def cloned(self: object, old: int, new: int) -> bool:
        os.sendfile(new, old, 0, 1 << 20)
        return True

    monkeypatch.setattr(copying._Filler, "_cloned", cloned)


@pytest.mark.usefixtures("clones")
def test_a_clone_of_what_would_be_linked_is_kept_as_long_as_its_source_is_the_same(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = repo / "data.bin"
    data.write_text("x")
    with opened(repo, link=[Path("data.bin")]) as workspace:
        before = inodes(workspace)
        assert not (workspace.root / "data.bin").is_symlink()
    with opened(repo, link=[Path("data.bin")]) as workspace:
        assert inodes(workspace) == before
    with with_times_of(data):
        data.write_text("y")
    with opened(repo, link=[Path("data.bin")]) as workspace:
        assert (workspace.root / "data.bin").read_text() == "y"
        assert inodes(workspace)["same.py"] == before["same.py"]
    real = kept_copy.taken

    def late(*given: Any) -> copying.Present:
        data.unlink()
        return real(*given)

    monkeypatch.setattr(kept_copy, "taken", late)
    with opened(repo, link=[Path("data.bin")]) as workspace:
        assert not (workspace.root / "data.bin").exists()
        assert inodes(workspace)["same.py"] == before["same.py"]


def test_what_is_kept_needs_no_room(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(repo) as workspace:
        before = inodes(workspace)
    full = SimpleNamespace(free=copying.SPARE_BYTES)
    monkeypatch.setattr(copying.shutil, "disk_usage", lambda _: full)
    with opened(repo) as workspace:
        assert inodes(workspace) == before


def test_what_the_script_did_in_its_copy_is_gone_with_the_run(repo: Path) -> None:
    before = snapshot(repo)
    with opened(repo) as workspace:
        root = workspace.root
        with with_times_of(root / "same.py"):
            (root / "same.py").write_text("a = 2\n")
        (root / "edited.py").unlink()
        os.link(repo / "edited.py", root / "edited.py")
        (root / "pkg" / "deep" / "in.py").unlink()
        (root / "pkg" / "deep").rmdir()
        (root / "pkg" / "deep").symlink_to(repo / "pkg" / "deep")
        (root / "made" / "__pycache__").mkdir(parents=True)
        (root / "made" / "__pycache__" / "x.pyc").touch()
        (root / "checkpoint.pt").touch()
    assert {path.name for path in root.rglob("*")} == {"pkg", "train.py"}
    assert snapshot(repo) == before
    with opened(repo) as workspace:
        assert as_in(workspace, repo)


@pytest.mark.parametrize("name", ["same.py", "pkg/deep/in.py"])
def test_what_anybody_did_to_it_since_is_seen(repo: Path, name: str) -> None:
    with opened(repo) as workspace:
        pass
    with with_times_of(workspace.root / name):
        (workspace.root / name).write_text("d = 1\n")
    (workspace.root / "train.py").chmod(0o777)
    (workspace.root / "pkg" / "left.py").touch()
    with opened(repo) as workspace:
        assert as_in(workspace, repo)


def test_a_folder_that_became_a_link_into_the_users_tree_is_not_followed(repo: Path) -> None:
    with opened(repo) as workspace:
        pass
    before = snapshot(repo)
    folder = workspace.root / "pkg"
    folder.rename(workspace.root / "moved")
    folder.symlink_to(repo / "pkg")
    with opened(repo) as workspace:
        assert as_in(workspace, repo) and not (workspace.root / "pkg").is_symlink()
    assert snapshot(repo) == before


def test_a_users_file_with_its_old_size_and_time_is_seen(repo: Path) -> None:
    with opened(repo):
        pass
    with with_times_of(repo / "same.py"):
        (repo / "same.py").write_text("a = 9\n")
    with with_times_of(repo / "edited.py"):
        (repo / "other").write_text("b = 9\n")
        (repo / "other").replace(repo / "edited.py")
    with opened(repo) as workspace:
        assert (workspace.root / "same.py").read_text() == "a = 9\n"
        assert (workspace.root / "edited.py").read_text() == "b = 9\n"


def test_a_file_that_changed_a_moment_before_it_was_copied_is_copied_again(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another change in the same tick of the clock leaves no trace, as git knows of its index."""
    monkeypatch.setattr(kept_copy, "QUIET_NS", 60 * 10**9)
    with opened(repo) as first:
        before = inodes(first)
    assert not first.root.exists()
    with opened(repo) as second:
        assert as_in(second, repo) and inodes(second).keys() == before.keys()


def test_nothing_is_kept_where_no_later_write_would_be_told(
    repo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the copies' file system stands still, or its kind is not known."""
    with monkeypatch.context() as patch:
        patch.setattr(kept_copy, "TICK_S", 0.0)
        with opened(repo):
            pass
    assert left(cache) == []
    # Each is enough: the project's, and that of the cache.
    for kind, place in (("nfs4", repo.name), ("nfs4", "shadows"), ("", repo.name)):
        kinds = {False: "ext4", True: kind}
        monkeypatch.setattr(kept_copy, "_file_system", lambda p, k=kinds, w=place: k[w in p.parts])
        with opened(repo):
            pass
        assert left(cache) == []


def test_a_copy_counts_once_the_clock_has_moved_beyond_all_that_stands_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / slots.MARKER
    marker.touch()
    slot = slots.Slot(tmp_path, tmp_path / "tree", tmp_path / "lock")

    def filled(changed_ns: int) -> copying.Filled:
        facts = (0, 0, 0, changed_ns, 0, 0)
        return copying.Filled([], {"same.py": (facts, facts)}, 0)

    assert kept_copy.settled(slot, filled(marker.lstat().st_ctime_ns))
    # Its clock stands.
    monkeypatch.setattr(kept_copy.os, "utime", lambda path: None)
    monkeypatch.setattr(kept_copy, "TICK_S", 0.01)
    now = marker.lstat().st_ctime_ns
    assert kept_copy.settled(slot, filled(now - 1))
    assert not kept_copy.settled(slot, filled(now))


def test_of_a_project_in_the_cache_itself_none_is_kept(
    git_repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path))
    with opened(git_repo(FILES)) as workspace:
        assert workspace.root.is_relative_to(tmp_path)
    assert left(tmp_path) == []


def test_a_project_below_another_file_system_s_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    lines = [
        b"2 1 0:9 / /a\\040b rw shared:1 - nfs4 host:/a rw\n",
        b"3 1 0:8 / /twice rw - ext4 a rw\n",
        b"1 0 8:1 / / rw - ext4 a rw\n",
        b"4 3 0:7 / /twice rw - tmpfs a rw\n",  # on top of the other
    ]
    monkeypatch.setattr(kept_copy, "read_bytes", lambda path: b"".join(lines))
    assert kept_copy._is_mounted_below(Path("/a b/..").parent.parent)
    assert not kept_copy._is_mounted_below(Path("/a b"))
    assert kept_copy._file_system(Path("/a b/c")) == "nfs4"
    assert kept_copy._file_system(Path("/a/c")) == "ext4"
    assert kept_copy._file_system(Path("/twice/c")) == "tmpfs"


def test_a_folder_of_another_file_system_is_no_new_one(tmp_path: Path) -> None:
    """A subvolume of btrfs, which everybody may make, is mounted nowhere."""
    (tmp_path / "new").mkdir()
    other = tempfile.mkdtemp(dir="/dev/shm")
    try:
        with kept_copy._opened(str(tmp_path / "new")) as new, kept_copy._opened(other) as strange:
            looks = kept_copy._Look.of(new), kept_copy._Look.of(strange)
            same = os.fstat(new).st_dev == os.fstat(strange).st_dev
        assert (looks[0] == looks[1]) == same
    finally:
        Path(other).rmdir()
    with kept_copy._opened("/proc") as without:
        assert kept_copy._flags(without) == 0


def test_a_file_of_another_file_system_below_the_project_is_not_kept(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, other = copying.stamp, (repo / "edited.py").stat().st_ino

    def elsewhere(facts: os.stat_result) -> copying.Stamp:
        found = real(facts)
        return (*found[:5], -1) if facts.st_ino == other else found

    monkeypatch.setattr(copying, "stamp", elsewhere)
    with opened(repo) as workspace:
        pass
    assert not (workspace.root / "edited.py").exists() and (workspace.root / "same.py").exists()


def test_small_projects_and_whoever_does_not_want_it_have_none(
    repo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(repo) as workspace:
        before = inodes(workspace)
    with opened(repo, kept=False) as workspace:
        assert as_in(workspace, repo) and not before.items() & inodes(workspace).items()
    assert left(cache) == []
    for name, value in (("MOST_BYTES", 17), ("WORTH_FILES", 1_000)):
        with monkeypatch.context() as patch:
            patch.setattr(kept_copy, name, value)
            with opened(repo):
                pass
        assert left(cache) == []


def test_a_few_files_of_many_bytes_are_worth_a_copy(
    repo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_copy, "WORTH_FILES", 1_000)
    monkeypatch.setattr(kept_copy, "WORTH_BYTES", 17)
    with opened(repo):
        pass
    assert len(left(cache)) == 1


@pytest.mark.parametrize("run", [training.TrainingRun, discovery.Discovery])
def test_a_run_keeps_its_copy_unless_it_is_told_not_to(repo: Path, cache: Path, run: type) -> None:
    script = repo / "train.py"
    made = SimpleNamespace(project=find_project(script), script=script, replacements={})
    for wanted in (True, False):
        options = RunOptions(keep_copy=wanted)
        with run.workspace(SimpleNamespace(prepared=made, options=options, cwd=repo)):
            pass
        assert len(left(cache)) == wanted


def test_restore_removes_what_was_kept(repo: Path, cache: Path, run_cli: RunCli) -> None:
    with opened(repo) as workspace:
        pass
    done = run_cli("restore", cwd=repo, env={"INSTRUMENT_CACHE": str(cache)})
    folder = workspace.slot.folder
    assert done.stdout == f"removed {folder}, a copy that was kept for the next run\n"
    assert left(cache) == []
    done = run_cli("restore", cwd=repo, env={"INSTRUMENT_CACHE": str(cache)})
    assert done.stdout == "Nothing to restore\n"


def test_a_folder_of_another_name_is_removed_by_nobody(repo: Path, cache: Path) -> None:
    """Whatever it holds: the marker, and a record of a copy."""
    with opened(repo) as workspace:
        pass
    shutil.copytree(workspace.slot.folder, cache / "shadows" / "photos")
    assert slots.prune(0) == (workspace.slot.folder,)
    assert left(cache) == ["photos"]


def test_of_several_runs_at_once_the_first_keeps_its_copy(repo: Path, cache: Path) -> None:
    with opened(repo), opened(repo):
        pass
    with opened(repo) as first:
        before = inodes(first)
        with opened(repo) as second:
            assert second.root != first.root and as_in(second, repo)
        assert as_in(first, repo)
    assert len(left(cache)) == 1
    with opened(repo) as workspace:
        assert inodes(workspace) == before


@pytest.mark.parametrize("broken", ["fill", "make_private_git"])
def test_an_update_that_is_cut_short_leaves_nothing_to_be_believed(
    repo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def cut(*arguments: object) -> None:
        raise KeyboardInterrupt

    with opened(repo) as workspace:
        before = inodes(workspace)
    with monkeypatch.context() as patch:
        patch.setattr(shadow, broken, cut)
        patch.setattr(slots, "_freed", lambda folder, tell: None)  # as a kill would have it
        with pytest.raises(KeyboardInterrupt), opened(repo):
            pass
    (folder,) = (cache / "shadows").iterdir()
    assert not kept_mark.is_kept(folder)
    with opened(repo) as workspace:
        assert as_in(workspace, repo)
        assert inodes(workspace) != before


def test_while_a_run_has_a_copy_nothing_says_that_it_can_be_believed(repo: Path) -> None:
    """A kill ends the run at any moment, and nothing is done after it."""
    with opened(repo) as workspace:
        folder = workspace.slot.folder
    assert kept_mark.is_kept(folder)
    with opened(repo) as workspace:
        assert workspace.slot.folder == folder and not kept_mark.is_kept(folder)
    assert kept_mark.is_kept(folder)


@pytest.mark.parametrize("said", [b"", b"\xc1", b"\x92\xc4\x01x\x91", "a stamp too few", None])
def test_a_record_that_says_something_else_counts_for_nothing(
    repo: Path, said: bytes | str | None
) -> None:
    with opened(repo) as workspace:
        pass
    (workspace.root / "same.py").write_text("a = 2\n")
    mark = kept_mark.mark_of(workspace.slot.folder)
    assert mark is not None
    if said is None:
        mark.rename(mark.with_name("elsewhere"))
        mark.symlink_to("elsewhere")
    elif isinstance(said, str):
        forged(workspace, count=1)
    else:
        mark.write_bytes(said)
    with opened(repo) as workspace:
        assert as_in(workspace, repo)


def test_a_copy_of_which_a_process_has_a_file_open_is_not_kept(repo: Path, cache: Path) -> None:
    code = "import sys; stream = open(sys.argv[1], 'r+'); print(flush=True); input()"
    with opened(repo) as workspace:
        command = [sys.executable, "-c", code, str(workspace.root / "same.py")]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        assert slots._in_use(workspace.slot.folder, open_files=True)
    assert left(cache) == []
    process.communicate(b"\n")


def test_a_mapped_file_counts_as_open(tmp_path: Path) -> None:
    (tmp_path / "mapped").write_bytes(b"x" * 4096)
    code = (
        "import mmap, sys\n"
        "with open(sys.argv[1], 'r+b') as stream: held = mmap.mmap(stream.fileno(), 0)\n"
        "print(flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "mapped")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"\n"
    assert slots._in_use(tmp_path, open_files=True) and not slots._in_use(tmp_path)
    process.communicate(b"\n")


@pytest.mark.parametrize("whole", [True, False])
def test_what_a_script_put_in_the_place_of_its_slot_is_not_touched(
    repo: Path, cache: Path, tmp_path: Path, whole: bool
) -> None:
    """Its copy in a folder of the user's, or their project itself, behind a link of its name."""
    before = snapshot(repo)
    mine = repo.parent if whole else tmp_path / "mine"
    mine.mkdir(exist_ok=True)
    (mine / "precious").write_text("x")
    with opened(repo) as workspace:
        folder = workspace.slot.folder
        if whole:
            folder.rename(tmp_path / "moved")
        else:
            (folder / slots.MARKER).rename(mine / slots.MARKER)
            workspace.root.rename(mine / workspace.root.name)
            workspace.slot.git.rename(mine / workspace.slot.git.name)
            folder.rmdir()
        folder.symlink_to(mine)
    assert snapshot(repo) == before and (mine / "precious").read_text() == "x"
    assert not os.path.lexists(folder)
    with opened(repo) as workspace:
        assert as_in(workspace, repo)
    assert (mine / "precious").read_text() == "x"


def test_a_slot_that_is_moved_away_while_its_last_process_ends_is_let_go(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(repo) as workspace:
        folder = workspace.slot.folder

        def late(*_: object, **__: object) -> bool:
            if folder.exists():
                folder.rename(tmp_path / "moved")
            return True

        monkeypatch.setattr(slots, "fell_silent", late)
    assert (tmp_path / "moved" / slots.MARKER).exists() and not folder.exists()


@pytest.mark.parametrize("later", [False, True])
def test_a_link_in_the_place_of_the_copy_itself_is_not_gone_through(
    repo: Path, tmp_path: Path, later: bool
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").write_text("x")

    def exchange(root: Path) -> None:
        root.rename(root.with_name("moved"))
        root.symlink_to(mine)

    with opened(repo) as workspace:
        if not later:
            exchange(workspace.root)
    if later:
        exchange(workspace.root)
    with opened(repo) as workspace:
        assert as_in(workspace, repo) and not workspace.root.is_symlink()
    assert [path.name for path in mine.iterdir()] == ["precious"]


def forged(workspace: Workspace, count: int = 2) -> None:
    """What a script would say of its copy to have its changes believed."""
    names = ["same.py", "edited.py"]
    both = (workspace.project.root, workspace.root)
    stamps = [tuple(kept_copy.stamp((root / name).stat()) for root in both) for name in names]
    said = ("\0".join(names).encode(), stamps[:count])
    mark = kept_mark.mark_of(workspace.slot.folder)
    assert mark is not None
    mark.write_bytes(msgspec.msgpack.encode(said))


@pytest.mark.parametrize("stays", ["an open file", "a process", "nothing that is kept"])
def test_a_mark_that_the_script_made_counts_for_nothing(
    repo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, stays: str
) -> None:
    monkeypatch.setattr(slots.fell_silent, "__defaults__", (0.0,))
    code = "import sys; stream = open(sys.argv[1], 'r+'); print(flush=True); input()"
    with opened(repo) as workspace:
        (workspace.root / "same.py").write_text("a = 666\n")
        forged(workspace)
        place = workspace.root if stays == "a process" else repo
        command = [sys.executable, "-c", code, str(workspace.root / "same.py")]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place
        )
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        if stays == "nothing that is kept":
            process.communicate(b"\n")
            monkeypatch.setattr(kept_copy, "QUIET_NS", 10**18)
    assert not kept_mark.is_kept(workspace.slot.folder)
    process.communicate(b"\n") if process.returncode is None else None
    with opened(repo) as workspace:
        assert as_in(workspace, repo)


def test_a_folder_that_lets_others_in_is_made_anew(repo: Path) -> None:
    with opened(repo) as workspace:
        before = inodes(workspace)
        os.setxattr(workspace.root / "pkg", "user.marked", b"x")
    with opened(repo) as workspace:
        assert os.listxattr(workspace.root / "pkg") == os.listxattr(workspace.slot.folder)
        assert inodes(workspace)["same.py"] == before["same.py"]
        os.setxattr(workspace.root, "user.marked", b"x")
    with opened(repo) as workspace:
        assert os.listxattr(workspace.root) == os.listxattr(workspace.slot.folder)
        assert as_in(workspace, repo)


def test_what_a_script_locked_is_made_anew(repo: Path) -> None:
    with opened(repo) as workspace:
        before = inodes(workspace)
        folder = os.open(workspace.root / "pkg", os.O_RDONLY)
        with suppress(OSError):  # a file system without: "no dump", which every user may set
            fcntl.ioctl(folder, 0x40086602, (0x40).to_bytes(8, sys.byteorder))
        locked = kept_copy._flags(folder)
        os.close(folder)
    with opened(repo) as workspace:
        folder = os.open(workspace.root / "pkg", os.O_RDONLY)
        assert kept_copy._flags(folder) == 0
        os.close(folder)
        assert inodes(workspace)["same.py"] == before["same.py"]
        assert inodes(workspace)["pkg/deep/in.py"] != before["pkg/deep/in.py"] or not locked


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else may give a file away")
@pytest.mark.parametrize("name", ["link", "pkg"])
@pytest.mark.parametrize("to", [(1, -1), (-1, 1)])
def test_what_a_script_gave_away_is_made_anew(repo: Path, name: str, to: tuple[int, int]) -> None:
    (repo / "link").symlink_to("same.py")
    with opened(repo) as workspace:
        before = inodes(workspace), (workspace.root / name).lstat()
        os.lchown(workspace.root / name, *to)
    with opened(repo) as workspace:
        facts = (workspace.root / name).lstat()
        assert (facts.st_uid, facts.st_gid) == (before[1].st_uid, before[1].st_gid)
        assert inodes(workspace)["same.py"] == before[0]["same.py"]


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("name", [".", "pkg"])
def test_a_pipe_in_the_place_of_a_folder_is_not_waited_for(repo: Path, name: str) -> None:
    with opened(repo) as workspace:
        before = inodes(workspace)
        place = workspace.root / name
        place.rename(repo.parent / "moved")
        os.mkfifo(place)
    with opened(repo) as workspace:
        assert as_in(workspace, repo)
        assert inodes(workspace)["same.py"] == before["same.py"] or name == "."


def test_what_a_script_wrote_beside_its_copy_is_gone_with_the_run(repo: Path) -> None:
    with opened(repo) as workspace:
        (workspace.slot.folder / "made").mkdir()
        (workspace.slot.folder / "made" / "checkpoint.pt").touch()
        (workspace.slot.folder / "link").symlink_to(repo)
        (workspace.slot.scratch / "note").touch()
    mark = kept_mark.mark_of(workspace.slot.folder)
    assert mark is not None
    stay = {slots.MARKER, workspace.root.name, mark.name}
    assert {path.name for path in workspace.slot.folder.iterdir()} == stay


def test_the_note_of_a_copy_is_written_through_no_link(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one that a process puts there in that very moment."""
    mine, real = tmp_path / "mine", slots.cleared
    mine.write_text("x")
    planted: list[Path] = []

    def late(slot: slots.Slot, folder: Path) -> bool:
        found, mark = real(slot, folder), kept_mark.mark_of(slot.folder)
        assert mark is not None
        planted.append(mark)
        mark.symlink_to(mine)
        return found

    monkeypatch.setattr(slots, "cleared", late)
    with opened(repo):
        pass
    assert mine.read_text() == "x" and not planted[0].is_symlink()


def test_what_a_script_mounted_in_its_copy_is_not_gone_through(
    repo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(repo) as workspace:
        place = workspace.root / "pkg"
        monkeypatch.setattr(kept_copy, "_mounts", lambda: [(place, "ext4")])
    assert left(cache) == []


def test_what_cannot_be_sifted_is_copied_anew(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(repo):
        pass

    def fails(path: Path) -> None:
        raise LeftOver(errno.EBUSY, "cannot be removed whole", str(path))

    monkeypatch.setattr(kept_copy, "remove_tree", fails)
    with opened(repo) as workspace:
        assert as_in(workspace, repo)


def test_a_file_that_is_written_while_it_is_copied_is_another_one(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the clock is set back meanwhile."""
    real = copying.shutil.copyfileobj

    def meanwhile(old, new, size: int) -> None:
        real(old, new, size)
        if old.name.endswith("same.py"):
            (repo / "same.py").write_text("a = 3\n")

    with monkeypatch.context() as patch:
        patch.setattr(copying._Filler, "_cloned", lambda *_: False)
        patch.setattr(copying.shutil, "copyfileobj", meanwhile)
        patch.setattr(copying.time, "time_ns", lambda: 2**62)
        with opened(repo) as workspace:
            assert (workspace.root / "same.py").read_text() == "a = 1\n"
    with opened(repo) as workspace:
        assert as_in(workspace, repo)


def test_submodules_ignored_inputs_links_and_empty_folders_are_brought_up_to_date(
    git_repo, cache: Path, tmp_path: Path
) -> None:
    library = git_repo({"code.py": "x = 1\n"}, name="library")
    repo = git_repo({**FILES, ".gitignore": "conf/\n"})
    add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "third"]
    subprocess.run(["git", *add], cwd=repo, check=True)
    (repo / "conf" / "empty").mkdir(parents=True)
    (repo / "conf" / "local.yaml").write_text("lr: 1\n")
    (repo / "inside").symlink_to("same.py")
    (repo / "outside").symlink_to(tmp_path)
    with opened(repo) as first:
        before = inodes(first)
    (repo / "third" / "code.py").write_text("x = 2\n")
    (repo / "conf" / "local.yaml").write_text("lr: 2\n")
    (repo / "inside").unlink()
    (repo / "inside").symlink_to("edited.py")
    with opened(repo) as second:
        root = second.root
        assert (root / "third" / "code.py").read_text() == "x = 2\n"
        assert (root / "conf" / "local.yaml").read_text() == "lr: 2\n"
        assert (root / "conf" / "empty").is_dir()
        assert (root / "inside").readlink() == Path("edited.py")
        assert (root / "outside").readlink() == repo / "outside"
        assert second.linked == (repo / "outside",) and second.new_files() == ()
        assert inodes(second)["same.py"] == before["same.py"]


def test_what_follows_another_plan_is_not_in_the_copy(repo: Path) -> None:
    (repo / "data").mkdir()
    (repo / "data" / "x.bin").write_text("x")
    with opened(repo, no_link=[Path("data")]) as workspace:
        assert not (workspace.root / "data").is_symlink()
    with opened(repo, link=[Path("data")]) as workspace:
        assert (workspace.root / "data").readlink() == repo / "data"
    assert (repo / "data" / "x.bin").read_text() == "x"


def test_kept_copies_end_with_the_boot_with_time_and_by_number(
    git_repo, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repos = [git_repo(FILES, name=f"repo{n}") for n in range(3)]
    monkeypatch.setattr(slots, "MOST_KEPT", 2)
    for number, repo in enumerate(repos):
        with opened(repo) as workspace:
            pass
        os.utime(workspace.slot.folder, (number + 1, number + 1))
    assert [name.partition("-")[0] for name in left(cache)] == ["repo1", "repo2"]
    recover(pytest.fail, pytest.fail)
    assert len(left(cache)) == 2
    mark = kept_mark.mark_of(cache / "shadows" / left(cache)[0])
    assert mark is not None
    os.utime(mark, (1, 1))
    recover(pytest.fail, pytest.fail)
    assert [name.partition("-")[0] for name in left(cache)] == ["repo2"]
    (tmp_path / "boot").write_text("0123-4567\n")
    monkeypatch.setattr(kept_mark, "BOOT", tmp_path / "boot")
    recover(pytest.fail, pytest.fail)
    assert left(cache) == []


def test_without_the_system_s_word_for_its_boot_nothing_is_kept(
    repo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kept_mark, "BOOT", tmp_path / "none")
    with opened(repo):
        pass
    assert left(cache) == []


def test_kept_copies_give_way_to_one_that_needs_the_room(
    git_repo, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (git_repo({**FILES, "blob": "x" * 2**20}, name=name) for name in ("one", "two"))
    with opened(one):
        pass
    free = iter([2**20, 2**40])
    usage = type("usage", (), {"free": property(lambda self: next(free))})
    monkeypatch.setattr(copying.shutil, "disk_usage", lambda path: usage())
    with opened(two):
        assert [name.partition("-")[0] for name in left(cache)] == ["two"]


def test_a_copy_that_is_to_stay_as_it_is_starts_from_nothing(repo: Path, cache: Path) -> None:
    with opened(repo) as workspace:
        pass
    (workspace.root / "stray").touch()
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo) as made:
        assert not (made.root / "stray").exists()
    assert left(cache) == []
