"""What is copied, what is linked, what is left out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from instrumentor.kernels import session
from instrumentor.kernels.run import KernelPipeline
from instrumentor.run.training import TrainingRun
from instrumentor.shared.errors import NotReady, UsageError
from instrumentor.shared.outputs import mark_latest, run_folder
from instrumentor.shared.project import find_project
from instrumentor.tune import journal
from instrumentor.workspace import copy_planner as planner
from instrumentor.workspace.copy_plan import ShadowPlan, plan_shadow
from instrumentor.workspace.shadow import shadow
from tests.attackers import TWO_USERS, as_another_user, shared_tmp
from tests.conftest import git

__all__ = ["shared_tmp"]

LARGE = planner.LARGE_BYTES + 1


def plan(repo: Path, script: str = "train.py", cwd: Path | None = None, **options) -> ShadowPlan:
    file = repo / script
    return plan_shadow(find_project(file), file, cwd or repo, **options)


def write(repo: Path, *names: str, size: int = 1) -> None:
    """Files of a size, without the disk space."""
    for name in names:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        with (repo / name).open("wb") as stream:
            stream.truncate(size)


def left_out(planned: ShadowPlan) -> dict[str, str]:
    return dict(planned.left_out)


def test_a_plain_repository_is_copied_whole(git_repo) -> None:
    planned = plan(git_repo({"train.py": "abc", "a/b.yaml": "x"}))
    assert planned.copies == {"train.py": 3, "a/b.yaml": 1}
    assert planned.copied_bytes == 4
    assert not planned.links and not planned.left_out


def test_planning_writes_nothing(git_repo) -> None:
    planned = plan(git_repo({"train.py": ""}))
    assert not Path(os.environ["INSTRUMENT_CACHE"]).exists()
    assert not planned.root.exists()


@pytest.mark.parametrize("folder", ["data", "datasets", ".cache", "deep/er/mnist_data", "Data"])
@pytest.mark.parametrize("pattern", ["/{}/", "/{}/*"])
def test_ignored_data_is_linked(git_repo, folder: str, pattern: str) -> None:
    repo = git_repo({"train.py": "", ".gitignore": pattern.format(folder)})
    write(repo, f"{folder}/x/train.bin")
    planned = plan(repo)
    assert planned.links == (folder,)
    assert planned.linked == (repo / folder,)
    assert set(planned.copies) == {"train.py", ".gitignore"}


OUTPUTS = "checkpoints results wandb runs logs outputs lightning_logs mlruns build dist my_logs"


@pytest.mark.parametrize("folder", OUTPUTS.split())
def test_ignored_output_is_neither_copied_nor_linked(git_repo, folder: str) -> None:
    repo = git_repo({"train.py": "", ".gitignore": f"{folder}/\n"})
    write(repo, f"{folder}/x.txt", f"deep/{folder}/y.txt")
    planned = plan(repo)
    assert not planned.links
    assert set(planned.copies) == {"train.py", ".gitignore"}
    assert left_out(planned) == dict.fromkeys((folder, f"deep/{folder}"), "output folder")
    assert {folder, f"deep/{folder}"} <= set(planned.folders)


def test_what_git_tracks_is_copied_whatever_its_name(git_repo) -> None:
    names = ("results/table.py", "logs/__init__.py", "env/activate", "build/x.txt", "data/d.py")
    planned = plan(git_repo(dict.fromkeys(("train.py", *names), "")))
    assert set(planned.copies) == {"train.py", *names}


@pytest.mark.parametrize("ignored", [True, False])
def test_environments_and_tool_caches_are_left_out(git_repo, ignored: bool) -> None:
    folders = "my_env/ node_modules/ .mypy_cache/ __pycache__/ conda/"
    ignore = folders.replace(" ", "\n") + "\n" if ignored else ""
    repo = git_repo({"train.py": "", ".gitignore": ignore})
    write(repo, "my_env/pyvenv.cfg", "my_env/lib/x.py", "node_modules/x/i.js", ".mypy_cache/x")
    write(repo, "__pycache__/train.pyc", "conda/conda-meta/history", "conda/bin/x")
    planned = plan(repo)
    assert set(planned.copies) == {"train.py", ".gitignore"}
    assert left_out(planned) == {
        "my_env": "environment",
        "conda": "environment",
        "node_modules": "cache of a tool",
        ".mypy_cache": "cache of a tool",
    }


@pytest.mark.parametrize("ignored", [True, False])
@pytest.mark.parametrize(
    ("record", "schema"),
    [
        ("run.json", TrainingRun.schema),
        ("run.json", KernelPipeline.schema),
        (session.FILE, session.SCHEMA),
        (journal.NAME, journal.SCHEMA),
    ],
)
def test_our_own_earlier_output_is_left_out(git_repo, ignored: bool, record, schema) -> None:
    repo = git_repo({"train.py": "", ".gitignore": "mnist_*/\n" if ignored else ""})
    write(repo, "mnist_baseline/tracy_profile/x.tracy")
    (repo / "mnist_baseline" / record).write_text(json.dumps({"event": "tune", "schema": schema}))
    write(repo, f"other/{record}")
    planned = plan(repo)
    assert set(planned.copies) == {"train.py", ".gitignore", f"other/{record}"}
    assert left_out(planned) == {"mnist_baseline": "output of an earlier run"}


def test_the_place_of_all_runs_is_left_out_as_a_whole(git_repo) -> None:
    repo = git_repo({"train.py": ""})
    made = run_folder(repo, None, "mnist", "run.json")
    mark_latest(made)
    write(repo, "instrument-runs/mnist-1/files/data.csv")
    planned = plan(repo)
    assert left_out(planned) == {"instrument-runs": "output of an earlier run"}
    assert not any("instrument-runs" in str(path) for path in planned.copies)


def test_large_files_are_linked_unless_they_are_source_or_a_script_may_write_them(
    git_repo,
) -> None:
    repo = git_repo({"train.py": ""})
    write(repo, "corpus.txt", "generated.py", "model.pt", "data/weights.pt", size=LARGE)
    write(repo, "checkpoints/last.pt", size=LARGE)
    write(repo, "checkpoints/notes.json")
    planned = plan(repo)
    assert planned.links == ("corpus.txt", "data/weights.pt")
    assert set(planned.copies) == {
        "train.py",
        "generated.py",
        "model.pt",
        "checkpoints/notes.json",
    }
    assert left_out(planned) == {"checkpoints/last.pt": "large file in an output folder"}


def test_small_ignored_files_and_folders_are_copied_because_a_script_may_need_them(
    git_repo, monkeypatch
) -> None:
    ignore = "_version.py\n*.so\ngenerated/\nscratch/\n*.log\nmodel.pt\nresults/*\n"
    repo = git_repo({"train.py": "", ".gitignore": ignore})
    write(repo, "pkg/_version.py", "pkg/_C.so", "generated/x_pb2.py", "results/old.csv")
    write(repo, "model.pt", size=LARGE)
    monkeypatch.setattr(planner, "SMALL_FOLDER_FILES", 3)
    write(repo, *(f"scratch/{n}/x.txt" for n in range(5)))
    planned = plan(repo)
    assert {"pkg/_version.py", "pkg/_C.so", "generated/x_pb2.py"} <= set(planned.copies)
    assert left_out(planned) == {
        "scratch": "ignored by git, and neither small nor known as data",
        "model.pt": "ignored and large",
        "results": "output folder",
    }


def test_a_script_in_an_ignored_folder_is_copied_with_its_neighbours(git_repo) -> None:
    repo = git_repo({".gitignore": "data/\nscratch/\n"})
    write(repo, "data/train.py", "data/x.yaml", "data/data/raw.bin", "scratch/a/b.txt")
    planned = plan(repo, "data/train.py", cwd=repo / "scratch" / "a")
    assert {"data/train.py", "data/x.yaml"} <= set(planned.copies)
    assert planned.links == ("data/data",)


def test_what_is_named_is_taken_however_large_its_folder(git_repo, monkeypatch) -> None:
    """A folder that git ignores is left out when it is not small, but not the script's own."""
    monkeypatch.setattr(planner, "SMALL_FOLDER_FILES", 3)
    repo = git_repo({"train.py": "", ".gitignore": "mine/\nothers/\n"})
    write(repo, *(f"{folder}/{n}.txt" for folder in ("mine", "others") for n in range(5)))
    (repo / "mine" / "train.py").write_text("")
    planned = plan(repo, "mine/train.py")
    assert len([name for name in planned.copies if name.startswith("mine/")]) == 6
    assert left_out(planned) == {"others": "ignored by git, and neither small nor known as data"}


def test_only_the_ignored_part_of_a_folder_is_linked(git_repo) -> None:
    repo = git_repo({"train.py": "", ".gitignore": "data/*\n!data/prepare.py\n"})
    write(repo, "data/prepare.py", "data/raw_data/x.bin", "data/small.txt")
    write(repo, "data/train.bin", size=LARGE)
    planned = plan(repo)
    assert planned.links == ("data/raw_data", "data/train.bin")
    assert {"data/prepare.py", "data/small.txt"} <= set(planned.copies)
    with shadow(find_project(repo / "train.py"), repo / "train.py", repo, {}) as workspace:
        assert not (workspace.root / "data").is_symlink()
        assert (workspace.root / "data" / "raw_data" / "x.bin").exists()
        assert set(workspace.linked) == {repo / "data" / "raw_data", repo / "data" / "train.bin"}


def test_link_and_no_link_overrule_the_names(git_repo) -> None:
    repo = git_repo({"train.py": "", "tracked/x.txt": "", ".gitignore": "data/\nruns/\n"})
    write(repo, "data/a.txt", "data/sub/b.txt", "runs/1/x.txt")
    write(repo, "data/large.bin", size=LARGE)
    planned = plan(repo, link=[Path("tracked"), repo / "runs"], no_link=[Path("data")])
    assert planned.links == ("runs", "tracked")
    assert {"data/a.txt", "data/sub/b.txt", "data/large.bin"} <= set(planned.copies)
    assert "tracked/x.txt" not in planned.copies
    assert not planned.left_out


def test_link_inside_a_data_folder_of_a_project_without_git(tmp_path: Path) -> None:
    write(tmp_path, "p/train.py", "p/pkg/big/x.txt", "p/data/a.txt", "p/data/keep/b.txt")
    planned = plan(tmp_path / "p", link=[Path("pkg/big")], no_link=[Path("data/keep")])
    assert planned.links == ("pkg/big",)
    assert set(planned.copies) == {"train.py", "data/a.txt", "data/keep/b.txt"}


def test_options_that_contradict_the_run_are_refused(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"a/train.py": "", "b/x.txt": ""})
    for options, words in (
        ({"link": [Path("a")]}, "holds a/train.py"),
        ({"link": [Path("b")], "cwd": repo / "b"}, "no such file|holds b"),
        ({"link": [Path("nowhere")]}, "--link nowhere: no such"),
        ({"no_link": [tmp_path]}, "--no-link .*: no such"),
    ):
        with pytest.raises(UsageError, match=words):
            plan(repo, "a/train.py", **options)


def test_a_folder_replaced_by_a_link_on_disk_is_a_link(git_repo, tmp_path: Path) -> None:
    repo = git_repo({"train.py": "", "assets/x.txt": ""})
    (repo / "assets").rename(tmp_path / "moved")
    (repo / "assets").symlink_to(tmp_path / "moved")
    planned = plan(repo)
    assert planned.symlinks == () and planned.links == ("assets",)
    assert set(planned.copies) == {"train.py"}


def test_links_out_of_the_project_count_as_linked_or_are_copied(git_repo, tmp_path: Path) -> None:
    """The script can write through them: each is named and watched, whoever put it there."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "big.bin").write_bytes(b"1234")
    files = {"train.py": "", "inside.txt": ""}
    repo = git_repo(files)
    for name, target in {
        "linked": "../outside", "file": "../outside/big.bin", "twice": "file", "gone": "../nowhere",
        "in": "inside.txt", "loop": "loop",
    }.items():  # fmt: skip
        (repo / name).symlink_to(target)
    git(repo, "add", "--all")
    planned = plan(repo)
    assert planned.links == ("file", "gone", "linked", "twice")
    assert planned.symlinks == ("in", "loop")
    copied = plan(repo, no_link=[Path("linked"), Path("file")])
    assert copied.links == ("gone", "twice")
    assert {"file": 4, "linked/big.bin": 4}.items() <= copied.copies.items()


def test_sockets_and_pipes_are_left_out(git_repo) -> None:
    repo = git_repo({"train.py": ""})
    os.mkfifo(repo / "pipe")
    assert set(plan(repo).copies) == {"train.py"}


def test_a_folder_too_wide_for_a_copy_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(planner, "MAX_FILES", 3)
    write(tmp_path, *(f"p/{n}.txt" for n in range(5)), "p/train.py")
    with pytest.raises(NotReady, match="more than 3 files"):
        plan(tmp_path / "p")


def test_a_project_works_without_the_git_program(git_repo, monkeypatch) -> None:
    repo = git_repo({"train.py": "", "pkg/x.py": ""})
    monkeypatch.setattr("instrumentor.workspace.git.available", lambda: False)
    planned = plan(repo)
    assert set(planned.copies) == {"train.py", "pkg/x.py"}
    assert left_out(planned) == {".git": "cache of a tool"}
    (repo / ".git").rename(repo.parent / "moved")
    (repo / ".git").write_text(f"gitdir: {repo.parent / 'moved'}\n")
    assert set(plan(repo).copies) == {"train.py", "pkg/x.py"}


def test_a_failing_git_is_reported_in_its_own_words(git_repo) -> None:
    repo = git_repo({"train.py": ""})
    (repo / ".git" / "index").write_bytes(b"broken")
    with pytest.raises(NotReady, match=r"git ls-files failed in .*: fatal"):
        plan(repo)


@TWO_USERS
def test_a_folder_that_the_user_cannot_read_is_left_out_and_named(shared_tmp: Path) -> None:
    """The script could not read it either; as root nothing is unreadable."""
    write(shared_tmp, "train.py", "locked/x.bin", "data/x.bin")
    (shared_tmp / "locked").chmod(0o700)

    def look() -> None:
        found = planner.Planner(shared_tmp, frozenset(["train.py"]), frozenset(), frozenset())
        found.run(None)
        assert (found.left_out, set(found.copies)) == ({"locked": "not readable"}, {"train.py"})

    as_another_user(look)
