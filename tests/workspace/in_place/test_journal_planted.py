"""Journals that somebody else planted: in a shared folder, or in the refs of a repository."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor.shared.errors import RestoreNeeded
from instrumentor.workspace import recovery
from instrumentor.workspace.in_place import journal
from instrumentor.workspace.in_place.disk import Disk
from instrumentor.workspace.in_place.journal import Entry, Journal
from instrumentor.workspace.in_place.restoring import restore
from tests.attackers import NOBODY, TWO_USERS, as_another_user, shared_tmp
from tests.conftest import git
from tests.workspace.test_in_place import TEXT, opened

__all__ = ["shared_tmp"]
pytestmark = pytest.mark.usefixtures("no_hang")
EVIL = b"echo caught\n"
NAME = "0123456789ab"


@pytest.fixture
def repo(git_repo) -> Path:
    return git_repo({"train.py": TEXT, "pkg/other.py": "y = 1\n"})


def planted(repo: Path, path: Path, **more: object) -> Journal:
    """A journal that lets a file outside come to hold the bytes of a blob of ``repo``."""
    common = repo / ".git"
    blob = journal.store(path, EVIL, common, Disk())
    entry = Entry(
        path=path,
        repository=common,
        blob=blob,
        sha256=journal.digest(EVIL),
        instrumented_sha256=journal.digest(b"present"),
        mode=0o755,
        mtime_ns=10**18,
        stem=f".instrument-{NAME}-0",
    )
    entry = replace(entry, **more)  # type: ignore[arg-type]
    return Journal(
        NAME, (entry,), Path("/nowhere/journal.json"), "elsewhere", 1, 0.0, journal.SCHEMA
    )


def nothing_written(folder: Path, before: list[str]) -> bool:
    return sorted(str(path) for path in folder.rglob("*")) == before


def test_a_journal_in_the_cache_names_files_of_its_repository_only(
    repo: Path, tmp_path: Path, git_repo
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    other = git_repo({"a.py": "a\n"}, name="other")
    cache = Path(os.environ["INSTRUMENT_CACHE"]) / "journal"
    for path in (home / ".profile", other / "new.py", repo / "pkg" / ".." / "x.py"):
        cache.mkdir(parents=True, exist_ok=True)
        (cache / f"{NAME}.json").write_bytes(planted(repo, path).text())
        with pytest.raises(RestoreNeeded, match="could not be put back: it "):
            restore()
        assert not os.path.lexists(path) and not any(home.iterdir())


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../outside/.profile", "not a plain path"),
        ("link/.profile", "through a link"),
        ("gone/x.py", "a folder that is gone"),
        (".git/hooks/pre-commit", "in a git folder"),
        ("sub/.git/hooks/pre-commit", "in a git folder"),
        ("nested/x.py", "does not lie in the repository"),
    ],
)
def test_a_repository_that_brings_refs_of_ours_writes_nothing_outside(
    repo: Path, tmp_path: Path, path: str, why: str
) -> None:
    (tmp_path / "outside").mkdir()
    (repo / "link").symlink_to(tmp_path / "outside")
    (repo / "sub" / ".git" / "hooks").mkdir(parents=True)
    (repo / "nested").mkdir()
    git(repo / "nested", "init", "-q")
    journal.hold(planted(repo, Path(f"{repo}/{path}")), Disk())
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(RestoreNeeded, match=why) as caught:
        restore(repo)
    assert caught.value.restored[0].action == "failed"
    assert nothing_written(tmp_path, before)


def held(found: Journal, repo: Path) -> None:
    """Let the refs of a repository keep a journal, whatever repository that names."""
    text = journal.STORE
    blob = Disk().git(repo, "hash-object", *text, stdin=found.text()).decode().strip()
    line = f"100644 blob {blob}\tjournal.json\n".encode()
    tree = Disk().git(repo, "mktree", stdin=line).decode().strip()
    git(repo, "update-ref", found.ref, tree)


def standing(path: Path) -> tuple[bytes, int, int]:
    return path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns


def refused(repo: Path, why: str) -> RestoreNeeded:
    with pytest.raises(RestoreNeeded, match=why) as caught:
        restore(repo)
    assert [each.action for each in caught.value.restored] == ["failed"]
    return caught.value


def test_refs_change_nothing_in_a_repository_that_they_name(repo: Path, git_repo) -> None:
    """Old content must not come back where somebody mended it."""
    other = git_repo({"a.py": "check_signature = False\n"}, name="other")
    blob = git(other, "rev-parse", "HEAD:a.py").strip()
    (other / "a.py").write_text("check_signature = True\n")
    before = standing(other / "a.py")
    found = planted(
        repo,
        other / "a.py",
        repository=other / ".git",
        blob=blob,
        sha256=journal.digest(b"check_signature = False\n"),
        instrumented_sha256=journal.digest(before[0]),
    )
    held(found, repo)
    refused(repo, "does not lie in this repository")
    assert standing(other / "a.py") == before


def test_refs_that_name_a_repository_that_is_gone_change_nothing(
    repo: Path, tmp_path: Path
) -> None:
    """Its parent would be everybody's: with `/gone` every file of the machine."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_bytes(EVIL)
    (home / ".bashrc").chmod(0o600)
    before = standing(home / ".bashrc")
    for content in (EVIL, b"something else"):
        found = planted(
            repo,
            home / ".bashrc",
            repository=Path("/gone"),
            sha256=journal.digest(EVIL),
            instrumented_sha256=journal.digest(content),
            mode=0o666,
        )
        held(found, repo)
        error = refused(repo, "does not lie in this repository")
        assert standing(home / ".bashrc") == before
        assert f"update-ref --no-deref -d {found.ref}" in error.message


@pytest.mark.parametrize("name", ["notes.txt", "tr*.py"])
def test_refs_count_only_for_what_git_tracks(repo: Path, name: str) -> None:
    (repo / name).write_bytes(b"present")
    journal.hold(planted(repo, repo / name), Disk())
    refused(repo, "is not tracked by git")
    assert (repo / name).read_bytes() == b"present"


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda path: None, "holds something else than the instrumented text; .* cat-file blob"),
        (Path.unlink, "is gone"),
        (lambda path: (path.unlink(), path.mkdir()), "holds something else"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "holds something else"),
    ],
)
def test_refs_count_only_for_a_file_that_is_instrumented(repo: Path, prepare, why: str) -> None:
    path = repo / "train.py"
    prepare(path)
    before = sorted(str(each) for each in repo.rglob("*") if ".git" not in each.parts)
    journal.hold(planted(repo, path), Disk())
    refused(repo, why)
    after = sorted(str(each) for each in repo.rglob("*") if ".git" not in each.parts)
    assert after == before


@pytest.mark.parametrize("present", [b"present", EVIL])
def test_refs_do_not_give_a_file_a_mode(repo: Path, present: bytes) -> None:
    path = repo / "train.py"
    path.write_bytes(present)
    path.chmod(0o600)
    os.utime(path, ns=(1, 1))
    journal.hold(planted(repo, path, mode=0o6777), Disk())
    (done,) = restore(repo)
    assert path.read_bytes() == EVIL and path.stat().st_mode & 0o7777 == 0o600
    # What holds the original already is not touched at all.
    assert (done.action, path.stat().st_mtime_ns) == (
        ("restored", 10**18) if present != EVIL else ("unchanged", 1)
    )


def test_a_file_that_bears_the_journals_name_is_not_trusted_more(
    repo: Path, tmp_path: Path
) -> None:
    """A repository can bring a file of this user's that holds the journal, too."""
    location = repo / f"{NAME}.json"
    outside = tmp_path / "outside"
    outside.write_bytes(b"present")
    found = replace(planted(repo, outside), location=location)
    location.write_bytes(found.text())
    journal.hold(found, Disk())
    refused(repo, "does not lie in the repository")
    assert outside.read_bytes() == b"present"


def test_one_damaged_ref_keeps_no_other_away(repo: Path) -> None:
    path = repo / "train.py"
    path.write_bytes(b"present")
    journal.hold(planted(repo, path), Disk())
    for number, text in enumerate((b"[" * 100_000, b" " * (journal.LIMIT_BYTES + 1))):
        blob = Disk().git(repo, "hash-object", *journal.STORE, stdin=text).decode().strip()
        line = f"100644 blob {blob}\tjournal.json\n".encode()
        tree = Disk().git(repo, "mktree", stdin=line).decode().strip()
        git(repo, "update-ref", f"refs/instrumentor/00000000000{number}", tree)
    git(repo, "update-ref", "refs/instrumentor/other", "HEAD")
    with pytest.raises(RestoreNeeded) as caught:
        restore(repo)
    actions = sorted(each.action for each in caught.value.restored)
    assert actions == ["failed", "failed", "failed", "restored"]
    assert path.read_bytes() == EVIL


def test_a_ref_that_leads_to_a_branch_takes_no_branch_with_it(repo: Path) -> None:
    path = repo / "train.py"
    found = planted(repo, path)
    path.write_bytes(EVIL)
    held(found, repo)
    kept = "refs/kept/tree"  # as a branch is, but for what it may hold
    git(repo, "update-ref", kept, found.ref)
    git(repo, "symbolic-ref", found.ref, kept)
    error = refused(repo, "leads to 'refs/kept/tree'")
    command = re.search(r"\((git .*) removes it\)", error.message)
    assert command and git(repo, "rev-parse", kept)
    subprocess.run(shlex.split(command[1]), check=True)
    assert git(repo, "rev-parse", kept) and restore(repo) == ()
    # Nor where the cache knows the journal.
    git(repo, "symbolic-ref", found.ref, kept)
    journal.close(found, Disk())
    assert git(repo, "rev-parse", kept) and journal.refs(repo / ".git") == []


@pytest.mark.parametrize("name", ["x\u2003refs/heads/master".encode(), b"\xff\xfe", b"a'b;c"])
def test_a_ref_of_any_name_is_one_ref(repo: Path, name: bytes) -> None:
    ref = os.fsdecode(b"refs/instrumentor/" + name)
    git(repo, "update-ref", ref, "HEAD")
    assert journal.refs(repo / ".git") == [ref]
    error = refused(repo, "no run gives a ref such a name")
    error.message.encode()
    assert (" -d " in error.message) == ref.isprintable()
    assert f" -d {shlex.quote(ref)} " in error.message or not ref.isprintable()


def test_other_bytes_than_the_originals_are_not_put_anywhere(repo: Path) -> None:
    """A blob that holds something else than what was swapped out: damaged, or made up."""
    (repo / "train.py").write_bytes(b"present")
    held(planted(repo, repo / "train.py", sha256=journal.digest(b"other")), repo)
    refused(repo, "holds other bytes than the original")
    assert (repo / "train.py").read_bytes() == b"present"
    assert not list(repo.glob(".instrument-*"))


@pytest.mark.parametrize("stem", ["../x", ".instrument-../x", "train"])
def test_names_beside_the_file_are_ours_only(repo: Path, stem: str) -> None:
    with pytest.raises(RestoreNeeded, match="cannot be read"):
        journal.parse(planted(repo, repo / "new.py", stem=stem).text())


def test_the_repository_may_be_gone(repo: Path) -> None:
    """The original stands beside the file: nothing of git is needed to put it back."""
    with pytest.raises(RuntimeError), opened(repo / "train.py"):
        shutil.rmtree(repo / ".git")
        raise RuntimeError
    assert (repo / "train.py").read_bytes() == TEXT
    outside = replace(planted_without_git(repo), path=repo.parent / "x.py")
    assert "does not lie" in journal.foreign(outside)


def planted_without_git(repo: Path) -> Entry:
    return Entry(repo / "x.py", repo / ".git", "", "", "", 0o644, 0, ".instrument-x")


def test_a_file_that_has_two_names_or_is_no_file_is_no_journal(repo: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.json"
    path.write_bytes(planted(repo, repo / "new.py").text())
    with journal.taken(path) as found:
        assert found is not None
    os.link(path, tmp_path / "second")
    with journal.taken(path) as found:
        assert found is None
    path.unlink()
    path.symlink_to(tmp_path / "second")
    with journal.taken(path) as found:
        assert found is None
    path.unlink()
    os.mkfifo(path)
    with journal.taken(path) as found:
        assert found is None


@TWO_USERS
def test_a_journal_of_another_user_is_none(repo: Path, shared_tmp: Path) -> None:
    path = shared_tmp / f"{NAME}.json"
    text = planted(repo, repo / "new.py").text()
    as_another_user(lambda: path.write_bytes(text))
    with journal.taken(path) as found:
        assert found is None


@TWO_USERS
def test_a_journal_planted_in_a_shared_folder_writes_nothing(
    repo: Path, shared_tmp: Path, tmp_path: Path
) -> None:
    """A link of another user to a folder of ours in which a file of theirs came, as in a clone."""
    home = tmp_path / "home"
    home.mkdir()
    text = planted(repo, home / ".profile").text()
    (repo / "journal").mkdir()
    (repo / "journal" / f"{NAME}.json").write_bytes(text)

    def plant() -> None:
        base = shared_tmp / "instrumentor-0"
        base.mkdir()
        (base / "journal").symlink_to(repo / "journal")

    as_another_user(plant)
    said: list[str] = []
    recovery.recover(said.append, said.append)
    assert not any(home.iterdir())
    assert journal.pending() == () and "belongs to another user" in said[0]


def test_a_lock_that_a_killed_git_left_does_not_keep_the_original_away(repo: Path) -> None:
    """SIGKILL of the group during `git update-ref`."""
    with opened(repo / "train.py"):
        (found,) = (journal.parse(path.read_bytes()) for path in journal.pending())
        lock = repo / ".git" / f"{found.ref}.lock"
        lock.touch()
    assert not lock.exists() and journal.pending() == ()
    assert (repo / "train.py").read_bytes() == TEXT


def test_a_lock_of_everybody_is_named_with_the_remedy(repo: Path) -> None:
    lock = repo / ".git" / "packed-refs.lock"
    git(repo, "config", "user.name", "x")
    with pytest.raises(RestoreNeeded) as caught, opened(repo / "train.py"):
        git(repo, "pack-refs", "--all")
        lock.touch()
    assert f"rm {lock}" in caught.value.message
    assert (repo / "train.py").read_bytes() == TEXT
    lock.unlink()
    restore()
    assert journal.pending() == () and not git(repo, "for-each-ref", "refs/instrumentor")


def test_a_journal_of_any_length_in_a_ref_is_not_read(repo: Path) -> None:
    text = planted(repo, repo / "train.py").text() + b" " * journal.LIMIT_BYTES
    blob = journal.store(repo / "x", text, repo / ".git", Disk())
    tree = subprocess.run(
        ["git", "mktree"], cwd=repo, input=f"100644 blob {blob}\t{journal.TEXT}\n".encode(),
        capture_output=True, check=True,
    ).stdout.decode().strip()  # fmt: skip
    git(repo, "update-ref", f"{journal.REFS}/{NAME}", tree)
    refused(repo, "it is too large")


def test_a_link_in_the_place_of_a_living_runs_journal_is_not_read(
    repo: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs.json").write_bytes(planted(repo, repo / "train.py").text())
    (tmp_path / "link.json").symlink_to(tmp_path / "theirs.json")
    assert journal.read(tmp_path / "theirs.json").id == NAME
    with pytest.raises(OSError, match="is a symbolic link"):
        journal.read(tmp_path / "link.json")


@TWO_USERS
def test_a_journal_of_another_user_is_not_read(repo: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.json"
    theirs.write_bytes(planted(repo, repo / "train.py").text())
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(OSError, match="belongs to another user"):
        journal.read(theirs)


@pytest.mark.parametrize("name", ["notes.txt", "copy.json", f"{NAME}.json"])
@pytest.mark.parametrize("holds", ["words", "the same", "another journal"])
def test_a_ref_removes_no_file_that_it_calls_its_journal(
    repo: Path, tmp_path: Path, name: str, holds: str
) -> None:
    """But the very journal under its own name, which is what a run has left."""
    path, location = repo / "train.py", tmp_path / name
    present = journal.digest(path.read_bytes())
    found = replace(planted(repo, path, instrumented_sha256=present), location=location)
    texts = {"words": b"mine", "the same": found.text()}
    location.write_bytes(texts.get(holds, replace(found, host="another").text()))
    held(found, repo)
    assert [each.action for each in restore(repo)] == ["restored"]
    assert path.read_bytes() == EVIL
    assert location.exists() != (holds == "the same" and name == f"{NAME}.json")


@pytest.mark.parametrize("kind", ["link", "pipe", pytest.param("another user's", marks=TWO_USERS)])
def test_what_is_no_file_of_ours_where_a_ref_has_its_journal_holds_nothing_up(
    repo: Path, tmp_path: Path, kind: str
) -> None:
    """Nobody could take it: so it would count as held, by a run that is alive."""
    path, location = repo / "train.py", tmp_path / f"{NAME}.json"
    present = journal.digest(path.read_bytes())
    found = replace(planted(repo, path, instrumented_sha256=present), location=location)
    if kind == "pipe":
        os.mkfifo(location)
    else:
        mine = tmp_path / "mine.json" if kind == "link" else location
        mine.write_bytes(found.text())
        if kind == "link":
            location.symlink_to(mine)
        else:
            os.chown(location, NOBODY, NOBODY)
    held(found, repo)
    assert [each.action for each in restore(repo)] == ["restored"]
    assert path.read_bytes() == EVIL and os.path.lexists(location)


def test_a_ref_that_waits_for_a_run_takes_no_branch_along(repo: Path) -> None:
    branch = git(repo, "rev-parse", "HEAD")
    git(repo, "symbolic-ref", f"{journal.REFS}/{NAME}", "refs/heads/main")
    journal.hold(planted(repo, repo / "train.py"), Disk())
    assert git(repo, "rev-parse", "refs/heads/main") == branch


def test_refs_by_the_thousand_have_an_end(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(repo, "rev-parse", "HEAD").strip()
    lines = "".join(f"create {journal.REFS}/{number:012x} {commit}\n" for number in range(60))
    subprocess.run(
        ["git", "update-ref", "--stdin"], cwd=repo, input=lines.encode(), check=True
    )  # fmt: skip
    asked: list[str] = []
    kept = journal.kept
    monkeypatch.setattr(journal, "kept", lambda *given: asked.append(given[1]) or kept(*given))
    with pytest.raises(RestoreNeeded, match=r"holds 60 refs under .* 50 were looked at"):
        restore(repo)
    assert len(asked) == 50
