"""Runs in the user's own file: what is swapped, put back, declined, and kept."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor.shared.errors import NotReady, RestoreNeeded
from instrumentor.shared.project import find_project
from instrumentor.workspace import git as git_module
from instrumentor.workspace.in_place import disk as disk_module
from instrumentor.workspace.in_place import in_place, inspect, journal
from instrumentor.workspace.in_place.restoring import restore
from tests.attackers import NOBODY, TWO_USERS, as_another_user, shared_tmp
from tests.conftest import git
from tests.workspace.test_git import SETTINGS, set_aside

__all__ = ["shared_tmp"]

TEXT = b"import time\r\nx = 1\n"
INSTRUMENTED = b"print('instrumented')\n" + TEXT


@pytest.fixture
def repo(git_repo) -> Path:
    return git_repo({"train.py": TEXT, "other.py": "y = 1\n"})


def opened(script: Path, **more):
    project = find_project(script)
    read = script.resolve().read_bytes()
    return in_place(project, script, project.root, {script: read}, {script: INSTRUMENTED}, **more)


def facts(path: Path) -> tuple[bytes, int, int]:
    return path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns


def listing(repo: Path) -> list[str]:
    return sorted(path.name for path in repo.iterdir())


def refs(repo: Path) -> str:
    return git(repo, "for-each-ref", "refs/instrumentor")


def left_over(repo: Path) -> list[object]:
    return [*journal.pending(), *[n for n in listing(repo) if "instrument" in n], *refs(repo)]


def test_the_file_is_swapped_and_put_back(repo: Path) -> None:
    script = repo / "train.py"
    script.chmod(0o755)
    os.utime(script, ns=(1, 1_234_567_890_123_456_789))
    before, inode = facts(script), script.stat().st_ino
    with opened(script) as site:
        assert script.read_bytes() == INSTRUMENTED
        assert script.stat().st_mode == before[1]
        assert site.script == script and site.root == repo and site.new_files() == ()
        assert site.description == "train.py: instrumented in place until the run ends"
        assert site.counterpart(Path("train.py")) == site.source_of(Path("train.py")) == script
        (pending,) = journal.pending()
        entry = journal.parse(pending.read_bytes()).entries[0]
        assert (entry.path, entry.mtime_ns, entry.mode) == (script, before[2], 0o755)
        assert git(repo, "cat-file", "blob", entry.blob).encode() == TEXT.replace(b"\r\n", b"\n")
        assert refs(repo)
    assert facts(script) == before and script.stat().st_ino == inode
    assert left_over(repo) == []
    assert [each.action for each in site.restored] == ["restored"]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda repo: git(repo, "commit", "-qam", "wip"), "in git, committed, stashed or staged"),
        (lambda repo: git(repo, "stash"), "in git, committed, stashed or staged"),
        (lambda repo: git(repo, "add", "train.py"), "in git, committed, stashed or staged"),
        (lambda repo: os.link(repo / "train.py", repo / "second.py"), "under another name"),
        (lambda repo: None, ""),
    ],
)
def test_where_the_instrumented_text_stays_is_said(repo: Path, act, said: str) -> None:
    before = facts(repo / "train.py")
    with opened(repo / "train.py") as site:
        act(repo)
    assert facts(repo / "train.py") == before
    (restored,) = site.restored
    assert said in restored.elsewhere and bool(said) == bool(restored.elsewhere)
    assert restored.text.endswith(restored.elsewhere)


def test_a_text_that_git_had_before_the_run_is_not_spoken_of(repo: Path) -> None:
    (repo / "earlier.py").write_bytes(INSTRUMENTED)
    (repo / ".gitattributes").write_text("* -text")
    git(repo, "add", "-A")
    with opened(repo / "train.py") as site:
        pass
    assert [each.elsewhere for each in site.restored] == [""]


@pytest.mark.parametrize("kind", ["folder", "pipe", "moved"])
def test_what_stands_in_the_files_place_is_the_users(repo: Path, kind: str) -> None:
    script, away = repo / "train.py", repo.with_name("away")
    with pytest.raises(RestoreNeeded) as caught, opened(script):
        if kind == "moved":
            repo.rename(away)
        else:
            script.unlink()
            script.mkdir() if kind == "folder" else os.mkfifo(script)
    if kind == "moved":
        assert "the folder" in caught.value.message and "is gone" in caught.value.message
        away.rename(repo)
        assert [each.action for each in restore(repo)] == ["restored"]
        assert script.read_bytes() == TEXT
    else:
        (kept,) = caught.value.restored[0].kept
        assert kept.read_bytes() == TEXT and not script.is_file()


def test_uncommitted_edits_staged_state_and_filters_stay(repo: Path) -> None:
    for attributes in (".gitattributes", ".git/info/attributes"):  # git's own count beside .git
        (repo / attributes).write_text("*.py text eol=lf filter=upper\n")
    git(repo, "config", "filter.upper.clean", "tr a-z A-Z")
    script = repo / "train.py"
    script.write_bytes(b"staged\r\n")
    git(repo, "add", "train.py")
    script.write_bytes(b"edited\r\n")
    index, before = (repo / ".git" / "index").read_bytes(), facts(script)
    with opened(script):
        pass
    assert facts(script) == before
    assert (repo / ".git" / "index").read_bytes() == index


def test_read_only_files_and_untracked_ones_are_swapped(repo: Path) -> None:
    script = repo / "new.py"
    script.write_bytes(TEXT)
    script.chmod(0o444)
    before = facts(script)
    with opened(script):
        assert script.read_bytes() == INSTRUMENTED
    assert facts(script) == before


def test_a_symlink_is_resolved(repo: Path) -> None:
    link = repo / "start.py"
    link.symlink_to("train.py")
    with opened(link):
        assert link.is_symlink() and (repo / "train.py").read_bytes() == INSTRUMENTED
    assert link.is_symlink() and (repo / "train.py").read_bytes() == TEXT


def test_worktrees_and_submodules(repo: Path, git_repo, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "--quiet", str(tmp_path / "tree"))
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo), "sub")
    for script in (tmp_path / "tree" / "train.py", repo / "sub" / "train.py"):
        status = git(script.parent, "status", "--short")
        with opened(script):
            assert script.read_bytes() == INSTRUMENTED
        assert script.read_bytes() == TEXT and left_over(script.parent) == []
        assert git(script.parent, "status", "--short") == status


def test_what_was_saved_in_the_moment_of_the_exchange_stays(repo: Path) -> None:
    """Between the last look and the exchange nothing can be locked: what came out is looked at."""

    class Late(disk_module.Disk):
        def swap(self, one: Path, other: Path) -> None:
            if other.read_bytes() == TEXT:
                other.write_bytes(b"saved just now")
            super().swap(one, other)

    ran: list[bool] = []
    with pytest.raises(RestoreNeeded), opened(repo / "train.py", disk=Late()):
        ran.append(True)
    assert ran == [] and (repo / "train.py").read_bytes() == b"saved just now"
    assert (repo / "train.py.before-instrument").read_bytes() == TEXT
    assert [name for name in listing(repo) if "edited" in name] == []


def test_a_folder_that_cannot_be_written(repo: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(NotReady, match="cannot be written"), opened(repo / "train.py"):
        pass


def test_a_file_that_changed_since_it_was_read(repo: Path) -> None:
    script = repo / "train.py"
    project = find_project(script)
    with (
        pytest.raises(NotReady, match="was changed"),
        in_place(project, script, repo, {script: b"old"}, {script: INSTRUMENTED}),
    ):
        pass
    assert left_over(repo) == []


@pytest.mark.parametrize(("touched", "action"), [(True, "restored"), (False, "unchanged")])
def test_a_file_that_holds_its_original_gets_its_times_back(
    repo: Path, touched: bool, action: str
) -> None:
    script = repo / "train.py"
    before = facts(script)
    entry = inspect(script, TEXT, INSTRUMENTED, disk_module.Disk())
    record = journal.new((entry,), repo)
    with journal.written(record, disk_module.Disk()):
        journal.hold(record, disk_module.Disk())
    if touched:
        os.utime(script, ns=(1, 1))
        script.chmod(0o600)
    assert [each.action for each in restore()] == [action]
    assert facts(script) == before and left_over(repo) == []


@pytest.mark.parametrize("act", ["git checkout train.py", "rm train.py", "rm .instrument-*"])
def test_what_is_no_edit_during_the_run_is_put_right(repo: Path, act: str) -> None:
    before = facts(repo / "train.py")
    with opened(repo / "train.py"):
        subprocess.run(["sh", "-c", act], cwd=repo, capture_output=True, check=True)
    assert facts(repo / "train.py") == before and left_over(repo) == []


def test_a_file_saved_anew_during_the_run_is_kept_beside_the_original(repo: Path) -> None:
    script = repo / "train.py"
    before = facts(script)
    with pytest.raises(RestoreNeeded) as caught, opened(script):
        (repo / "new").write_bytes(b"mine\n")
        (repo / "new").replace(script)
    assert caught.value.exit_code == 5 and "train.py.before-instrument" in caught.value.message
    assert script.read_bytes() == b"mine\n"
    assert facts(repo / "train.py.before-instrument") == before
    assert journal.pending() == () and refs(repo) == ""
    assert listing(repo) == [".git", "other.py", "train.py", "train.py.before-instrument"]


@pytest.mark.parametrize(("key", "value"), SETTINGS)
def test_a_working_tree_that_is_elsewhere_by_a_setting_is_said_to_be(
    repo: Path, key: str, value: str
) -> None:
    """Not that it is in no repository, and `git init` would not help."""
    before, said = facts(repo / "train.py"), set_aside(repo, key, value, "config")
    with pytest.raises(NotReady) as caught, opened(repo / "train.py"):
        pytest.fail("it begins")
    assert caught.value.message == f"{repo} {said}"
    assert caught.value.hint.startswith("Run without --in-place, or mend the repository. Take that")
    with pytest.raises(RestoreNeeded) as needed:
        restore(repo)
    assert f"could be looked for in {repo}: {repo} {said}" in needed.value.message
    git(repo, "config", "--unset", key)
    assert facts(repo / "train.py") == before and left_over(repo) == []


@pytest.fixture
def theirs(
    git_repo, shared_tmp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:  # fmt: skip
    """A repository of another user, accepted by root, whose own settings nobody else can read."""
    repo = shared_tmp / "theirs"
    git_repo({"train.py": TEXT}).rename(repo)
    for path in (repo, *repo.rglob("*")):
        os.lchown(path, NOBODY, NOBODY)
    settings = tmp_path / "settings"
    settings.write_text("[safe]\n\tdirectory = *\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    return repo


def strangers(folder: Path) -> list[Path]:
    """What in a folder does not belong to the user nobody."""
    every = (folder, *folder.rglob("*"))
    return [p for p in every if (p.lstat().st_uid, p.lstat().st_gid) != (NOBODY, NOBODY)]


@TWO_USERS
@pytest.mark.parametrize("way", ["GitPython", "plain git"])
def test_what_root_writes_in_another_users_repository_is_that_users(
    theirs: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "plain git":
        monkeypatch.setattr(git_module, "_gitpython", lambda: None)
    git(theirs, "config", "core.logAllRefUpdates", "always")
    os.chown(theirs / ".git" / "config", NOBODY, NOBODY)
    before, limits = set(theirs.rglob("*")), resource.getrlimit(resource.RLIMIT_DATA)
    old = os.umask(0o077)
    try:
        with opened(theirs / "train.py"):
            assert refs(theirs) and strangers(theirs / ".git") == []
            assert len(set(theirs.rglob("*")) - before) > 5
    finally:
        os.umask(old)
    assert strangers(theirs) == [] and left_over(theirs) == []
    assert resource.getrlimit(resource.RLIMIT_DATA) == limits
    as_another_user(lambda: journal.store(theirs, b"more", theirs / ".git", disk_module.Disk()))


@TWO_USERS
@pytest.mark.parametrize("closed", [".git/objects", ".git/refs", "."])
def test_where_a_repositorys_owner_cannot_write_nothing_is_exchanged(
    theirs: Path, closed: str
) -> None:
    """Root could, and leave there what the owner cannot change."""
    before = facts(theirs / "train.py")
    os.chown(theirs / closed, 0, 0)
    (theirs / closed).chmod(0o700)
    with pytest.raises(NotReady) as caught, opened(theirs / "train.py"):
        pytest.fail("it begins")
    assert f"failed in {theirs}/.git as user nobody, its owner: " in caught.value.message
    assert f"find {theirs}/.git '!' -uid {NOBODY};" in caught.value.hint
    assert "sudo -u nobody" in caught.value.hint
    assert facts(theirs / "train.py") == before and left_over(theirs) == []
    assert strangers(theirs) == [theirs / closed]


KILLED = """
import sys, time
from pathlib import Path
from tests.workspace.test_in_place import opened
with opened(Path(sys.argv[1])):
    print("open", flush=True)
    time.sleep(60)
"""


def start(script: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", KILLED, str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    return process


def test_a_living_run_is_left_alone_and_a_killed_one_undone(repo: Path) -> None:
    before = facts(repo / "train.py")
    process = start(repo / "train.py")
    (running,) = restore(repo)  # the cache and the repository both tell of it
    alive = f"is instrumented by a run that is alive (process {process.pid})"
    assert running.action == "running" and running.text == f"{repo}/train.py {alive}"
    assert (repo / "train.py").read_bytes() == INSTRUMENTED
    process.kill()
    process.communicate()
    (restored,) = restore()
    assert restored.action == "restored" and restored.path == repo / "train.py"
    assert facts(repo / "train.py") == before and left_over(repo) == []
    assert restore(repo) == ()


@pytest.mark.parametrize("gone", [True, False])
def test_the_repository_tells_when_the_cache_is_gone_or_another_one(
    repo: Path, monkeypatch, tmp_path, gone: bool
) -> None:
    before = facts(repo / "train.py")
    process = start(repo / "train.py")
    (location,) = journal.pending()
    if gone:
        location.unlink()
    monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path / "another cache"))
    assert [each.action for each in restore(repo)] == ["running"]
    process.kill()
    process.communicate()
    if not gone:
        with journal.taken(location):
            assert [each.action for each in restore(repo)] == ["running"]
    assert [each.action for each in restore(repo)] == ["restored"]
    assert facts(repo / "train.py") == before and left_over(repo) == []
    assert not location.exists()


def test_only_a_file_that_is_the_journal_is_removed(repo: Path, monkeypatch, tmp_path) -> None:
    before = facts(repo / "train.py")
    process = start(repo / "train.py")
    (location,) = journal.pending()
    process.kill()
    process.communicate()
    (ref,) = journal.refs(repo / ".git")
    found = journal.kept(repo / ".git", ref)
    elsewhere = replace(found.entries[0], path=tmp_path / "elsewhere.py")
    for text in (b"notes", replace(found, entries=(elsewhere,)).text()):
        location.write_bytes(text)
        monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path / "another cache"))
        assert [each.action for each in restore(repo)] == ["restored"]
        assert facts(repo / "train.py") == before and left_over(repo) == []
        assert location.read_bytes() == text
        (repo / "train.py").write_bytes(INSTRUMENTED)
        journal.hold(found, disk_module.Disk())


def test_a_half_written_journal_is_removed(repo: Path) -> None:
    folder = Path(os.environ["INSTRUMENT_CACHE"]) / "journal"
    folder.mkdir(parents=True)
    for pid in (os.getpid(), 2**22 + 1):
        (folder / f"{'0' * 12}.json.{pid}.part").write_text("{")
    assert restore() == ()
    assert listing(folder) == [f"{'0' * 12}.json.{os.getpid()}.part"]
