"""The store of runs: what is kept, who may write, what is refused."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from instrumentor.results import history as module
from instrumentor.results.history import SCHEMA_VERSION, History, default_path, place_of
from instrumentor.shared import private
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.summary.history_entry import Failed, Headline, conditions
from tests.analysis.compare.sides import summary
from tests.attackers import NOBODY, TWO_USERS, as_another_user, shared_tmp
from tests.waiting import HANG_S

__all__ = ["shared_tmp"]
pytestmark = pytest.mark.usefixtures("no_hang")
FIGURE = ("figure", "figure_ms", "figure_low_ms", "figure_high_ms")
PLACE = ("/project", "train.py")


def document(median: float = 10.0, label: str = "baseline") -> dict[str, object]:
    run = {"label": label, "started": "2026-01-02T03:04:05+00:00", "batch_size": 8}
    environment = {"git_commit": "abc", "git_dirty": True}
    made = summary([median] * 5, run=run, environment=environment, device_time_ms=3.0)
    return made.to_json()


def test_a_run_is_kept(tmp_path: Path) -> None:
    history = History(tmp_path / "deep" / "history.sqlite")
    number = history.add(tmp_path / "run", document(), PLACE)
    (entry,) = history.of_script(PLACE)
    assert entry.id == number
    assert history.newest(PLACE) == (entry,)
    assert (entry.project, entry.script, entry.label) == (*PLACE, "baseline")
    assert (entry.commit, entry.dirty, entry.samples) == ("abc", True, 5)
    # Five steps have no interval.
    assert (entry.median_ms, entry.low_ms, entry.high_ms) == (10.0, None, None)
    assert (entry.busy, entry.conditions) == (False, conditions(document()))
    assert (entry.device_time_ms, entry.batch_size) == (3.0, 8)
    assert entry.folder == str(tmp_path / "run")
    assert history.summary(entry) == document()


def test_without_a_run_nothing_is_made(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    assert history.of_script(PLACE) == () and history.newest() == ()
    assert not history.path.exists()


def test_an_empty_file_is_an_empty_history(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    history.path.touch()
    assert history.of_script(PLACE) == ()
    assert history.add(tmp_path, document(), PLACE) == 1


def test_scripts_are_kept_apart_and_each_has_a_newest_run(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    for folder, place in (("a", PLACE), ("b", PLACE), ("c", ("/project", "other.py"))):
        history.add(tmp_path / folder, document(), place)
    assert [Path(e.folder).name for e in history.of_script(PLACE)] == ["a", "b"]
    assert [Path(e.folder).name for e in history.newest()] == ["b", "c"]
    assert [Path(e.folder).name for e in history.newest(PLACE)] == ["b"]
    history.add(tmp_path / "d", document(), PLACE)
    assert [Path(e.folder).name for e in history.newest()] == ["c", "d"]  # the newest is the last


def test_a_baseline_belongs_to_one_run_of_a_script(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    for place in (PLACE, PLACE, ("/project", "other.py")):
        history.add(tmp_path, document(), place)
    first, second = history.of_script(PLACE)
    (other,) = history.of_script(("/project", "other.py"))
    history.pin(first, "main")
    history.pin(other, "main")
    history.pin(second, "main")
    assert [entry.id for entry in history.pinned("main")] == [second.id, other.id]
    assert [entry.id for entry in history.pinned("main", PLACE)] == [second.id]
    assert history.of_script(PLACE)[0].baselines == ()
    assert history.of_script(PLACE)[1].baselines == ("main",)


@pytest.mark.parametrize("name", ["", "last", "a b", "a/b", "@x"])
def test_names_that_cannot_be_given(tmp_path: Path, name: str) -> None:
    history = History(tmp_path / "history.sqlite")
    history.add(tmp_path, document(), PLACE)
    with pytest.raises(UsageError, match="not a name"):
        history.pin(history.of_script(PLACE)[0], name)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    history.add(tmp_path, document(), PLACE)
    connection = sqlite3.connect(history.path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(UsageError, match="newer version"):
        history.add(tmp_path, document(), PLACE)
    with pytest.raises(UsageError, match="newer version"):
        history.of_script(PLACE)


def test_a_store_of_the_first_version_is_read_and_upgraded_by_the_next_run(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    history.add(tmp_path, document(), PLACE)
    connection = sqlite3.connect(history.path)
    for column in ("other_cpus", "conditions", "busy", *FIGURE):
        connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    (old,) = history.of_script(PLACE)
    assert (old.median_ms, old.other_cpus, old.figure) == (10.0, None, None)
    assert old.headline == Headline("fwd+bwd", 10.0)
    made = document()
    made["run"]["machine"] = {"other_cpus": 1.5}  # type: ignore[index]
    history.add(tmp_path, made, PLACE)
    assert [entry.other_cpus for entry in history.of_script(PLACE)] == [None, 1.5]
    assert [entry.figure for entry in history.of_script(PLACE)] == [None, "fwd+bwd"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"update": None}, Headline("iteration", 12.0, 11.0, 13.0)),
        (
            {"update": {"micro_steps": 4, "ms": 50.0, "interval_ms": {"low": 49.0, "high": 51.0}}},
            Headline("update of 4 micro-steps", 50.0, 49.0, 51.0),
        ),
        ({"update": {"micro_steps": 4, "ms": None}}, Headline("micro-step", 12.0, 11.0, 13.0)),
        ({"median_ms": 0.0}, Headline("fwd+bwd", 10.0)),
    ],
)
def test_a_run_is_kept_with_what_it_is_quoted_by(
    tmp_path: Path, more: dict[str, object], told: Headline
) -> None:
    """The iteration, of micro-steps the update; so is the noise of runs of one code."""
    history, made = History(tmp_path / "history.sqlite"), document()
    interval = {"low": 11.0, "high": 13.0}
    whole = {"median_ms": 12.0, "median_interval_ms": interval, **more}
    made["wall_clock_ms"] |= {"iteration": whole}
    made["environment"] = {"git_commit": "one", "git_dirty": False}
    history.add(tmp_path, made, PLACE)
    history.add(tmp_path, made, PLACE)
    entry = history.of_script(PLACE)[0]
    assert (entry.headline, entry.median_ms) == (told, 10.0)
    noise = history.repeats(PLACE, conditions(made))
    assert noise == {"fwd+bwd": ((10.0, 10.0),), told.figure: ((told.ms, told.ms),)}


def test_repeats_are_runs_of_one_clean_commit_measured_alike(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")

    def add(
        median: float,
        commit: str,
        *,
        label: str = "a",
        dirty: bool = False,
        at: int = 0,
        torch: str = "2.9",
        **run: object,
    ) -> str:
        made = document(median, label)
        environment = {"git_commit": commit, "git_dirty": dirty, "torch_version": torch}
        started = {"started": f"2026-01-02T03:04:{at:02}+00:00"}
        made |= {"environment": environment, "run": {**made["run"], **started, **run}}  # type: ignore[dict-item]
        history.add(tmp_path, made, PLACE)
        return conditions(made)

    for at, median in enumerate((10.0, 11.0, 12.0)):
        add(median, "one", at=at)
    add(99.0, "one", label="other")
    add(99.0, "one", dirty=True)
    add(20.0, "two", at=7)
    add(21.0, "two", at=8)
    how = add(1.0, "three")
    # Other arguments, steps or versions, or a busy machine: no repeats.
    busy = {"cpus": 2, "other_cpus": 1.1}
    add(50.0, "one", arguments=["--epochs", "3"])
    add(50.0, "one", steps=40)
    add(50.0, "one", torch="2.13")
    add(50.0, "one", machine=busy)
    assert history.repeats(PLACE, how) == {"fwd+bwd": ((10.0, 11.0, 12.0), (20.0, 21.0))}
    without = history.repeats(PLACE, how, {"2026-01-02T03:04:07+00:00"})
    assert without == {"fwd+bwd": ((10.0, 11.0, 12.0),)}
    assert history.repeats(PLACE, how.replace("wallclock", "torch")) == {}
    assert history.repeats(PLACE, None) == {}


def test_one_run_far_apart_is_no_noise_of_the_others(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    for median in (1.70, 31.9, 1.72, 1.69, 1.71):
        made = document(median)
        made["environment"] = {"git_commit": "one", "git_dirty": False}
        history.add(tmp_path, made, PLACE)
    assert history.repeats(PLACE, conditions(made)) == {"fwd+bwd": ((1.70, 1.72, 1.69, 1.71),)}


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is not a history database"):
        History(path).add(tmp_path, document(), PLACE)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be read as one" * 20)
    with pytest.raises(UsageError, match="cannot be used"):
        History(path).add(tmp_path, document(), PLACE)


VIEW = """
DROP TABLE runs;
CREATE VIEW runs AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)
SELECT id, '/project' AS project, 'train.py' AS script FROM n
"""

# Whatever module it names computes its rows.
VIRTUAL = """
DROP TABLE runs;
CREATE VIRTUAL TABLE runs USING fts4(project, script, label)
"""


# The row of an index, made that of a table without a statement.
NO_STATEMENT = """
PRAGMA writable_schema = ON;
UPDATE sqlite_master SET type = 'table' WHERE name = 'sqlite_autoindex_baselines_1'
"""

# One row of it takes a gigabyte, or a minute.
COMPUTED = """
ALTER TABLE runs RENAME COLUMN summary TO stored;
ALTER TABLE runs ADD COLUMN summary BLOB AS (zeroblob(900000000))
"""

THREE = "(VALUES (1), (2), (3))"

# They take as much for each row that is written.
LONG = "length(hex(zeroblob(400000000)) || name) > 0"
AT_WRITING = (
    f"CREATE INDEX i ON baselines ({LONG})",
    f"CREATE INDEX i ON baselines (name) WHERE {LONG}",
    f"ALTER TABLE baselines ADD COLUMN a TEXT CHECK ({LONG})",
    "ALTER TABLE baselines RENAME TO old; CREATE TABLE baselines (project, script, name, run, "
    "a DEFAULT (hex(zeroblob(400000000))))",
)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (NO_STATEMENT, "is not a history database"),
        (COMPUTED, "is not a history database"),
        *((each, "is not a history database") for each in AT_WRITING),
        (f"CREATE TABLE summary (name{' ' * 5000})", "is not a history database"),
        ("UPDATE runs SET label = x'ff00'", "Expected `str`, got `bytes`"),
        ("UPDATE runs SET samples = 'many'", "Expected `int`"),
        ("UPDATE runs SET started = CAST(x'ff' AS TEXT)", "decode"),
        (VIEW, "is not a history database"),
        (VIRTUAL, "is not a history database"),
        ("DROP TABLE baselines", "is not a history database"),
        (
            "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
            "is not a history database",
        ),
        (
            "UPDATE runs SET label = hex(zeroblob(40000000))",
            r"its table runs holds more than any history has \(1\)|blob too big",
        ),
        (
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 250001) "
            "INSERT INTO baselines SELECT 'p', 's', x, 1 FROM n",
            "its table baselines holds more than any history has",
        ),
        *(
            (
                f"INSERT INTO runs (project, script, label, {column}, profiler, samples, folder, "
                f"summary) SELECT 'p', 's', 'l', {value}, '', 1, '', '' FROM {THREE}",
                "its table runs holds more than any history has",
            )
            for column, value in (
                ("commit_id", "zeroblob(30000000)"),
                # Of a text SQLite counts the characters up to the first null.
                ("started", "CAST(zeroblob(30000000) AS TEXT)"),
            )
        ),
        (
            f"INSERT INTO baselines SELECT 'p', 's', column1, zeroblob(30000000) FROM {THREE}",
            "its table baselines holds more than any history has",
        ),
    ],
)
def test_a_store_that_somebody_prepared_is_refused(tmp_path: Path, planted: str, said: str) -> None:
    history = History(tmp_path / "history.sqlite")
    history.add(tmp_path, document(), PLACE)
    with closing(sqlite3.connect(history.path)) as connection:
        connection.executescript(planted)
        connection.commit()
    with pytest.raises(UsageError, match=said) as error:
        history.of_script(PLACE)
    assert str(history.path) in error.value.message and "--history" in error.value.hint


FAILED = Failed("/project", "train.py", None, "/runs/1", "killed")


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("UPDATE failed SET why = x'ff00'", "Expected `str`, got `bytes`"),
        (VIEW, "is not a history database"),
        (
            "UPDATE failed SET why = hex(zeroblob(40000000))",
            r"its table failed holds more than any history has \(1\)|blob too big",
        ),
        (
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 250001) "
            "INSERT INTO failed SELECT x + 1, 'p', 's', NULL, 'f', 'w' FROM n",
            "its table failed holds more than any history has",
        ),
    ],
)
def test_runs_without_a_figure_that_somebody_prepared_are_refused(
    tmp_path: Path, planted: str, said: str
) -> None:
    history = History(tmp_path / "history.sqlite")
    history.add_failed(FAILED)
    assert history.failed() == (FAILED,)
    with closing(sqlite3.connect(history.path)) as connection:
        connection.executescript(planted)
        connection.commit()
    with pytest.raises(UsageError, match=said):
        history.failed()


@pytest.mark.parametrize(
    "packed",
    [
        b"", b"plain", zlib.compress(b"[" * 100_000), zlib.compress(b"1"),
        zlib.compress(b"{}" + b" " * (40 << 20)),
    ],
)  # fmt: skip
def test_a_summary_that_somebody_prepared_is_refused(tmp_path: Path, packed: bytes) -> None:
    """Forty kilobytes, packed, are 40 MB."""
    history = History(tmp_path / "history.sqlite")
    history.add(tmp_path, document(), PLACE)
    with closing(sqlite3.connect(history.path)) as connection:
        connection.execute("UPDATE runs SET summary = ?", (packed,))
        connection.commit()
    (entry,) = history.of_script(PLACE)
    with pytest.raises(UsageError, match="the history cannot be used"):
        history.summary(entry)


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_lies_beside_a_store_is_not_waited_for(tmp_path: Path, ending: str, make) -> None:
    history = History(tmp_path / "h.sqlite")
    history.add(tmp_path, document(), PLACE)
    make(tmp_path / f"h.sqlite{ending}")
    with pytest.raises(UsageError, match="not a regular file"):
        history.newest()
    with pytest.raises(UsageError, match="not a regular file"):
        history.add(tmp_path, document(), PLACE)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_stands_in_a_stores_place_is_looked_at_before_sqlite_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make
) -> None:
    history = History(tmp_path / "h.sqlite")
    make(history.path)
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: pytest.fail("opened"))
    with pytest.raises(UsageError, match="not a regular file"):
        history.add(tmp_path, document(), PLACE)


@TWO_USERS
def test_a_link_of_another_user_in_a_stores_place_makes_and_changes_no_file(
    shared_tmp: Path, tmp_path: Path
) -> None:
    history, mine = History(shared_tmp / "h.sqlite"), tmp_path / "mine.py"
    as_another_user(lambda: history.path.symlink_to(mine))
    for there in (False, True):  # an empty file would become a store
        if there:
            mine.touch()
        with pytest.raises(UsageError, match="is a symbolic link of another user"):
            history.add(tmp_path, document(), PLACE)
        assert mine.exists() == there and not (there and mine.read_bytes())


@TWO_USERS
def test_a_store_of_another_user_that_is_no_link_is_read(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    history.add(tmp_path, document(), PLACE)
    os.chown(history.path, NOBODY, NOBODY)
    assert len(history.of_script(PLACE)) == 1


def test_the_folders_of_the_users_own_store_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "local" / "share"))
    before = os.umask(0)
    try:
        History().add(tmp_path, document(), PLACE)
    finally:
        os.umask(before)
    made = History().path.parents[:3]
    assert [folder.stat().st_mode & 0o777 for folder in made] == [0o700] * 3
    assert History().path.stat().st_mode & 0o022 == 0


@pytest.mark.parametrize(
    ("named", "mode", "fits"),
    [
        (True, 0o777, False), (True, 0o1777, True), (True, 0o775, True), (True, 0o755, True),
        (False, 0o777, False), (False, 0o1777, True), (False, 0o775, False), (False, 0o755, True),
    ],
)  # fmt: skip
def test_a_folder_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool, mode: int, fits: bool
) -> None:
    """Colleagues may share one that they name; the user's own is the user's alone."""
    open_to = tmp_path / "open"
    open_to.mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(open_to))
    monkeypatch.setattr(private, "_is_own_group", lambda folder, gid: False)
    history = History(open_to / "below" / "h.sqlite") if named else History()
    history.add(tmp_path, document(), PLACE)
    open_to.chmod(mode)
    for use in (history.newest, lambda: history.add(tmp_path, document(), PLACE)):
        if fits:
            assert use()
        else:
            with pytest.raises(UsageError, match=f"chmod go-w {open_to} "):
                use()


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_a_link_beside_a_store_is_not_followed(tmp_path: Path, ending: str) -> None:
    """To a journal of another store, which would be played back into this one and be removed."""
    history, mine = History(tmp_path / "h.sqlite"), tmp_path / "mine"
    history.add(tmp_path, document(), PLACE)
    mine.write_bytes(b"mine")
    (tmp_path / f"h.sqlite{ending}").symlink_to(mine)
    for use in (history.newest, lambda: history.add(tmp_path, document(), PLACE)):
        with pytest.raises(UsageError, match="is a symbolic link"):
            use()
    assert mine.read_bytes() == b"mine"


@TWO_USERS
def test_a_journal_of_another_user_is_not_played_back(shared_tmp: Path) -> None:
    history = History(shared_tmp / "h.sqlite")
    history.add(shared_tmp, document(), PLACE)
    as_another_user((shared_tmp / "h.sqlite-journal").touch)
    for use in (history.newest, lambda: history.add(shared_tmp, document(), PLACE)):
        with pytest.raises(UsageError, match="belongs to another user"):
            use()


@pytest.mark.parametrize("cut", ["the sum at the end", "more than may be read"])
def test_a_summary_that_is_not_whole_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """What there is of it may be a document of its own."""
    history = History(tmp_path / "history.sqlite")
    history.add(tmp_path, document(), PLACE)
    packed = zlib.compress(b"{}" + b" " * 1000)
    if cut == "the sum at the end":
        packed = packed[:-4]
    else:
        monkeypatch.setattr(module, "MOST_BYTES", 100)
    with closing(sqlite3.connect(history.path)) as connection:
        connection.execute("UPDATE runs SET summary = ?", (packed,))
        connection.commit()
    (entry,) = history.of_script(PLACE)
    with pytest.raises(UsageError, match="cut short, or more than"):
        history.summary(entry)


@pytest.fixture
def interrupted(tmp_path: Path) -> History:
    """A store and the journal of a process that was killed in the middle of a change."""
    history, caught = History(tmp_path / "a.sqlite"), History(tmp_path / "h.sqlite")
    history.add(tmp_path, document(), PLACE)
    with closing(sqlite3.connect(history.path)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        rows = ((str(number),) for number in range(20_000))
        connection.executemany("INSERT INTO baselines VALUES ('p', 's', ?, 1)", rows)
        for ending in ("", "-journal"):
            shutil.copy(f"{history.path}{ending}", f"{caught.path}{ending}")
        connection.rollback()
    return caught


def test_reading_plays_no_journal_back_but_in_the_users_own_store(
    interrupted: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interrupted.path.read_bytes()
    with pytest.raises(UsageError, match="cannot be used"):
        interrupted.newest()
    assert interrupted.path.read_bytes() == before
    monkeypatch.setattr(module, "default_path", lambda: interrupted.path)
    assert [entry.id for entry in interrupted.newest()] == [1]
    assert interrupted.path.read_bytes() != before


def test_a_journal_that_names_another_file_is_not_played_back(interrupted: History) -> None:
    victim = interrupted.path.with_name("victim")
    victim.write_bytes(b"mine")
    name = os.fsencode(victim)
    journal = Path(f"{interrupted.path}-journal")
    numbers = [(1 << 30) // 4096 + 1, len(name), sum(name)]
    page, length, checksum = (number.to_bytes(4, "big") for number in numbers)
    end = bytes.fromhex("d9d505f920a163d7")
    journal.write_bytes(journal.read_bytes() + page + name + length + checksum + end)
    for use in (interrupted.newest, lambda: interrupted.add(victim.parent, document(), PLACE)):
        with pytest.raises(UsageError, match="names another file"):
            use()
    assert victim.read_bytes() == b"mine"


def test_columns_that_compute_have_a_limit(tmp_path: Path, monkeypatch) -> None:
    history = History(tmp_path / "history.sqlite")
    history.add(tmp_path, document(), PLACE)
    with closing(sqlite3.connect(history.path)) as connection:
        rows = ((str(number),) for number in range(200_000))
        connection.executemany("INSERT INTO baselines VALUES ('p', 's', ?, 1)", rows)
        connection.commit()
    monkeypatch.setattr(module, "WORK_S", -1.0)
    with pytest.raises(UsageError, match="interrupted"):
        history.of_script(PLACE)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        History(tmp_path / "file" / "history.sqlite").add(tmp_path, document(), PLACE)


WRITER = """
import sys
from pathlib import Path
from instrumentor.results.history import History
history = History(Path(sys.argv[1]))
for number in range(10):
    history.add(Path(sys.argv[2]) / str(number), {"profiler": "wallclock"}, ("/p", sys.argv[2]))
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)])
        for number in range(4)
    ]
    assert [writer.wait(HANG_S) for writer in writers] == [0] * 4
    history = History(path)
    assert [len(history.of_script(("/p", str(number)))) for number in range(4)] == [10] * 4


def test_where_it_is_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_path({"XDG_DATA_HOME": "/data"}) == Path("/data/instrumentor/history.sqlite")
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".local" / "share" / "instrumentor" / "history.sqlite"
    assert default_path({}) == default_path({"XDG_DATA_HOME": "relative"}) == home


def test_tests_never_touch_the_home_of_the_user() -> None:
    assert not default_path().is_relative_to(Path.home())


def test_the_place_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    script = tmp_path / "repo" / "deep" / "train.py"
    script.parent.mkdir()
    script.touch()
    assert place_of(script)[1] in ("deep/train.py", "train.py")
    with pytest.raises(UsageError, match="no such file"):
        place_of(tmp_path / "nothing.py")


def test_a_run_of_several_ranks_is_no_repeat_of_one_of_a_single_process() -> None:
    alone = document()
    assert conditions({**alone, "ranks": None}) == conditions(alone)
    two, four = ({**alone, "ranks": {"world": world}} for world in (2, 4))
    assert len({conditions(each) for each in (alone, two, four)}) == 3
