"""A copy at another commit: the user's checkout, index, refs and data stay as they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from instrumentor.shared.errors import NotReady, UsageError
from instrumentor.shared.project import find_project
from instrumentor.workspace import copying, git, versions
from instrumentor.workspace.versions import Frozen, frozen
from instrumentor_analysis.shared.files import LIMIT_BYTES
from tests.conftest import RepoFactory
from tests.workspace.test_shadow import snapshot


def commit(repo: Path, *files: str) -> str:
    subprocess.run(["git", "add", "-A", *files], cwd=repo, check=True)
    subprocess.run(["git", "commit", "-qm", "next"], cwd=repo, check=True)
    return git.commit_of(repo, "HEAD")


@pytest.fixture
def repo(git_repo: RepoFactory) -> Path:
    made = git_repo({"train.py": "import old\n", "old.py": "A = 1\n", ".gitignore": "data/\n"})
    (made / "train.py").write_text("import new\n")
    (made / "old.py").unlink()
    (made / "new.py").write_text("A = 2\n")
    commit(made)
    (made / "data").mkdir()
    (made / "data" / "train.bin").write_bytes(b"numbers")
    (made / "train.py").write_text("import new  # not committed\n")
    (made / "notes.txt").write_text("untracked")
    return made


def test_tracked_files_are_those_of_the_commit(repo: Path) -> None:
    before, first = snapshot(repo), git.commit_of(repo, "HEAD~1")
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo, first) as copy:
        assert (copy.root / "train.py").read_text() == "import old\n"
        assert (copy.root / "old.py").exists() and not (copy.root / "new.py").exists()
        assert (copy.root / "data" / "train.bin").read_bytes() == b"numbers"
        assert (copy.root / "notes.txt").exists()
        assert git.commit_of(copy.root, "HEAD") == first
        assert git.state(copy.root) == (first, False)
        assert copy.linked == (repo / "data",)
    assert snapshot(repo) == before
    assert not copy.root.exists()


def test_without_a_commit_it_is_what_the_user_has_and_stays_so(repo: Path) -> None:
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo) as copy:
        (repo / "train.py").write_text("later\n")
        assert (copy.root / "train.py").read_text() == "import new  # not committed\n"
        assert git.state(copy.root)[1] is True


def test_a_script_that_the_commit_lacks(repo: Path) -> None:
    (repo / "other.py").write_text("")
    commit(repo, "other.py")
    first = git.commit_of(repo, "HEAD~1")
    copy = frozen(find_project(repo / "other.py"), Path("other.py"), repo, first)
    with pytest.raises(UsageError, match=r"other.py: not in"), copy:
        pass
    with pytest.raises(NotReady):
        git.commit_of(repo, "nowhere")


def test_settings_that_name_the_users_files_are_not_obeyed(repo: Path, tmp_path: Path) -> None:
    """core.worktree, as of a submodule; a filter, and a hook, that would run a program."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    for key, value in {
        "core.worktree": str(repo),
        "filter.evil.smudge": str(program),
        "filter.evil.required": "true",
        "core.fsmonitor": str(program),
    }.items():
        subprocess.run(["git", "config", key, value], cwd=repo, check=True)
    (repo / ".git" / "info" / "attributes").write_text("*.py filter=evil\n")
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (repo / ".git" / "hooks").mkdir(exist_ok=True)
        (repo / ".git" / "hooks" / hook).symlink_to(program)
    before, first = snapshot(repo), git.commit_of(repo, "HEAD~1")
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo, first) as copy:
        assert (copy.root / "train.py").read_text() == "import old\n"
    assert snapshot(repo) == before
    assert not ran.exists()


def test_tracked_data_behind_a_link_is_never_written_through(repo: Path) -> None:
    subprocess.run(["git", "add", "-f", "data"], cwd=repo, check=True)
    second = commit(repo)
    (repo / "data" / "train.bin").write_bytes(b"other numbers")
    commit(repo)
    project, script = find_project(repo / "train.py"), Path("train.py")
    first, before = git.commit_of(repo, "HEAD~2"), snapshot(repo)
    with frozen(project, script, repo, second, link=(Path("data"),)) as copy:
        assert (copy.root / "data" / "train.bin").read_bytes() == b"numbers"
    with frozen(project, script, repo, first, link=(Path("data"),)):
        pass
    assert snapshot(repo) == before


def made_of(repo: Path, *lines: str) -> str:
    """A commit whose tree is made of lines of `git ls-tree`, whatever they say."""
    text = "".join(f"{line}\0" for line in lines)
    tree = plumbing(repo, "mktree", "-z", stdin=text)
    return plumbing(repo, "commit-tree", "-m", "made", tree)


def plumbing(repo: Path, *arguments: str, stdin: str = "") -> str:
    told = subprocess.run(
        ["git", *arguments], cwd=repo, check=True, input=stdin, capture_output=True, text=True
    )
    return told.stdout.strip()


def kept(repo: Path, text: str) -> str:
    return plumbing(repo, "hash-object", "-w", "--stdin", stdin=text)


def test_links_of_a_commit_lead_into_the_copy(repo: Path, tmp_path: Path) -> None:
    """A link that names the user's own file would let the script write into it."""
    (tmp_path / "outside").mkdir()
    leads_to = {"a_own": str(repo / "train.py"), "b_out": "../outside", "c_in": "train.py"}
    first = made_of(
        repo,
        *(f"120000 blob {kept(repo, text)}\t{name}" for name, text in leads_to.items()),
        f"100644 blob {kept(repo, 'import old')}\ttrain.py",
    )
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo, first) as copy:
        assert (copy.root / "a_own").readlink() == copy.root / "train.py"
        assert (copy.root / "b_out").readlink() == tmp_path / "outside"
        assert (copy.root / "c_in").readlink() == Path("train.py")
        assert git.state(copy.root) == (first, False)


def test_a_commit_that_is_larger_than_the_disk_is_not_written(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One object of some bytes may be a file of any size, under a hundred names."""
    blob = kept(repo, "\0" * 2**20)
    script = kept(repo, "x = 1")
    names = [f"100644 blob {blob}\tb{number:03}" for number in range(100)]
    first = made_of(repo, *names, f"100644 blob {script}\ttrain.py")
    disk = type("disk", (), {"free": 150 * 2**20})
    monkeypatch.setattr(copying.shutil, "disk_usage", lambda path: disk)
    monkeypatch.setattr(git, "check_out", lambda *_: pytest.fail("written"))
    copy = frozen(find_project(repo / "train.py"), Path("train.py"), repo, first)
    with pytest.raises(NotReady, match=r"needs 100\.0 MiB"), copy:
        pass


def test_what_the_copy_holds_already_needs_no_room(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made_of(
        repo,
        f"100644 blob {kept(repo, 'x' * 2**20)}\tlarge",
        f"100644 blob {kept(repo, 'import old')}\ttrain.py",
    )
    monkeypatch.setattr(
        versions, "fill", lambda plan, tree, texts: tree.mkdir() or SimpleNamespace(links=[])
    )
    subprocess.run(["git", "read-tree", first], cwd=repo, check=True)
    disk = type("disk", (), {"free": copying.SPARE_BYTES + 2**19})
    monkeypatch.setattr(copying.shutil, "disk_usage", lambda path: disk)
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo, first) as copy:
        assert (copy.root / "large").stat().st_size == 2**20


def test_a_damaged_commit_is_named_where_it_can_be_looked_at(repo: Path) -> None:
    """Not in the copy, which is gone by then."""
    script = f"100644 blob {kept(repo, 'x = 1')}\ttrain.py"
    below = plumbing(repo, "mktree", "-z", stdin=f"{script}\0")
    first = made_of(repo, f"040000 tree {below}\tbelow", script)
    (repo / ".git" / "objects" / below[:2] / below[2:]).unlink()
    copy = frozen(find_project(repo / "train.py"), Path("train.py"), repo, first)
    with pytest.raises(NotReady, match=f"commit {first[:9]} of {repo} cannot") as caught, copy:
        pass
    assert caught.value.hint == f"Look what it holds: git ls-tree -r -t {first[:9]}"


def test_settings_of_a_work_tree_do_not_lead_the_copys_git_to_the_users_files(repo: Path) -> None:
    plumbing(repo, "config", "extensions.worktreeConfig", "true")
    (repo / ".git" / "config.worktree").write_text(f"[core]\n\tworktree = {repo}\n")
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo) as copy:
        assert plumbing(copy.root, "rev-parse", "--show-toplevel") == str(copy.root)


@pytest.mark.parametrize("name", [".GIT", "..", ".git"])
def test_a_commit_that_reaches_into_git_or_out_is_refused(repo: Path, name: str) -> None:
    hooks = f"100755 blob {kept(repo, '#!/bin/sh')}\tpost-checkout"
    inner = plumbing(repo, "mktree", "-z", stdin=f"{hooks}\0")
    raw = b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner)
    words = ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    tree = subprocess.run(words, cwd=repo, input=raw, check=True, capture_output=True)
    first = plumbing(repo, "commit-tree", "-m", "made", tree.stdout.decode().strip())
    before = snapshot(repo.parent)
    copy = frozen(find_project(repo / "train.py"), Path("train.py"), repo, first)
    with pytest.raises(NotReady, match=rf"commit {first[:9]} .* invalid path") as refused, copy:
        pass
    assert first[:9] in refused.value.hint
    assert snapshot(repo.parent) == before


def test_settings_that_end_in_a_backslash_take_none_of_ours_in(repo: Path, tmp_path: Path) -> None:
    settings = f"[core]\n\thooksPath = {tmp_path}\n\tfsmonitor = true\n[alias]\n\tx = y\\"
    with (repo / ".git" / "config").open("a") as stream:
        stream.write(settings)
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo) as copy:
        assert plumbing(copy.root, "config", "core.hooksPath") == "/dev/null"
        assert plumbing(copy.root, "config", "core.fsmonitor") == "false"


def test_a_copy_that_git_takes_long_for(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git might wait for is looked for then; our own settings name the null device."""
    monkeypatch.setattr(git, "SOON_S", 0.0)
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo, "HEAD~1") as copy:
        assert (copy.root / "train.py").read_text() == "import old\n"


def test_pythonpath_and_folder_lead_into_the_copy(repo: Path) -> None:
    base = {"PYTHONPATH": f"{repo / 'lib'}:src:/opt/x", "PWD": str(repo), "GIT_DIR": "x"}
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo) as copy:
        made = copy.environment(base)
        assert made == {"PYTHONPATH": f"{copy.root / 'lib'}:src:/opt/x", "PWD": str(copy.root)}


def test_a_project_without_git(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    with frozen(find_project(tmp_path / "train.py"), Path("train.py"), tmp_path) as copy:
        assert (copy.root / "train.py").read_text() == "x = 1\n"


def test_a_submodule_that_moved_stays_as_it_is(repo: Path) -> None:
    """Also where the settings say that submodules follow: the copy has no repository of theirs."""
    for number in ("1", "2"):
        entry = f"160000,{number * 40},part"
        subprocess.run(["git", "update-index", "--add", "--cacheinfo", entry], cwd=repo, check=True)
        modules = '[submodule "part"]\n\tpath = part\n\turl = ./part\n'
        (repo / ".gitmodules").write_text(modules)
        subprocess.run(["git", "add", ".gitmodules", "train.py"], cwd=repo, check=True)
        subprocess.run(["git", "commit", "-qm", number], cwd=repo, check=True)
    (repo / "part").mkdir()
    for key, value in {"submodule.recurse": "true", "submodule.part.active": "true"}.items():
        subprocess.run(["git", "config", key, value], cwd=repo, check=True)
    first = git.commit_of(repo, "HEAD~1")
    with frozen(find_project(repo / "train.py"), Path("train.py"), repo, first) as copy:
        assert git.commit_of(copy.root, "HEAD") == first


def test_copies_of_the_same_files_have_one_digest(repo: Path) -> None:
    project, script = find_project(repo / "train.py"), Path("train.py")

    def digest() -> str:
        with frozen(project, script, repo) as copy:
            return copy.digest()

    first = digest()
    assert digest() == first
    (repo / "train.py").write_text("x = 3\n")
    assert digest() != first


def test_a_copy_with_a_file_larger_than_any_that_is_read_at_once_has_a_digest(
    tmp_path: Path,
) -> None:
    copy = Frozen(tmp_path, tmp_path, ())
    with (tmp_path / "weights.bin").open("wb") as large:
        large.truncate(LIMIT_BYTES + 1)
    first = copy.digest()
    with (tmp_path / "weights.bin").open("ab") as large:
        large.write(b"1")
    assert copy.digest() != first


def test_a_link_counts_by_where_it_leads_and_what_stands_there_is_not_read(tmp_path: Path) -> None:
    root, pipe = tmp_path / "copy", tmp_path / "pipe"
    root.mkdir()
    os.mkfifo(pipe)
    copy = Frozen(root, root, ())
    digests = []
    for target in (pipe, tmp_path, root / "nothing", tmp_path / "file"):
        (root / "link").symlink_to(target)
        digests.append(copy.digest())
        (root / "link").unlink()
    (tmp_path / "file").touch()
    (root / "link").symlink_to(tmp_path / "file")
    assert len(set(digests)) == 4 and copy.digest() == digests[-1]
