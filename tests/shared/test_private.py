"""Folders of our own: this user's, closed to others, never through a link."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from instrumentor.shared import private
from instrumentor.shared.errors import NotReady
from instrumentor.workspace import recovery
from tests.attackers import TWO_USERS, as_another_user, shared_tmp
from tests.descriptors import none_left_open

__all__ = ["shared_tmp"]
OURS = f"instrumentor-{os.getuid()}"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("INSTRUMENT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "instrumentor"


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest):
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_what_is_made_is_closed_whatever_the_umask(base: Path, umask: None) -> None:
    folder = private.made(base, "journal")
    assert mode(base) == mode(folder) == 0o700
    assert private.made(base, "journal") == folder
    with private.throwaway() as thrown:
        assert mode(thrown) == mode(thrown.parent) == 0o700


def test_a_project_that_holds_every_folder_has_none_outside(base: Path) -> None:
    with pytest.raises(NotReady, match="no folder for a copy of / lies outside of it"):
        private.cache_folder(avoid=Path("/"))


def test_where_no_folder_is_this_users_own_the_first_is_named(base: Path, monkeypatch) -> None:
    monkeypatch.setattr(private, "refusal", lambda folder: "is a symbolic link")
    with pytest.raises(NotReady, match=f"the cache folder {base} is a symbolic link"):
        private.cache_folder()


def test_parents_that_are_made_are_closed_too(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path / "a" / "b"))
    before = os.umask(0)
    try:
        private.made(tmp_path / "a" / "b", "locks")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


def test_an_open_folder_of_ours_is_closed_and_its_bytecode_not_trusted(base: Path) -> None:
    for name in ("journal", "pycache"):
        (base / name).mkdir(parents=True)
        (base / name).chmod(0o777)
        (base / name / "planted").touch()
    base.chmod(0o755)
    assert private.refusal(base) == "" and mode(base) == 0o700
    assert (base / "pycache" / "planted").exists()  # nobody could write there
    base.chmod(0o775)
    assert private.refusal(base) == ""
    assert not (base / "pycache").exists()
    assert private.made(base, "journal") and mode(base / "journal") == 0o700


def test_a_folder_that_the_user_named_stays_as_open_as_it_is(tmp_path: Path, monkeypatch) -> None:
    named = tmp_path / "named"
    named.mkdir()
    monkeypatch.setenv("INSTRUMENT_CACHE", str(named))
    named.chmod(0o755)
    assert private.refusal(named) == "" and mode(named) == 0o755
    assert mode(private.made(named, "journal")) == 0o700
    named.chmod(0o777)
    assert "every user" in private.refusal(named) and mode(named) == 0o777
    with pytest.raises(NotReady, match="every user"):
        private.made(named, "journal")
    named.chmod(0o1777)
    assert private.refusal(named) == ""


def test_a_folder_that_others_can_exchange_is_refused(base: Path) -> None:
    private.made(base, "journal")
    base.parent.chmod(0o777)
    assert "replace" in private.refusal(base)
    base.parent.chmod(0o1777)
    assert private.refusal(base) == ""


@pytest.mark.parametrize("mode_above", [0o775, 0o757, 0o777])
def test_every_folder_above_is_closed_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode_above: int
) -> None:
    above = tmp_path / "above"
    (above / "b").mkdir(parents=True)
    above.chmod(mode_above)
    shared_group(monkeypatch)
    monkeypatch.setenv("INSTRUMENT_CACHE", str(above / "b" / "c"))
    for _ in range(2):  # not there yet, and there
        with pytest.raises(NotReady, match=f"chmod go-w {above} "):
            private.cache_folder()
        with pytest.raises(NotReady, match=str(above)):
            private.made(above / "b" / "c", "pycache")
        (above / "b" / "c").mkdir(mode=0o700, exist_ok=True)
    monkeypatch.delenv("INSTRUMENT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(above / "b"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert private.cache_folder() == tmp_path / OURS
    above.chmod(0o1777)
    assert private.cache_folder() == above / "b" / "instrumentor"


def shared_group(monkeypatch: pytest.MonkeyPatch, **group: object) -> None:
    """This user's group has another member, or what is said of it."""
    me = pwd.getpwuid(os.getuid())
    facts = {"gr_name": me.pw_name, "gr_mem": [me.pw_name, "colleague"], **group}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_gid=gid, **facts))


@pytest.mark.parametrize(
    ("group", "of", "passes"),
    [
        ({"gr_mem": []}, os.getgid, True),
        ({}, os.getgid, False),  # a colleague is in it
        ({"gr_name": "staff", "gr_mem": []}, os.getgid, False),
        ({"gr_mem": []}, lambda: os.getgid() + 1, False),  # the first group of somebody else
    ],
)
def test_the_private_group_of_this_user_may_write_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: dict[str, object],
    of: Callable[[], int], passes: bool,
) -> None:  # fmt: skip
    """Where the umask is 002, each user's group is of the user alone."""
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o775)
    me = pwd.getpwuid(os.getuid())
    mine = SimpleNamespace(pw_name=me.pw_name, pw_uid=me.pw_uid, pw_gid=of())
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: mine)
    monkeypatch.setattr(pwd, "getpwall", lambda: [mine])
    shared_group(monkeypatch, **group)
    assert (private.exchangeable(above / "b") == "") is passes
    other = SimpleNamespace(pw_name="other", pw_uid=me.pw_uid + 1, pw_gid=of())
    monkeypatch.setattr(pwd, "getpwall", lambda: [mine, other])
    assert private.exchangeable(above / "b") != ""
    monkeypatch.setattr(pwd, "getpwall", lambda: [mine])
    listed = ["system.posix_acl_access"]
    monkeypatch.setattr(os, "listxattr", lambda path: listed, raising=False)
    assert private.exchangeable(above / "b") != ""


@TWO_USERS
def test_a_folder_of_another_user_above_is_refused(shared_tmp: Path, monkeypatch) -> None:
    theirs = shared_tmp / "theirs"
    as_another_user(theirs.mkdir)
    (theirs / "ours").mkdir(mode=0o700)
    monkeypatch.setenv("INSTRUMENT_CACHE", str(theirs / "ours" / "cache"))
    with pytest.raises(NotReady, match=r"theirs, which belongs to another user \(65534\)"):
        private.made(private.cache_folder(), "pycache")
    assert list((theirs / "ours").iterdir()) == []


def test_a_link_or_a_file_in_our_place_is_refused(base: Path, tmp_path: Path) -> None:
    (tmp_path / "mine" / "asked" / "2000000000-x").mkdir(parents=True)
    base.symlink_to(tmp_path / "mine")
    # The user's own link is followed, as the user wants it; one in a shared folder is not.
    assert private.own_cache() == tmp_path / "mine"
    assert "link" in private.refusal(base)
    with pytest.raises(NotReady, match="symbolic link"):
        private.made(base, "asked")
    base.unlink()
    base.touch()
    assert "not a folder" in private.refusal(base)
    base.unlink()
    base.mkdir()
    (base / "asked").symlink_to(tmp_path / "mine" / "asked")
    assert list(private.entries("asked")) == []
    with pytest.raises(NotReady, match="asked is a symbolic link"):
        private.made(base, "asked")


def test_a_folder_that_is_exchanged_while_it_is_looked_at_is_not_used(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shared folder its owner may put a link there between any two looks at it."""
    mine = tmp_path / "mine" / "asked" / "2000000000-x"
    mine.mkdir(parents=True)
    opened = os.open

    def exchanged(path: Path, *more: int) -> int:
        if path == base and not base.is_symlink():
            base.rename(tmp_path / "aside")
            base.symlink_to(tmp_path / "mine")
        return opened(path, *more)

    base.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", exchanged)
        assert private.remove_dead(pytest.fail) == ()
    assert base.is_symlink() and mine.is_dir()
    base.unlink()
    (tmp_path / "aside").rename(base)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="instrumentor"):
        patch.setattr(os, "open", exchanged)
        private.made(base, "asked")


def test_a_link_that_appears_after_the_first_look_is_not_used(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine" / "asked" / "2000000000-x"
    mine.mkdir(parents=True)
    look = Path.lstat

    def planted(path: Path) -> os.stat_result:
        try:
            return look(path)
        except FileNotFoundError:
            if path == base:
                base.symlink_to(tmp_path / "mine")
            raise

    with monkeypatch.context() as patch:
        patch.setattr(Path, "lstat", planted)
        assert private.remove_dead(pytest.fail) == ()
    assert base.is_symlink() and mine.is_dir()


def test_where_things_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path / name))
    temporary = [tmp_path / name for name in ("TMPDIR", "TEMP", "TMP")]
    mine = [path / OURS for path in (*temporary, Path("/tmp"), Path("/var/tmp"))]
    assert list(private.bases()) == [tmp_path / "named", *mine]
    assert private.is_named(tmp_path / "named") and not private.is_named(mine[0])
    monkeypatch.delenv("INSTRUMENT_CACHE")
    assert private.own_cache() == tmp_path / "xdg" / "instrumentor"
    assert not private.is_named(tmp_path / "xdg" / "instrumentor")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard: to be ignored
    assert private.own_cache() == tmp_path / "home" / ".cache" / "instrumentor"
    monkeypatch.setenv("TMPDIR", "/tmp")
    assert [str(path) for path in private.bases()].count(f"/tmp/{OURS}") == 1
    monkeypatch.setattr(private, "home_folder", lambda: None)  # as in some containers
    assert private.own_cache() is None
    assert private.bases()[0] == Path("/tmp", OURS)


def test_looking_at_folders_leaves_no_descriptor_open(base: Path) -> None:
    private.made(base, "journal")
    with none_left_open():
        for _ in range(3):
            list(private.entries("journal"))


def test_throwaway_folders_go_with_their_process(base: Path, tmp_path: Path) -> None:
    with private.throwaway() as folder:
        (folder / "file").touch()
        assert folder.parent == base / "asked" and private.remove_dead(pytest.fail) == ()
    assert not folder.exists()
    asked = base / "asked"
    (asked / "4194305-dead").mkdir()
    (asked / "notes").mkdir()
    (asked / "4194306-link").symlink_to(tmp_path)
    assert private.remove_dead(pytest.fail) == (asked / "4194305-dead",)
    assert (
        sorted(p.name for p in asked.iterdir()) == ["4194306-link", "notes"] and tmp_path.is_dir()
    )


@TWO_USERS
def test_what_another_user_prepared_in_a_shared_folder_is_not_followed(
    shared_tmp: Path, tmp_path: Path
) -> None:
    """A folder of theirs whose ``asked`` is a link to ours: any command removed what is in it."""
    precious = tmp_path / "photos" / "2019"
    precious.mkdir(parents=True)
    planted = shared_tmp / OURS

    def plant() -> None:
        planted.mkdir()
        (planted / "asked").symlink_to(precious.parent)

    as_another_user(plant)
    said: list[str] = []
    recovery.recover(said.append, said.append)
    assert precious.is_dir()
    assert said == [f"{planted} belongs to another user (65534): it is not used"]


@TWO_USERS
def test_a_link_of_another_user_is_not_followed(shared_tmp: Path, tmp_path: Path) -> None:
    (tmp_path / "asked" / "2019").mkdir(parents=True)
    as_another_user(lambda: (shared_tmp / OURS).symlink_to(tmp_path))
    assert list(private.entries("asked")) == [] and private.remove_dead(pytest.fail) == ()
    assert "symbolic link" in private.refused()[0]
    assert (tmp_path / "asked" / "2019").is_dir()


@TWO_USERS
def test_what_another_user_planted_in_an_open_folder_is_not_ours(shared_tmp: Path) -> None:
    asked = shared_tmp / OURS / "asked"
    (asked / "4194305-mine").mkdir(parents=True)
    for folder in (asked, asked.parent):
        folder.chmod(0o777)
    as_another_user((asked / "4194305-theirs").mkdir)
    assert list(private.entries("asked")) == [asked / "4194305-mine"]
    assert mode(asked) == mode(asked.parent) == 0o700


def test_where_the_cache_is_refused_the_next_folder_is_used(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    with private.throwaway() as folder:
        assert folder.parent == tmp_path / "tmp" / OURS / "asked"


@pytest.mark.parametrize("name", ["with space", "semi;colon", "co:lon", "quo'te", "ünï", "inside"])
def test_a_cache_whose_path_cannot_be_used_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """One that a shell or PYTHONPATH would split, or that lies inside the project."""
    monkeypatch.setenv("INSTRUMENT_CACHE", str(tmp_path / name))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert private.cache_folder(avoid=tmp_path / "inside") == tmp_path / OURS
