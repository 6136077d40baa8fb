"""Files that the user named: whole or not at all, never over one that is there."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from instrumentor.shared import outputs
from instrumentor.shared.errors import UsageError
from instrumentor.shared.outputs import (
    filled_below,
    mark_latest,
    new_below,
    refuse_misplaced,
    refuse_outputs,
    refuse_taken,
    run_folder,
    write_json,
    write_new,
)
from instrumentor_analysis.shared import files
from tests.attackers import NOBODY, TWO_USERS
from tests.conftest import git


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists"):
        write_new(target, b"new", force=False)
    assert target.read_bytes() == b"mine"
    write_new(target, b"new", force=True)
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "link", "link to nowhere", "socket"])
def test_only_a_regular_file_is_replaced(tmp_path: Path, kind: str, force: bool) -> None:
    target, other = tmp_path / "out.py", tmp_path / "other"
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "socket":
        os.mknod(target, stat.S_IFSOCK | 0o600)
    else:
        target.symlink_to(other)
    if kind == "link":
        other.write_bytes(b"mine")
    before = target.lstat()
    with pytest.raises(UsageError, match="not a regular file"):
        write_new(target, b"new", force=force)
    with pytest.raises(UsageError, match="not a regular file"):
        refuse_outputs([target], force=force)
    assert target.lstat() == before


def test_runs_are_not_put_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "instrument-runs").symlink_to(tmp_path / "victim")
    with pytest.raises(UsageError, match="instrument-runs is a symbolic link"):
        run_folder(tmp_path / "project", None, "train", "run.json")
    assert list((tmp_path / "victim").iterdir()) == []
    named = run_folder(tmp_path / "project", Path("instrument-runs/x"), "train", "run.json")
    assert (tmp_path / "victim" / "x" / "run.json").exists() and named.name == "x"


def test_a_folder_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    # For root every folder can be written to.
    monkeypatch.setattr(files, "created", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(UsageError, match=r"page.html: cannot be written: Read-only file system"):
        write_new(tmp_path / "page.html", b"new", force=False)


def test_a_folder_that_is_empty_may_be_written_into(tmp_path: Path) -> None:
    full = tmp_path / "full"
    (full / "inner").mkdir(parents=True)
    refuse_outputs([None, tmp_path / "full.html", full / "inner"], force=False)
    with pytest.raises(UsageError, match="full exists"):
        refuse_outputs([full], force=False)
    refuse_outputs([full], force=True)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("no dir/x.csv",), "no dir: no such folder"),
        (("file/x.csv",), "file: not a folder"),
        (("x", "y", "./x"), "two outputs would go to x"),
        (("x", "there/../x"), "two outputs would go to there/../x"),
        (("plots", "plots/x.html"), "plots/x.html would lie in plots, another output"),
        (("plots/x.html", "plots"), "plots/x.html would lie in plots, another output"),
    ],
)
def test_places_that_cannot_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError) as caught:
        refuse_misplaced([None, *map(Path, names)])
    assert caught.value.message == said
    assert caught.value.hint
    with pytest.raises(UsageError):
        refuse_outputs(map(Path, names), force=True)


@pytest.mark.parametrize("force", [False, True])
def test_an_output_never_takes_the_place_of_what_is_read(tmp_path: Path, force: bool) -> None:
    trace, folder = tmp_path / "ops.csv", tmp_path / "reports" / "last"
    folder.mkdir(parents=True)
    trace.write_text("the only copy")
    (tmp_path / "alias.csv").symlink_to(trace)
    (tmp_path / "linked").symlink_to(folder)
    for output in (trace, tmp_path / "alias.csv", tmp_path / "x" / ".." / "ops.csv", folder.parent):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="is an input"):
            refuse_outputs([output], [trace, tmp_path / "linked"], force=force)
    refuse_outputs(
        [tmp_path / "ops_report.csv", folder / "page.html"], [trace, folder], force=force
    )


RECORDS = (
    "timings.jsonl", "run.json", "plan.json", "summary.json", "changes.diff", "run.log",
    "tracy_perf/ops_perf_results.csv", "tracy_profile/.logs/x.csv", "files/model.pt",
)  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_of_a_run_is_never_replaced(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    for file in RECORDS:
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_text("record")
    with pytest.raises(UsageError, match="is a record of the run in"):
        refuse_outputs([run / name], force=True)
    with pytest.raises(UsageError, match="is a record of the run in"):
        write_new(run / name, b"new", force=True)
    assert (run / name).read_text() == "record"
    for made in ("report.html", "page.html", "tracy_perf/mine.csv", "new.log"):
        write_new(run / made, b"new", force=True)
    (tmp_path / "run.log").touch()
    write_new(tmp_path / "run.log", b"new", force=True)  # not in a run's folder


def test_the_remedy_for_a_missing_folder_can_be_pasted(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_misplaced([tmp_path / "no dir" / "x.csv"])
    assert caught.value.hint == f"Create it first: mkdir -p '{tmp_path / 'no dir'}'"


def test_an_error_names_the_file_and_no_temporary_one(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        write_json(tmp_path / "nowhere" / "run.json", {})
    assert caught.value.filename == str(tmp_path / "nowhere" / "run.json")
    (tmp_path / "run.json").mkdir()
    with pytest.raises(OSError) as caught:
        write_json(tmp_path / "run.json", {})
    assert caught.value.filename == str(tmp_path / "run.json")


def test_runs_that_start_in_one_moment_have_folders_of_their_own(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def start(_: int) -> Path:
        together.wait()
        return run_folder(tmp_path, None, "run", "run.log")

    with ThreadPoolExecutor(8) as pool:
        made = sorted(pool.map(start, range(8)))
    assert made == [tmp_path / "instrument-runs" / f"run-{n}" for n in range(1, 9)]


def test_of_runs_that_start_in_one_moment_one_has_the_folder_asked_for(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()  # an empty one is welcome, once
    together = threading.Barrier(8)

    def start(_: int) -> Path | None:
        together.wait()
        try:
            return run_folder(tmp_path, Path("run"), "", "run.log")
        except UsageError as error:
            assert str(error).startswith("run is not empty")
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [folder for folder in pool.map(start, range(8)) if folder]
    assert made == [tmp_path / "run"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_asked_for_that_holds_something_is_not_written_into(tmp_path: Path) -> None:
    refuse_taken(tmp_path, None)
    refuse_taken(tmp_path, Path("new"))
    (tmp_path / "out").mkdir()
    refuse_taken(tmp_path, Path("out"))
    (tmp_path / "out" / "run.json").touch()
    (tmp_path / "file").touch()
    for name, said in (("out", "out is not empty"), ("file", "file: not a folder")):
        with pytest.raises(UsageError, match=said):
            run_folder(tmp_path, Path(name), "", "run.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]


def test_runs_stand_in_one_place_that_git_ignores(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")

    def start(name: str) -> Path:
        made = run_folder(tmp_path, None, name, "run.json")
        mark_latest(made)
        return made.relative_to(tmp_path)

    place = Path("instrument-runs")
    assert [start(name) for name in ("a", "a", "a_b", "a")] == [
        place / name for name in ("a-1", "a-2", "a_b-1", "a-3")
    ]
    assert (tmp_path / place / "latest").resolve() == tmp_path / place / "a-3"
    assert git(tmp_path, "status", "--porcelain") == ""
    # The number says the order, also after a run was removed.
    shutil.rmtree(tmp_path / place / "a-1")
    assert start("a") == place / "a-4"


@TWO_USERS
def test_no_run_is_put_where_another_user_can_exchange_it(tmp_path: Path) -> None:
    """Whoever owns the folder around a run can put a link in its place while it is written."""
    place = tmp_path / "instrument-runs"
    place.mkdir(0o777)
    os.chown(place, NOBODY, NOBODY)
    with pytest.raises(UsageError, match=r"belongs to another user \(65534\)"):
        run_folder(tmp_path, None, "a", "run.json")
    assert not [path for path in place.iterdir() if path.name != ".gitignore"]
    os.chown(tmp_path, NOBODY, NOBODY)  # as where root works in a user's folder
    assert run_folder(tmp_path, None, "a", "run.json") == place / "a-1"


def test_a_folder_for_runs_is_never_open_to_everybody(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = os.umask(0)
    request.addfinalizer(lambda: os.umask(before))
    made = run_folder(tmp_path, None, "a", "run.json")
    for folder in (made, made.parent, run_folder(tmp_path, Path("mine"), "a", "run.json")):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o775


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_a_user_calls_latest_stays(tmp_path: Path, make: Callable[[Path], None]) -> None:
    latest = tmp_path / "instrument-runs" / "latest"
    latest.parent.mkdir()
    make(latest)
    mark_latest(run_folder(tmp_path, None, "a", "run.json"))
    assert latest.exists() and not latest.is_symlink()


def test_beside_a_run_that_is_kept_elsewhere_nothing_is_called_latest(tmp_path: Path) -> None:
    mark_latest(run_folder(tmp_path, Path("mine"), "a", "run.json"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("theirs", ["filled", pytest.param("owned", marks=TWO_USERS)])
def test_a_folder_that_was_exchanged_as_soon_as_it_was_made_is_not_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    place = tmp_path / "wandb"

    def exchanged(folder: Path, name: str) -> Path:
        place.mkdir()
        if theirs == "filled":
            (place / "settings").touch()
        else:
            os.chown(place, NOBODY, NOBODY)
        return place

    monkeypatch.setattr(outputs, "new_below", exchanged)
    with pytest.raises(OSError, match="was exchanged"), filled_below(tmp_path, "wandb"):
        pytest.fail("it was given")
    assert [path.name for path in place.iterdir()] == ["settings"] * (theirs == "filled")


def test_what_a_run_can_make_again_is_replaced_and_its_records_are_not(tmp_path: Path) -> None:
    for name in ("run.json", "page.html"):
        (tmp_path / name).write_bytes(b"before")
    write_new(tmp_path / "page.html", b"new", force=True)
    assert (tmp_path / "page.html").read_bytes() == b"new"
    with pytest.raises(UsageError, match="is a record of the run"):
        write_new(tmp_path / "run.json", b"new", force=True)


def test_a_folder_in_one_of_ours_is_new_and_behind_no_link(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ours" / "01").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "ours" / "linked").symlink_to(tmp_path / "elsewhere")
    assert new_below(tmp_path / "ours", "01") == tmp_path / "ours" / "01-2"
    assert new_below(tmp_path / "ours", "runs/1").is_dir()
    with pytest.raises(OSError, match="behind which nothing is written"):
        new_below(tmp_path / "ours", "linked/1")
    assert not any((tmp_path / "elsewhere").iterdir())
