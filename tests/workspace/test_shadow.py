"""What a script sees in its temporary copy, and what the user's tree keeps."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.shared import private
from instrumentor.shared.errors import NotReady, UsageError
from instrumentor.shared.project import find_project
from instrumentor.workspace import copy_planner as planner
from instrumentor.workspace import copying
from instrumentor.workspace import git as git_module
from instrumentor.workspace.copy_plan import plan_shadow
from instrumentor.workspace.private_git import make_private_git
from instrumentor.workspace.shadow import shadow


def snapshot(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Type, mode, mtime, size and content of all that lies under a folder, .git included."""
    found = {}
    for folder, below, files in os.walk(root):
        for name in (*below, *files):
            path = Path(folder, name)
            facts = path.lstat()
            content = b""
            if stat.S_ISREG(facts.st_mode):
                content = hashlib.sha256(path.read_bytes()).digest()
            elif stat.S_ISLNK(facts.st_mode):
                content = os.fsencode(path.readlink())
            key = str(path.relative_to(root))
            found[key] = (facts.st_mode, facts.st_mtime_ns, facts.st_size, content)
    return found


def opened(repo: Path, script: str = "train.py", cwd: Path | None = None, **options):
    """The shadow of a repository, with a replacement only when one is given."""
    file = repo / script
    replacements = options.pop("replacements", {})
    return shadow(find_project(file), file, cwd or repo, replacements, **options)


def output(workspace, *command: str) -> str:
    """What a command says in the shadow, under the shadow's environment."""
    environment = workspace.environment(os.environ)
    done = subprocess.run(
        command, cwd=workspace.cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(workspace, *arguments: str, code: str | None = None) -> str:
    """Output of the script, or of code."""
    command = ["-c", code] if code is not None else [str(workspace.script)]
    return output(workspace, sys.executable, *command, *arguments)


def git(workspace, *arguments: str) -> str:
    return output(workspace, "git", *arguments)


def test_the_default_config_beside_the_script_lies_under_the_working_folder(git_repo) -> None:
    source = (
        "from pathlib import Path\n"
        "config = Path(__file__).parent / 'single_chip' / 'x.yaml'\n"
        "print(config.relative_to(Path.cwd()), config.read_text())\n"
        "print((Path(__file__).resolve().parent / 'single_chip').relative_to(Path.cwd()))\n"
    )
    folder = "blacksmith/experiments/torch/mnist"
    repo = git_repo({f"{folder}/train.py": source, f"{folder}/single_chip/x.yaml": "lr: 1"})
    with opened(repo, f"{folder}/train.py") as workspace:
        printed = python(workspace)
    assert printed == f"{folder}/single_chip/x.yaml lr: 1\n{folder}/single_chip\n"


def test_uncommitted_untracked_staged_and_deleted_files_are_as_on_disk(git_repo) -> None:
    repo = git_repo({"train.py": "", "edited.py": "old", "deleted.py": "", "staged.py": "a"})
    (repo / "edited.py").write_text("new")
    (repo / "untracked.yaml").write_text("x: 1")
    (repo / "deleted.py").unlink()
    (repo / "staged.py").write_text("b")
    subprocess.run(["git", "add", "staged.py"], cwd=repo, check=True)
    with opened(repo) as workspace:
        assert (workspace.root / "edited.py").read_text() == "new"
        assert (workspace.root / "untracked.yaml").read_text() == "x: 1"
        assert (workspace.root / "staged.py").read_text() == "b"
        assert not (workspace.root / "deleted.py").exists()


def test_the_replacement_stands_in_the_files_place_with_its_mode_and_mtime(git_repo) -> None:
    repo = git_repo({"train.py": "print('theirs')\n", "other.py": ""})
    (repo / "train.py").chmod(0o755)
    os.utime(repo / "train.py", ns=(10**18, 10**18 + 7))
    before = snapshot(repo)
    with opened(repo, replacements={repo / "train.py": b"print('ours')\n"}) as workspace:
        assert python(workspace) == "ours\n"
        facts = workspace.script.stat()
        assert stat.S_IMODE(facts.st_mode) == 0o755
        assert facts.st_mtime_ns == 10**18 + 7
        assert workspace.replaced == (repo / "train.py",)
    assert snapshot(repo) == before


def test_modes_times_line_ends_and_strange_names_are_kept(git_repo) -> None:
    strange = ["with space.txt", "ünï😀.txt", "new\nline.txt", '"quoted"\\.txt', "-dash", "$(x);&"]
    files: dict[str, str | bytes] = dict.fromkeys(strange, "x")
    files |= {"train.py": "", "crlf.py": b"a = 1\r\nb = 2", "run.sh": "#!/bin/sh\n"}
    repo = git_repo({**files, "read_only.txt": "r"})
    (repo / os.fsdecode(b"bytes-\xff.txt")).write_text("b")
    (repo / "run.sh").chmod(0o750)
    (repo / "read_only.txt").chmod(0o444)
    os.utime(repo / "crlf.py", ns=(5, 123_456_789_000_000_001))
    with opened(repo) as workspace:
        copied = snapshot(workspace.root)
    mine = {k: v for k, v in snapshot(repo).items() if not k.startswith(".git")}
    assert copied == mine


def test_no_copy_runs_with_other_rights_than_the_scripts(git_repo) -> None:
    repo = git_repo({"train.py": "", "pkg/tool": ""})
    for name in ("train.py", "pkg/tool", "pkg"):
        (repo / name).chmod(0o6755)
    with opened(repo, replacements={repo / "train.py": b""}) as workspace:
        copied = snapshot(workspace.root)
    assert {stat.S_IMODE(mode) for mode, *_ in copied.values()} == {0o755}


def test_what_is_deleted_after_it_was_listed_is_not_missed(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"train.py": "", "run/a.txt": "", "b.txt": ""})
    plan = plan_shadow(find_project(repo / "train.py"), repo / "train.py", repo, [])
    shutil.rmtree(repo / "run")
    (repo / "b.txt").unlink()
    filled = copying.fill(plan, tmp_path / "tree", {})
    assert set(filled.files) == {"train.py"} and not (tmp_path / "tree" / "b.txt").exists()


@pytest.mark.usefixtures("no_hang")
def test_what_is_exchanged_after_it_was_listed_is_neither_waited_for_nor_written_through(
    git_repo, tmp_path: Path
) -> None:
    repo, mine = git_repo({"train.py": "", "b.txt": "theirs"}), tmp_path / "mine"
    mine.write_text("mine")
    plan = plan_shadow(find_project(repo / "train.py"), repo / "train.py", repo, [])
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "b.txt").symlink_to(mine)
    with pytest.raises(NotReady, match="File exists"):
        copying.fill(plan, tmp_path / "linked", {})
    with pytest.raises(NotReady, match="File exists"):
        copying.fill(plan, tmp_path / "linked", {"b.txt": b"instrumented"})
    (repo / "b.txt").unlink()
    os.mkfifo(repo / "b.txt")
    with pytest.raises(NotReady, match="is a pipe"):
        copying.fill(plan, tmp_path / "piped", {})
    assert mine.read_text() == "mine"


def test_a_copy_of_a_closed_folder_can_be_removed(git_repo) -> None:
    repo = git_repo({"train.py": "", "closed/in/x": ""})
    for name in ("closed/in", "closed"):
        (repo / name).chmod(0o500)
    with opened(repo) as workspace:
        copied = snapshot(workspace.root)
    assert [stat.S_IMODE(copied[name][0]) for name in ("closed", "closed/in")] == [0o700, 0o700]


def test_what_the_script_does_in_its_copy_does_not_reach_the_tree(git_repo) -> None:
    source = (
        "import shutil, helper\n"
        "from pathlib import Path\n"
        "shutil.rmtree('checkpoints')\n"
        "Path('checkpoints').mkdir(); Path('checkpoints/new.pt').write_text('x')\n"
        "Path('notes.txt').write_text('')\n"
        "Path('logs/run.log').open('a').write('more')\n"
        "Path(__file__).write_text('')\n"
    )
    repo = git_repo({"train.py": source, "helper.py": "", "notes.txt": "mine"})
    for name in ("checkpoints/old.pt", "logs/run.log"):
        (repo / name).parent.mkdir()
        (repo / name).write_text("kept")
    before = snapshot(repo)
    with opened(repo) as workspace:
        python(workspace)
        assert workspace.new_files() == tuple(
            map(Path, ("checkpoints/new.pt", "logs/run.log", "notes.txt", "train.py"))
        )
    assert snapshot(repo) == before
    assert not workspace.root.exists()


def test_written_files_are_kept_on_request_and_nothing_is_overwritten(
    git_repo, tmp_path: Path
) -> None:
    repo = git_repo({"train.py": ""})
    kept = tmp_path / "kept"
    (kept / "out").mkdir(parents=True)
    (kept / "out" / "a.txt").write_text("earlier")
    (kept / "latest").symlink_to("nowhere")
    with opened(repo, keep_to=kept) as workspace:
        (workspace.root / "out").mkdir()
        (workspace.root / "out" / "a.txt").write_text("now")
        (workspace.root / "latest").symlink_to(workspace.root / "out" / "a.txt")
        assert workspace.new_files() == (Path("latest"), Path("out/a.txt"))
    assert (kept / "out" / "a.txt").read_text() == "earlier"
    assert (kept / "out" / "a-2.txt").read_text() == "now"
    assert (kept / "latest").readlink() == Path("nowhere")
    assert (kept / "latest-2").readlink() == Path("out/a.txt")


def test_written_files_are_kept_when_the_body_fails_too(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"train.py": ""})
    with pytest.raises(KeyboardInterrupt), opened(repo, keep_to=tmp_path / "kept") as workspace:
        (workspace.root / "a.txt").write_text("now")
        raise KeyboardInterrupt
    assert (tmp_path / "kept" / "a.txt").read_text() == "now"


def test_written_files_that_cannot_be_kept_are_an_error_with_a_remedy(
    git_repo, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("no folder")
    repo = git_repo({"train.py": ""})
    with (
        pytest.raises(NotReady, match="could not be kept in") as refused,
        opened(repo, keep_to=tmp_path / "kept") as workspace,
    ):
        (workspace.root / "a.txt").write_text("now")
    assert "name another output folder" in refused.value.hint


def test_the_shadow_goes_when_the_body_fails(git_repo) -> None:
    repo = git_repo({"train.py": ""})
    with pytest.raises(KeyboardInterrupt), opened(repo) as workspace:
        raise KeyboardInterrupt
    assert not workspace.root.exists()


def test_folders_closed_by_the_script_are_read_kept_and_removed(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"train.py": "", "locked/file.txt": ""})
    (repo / "locked").chmod(0o555)
    with opened(repo, keep_to=tmp_path / "kept") as workspace:
        inner = workspace.root / "locked" / "made"
        inner.mkdir()
        (inner / "x").write_text("")
        inner.chmod(0o000)
    assert not workspace.root.parent.exists()
    assert (tmp_path / "kept" / "locked" / "made" / "x").is_file()
    (repo / "locked").chmod(0o755)


def test_links_inside_lead_to_the_copy_and_links_outside_where_they_led(
    git_repo, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    repo = git_repo({"train.py": "", "pkg/module.py": "", "conf/real.yaml": "x"})
    (repo / "conf" / "relative").symlink_to("../pkg/module.py")
    (repo / "absolute").symlink_to(repo / "conf" / "real.yaml")
    (repo / "folder").symlink_to("pkg")
    (repo / "out_relative").symlink_to("../outside")
    (repo / "out_absolute").symlink_to(tmp_path / "outside")
    (tmp_path / "repo.yaml").touch()
    (repo / "beside").symlink_to(tmp_path / "repo.yaml")  # whose name begins as the project's
    (repo / "dangling").symlink_to("nowhere")
    (tmp_path / "alias").symlink_to(repo)
    (repo / "through_alias").symlink_to(tmp_path / "alias" / "pkg")
    with opened(repo) as workspace:
        root = workspace.root
        for name in ("conf/relative", "absolute", "folder", "through_alias"):
            assert (root / name).is_symlink()
            assert (root / name).resolve() == root / (repo / name).resolve().relative_to(repo)
        assert (root / "out_relative").resolve() == tmp_path / "outside"
        assert (root / "out_absolute").resolve() == tmp_path / "outside"
        assert (root / "beside").resolve() == tmp_path / "repo.yaml"
        assert (root / "dangling").readlink() == Path("nowhere")


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("../x.py", "a/link", "../x.py"),
        ("/p/repo/x.py", "link", "/c/repo/x.py"),
        ("/p/repo", "link", "/c/repo"),
        ("/p/repo.yaml", "link", "/p/repo.yaml"),
        ("../repo.yaml", "link", "/p/repo.yaml"),
        ("../../other/x", "a/link", "/p/other/x"),
        ("/other", "link", "/other"),
        ("/other/../x", "link", "/other/../x"),  # what ".." leads to depends on what "other" is
    ],
)
def test_what_a_link_of_a_copy_says(text: str, name: str, said: str) -> None:
    """Inside the project its counterpart, by whatever name; else where it led."""
    assert copying.text_of_link(text, name, "/p/repo", "/c/repo") == said


def test_a_link_to_a_link_out_of_the_project_leads_to_its_counterpart(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/")
    said = copying.text_of_link(str(tmp_path / "out"), "link", str(tmp_path), "/c/repo")
    assert said == "/c/repo/out"


def test_a_folder_that_holds_links_only_is_made_for_them(git_repo, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    repo = git_repo({"train.py": "", ".gitignore": "/deep/er/data/\n"})
    for name, target in {"a/b/in": "../../train.py", "c/d/away": "../../../outside"}.items():
        (repo / name).parent.mkdir(parents=True)
        (repo / name).symlink_to(target)
    (repo / "deep" / "er" / "data").mkdir(parents=True)
    (repo / "deep" / "er" / "data" / "x.bin").touch()

    with opened(repo) as workspace:
        assert (workspace.root / "a" / "b" / "in").resolve() == workspace.root / "train.py"
        assert (workspace.root / "c" / "d" / "away").resolve() == tmp_path / "outside"
        assert (workspace.root / "deep" / "er" / "data" / "x.bin").exists()


def test_a_checkpoint_folder_that_links_out_of_the_project_is_not_linked(
    git_repo, tmp_path: Path
) -> None:
    (tmp_path / "big_disk").mkdir()
    repo = git_repo({"train.py": ""})
    (repo / "checkpoints").symlink_to(tmp_path / "big_disk")
    with opened(repo) as workspace:
        (workspace.root / "checkpoints" / "x.pt").write_text("")
    assert list((tmp_path / "big_disk").iterdir()) == []


def test_a_script_given_through_a_link_keeps_its_neighbours(git_repo) -> None:
    repo = git_repo({"common/train.py": "", "a/x.yaml": "lr: 1"})
    link = repo / "a" / "train.py"
    link.symlink_to("../common/train.py")
    text = b"from pathlib import Path\nprint(Path(__file__).with_name('x.yaml').read_text())"
    with shadow(find_project(link), link, repo, {link: text}) as workspace:
        assert workspace.script == workspace.root / "a" / "train.py"
        assert workspace.replaced == (repo / "common" / "train.py",)
        assert python(workspace) == "lr: 1\n"


def test_a_script_given_through_a_link_from_elsewhere_lies_in_the_copy(
    git_repo, tmp_path: Path
) -> None:
    repo = git_repo({"common/train.py": ""})
    link = tmp_path / "alias.py"
    link.symlink_to(repo / "common" / "train.py")
    with shadow(find_project(link), link, repo, {}) as workspace:
        assert workspace.script == workspace.root / "common" / "train.py"


def test_without_git_the_copy_is_no_repository(git_repo, monkeypatch) -> None:
    repo = git_repo({"train.py": ""})
    with opened(repo) as workspace:
        assert workspace.slot.git.exists()
    monkeypatch.setattr(git_module, "available", lambda: False)
    with opened(repo) as workspace:
        assert not workspace.slot.git.exists() and workspace.script.is_file()


def test_git_works_in_the_copy_and_the_repository_is_untouched(git_repo) -> None:
    repo = git_repo({"train.py": "a", "other.py": ""})
    (repo / "untracked.txt").write_text("")
    before = snapshot(repo)
    with opened(repo, replacements={repo / "train.py": b"b"}) as workspace:
        assert git(workspace, "log", "--format=%s") == "Start\n"
        assert git(workspace, "status", "--short") == " M train.py\n?? untracked.txt\n"
        assert git(workspace, "rev-parse", "--show-toplevel").strip() == str(workspace.root)
        git(workspace, "add", "--all")
        git(workspace, "commit", "--message", "By the script")
        git(workspace, "stash", "list")
        git(workspace, "gc", "--quiet")
    after = snapshot(repo)
    assert after.keys() == before.keys()
    for name, (mode, mtime_ns, *content) in after.items():
        assert (mode, *content) == before[name][:1] + before[name][2:], name
        # git refreshes the time of a borrowed object that it would have written again
        assert name.startswith(".git/objects/") or mtime_ns == before[name][1], name


def test_a_repository_without_commits_works(git_repo) -> None:
    repo = git_repo({"train.py": ""}, commit=False)
    with opened(repo) as workspace:
        assert git(workspace, "status", "--short") == "?? train.py\n"


def test_worktrees_and_submodules_are_copied(git_repo, tmp_path: Path) -> None:
    library = git_repo({"lib/code.py": "x = 1\n", ".gitignore": "*.bin\n"}, name="library")
    repo = git_repo({"train.py": "from third.lib import code\nprint(code.x)\n"})
    for arguments in (
        ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "third"],
        ["commit", "--quiet", "--message", "Add the library"],
        ["worktree", "add", "--quiet", str(tmp_path / "tree")],
    ):
        subprocess.run(["git", *arguments], cwd=repo, check=True)
    (repo / "third" / "lib" / "code.py").write_text("x = 2\n")
    with opened(repo) as workspace:
        assert python(workspace) == "2\n"
        assert not (workspace.root / "third" / ".git").exists()
    before = snapshot(tmp_path / "tree")
    with opened(tmp_path / "tree") as workspace:
        assert git(workspace, "log", "-1", "--format=%s") == "Add the library\n"
        assert git(workspace, "rev-parse", "--abbrev-ref", "HEAD") == "tree\n"
        assert (workspace.root / "third").is_dir()  # never fetched in this work tree
    assert snapshot(tmp_path / "tree") == before
    assert not (tmp_path / "tree" / ".git").is_dir()


def test_a_folder_of_git_is_no_link_but_to_another_git_folder(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"train.py": "x = 1\n"})
    other = git_repo({"a.py": "a = 1\n"}, name="other")
    astray = tmp_path / "cache" / "info"
    astray.mkdir(parents=True)
    (astray / "large").touch()
    for place in (astray, astray.parent):
        shutil.rmtree(repo / ".git" / "info", ignore_errors=True)
        (repo / ".git" / "info").symlink_to(place)
        with pytest.raises(NotReady, match="no part of a git folder"):
            make_private_git(repo, tmp_path / "private")
        assert not (tmp_path / "private" / "info").exists()
        shutil.rmtree(tmp_path / "private")
        (repo / ".git" / "info").unlink()
    (repo / ".git" / "info").symlink_to(other / ".git" / "info")
    make_private_git(repo, tmp_path / "private")
    assert (tmp_path / "private" / "info" / "exclude").is_file()


def git_of(folder: Path, *words: str) -> str:
    command = ["git", f"--git-dir={folder}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_work_trees_own_and_what_all_share_are_in_the_copys_git(git_repo, tmp_path: Path) -> None:
    """Each from its own folder: a name of both has the work tree's value."""
    repo, tree = git_repo({"train.py": "x = 1\n"}), tmp_path / "tree"
    git_folder(repo, "worktree", "add", "--quiet", str(tree))
    git_folder(repo, "config", "extensions.worktreeConfig", "true")
    git_folder(repo, "config", "kept.shared", "yes")
    git_folder(tree, "config", "--worktree", "kept.own", "yes")
    refs = ("refs/bisect/bad", "refs/worktree/mine", "refs/rewritten/onto")
    for folder, names in ((repo, ["refs/heads/packed", "refs/notes/loose"]), (tree, refs)):
        for name in names:
            git_folder(folder, "update-ref", name, "HEAD")
        if folder is repo:
            git_folder(repo, "pack-refs", "--all")
            git_folder(repo, "update-ref", "refs/heads/loose", "HEAD")
    head = git_folder(repo, "rev-parse", "HEAD")
    (repo / ".git" / "shallow").write_text(head)
    (repo / ".git" / "reftable").mkdir()
    (repo / ".git" / "reftable" / "tables.list").touch()
    (repo / ".git" / "info" / "exclude").write_text("*.bin\n")
    made = tmp_path / "private"
    make_private_git(tree, made)
    for name in ("kept.shared", "kept.own"):
        assert git_of(made, "config", name) == "yes\n"
    for name in (*refs, "refs/heads/packed", "refs/heads/loose"):
        assert git_of(made, "rev-parse", "--verify", name) == head
    assert git_of(made, "symbolic-ref", "HEAD") == "refs/heads/tree\n"
    assert git_of(made, "rev-parse", "--is-shallow-repository") == "true\n"
    assert git_of(made, "ls-files") == "train.py\n"
    assert (made / "reftable" / "tables.list").is_file()
    assert (made / "info" / "exclude").read_text() == "*.bin\n"
    assert made.stat().st_mode & 0o777 == 0o700


def git_folder(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_link_to_a_folder_below_a_folder_of_git_is_left_out(git_repo, tmp_path: Path) -> None:
    """It may lead to a whole disk, or round in a circle."""
    repo = git_repo({"train.py": "x = 1\n"})
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "large").touch()
    (repo / ".git" / "info" / "disk").symlink_to(disk)
    (repo / ".git" / "info" / "round").symlink_to("..")
    make_private_git(repo, tmp_path / "private")
    assert (tmp_path / "private" / "info" / "exclude").is_file()
    assert not list((tmp_path / "private").rglob("large"))
    assert git_of(tmp_path / "private", "config", "core.hooksPath") == "/dev/null\n"
    assert git_of(tmp_path / "private", "config", "core.fsmonitor") == "false\n"
    assert not (tmp_path / "private" / "info" / "round").exists()


def test_a_clone_inside_the_tree_is_copied_by_its_own_rules(git_repo) -> None:
    repo = git_repo({"train.py": ""})
    subprocess.run(["git", "init", "--quiet", "clone"], cwd=repo, check=True)
    (repo / "clone" / ".gitignore").write_text("secret\n")
    (repo / "clone" / "code.py").write_text("")
    with opened(repo) as workspace:
        assert (workspace.root / "clone" / "code.py").is_file()
        assert not (workspace.root / "clone" / ".git").exists()


def test_a_project_without_git_is_walked(tmp_path: Path) -> None:
    project = tmp_path / "plain"
    for name in ("train.py", "pkg/x.py", "data/big.bin", "logs/a.log", "venv/pyvenv.cfg"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    (project / "empty").mkdir()
    before = snapshot(project)
    with opened(project) as workspace:
        root = workspace.root
        assert (root / "pkg" / "x.py").is_file() and not (root / "pkg").is_symlink()
        assert (root / "data").is_symlink()
        assert list((root / "logs").iterdir()) == []
        assert not (root / "venv").exists()
        assert (root / "empty").is_dir()
        assert "GIT_DIR" not in workspace.environment({})
    assert snapshot(project) == before


def test_the_working_folder_has_a_counterpart_or_stays(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"train.py": ""})
    (repo / "empty" / "deep").mkdir(parents=True)
    with opened(repo, cwd=repo / "empty" / "deep") as workspace:
        assert workspace.cwd == workspace.root / "empty" / "deep"
        assert workspace.cwd.is_dir()
    with opened(repo, cwd=tmp_path) as workspace:
        assert workspace.cwd == tmp_path


def test_paths_map_both_ways(git_repo) -> None:
    repo = git_repo({"a/train.py": ""})
    with opened(repo, "a/train.py") as workspace:
        shadowed = workspace.root / "a" / "train.py"
        assert workspace.counterpart(repo / "a" / "train.py") == shadowed
        assert workspace.counterpart(Path("a/train.py")) == shadowed
        assert workspace.counterpart(shadowed) == shadowed
        assert workspace.source_of(shadowed) == repo / "a" / "train.py"
        assert workspace.source_of(Path("a/train.py")) == repo / "a" / "train.py"
        assert workspace.source_of(Path("/etc/hosts")) == Path("/etc/hosts")


def test_files_outside_the_project_and_in_environments_cannot_be_replaced(
    git_repo, tmp_path: Path
) -> None:
    repo = git_repo({"train.py": "", ".gitignore": "env/\n"})
    (tmp_path / "other.py").write_text("")
    (repo / "env" / "lib").mkdir(parents=True)
    (repo / "env" / "pyvenv.cfg").write_text("")
    (repo / "env" / "lib" / "x.py").write_text("")
    for path, words in ((tmp_path / "other.py", "outside"), (repo / "env/lib/x.py", "environment")):
        with pytest.raises(UsageError, match=words), opened(repo, replacements={path: b""}):
            pass


def test_a_large_file_is_cloned_where_the_file_system_can(git_repo, monkeypatch) -> None:
    """A clone costs nothing and cannot be written through, so it goes before a link."""

    def clone(new: int, request: int, old: int) -> None:
        os.write(new, os.pread(old, 2**20, 0))

    repo = git_repo({"train.py": "abc", "corpus.txt": "abcd"})
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "exclude").write_text("data/\n")
    (repo / "data").mkdir()
    (repo / "data" / "x.bin").write_text("x")
    data = repo / "data"
    monkeypatch.setattr(planner, "LARGE_BYTES", 3)
    with opened(repo) as workspace:
        assert set(workspace.linked) == {data, repo / "corpus.txt"}
        assert (workspace.root / "corpus.txt").is_symlink()
    with opened(repo, replacements={repo / "train.py": b""}) as workspace:  # the first to be tried
        assert (workspace.root / "corpus.txt").is_symlink()
    monkeypatch.setattr(copying.fcntl, "ioctl", clone)
    with opened(repo) as workspace:
        assert workspace.linked == (data,)
        (workspace.root / "__pycache__").mkdir()
        (workspace.root / "__pycache__" / "train.pyc").touch()
        (workspace.root / "corpus.txt").write_text("")
        assert workspace.new_files() == (Path("corpus.txt"),)
    assert (repo / "corpus.txt").read_text() == "abcd"
    # What may not be read is left for the script to find out.
    monkeypatch.setattr(copying.os, "access", lambda *_: False)
    with opened(repo) as workspace:
        assert set(workspace.linked) == {data, repo / "corpus.txt"}


def test_a_copy_that_does_not_fit_is_refused_with_numbers_and_a_remedy(
    git_repo, monkeypatch
) -> None:
    repo = git_repo({"train.py": "", "blobs/x/a.txt": "x" * 2**20})
    usage = type("usage", (), {"free": 2**20})
    monkeypatch.setattr(copying.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(NotReady) as caught, opened(repo):
        pass
    assert "needs 1.0 MiB" in caught.value.message
    assert "1.0 MiB are free" in caught.value.message
    assert "--link blobs/x" in caught.value.hint


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.ENOSPC, "more room"), (errno.EDQUOT, "more room"), (errno.EACCES, "can be read")],
)
def test_a_copy_that_fails_on_the_way_is_refused_with_a_remedy(
    git_repo, monkeypatch, number: int, hint: str
) -> None:
    repo = git_repo({"train.py": ""})

    def fail(path: str) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(copying, "created", fail)
    with pytest.raises(NotReady, match=os.strerror(number)) as caught, opened(repo):
        pass
    assert hint in caught.value.hint and not list(private.entries("shadows"))


def test_links_into_the_users_tree_are_no_files_that_the_script_wrote(git_repo, tmp_path) -> None:
    """Nor are those that it finds in the copy; one that it points elsewhere is."""
    repo = git_repo({"train.py": "", ".gitignore": "data/\n"})
    (repo / "data").mkdir()
    (repo / "data" / "x.bin").touch()
    (repo / "link").symlink_to("train.py")
    with opened(repo, replacements={repo / "train.py": b"x"}) as workspace:
        assert workspace.linked == (repo / "data",) and workspace.new_files() == ()
        (workspace.root / "link").unlink()
        (workspace.root / "link").symlink_to(tmp_path)
        assert workspace.new_files() == (Path("link"),)
        shutil.rmtree(workspace.root)
        assert workspace.new_files() == ()
