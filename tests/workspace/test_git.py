"""A repository's own settings run nothing, and its index stays as it is."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from importlib.machinery import ModuleSpec
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from instrumentor.shared.errors import NotReady
from instrumentor.shared.project import find_project
from instrumentor.workspace import git
from instrumentor.workspace.copy_plan import plan_shadow
from instrumentor.workspace.originals_proof import Originals
from tests.attackers import NOBODY, TWO_USERS
from tests.conftest import git as run_git
from tests.waiting import wait_for


@pytest.fixture
def hostile(git_repo, tmp_path: Path) -> Path:
    """A repository in which every program that git could run leaves a file ``ran-...``."""
    repo = git_repo({"train.py": "x = 1\n", ".gitattributes": "*.py filter=evil diff=evil\n"})

    def program(name: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran-{name}'\ncat\n")
        path.chmod(0o755)
        return str(path)

    for key, name in {
        "core.fsmonitor": "monitor",
        "filter.evil.clean": "clean",
        "filter.evil.smudge": "smudge",
        "filter.evil.process": "process",
        "diff.external": "external",
        "diff.evil.command": "command",
        "diff.evil.textconv": "textconv",
        "core.pager": "pager",
        "core.sshCommand": "ssh",
        "remote.origin.uploadpack": "upload",
    }.items():
        run_git(repo, "config", key, program(name))
    run_git(repo, "config", "filter.evil.required", "true")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction", "pre-commit"):
        (hooks / name).symlink_to(program(name))
    run_git(repo, "config", "core.hooksPath", str(hooks))
    return repo


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A program that is git to whoever looks for one on PATH."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def ran(repo: Path) -> list[str]:
    return sorted(path.name for path in repo.parent.glob("ran-*"))


def touched(path: Path) -> None:
    """Other times, so that git has to look at the content."""
    os.utime(path, ns=(1, 1))


def test_nothing_that_a_repository_configures_is_run(hostile: Path) -> None:
    index = (hostile / ".git" / "index").read_bytes()
    touched(hostile / "train.py")
    script = hostile / "train.py"
    project = find_project(script)
    commit, dirty = git.state(hostile)
    assert commit == run_git(hostile, "rev-parse", "HEAD").strip() and dirty is False
    originals = Originals.take(project, [script])
    plan_shadow(project, script, hostile, [script])
    assert originals.verify() == ()
    git.write(hostile, "update-ref", "refs/instrumentor/x", commit)
    git.write(hostile, "update-ref", "-d", "refs/instrumentor/x")
    (hostile / "train.py").write_text("x = 2\n")
    assert git.state(hostile) == (commit, True)
    assert ran(hostile) == []
    assert (hostile / ".git" / "index").read_bytes() == index


def test_a_split_index_keeps_its_bytes(git_repo) -> None:
    repo = git_repo({"a.py": "a\n", "b.py": "b\n"})
    run_git(repo, "update-index", "--split-index")
    run_git(repo, "config", "core.splitIndex", "true")
    parts = {path: path.read_bytes() for path in (repo / ".git").glob("*index*")}
    assert len(parts) == 2
    touched(repo / "a.py")
    assert git.state(repo)[1] is False and git.names(repo, ()) == ["a.py", "b.py"]
    assert {path: path.read_bytes() for path in (repo / ".git").glob("*index*")} == parts


def test_an_object_that_is_missing_is_not_fetched(hostile: Path) -> None:
    """A partial clone gets what it lacks by whatever program the repository names."""
    upload = hostile.parent / "upload"
    upload.write_text(f"#!/bin/sh\ntouch '{hostile.parent}/ran-upload'\nexit 1\n")
    run_git(hostile, "config", "remote.origin.url", str(hostile))
    run_git(hostile, "config", "remote.origin.promisor", "true")
    run_git(hostile, "config", "extensions.partialClone", "origin")
    run_git(hostile, "config", "core.repositoryFormatVersion", "1")
    settings = hostile / ".git" / "config"
    before = settings.read_bytes()
    with pytest.raises(NotReady):
        git.read(hostile, "cat-file", "blob", "0123456789012345678901234567890123456789")
    assert ran(hostile) == []
    assert settings.read_bytes() == before  # a fetch notes in them what it would filter


def test_nothing_that_a_submodule_configures_is_run(git_repo, tmp_path: Path) -> None:
    """Its filters are in settings of its own."""
    repo = git_repo({"train.py": "x = 1\n", "sub/s.py": "s\n"}, commit=False)
    run_git(repo / "sub", "init", "-q")
    run_git(repo / "sub", "add", "s.py")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    run_git(repo / "sub", *who, "commit", "-qm", "s")
    run_git(repo, "add", ".")
    run_git(repo, *who, "commit", "-qm", "all")
    (tmp_path / "clean").write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran-clean'\ncat\n")
    (tmp_path / "clean").chmod(0o755)
    run_git(repo / "sub", "config", "filter.own.clean", str(tmp_path / "clean"))
    (repo / "sub" / ".git" / "info" / "attributes").write_text("*.py filter=own\n")
    touched(repo / "sub" / "s.py")
    assert git.state(repo)[1] is False
    assert ran(repo) == []


def test_a_filter_that_cannot_be_switched_off_leaves_the_state_open(hostile: Path) -> None:
    run_git(hostile, "config", "filter.a=b.clean", "touch ran-odd")
    touched(hostile / "train.py")
    commit, dirty = git.state(hostile)
    assert commit and dirty is None
    assert Originals.take(find_project(hostile / "train.py"), [hostile / "train.py"]).files[0].blob
    assert ran(hostile) == []


def test_the_state_of_a_tree(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"a.py": "a\n", "b.py": "b\r\n"})
    commit = run_git(repo, "rev-parse", "HEAD").strip()
    run_git(repo, "config", "core.autocrlf", "input")
    touched(repo / "b.py")
    (repo / "new.py").touch()
    assert git.state(repo) == (commit, False)
    run_git(repo, "rm", "-q", "--cached", "a.py")
    assert git.state(repo) == (commit, True)
    assert git.state(git_repo({}, name="empty", commit=False))[0] is None
    assert git.state(tmp_path) == (None, None)
    assert not git.has_parent(tmp_path) and not git.has_parent(repo)
    run_git(repo, "commit", "-q", "--allow-empty", "-m", "another")
    assert git.has_parent(repo)


def test_a_copy_without_a_git_of_its_own_takes_none_from_above(git_repo) -> None:
    """Nothing is written into the repository that the copy lies in."""
    repo = git_repo({"a.py": "a\n"})
    (repo / "copy" / ".git").mkdir(parents=True)
    (repo / "a.py").write_text("edited")
    run_git(repo, "add", "a.py")
    index = (repo / ".git" / "index").read_bytes()
    with pytest.raises(NotReady):
        git.check_out(repo / "copy", "HEAD")
    with pytest.raises(NotReady):
        git.overlook(repo / "copy", ["../a.py"])
    assert (repo / ".git" / "index").read_bytes() == index and (
        repo / "a.py"
    ).read_text() == "edited"


def test_a_copys_settings_do_not_say_where_its_files_are(git_repo, tmp_path: Path) -> None:
    copy, theirs = git_repo({"a.py": "a\n"}, name="copy"), tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "a.py").write_text("edited")
    (copy / "a.py").unlink()
    run_git(copy, "config", "core.worktree", str(theirs))
    git.check_out(copy, git.commit_of(copy, "HEAD"))
    assert (copy / "a.py").read_text() == "a\n" and (theirs / "a.py").read_text() == "edited"


def test_a_lock_is_named_with_what_to_do(git_repo) -> None:
    repo = git_repo({"a.py": "a\n"}, name="o;touch x;#")
    (repo / ".git" / "refs" / "instrumentor").mkdir()
    lock = repo / ".git" / "refs" / "instrumentor" / "x.lock"
    lock.touch()
    with pytest.raises(NotReady, match=str(lock)) as caught:
        git.write(repo, "update-ref", "refs/instrumentor/x", "HEAD")
    assert shlex.split(caught.value.hint.rpartition(": ")[2]) == ["rm", str(lock)]


def test_a_repository_that_git_does_not_accept_is_no_folder_without_one(
    git_repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = git_repo({"a.py": "a\n"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(NotReady, match="ownership"):
        git.common_folder(repo)


@pytest.mark.parametrize("damaged", ["HEAD", "objects"])
def test_a_damaged_repository_is_no_folder_without_one(git_repo, damaged: str) -> None:
    repo = git_repo({"a/b.py": "b\n"})
    (repo / ".git" / damaged).rename(repo / "away")
    with pytest.raises(NotReady, match="not a git repository"):
        git.common_folder(repo / "a")


SETTINGS = [("core.bare", "true"), ("core.worktree", "{}/else where")]


def set_aside(repo: Path, key: str, value: str, file: str) -> str:
    """Let a repository's settings say that its working tree is not where it lies."""
    (repo.parent / "else where").mkdir()
    run_git(repo, "config", "extensions.worktreeConfig", "true")
    value = value.format(repo.parent)
    run_git(repo, "config", "--file", str(repo / ".git" / file), key, value)
    return f"is in no working tree of {repo}/.git: {key} is {value} in {repo}/.git/{file}"


@pytest.mark.parametrize(("key", "value"), SETTINGS)
@pytest.mark.parametrize("file", ["config", "config.worktree"])
def test_a_setting_that_puts_the_working_tree_elsewhere_is_named(
    git_repo, key: str, value: str, file: str
) -> None:
    repo = git_repo({"a/b.py": "b\n"})
    said = set_aside(repo, key, value, file)
    for folder in (repo, repo / "a"):
        with pytest.raises(NotReady) as caught:
            git.common_folder(folder)
        assert caught.value.message == f"{folder} {said}"
    assert git.common_folder(repo / ".git" / "refs") is None
    assert git.common_folder(repo.parent / "else where") is None
    subprocess.run(shlex.split(caught.value.hint.partition(": ")[2]), cwd="/", check=True)
    assert git.common_folder(repo / "a") == repo / ".git"


def test_a_bare_repository_is_no_working_tree_wherever_it_lies(git_repo) -> None:
    repo = git_repo({"a.py": "a\n"})
    run_git(repo, "init", "--quiet", "--bare", "inner.git")
    assert git.common_folder(repo / "inner.git") is None
    assert git.common_folder(repo / "inner.git" / "hooks") is None


@pytest.fixture(params=["GitPython", "a hook's variables", "an environment without GitPython"])
def asked(request, monkeypatch: pytest.MonkeyPatch, git_repo, tmp_path: Path) -> Path:
    """A repository whose settings include a pipe, which is asked in each way there is."""
    git._gitpython()  # its import asks git, and would wait for what a test is about to make
    repo: Path = git_repo({"a.py": "a\n", "b\udcff.py": "\n"})
    run_git(repo, "config", "include.path", str(tmp_path / "pipe"))
    if request.param == "a hook's variables":
        other = git_repo({"other.py": ""}, name="other")
        monkeypatch.setenv("GIT_DIR", str(other / ".git"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    elif request.param != "GitPython":
        monkeypatch.setattr(git, "_gitpython", lambda: None)
    by_gitpython = git._by_gitpython

    def only_where_it_can(*given: object) -> object:
        assert request.param == "GitPython"
        return by_gitpython(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(git, "_by_gitpython", only_where_it_can)
    return repo


def test_every_way_answers_alike(asked: Path) -> None:
    repo = asked
    assert git.names(repo, ()) == ["a.py", "b\udcff.py"]
    data = bytes(range(256)) + b"\n\n"
    blob = git.write(repo, "hash-object", "-w", "--no-filters", "--stdin", stdin=data)
    assert git.read(repo, "cat-file", "blob", blob.decode().strip()) == data
    with pytest.raises(NotReady, match=r"git rev-parse failed in .*: fatal: Needed a single"):
        git.commit_of(repo, "nothing")
    with pytest.raises(NotReady, match="git ls-files failed"):
        git.names(repo / "gone", ())


def answered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets every word that git is asked with."""
    words: list[str] = []
    real = git._answer
    monkeypatch.setattr(git, "_answer", lambda w, *more: (words.extend(w), real(w, *more))[1])
    return words


def test_what_is_written_is_synced_and_what_is_read_is_not(
    git_repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answered(monkeypatch)
    repo = git_repo({"a.py": "a\n"})
    git.write(repo, "hash-object", "-w", "--stdin", stdin=b"x")
    assert "core.fsync=loose-object,reference" in asked and "core.fsyncObjectFiles=true" in asked
    asked.clear()
    git.names(repo, ())
    assert asked and not any("fsync" in word for word in asked)


@pytest.mark.usefixtures("no_hang")
def test_git_that_waits_is_ended(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the user's own settings, which nobody looks for in a repository."""
    os.mkfifo(tmp_path / "own")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "own"))
    monkeypatch.setattr(git, "SOON_S", 0.1)
    monkeypatch.setattr(git, "ANSWER_S", 0.3)
    with pytest.raises(NotReady, match="does not answer"):
        git.names(asked, ())


@pytest.mark.usefixtures("no_hang")
def test_git_that_takes_all_memory_is_ended(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few trees that hold each other stand for any number of files."""
    inner = b"100644 blob " + git.write(asked, "hash-object", "-w", "--stdin").strip() + b"\tfile"
    for _ in range(9):
        one = git.write(asked, "mktree", stdin=inner + b"\n").strip()
        inner = b"\n".join(b"040000 tree %s\t%d" % (one, number) for number in range(10))
    tree = git.write(asked, "mktree", stdin=inner + b"\n").strip().decode()
    monkeypatch.setattr(git, "DATA_BYTES", 64 << 20)
    with pytest.raises(NotReady, match=r"(?i)memory"):
        git.read(asked, "ls-files", f"--with-tree={tree}")


@pytest.mark.parametrize("said", ["yes", "yes >&2"])
def test_an_answer_without_an_end_is_not_taken_in(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    stand_in(tmp_path, monkeypatch, said)
    monkeypatch.setattr(git, "ANSWER_BYTES", 4 << 20)
    monkeypatch.setattr(git, "ANSWER_S", 2.0 if said != "yes" else git.ANSWER_S)
    why = "git ls-files says more than 4 MiB" if said == "yes" else "git ls-files does not answer"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotReady, match=why):
        git.names(asked, ())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_a_git_that_has_said_all_is_let_come_to_its_end(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have files of its own to remove."""
    done = f"sleep 0.3; touch {tmp_path}/done"
    stand_in(tmp_path, monkeypatch, f"echo said; exec <&- >&- 2>&-; {done}")
    assert git.read(asked, "ls-files") == b"said\n"
    assert (tmp_path / "done").exists()


@pytest.mark.usefixtures("no_hang")
def test_a_git_that_has_said_all_and_stays_is_ended(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "exec <&- >&- 2>&-; exec sleep 3600")
    monkeypatch.setattr(git, "ANSWER_S", 0.3)
    with pytest.raises(NotReady, match="does not answer"):
        git.read(asked, "ls-files")


def test_what_git_may_wait_for_is_looked_for_once(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search of a large repository, for each word that a slow git says."""
    looks: list[Path] = []
    stand_in(tmp_path, monkeypatch, "sleep 0.4; echo a; sleep 0.1; echo b; sleep 0.1; echo c")
    monkeypatch.setattr(git, "SOON_S", 0.1)
    monkeypatch.setattr(git.git_files, "refuse_waited_for", lambda root, named: looks.append(root))
    assert git.read(asked, "ls-files") == b"a\nb\nc\n"
    assert looks == [asked]


def test_of_what_git_says_of_a_failure_the_reason_is_quoted(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "printf 'warning: a\\nfatal: b\\nhint: c\\n' >&2; exit 128")
    with pytest.raises(NotReady, match=r": fatal: b$"):
        git.read(asked, "ls-files")


def test_a_commit_by_any_name(git_repo) -> None:
    """A tag is an object of its own, and git takes names that look like options."""
    repo = git_repo({"a.py": "a\n"})
    commit = run_git(repo, "rev-parse", "HEAD").strip()
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    run_git(repo, *who, "tag", "-a", "-m", "one", "one")
    run_git(repo, "update-ref", "refs/heads/-x", commit)
    assert [git.commit_of(repo, name) for name in ("HEAD", "one", "-x")] == [commit] * 3


def test_a_copy_at_another_commit_leaves_its_branches(git_repo) -> None:
    copy = git_repo({"a.py": "a\n"})
    first = run_git(copy, "rev-parse", "HEAD").strip()
    (copy / "a.py").write_text("b\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    run_git(copy, *who, "commit", "-qam", "second")
    second = run_git(copy, "rev-parse", "main").strip()
    git.check_out(copy, first)
    assert git.commit_of(copy, "HEAD") == first and git.commit_of(copy, "main") == second
    assert git.state(copy) == (first, False)


def test_what_git_has_started_ends_with_it(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"sleep 3600 &\necho $! >>{tmp_path}/children\nwait")
    monkeypatch.setattr(git, "SOON_S", 2.0)
    monkeypatch.setattr(git, "ANSWER_S", 2.0)
    with pytest.raises(NotReady, match="does not answer"):
        git.names(asked, ())
    for child in map(int, (tmp_path / "children").read_text().split()):
        wait_for(lambda child=child: not psutil.pid_exists(child) or is_dead(child))


def is_dead(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def test_a_pipe_for_which_git_waits_is_named(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(git, "SOON_S", 0.1)
    monkeypatch.chdir(asked)
    words = answered(monkeypatch)
    for data in (b"", b"x" * 100_000):  # more than a pipe holds: git is told, too, that waits
        with pytest.raises(NotReady, match="pipe is a pipe, not a regular file: git waits for it"):
            git.read(asked, "hash-object", "--stdin", stdin=data)
    assert "--file" in words and str(tmp_path / "pipe") not in words  # it would wait for it, too


@pytest.mark.parametrize(
    ("setting", "pipe"),
    [
        ("core.excludesFile=named", "repo/named"),  # from where git is asked
        ("include.path=../../beside/settings", "beside/named"),  # from the file that says so
    ],
)
@pytest.mark.parametrize("file", ["config", "config.worktree"])
def test_a_pipe_that_settings_name_by_a_relative_path_is_named(
    git_repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, pipe: str, file: str
) -> None:
    repo = git_repo({"a.py": "a\n"})
    run_git(repo, "config", "extensions.worktreeConfig", "true")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "settings").write_text("[include]\n\tpath = named\n")
    run_git(repo, "config", "--file", str(repo / ".git" / file), *setting.split("="))
    os.mkfifo(tmp_path / pipe)
    monkeypatch.setattr(git, "SOON_S", 0.1)
    with pytest.raises(NotReady, match="named is a pipe, not a regular file: git waits for it"):
        git.names(repo, ("--others", "--exclude-standard"))


def test_settings_that_include_themselves_have_an_end(
    git_repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a condition: git itself does not, where it does not hold."""
    repo = git_repo({"a.py": "a\n"})
    run_git(repo, "config", "includeIf.gitdir:/nowhere/.path", "config")
    monkeypatch.setattr(git, "_MOST_FILES", 3)
    assert len(list(islice(git._named(repo), 200))) < 200


def test_git_need_not_read_what_it_is_given(asked: Path) -> None:
    """More than a pipe holds: what is left over when git has ended is no failure."""
    commit = git.read(asked, "rev-parse", "--verify", "HEAD", stdin=b"x" * 200_000)
    assert len(commit.strip()) == 40


def test_what_git_says_is_in_one_language(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, 'printf %s "$LC_ALL"')
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert git.read(asked, "version") == b"C"


@TWO_USERS
def test_git_as_another_user_has_the_same_limit_and_no_group_of_roots() -> None:
    """Root needs a right for it that many containers do not give: it is set before the start."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    words = ("sh", "-c", "ulimit -d; id -u; id -G")
    told = git._answer(words, b"", None, git._User(NOBODY, NOBODY))[1]
    assert told.decode().split() == [str(git.DATA_BYTES >> 10), str(NOBODY), str(NOBODY)]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@TWO_USERS
def test_where_root_may_not_become_the_owner_is_said(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    os.lchown(asked, NOBODY, NOBODY)
    for way in ("_by_gitpython", "_by_subprocess"):
        monkeypatch.setattr(git, way, refuse)
    with pytest.raises(NotReady, match="cannot be started as user nobody, the owner of") as caught:
        git.write(asked, "hash-object", "-w", "--stdin")
    assert "sudo -u nobody" in caught.value.hint


def test_a_git_that_has_ended_takes_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to wait for it where SIGCHLD is ignored, as by some shells' trap."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    git._bound(ended.pid)


def test_no_variable_of_a_hook_is_handed_on(git_repo) -> None:
    repo = git_repo({"a.py": "a\n"})
    assert set(run_git(repo, "rev-parse", "--local-env-vars").split()) <= git.LOCAL_VARIABLES


def test_a_git_that_is_only_slow_answers(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("git")
    stand_in(tmp_path, monkeypatch, f'sleep 0.5\ncat - >in.$$\nexec {real} "$@" <in.$$')
    monkeypatch.setattr(git, "SOON_S", 0.1)
    monkeypatch.chdir(tmp_path)
    for data in (b"x" * 4000, b"x" * 100_000):
        blob = git.write(asked, "hash-object", "-w", "--stdin", stdin=data)
        assert git.read(asked, "cat-file", "blob", blob.decode().strip()) == data


def ask(repo: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    """A process of its own says what git answers, and who started it."""
    code = (
        "import sys; from pathlib import Path; from instrumentor.workspace import git; "
        "print(git.names(Path(sys.argv[1]), ()), git._gitpython() is not None)"
    )
    words = [sys.executable, "-c", code, str(repo)]
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("planted", ["git/__init__.py", "git.py", "gitdb/__init__.py", "smmap.py"])
def test_a_module_of_the_users_is_not_taken_for_gitpython(
    git_repo, tmp_path: Path, planted: str
) -> None:
    repo = git_repo({planted: f"open({str(tmp_path / 'ran-it')!r}, 'w')\n"})
    told = ask(repo, PYTHONPATH=repo)
    assert (told.stdout, told.stderr) == (f"{[planted]} False\n", "")
    assert ran(repo) == []


def test_a_folder_of_that_name_is_not_gitpython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "find_spec", lambda name: ModuleSpec(name, None, is_package=True))
    assert git._gitpython.__wrapped__() is None


def test_a_git_that_is_named_for_gitpython_is_not_asked(git_repo, tmp_path: Path) -> None:
    repo, named = git_repo({"a.py": ""}), tmp_path / "named"
    named.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-named\n")
    named.chmod(0o755)
    told = ask(repo, GIT_PYTHON_GIT_EXECUTABLE=named, GIT_PYTHON_REFRESH="raise")
    assert (told.stdout, told.stderr) == ("['a.py'] True\n", "")
    assert ran(repo) == []


def test_git_that_waits_is_ended_by_an_interrupt(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C and SIGTERM raise it: git is gone before the caller goes on."""
    os.mkfifo(tmp_path / "pipe")
    started: list[subprocess.Popen[bytes]] = []
    whole = git._told

    def interrupted(process, *given):  # type: ignore[no-untyped-def]
        started.append(process)
        timer = signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert timer == (0.0, 0.0)
        return whole(process, *given)

    monkeypatch.setattr(git, "_told", interrupted)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            git.names(asked, ())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert started[-1].returncode == -signal.SIGKILL


def test_git_is_asked_without_a_folder_for_temporary_files(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert "a.py" in git.names(asked, ())


def test_git_that_cannot_be_started(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(asked))
    with pytest.raises(NotReady, match="git cannot be started"):
        git.names(asked, ())


def test_a_command_to_paste_names_one_folder(git_repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = git_repo({"a.py": ""}, name="o;touch x;#")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(NotReady) as caught:
        git.names(repo, ())
    command = caught.value.hint.split("`")[-2]
    assert shlex.split(command)[-1] == str(repo)


@pytest.mark.parametrize(
    ("origin", "installed"),
    [
        ("/installed/git/__init__.py", True),
        ("/elsewhere/git/__init__.py", False),
        (ImportError(), False),
        (ValueError(), False),
    ],
)
def test_only_the_module_of_an_installed_distribution_is_taken(
    monkeypatch: pytest.MonkeyPatch, origin: str | Exception, installed: bool
) -> None:
    def found(_: str) -> SimpleNamespace:
        if isinstance(origin, Exception):
            raise origin
        return SimpleNamespace(origin=origin)

    here = SimpleNamespace(locate_file=lambda name: f"/installed/{name}")
    monkeypatch.setattr(git, "distribution", lambda _: here)
    monkeypatch.setattr(git, "find_spec", found)
    assert git._installed("GitPython", "git") == installed


def test_an_installed_module_behind_a_link_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an environment's `lib64` is one to its `lib`."""
    module = tmp_path / "lib" / "git" / "__init__.py"
    module.parent.mkdir(parents=True)
    module.touch()
    (tmp_path / "lib64").symlink_to("lib")
    spec = SimpleNamespace(origin=str(tmp_path / "lib64" / "git" / "__init__.py"))
    here = SimpleNamespace(locate_file=lambda name: tmp_path / "lib" / name)
    monkeypatch.setattr(git, "distribution", lambda _: here)
    monkeypatch.setattr(git, "find_spec", lambda _: spec)
    assert git._installed("GitPython", "git")


@pytest.mark.parametrize("missing", ["git", "gitdb", "smmap"])
def test_gitpython_is_taken_with_all_that_it_imports(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(git, "_installed", lambda _, module: module != missing)
    monkeypatch.setattr(git, "import_module", lambda name: name)
    assert git._gitpython.__wrapped__() is None
    monkeypatch.setattr(git, "_installed", lambda *_: True)
    assert git._gitpython.__wrapped__() == "git"
