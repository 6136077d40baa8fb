"""Where shadows stand, who holds them, what is swept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.shared.errors import NotReady
from instrumentor.shared.project import find_project
from instrumentor.workspace import slots
from instrumentor.workspace.shadow import shadow
from instrumentor.workspace.slots import sweep


@pytest.fixture
def repo(git_repo) -> Path:
    return git_repo({"train.py": ""})


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "own_cache"
    monkeypatch.setenv("INSTRUMENT_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def opened(repo: Path):
    return shadow(find_project(repo / "train.py"), repo / "train.py", repo, {})


def left(cache: Path) -> list[str]:
    return [p.name for p in (cache / "shadows").iterdir()] if (cache / "shadows").exists() else []


def test_the_place_is_the_same_each_time_and_named_like_the_project(repo, cache) -> None:
    with opened(repo) as first:
        assert first.root.name == "repo"
        assert first.root.is_relative_to(cache / "shadows")
        assert first.root == first.plan.root
        assert first.root.parent.stat().st_mode & 0o777 == 0o700
    with opened(repo) as second:
        assert second.root == first.root
    assert left(cache) == []


def test_a_live_run_keeps_its_place_and_the_next_gets_a_sibling(repo, cache) -> None:
    with opened(repo) as first:
        (first.root / "mine.txt").write_text("")
        with opened(repo) as second:
            assert second.root.parent.name == f"{first.root.parent.name}-2"
            assert sweep(pytest.fail) == ()
        assert (first.root / "mine.txt").exists()
    assert left(cache) == []


def test_leftovers_are_swept_without_following_links(repo, cache, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file.txt").write_text("x")
    leftover = slots.slot_of(repo).folder
    (leftover / "repo").mkdir(parents=True)
    (leftover / slots.MARKER).touch()
    (leftover / "repo" / "data").symlink_to(precious)
    (leftover / "repo" / "file").symlink_to(precious / "file.txt")
    assert sweep(pytest.fail) == (leftover,)
    assert (precious / "file.txt").read_text() == "x"
    assert left(cache) == []


def test_what_a_kill_leaves_half_removed_is_swept(cache) -> None:
    name = "repo-0123456789"
    for folder in (f"{name}.trash-0123456789ab", f"{name}-2"):
        (cache / "shadows" / folder / "repo").mkdir(parents=True)
        (cache / "shadows" / folder / slots.MARKER).touch()
    (cache / "shadows" / name).mkdir()  # killed between the folder and its marker
    assert len(sweep(pytest.fail)) == 3
    assert left(cache) == []


def test_folders_that_are_not_ours_are_never_removed(repo, cache) -> None:
    foreign = slots.slot_of(repo).folder
    for folder in (foreign, cache / "shadows" / "photos", cache / "shadows" / "a-0123456789"):
        folder.mkdir(parents=True)
        (folder / "keep.txt").write_text("")
    (cache / "shadows" / "photos" / slots.MARKER).touch()  # of another name than any of ours
    (cache / "shadows" / "b-0123456789").symlink_to(foreign)
    assert sweep(pytest.fail) == ()
    with opened(repo) as workspace:
        assert workspace.root.parent.name.endswith("-2")
    assert len(left(cache)) == 4


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_stands_in_a_slots_place_and_is_no_folder_is_passed_over(
    repo, cache, tmp_path: Path, kind: str
) -> None:
    place = slots.slot_of(find_project(repo / "train.py").root).folder
    place.parent.mkdir(parents=True, mode=0o700)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / slots.MARKER).touch()
    if kind == "link":
        place.symlink_to(foreign)
    else:
        place.write_text("mine")
    with opened(repo) as shadow_of:
        assert shadow_of.root.parent.name == f"{place.name}-2"
    assert left(cache) == [place.name] and (foreign / slots.MARKER).exists()
    assert kind == "link" or place.read_text() == "mine"


def test_a_link_that_takes_a_new_slots_place_is_not_gone_through(
    repo, cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    real = slots._prepare

    def meanwhile(slot: slots.Slot, kept: bool) -> bool:
        made = real(slot, kept)
        slot.folder.rename(tmp_path / "moved")
        slot.folder.symlink_to(mine)
        return made

    monkeypatch.setattr(slots, "_prepare", meanwhile)
    with pytest.raises(NotADirectoryError), opened(repo):
        pass
    assert not any(mine.iterdir()) and left(cache) == []


def test_a_place_in_which_a_process_still_works_is_left_alone(repo, cache) -> None:
    with opened(repo) as workspace:
        process = subprocess.Popen([sys.executable, "-c", "input()"], cwd=workspace.cwd,
                                   stdin=subprocess.PIPE)  # fmt: skip
    assert workspace.root.exists()
    assert sweep(pytest.fail) == ()
    with opened(repo) as second:
        assert second.root.parent.name == f"{workspace.root.parent.name}-2"
    assert workspace.root.exists()
    process.communicate(b"\n")
    assert sweep(pytest.fail) == (workspace.root.parent,)


def test_a_project_with_a_strange_name_gets_a_plain_slot_of_its_own(git_repo) -> None:
    one, two = (git_repo({"train.py": ""}, name=f"{n}/my project; (1)") for n in "ab")
    with opened(one) as workspace:
        assert workspace.root.name == "my-project-1"
        assert workspace.script.is_file()
        assert slots.slot_of(two).folder != workspace.root.parent


def test_a_project_may_be_called_git(git_repo) -> None:
    with opened(git_repo({"train.py": ""}, name="git")) as workspace:
        assert workspace.script.is_file()


def test_a_cache_that_is_a_file_is_reported(repo, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path / "file"))
    with pytest.raises(NotReady, match="is not a folder") as caught, opened(repo):
        pass
    assert "INSTRUMENT_CACHE" in caught.value.hint


def test_bytecode_of_an_earlier_version_is_never_run(git_repo) -> None:
    """Same size, same mtime, other text: Python would believe the old bytecode."""
    repo = git_repo({"train.py": "import helper\n", "helper.py": "print(0)\n"})
    project = find_project(repo / "train.py")
    for text in ("1", "2"):
        replacement = {repo / "helper.py": f"print({text})\n".encode()}
        with shadow(project, repo / "train.py", repo, replacement) as workspace:
            plain = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            environment = workspace.environment(plain)
            done = subprocess.run(
                [sys.executable, workspace.script], env=environment, capture_output=True, check=True
            )
            assert done.stdout.decode().strip() == text
            cached = Path(environment["PYTHONPYCACHEPREFIX"]) / str(workspace.root).lstrip("/")
            assert cached.is_dir()
        assert not cached.exists()


def test_a_slot_goes_whole_and_its_mark_last(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "closed" / "inner").mkdir(parents=True)
    for name in (slots.MARKER, f"closed/{slots.MARKER}", "closed/inner/x"):
        (tree / name).touch()
    (tree / "closed").chmod(0)
    removed: list[str] = []
    unlink = os.unlink

    def noted(path: str, **more: object) -> None:
        removed.append(Path(path).name)
        unlink(path, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", noted)
        assert slots._remove(tree, pytest.fail)
    assert not tree.exists()
    assert sorted(removed[:-1]) == [slots.MARKER, "x"] and removed[-1] == slots.MARKER
    assert not slots._remove(tree, pytest.fail)  # somebody else was faster


def test_what_cannot_go_is_said_and_the_place_is_free(repo, cache, monkeypatch) -> None:
    """A script with enough rights can mount something, or forbid removal, in its copy."""

    def refused(path: str, **more: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    with opened(repo) as workspace, monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        with opened(repo) as second:
            pass
    assert workspace.slot.left == []
    (told,) = second.slot.left
    assert "train.py: Operation not permitted" in told and "The next start tries again" in told
    (trash,) = (cache / "shadows").iterdir()
    assert told.startswith(f"Could not remove {trash}, which a run left: ")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        said: list[str] = []
        assert sweep(said.append) == () and len(said) == 1 and str(trash) in said[0]
    assert sweep(pytest.fail) == (trash,)


def test_the_tool_itself_does_not_keep_a_slot(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not slots._in_use(tmp_path)


def test_all_places_taken_is_an_error(repo, cache, monkeypatch) -> None:
    monkeypatch.setattr(slots, "MAX_SIBLINGS", 2)
    wanted = pytest.raises(NotReady, match=r"2 copies of .* are in use")
    with opened(repo), opened(repo), wanted as caught, opened(repo):
        pass
    assert str(cache / "shadows") in caught.value.hint
