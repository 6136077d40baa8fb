"""A small local store of what was measured: one row per run, in SQLite, in the user's data folder.

A row keeps the summary itself (compressed), so that a run can be compared with after its folder is
gone. Several processes may write at once; the schema has a version, and a newer one is refused.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
import sys
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import MsgspecError
from msgspec.structs import fields

from instrumentor.shared import private
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.documents import converted, parsed
from instrumentor_analysis.shared.files import Unfit, opened
from instrumentor_analysis.shared.packed import unpacked
from instrumentor_analysis.summary.history_entry import (
    Entry,
    Failed,
    conditions,
    headline,
    was_busy,
)

SCHEMA_VERSION = 4  # of the database (`PRAGMA user_version`)
#: How long a writer waits for another one, seconds.
PATIENCE_S = 10.0
#: How long one connection may compute in all, seconds: a column may be an expression.
WORK_S = 8.0
#: Runs and pins of one store, and bytes of what is read of them: more are no history, but a flood.
MOST_ROWS, MOST_HELD_BYTES = 250_000, 64 << 20
#: Of one run's summary, unpacked.
MOST_BYTES = 32 << 20
#: The end of a rollback journal that names a super-journal (SQLite's file format, section 3).
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
_TABLES = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL, script TEXT NOT NULL, label TEXT NOT NULL,
    commit_id TEXT, dirty INTEGER,
    started TEXT, profiler TEXT NOT NULL, scope TEXT,
    samples INTEGER NOT NULL, median_ms REAL, low_ms REAL, high_ms REAL, device_time_ms REAL,
    batch_size INTEGER, folder TEXT NOT NULL, summary BLOB NOT NULL, other_cpus REAL,
    conditions TEXT, busy INTEGER,
    figure TEXT, figure_ms REAL, figure_low_ms REAL, figure_high_ms REAL
);
CREATE INDEX runs_by_script ON runs (project, script, id);
CREATE TABLE baselines (
    project TEXT NOT NULL, script TEXT NOT NULL, name TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (id),
    PRIMARY KEY (project, script, name)
);
"""
#: Runs without a figure stand apart: no reader of figures, nor an older version, comes upon them.
_FAILED = """CREATE TABLE IF NOT EXISTS failed (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL, script TEXT NOT NULL,
    started TEXT, folder TEXT NOT NULL, why TEXT NOT NULL
)"""
#: What a store of an older version gets before the next run is added.
_ADDED = {
    1: ("other_cpus REAL",),
    2: ("conditions TEXT", "busy INTEGER"),
    3: ("figure TEXT", "figure_ms REAL", "figure_low_ms REAL", "figure_high_ms REAL"),
}
#: Of one statement of a schema, in characters.
_MOST_SQL = 4096
_SIGN = re.compile(r"\w+|[^\w\s]")
#: Nothing can be computed in these words: a view would make up its rows, a trigger act on ours, an
#: expression (a column's, a default's, a check's, an index's) take any time and room for one row.
_SIGNS = frozenset(
    sign
    for statement in (
        *(_TABLES, _FAILED, *(column for added in _ADDED.values() for column in added)),
        # SQLite's own.
        "sqlite_sequence(name, seq) sqlite_stat1(tbl, idx, stat)",
        "sqlite_stat4(tbl, idx, neq, nlt, ndlt, sample)",
    )
    for sign in _SIGN.findall(statement)
)


def default_path(environment: Mapping[str, str] | None = None) -> Path:
    """``$XDG_DATA_HOME/instrumentor/history.sqlite``; ``~/.local/share`` without the variable."""
    environment = os.environ if environment is None else environment
    data = environment.get("XDG_DATA_HOME", "")
    # The specification tells us to ignore a relative path.
    root = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return root / "instrumentor" / "history.sqlite"


def place_of(script: Path) -> tuple[str, str]:
    """Project and script as a row names them.

    Raises:
        UsageError: there is no such script.
    """
    from instrumentor.shared.project import find_project

    if not script.is_file():
        raise UsageError(f"{script}: no such file", "Give the path of a script that was measured.")
    path = script.resolve()
    root = find_project(path).root.resolve()
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    return str(root), inside.as_posix()


def _upgrade(version: int) -> list[str]:
    """What makes a store of that version one of this; 0 is an empty file."""
    if version not in _ADDED:
        return _TABLES.split(";")
    every = (column for since, added in _ADDED.items() if since >= version for column in added)
    return [f"ALTER TABLE runs ADD COLUMN {column}" for column in every]


def _all_of(
    connection: sqlite3.Connection,
    table: str,
    columns: Collection[str],
    condition: str,
    values: tuple[Any, ...] = (),
) -> list[sqlite3.Row]:
    """The rows of a table that meet a condition.

    Raises:
        ValueError: these columns hold more than can be taken into memory.
    """
    # As bytes: SQLite counts the characters of a text up to its first null.
    lengths = "+".join(f"total(length(CAST({name} AS BLOB)))" for name in columns)
    rows, held = connection.execute(f"SELECT count(*), {lengths} FROM {table}").fetchone()
    if rows > MOST_ROWS or held > MOST_HELD_BYTES:
        raise ValueError(f"its table {table} holds more than any history has ({rows:,})")
    query = f"SELECT {', '.join(columns)} FROM {table} WHERE {condition}"
    return connection.execute(query, values).fetchall()


def _is_ours(statement: object) -> bool:
    """Whether a statement of the schema has no word or sign beyond those of ours."""
    if not isinstance(statement, str) or len(statement) > _MOST_SQL:
        return False
    return _SIGNS.issuperset(_SIGN.findall(statement))


class History:
    """The store at a path; it is made when the first run is added.

    Every method raises :class:`instrumentor.shared.errors.UsageError` when the file is no such
    store, was written by a newer version, cannot be written to, or stays locked.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = default_path() if path is None else path

    def add(self, folder: Path, document: Mapping[str, Any], place: tuple[str, str]) -> int:
        """Append a run; returns its number.

        Args:
            folder: the run folder.
            document: of its summary.json.
            place: from :func:`place_of`.
        """
        run, environment = document.get("run") or {}, document.get("environment") or {}
        wall = document.get("wall_clock_ms") or {}
        interval = wall.get("median_interval") or {}
        told = headline(document)
        packed = zlib.compress(json.dumps(document, separators=(",", ":")).encode())
        row = {
            "project": place[0],
            "script": place[1],
            "label": run.get("label") or "",
            "commit_id": environment.get("git_commit"),
            "dirty": environment.get("git_dirty"),
            "started": run.get("started"),
            "profiler": document.get("profiler") or "",
            "scope": document.get("scope"),
            "samples": wall.get("samples") or 0,
            "median_ms": wall.get("median"),
            "low_ms": interval.get("low"),
            "high_ms": interval.get("high"),
            "device_time_ms": document.get("device_time_ms"),
            "batch_size": run.get("batch_size"),
            "folder": str(folder.resolve()),
            "summary": packed,
            "other_cpus": (run.get("machine") or {}).get("other_cpus"),
            "conditions": conditions(document),
            "busy": was_busy(document),
            "figure": told.figure,
            "figure_ms": told.ms,
            "figure_low_ms": told.low_ms,
            "figure_high_ms": told.high_ms,
        }
        names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        with self._write() as connection:
            added = connection.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", row)
        return added.lastrowid or 0

    def add_failed(self, failed: Failed) -> None:
        """Append a run that left no figure."""
        names = ", ".join(each.name for each in fields(Failed))
        marks = ", ".join(f":{each.name}" for each in fields(Failed))
        with self._write() as connection:
            connection.execute(_FAILED)
            row = {each.name: getattr(failed, each.name) for each in fields(Failed)}
            connection.execute(f"INSERT INTO failed ({names}) VALUES ({marks})", row)

    def failed(self, place: tuple[str, str] | None = None) -> tuple[Failed, ...]:
        """Runs without a figure, of the script given or of all, oldest first."""
        if not self.path.is_file():
            return ()
        columns = [each.name for each in fields(Failed)]
        with self._read() as connection:
            self._check(connection)
            there = "SELECT 1 FROM sqlite_master WHERE name = 'failed' AND type = 'table'"
            if connection.execute(there).fetchone() is None:
                return ()
            rows = _all_of(connection, "failed", columns, "1 ORDER BY id")
            found = [converted(dict(row), Failed, strict=False) for row in rows]
        return tuple(e for e in found if place is None or (e.project, e.script) == place)

    def of_script(self, place: tuple[str, str]) -> tuple[Entry, ...]:
        """Runs of a script, oldest first."""
        return self._entries("project = ? AND script = ?", place)

    def newest(self, place: tuple[str, str] | None = None) -> tuple[Entry, ...]:
        """The newest runs: one per script, or that of the script given."""
        entries = self._entries("1", ()) if place is None else self.of_script(place)
        # Oldest first: the last one of a key stays, and the newest of all is the last row.
        newest = {entry.key: entry for entry in entries}.values()
        return tuple(sorted(newest, key=lambda entry: entry.id))

    def pin(self, entry: Entry, name: str) -> None:
        """Give a run a name among those of its script; an earlier holder loses it.

        Raises:
            UsageError: the name cannot stand behind an ``@``.
        """
        if not name or name == "last" or not name.replace("-", "").replace("_", "").isalnum():
            raise UsageError(
                f"--baseline {name!r}: not a name",
                "Use letters, digits, - and _; `last` is always the newest run.",
            )
        with self._write() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO baselines (project, script, name, run) VALUES (?, ?, ?, ?)",
                (*entry.key, name, entry.id),
            )

    def pinned(self, name: str, place: tuple[str, str] | None = None) -> tuple[Entry, ...]:
        """Runs pinned under a name: one per script, or that of the script given."""
        found = [e for e in self._entries("1", ()) if name in e.baselines]
        return tuple(e for e in found if place is None or e.key == place)

    def repeats(
        self,
        place: tuple[str, str],
        how: str | None,
        without: Collection[str] = (),
    ) -> dict[str, tuple[tuple[float, ...], ...]]:
        """Medians, milliseconds, of runs of equal code, in groups of two or more, by figure.

        A figure is what a run is quoted by, or its timed region.

        Equal are runs of one clean commit under one label and equal conditions. Those on a machine
        that was busy, or of which that is not known, are left out, and so is one that lies far
        apart from the others of its group: it says nothing of how much the others differ.

        Args:
            how: conditions (:func:`instrumentor_analysis.summary.history_entry.conditions`).
            without: when runs started that are left out.
        """
        from instrumentor_analysis.compare.runs import without_strays

        groups: dict[str, dict[tuple[str, str], list[float]]] = {}
        for entry in self.of_script(place):
            alike = how is not None and entry.conditions == how and entry.busy is False
            clean = entry.commit is not None and entry.dirty is False
            if not (alike and clean) or entry.started in without:
                continue
            told = {entry.scope or "": entry.median_ms, entry.headline.figure: entry.headline.ms}
            for figure, median in told.items():
                if median:
                    code = groups.setdefault(figure, {})
                    code.setdefault((str(entry.commit), entry.label), []).append(median)
        found = {name: map(without_strays, code.values()) for name, code in groups.items()}
        kept = {name: tuple(tuple(g) for g in each if len(g) > 1) for name, each in found.items()}
        return {name: each for name, each in kept.items() if each}

    def summary(self, entry: Entry) -> dict[str, Any]:
        """The document of the run's summary.json."""
        with self._read() as connection:
            row = connection.execute("SELECT summary FROM runs WHERE id = ?", (entry.id,))
            return dict(parsed(unpacked(row.fetchone()[0], MOST_BYTES)))

    def _entries(self, condition: str, values: tuple[Any, ...]) -> tuple[Entry, ...]:
        if not self.path.is_file():
            return ()
        with self._read() as connection:
            if self._check(connection) == 0:
                return ()
            # Whatever columns its version has, of those that we know.
            there = {row["name"] for row in connection.execute("PRAGMA table_info(runs)")}
            names = [each.name for each in fields(Entry) if each.name in there]
            columns = [*names, "commit_id"]
            rows = _all_of(connection, "runs", columns, f"{condition} ORDER BY id", values)
            pins = _all_of(connection, "baselines", ["run", "name"], "1 ORDER BY name")
            by_run: dict[int, list[str]] = {}
            for run, name in pins:
                by_run.setdefault(run, []).append(name)
            found = (
                {**dict(row), "commit": row["commit_id"], "baselines": by_run.get(row["id"], ())}
                for row in rows
            )
            return tuple(converted(each, Entry, strict=False) for each in found)

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        # The user's own store may need a killed run's journal played back; any other is only read.
        writing = self.path == default_path()
        with self._errors(), closing(self._connect(writing=writing)) as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._errors():
            if self.path == default_path():
                private.make_closed(self.path.parent)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect(writing=True)) as connection:
                # Taken at the start: two that read first and write then would lock each other out.
                connection.execute("BEGIN IMMEDIATE")
                version = self._check(connection)
                if version < SCHEMA_VERSION:
                    # Not executescript(), which commits first and so would give up the lock.
                    for statement in _upgrade(version):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                yield connection
                connection.execute("COMMIT")

    def _connect(self, *, writing: bool) -> sqlite3.Connection:
        self._refuse_place_of_others()
        self._refuse_link_of_others()
        if self.path.exists():  # by its name then: its journal stands beside it
            opened(self.path).close()
        self._look_beside()
        # No write-ahead log: it needs shared memory, which network homes do not have.
        # Without an isolation level: sqlite3 would open transactions of its own.
        place = f"{self.path.absolute().as_uri()}?mode={'rwc' if writing else 'ro'}"
        connection = sqlite3.connect(place, timeout=PATIENCE_S, isolation_level=None, uri=True)
        connection.row_factory = sqlite3.Row
        if sys.version_info >= (3, 11):  # of one value, before it is in memory to be measured
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_HELD_BYTES)
        late = time.monotonic() + WORK_S
        connection.set_progress_handler(lambda: time.monotonic() > late, 100_000)
        return connection

    def _refuse_place_of_others(self) -> None:
        """Between any look and SQLite's they would put another file there, or a journal beside."""
        place = self.path.parent.resolve() / self.path.name
        named = self.path != default_path()
        if fault := private.exchangeable(place, named=named):
            raise Unfit(self.path, fault)

    def _refuse_link_of_others(self) -> None:
        """It would choose which file of this user's is made, or grows tables."""
        with suppress(FileNotFoundError):
            facts = self.path.lstat()
            if stat.S_ISLNK(facts.st_mode) and facts.st_uid not in (os.geteuid(), 0):
                raise Unfit(self.path, f"is a symbolic link of another user ({facts.st_uid})")

    def _look_beside(self) -> None:
        """SQLite opens these by their names, plays back a journal, and removes what it names."""
        for ending in ("-journal", "-wal", "-shm"):
            beside = self.path.with_name(self.path.name + ending)
            with suppress(FileNotFoundError), opened(beside, follow=False, own=True) as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - len(_NAMES_ANOTHER)))
                if stream.read() == _NAMES_ANOTHER:
                    raise ValueError(f"{beside} names another file, as no journal of ours does")

    def _check(self, connection: sqlite3.Connection) -> int:
        """Version of the schema; 0 for a new file."""
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            raise UsageError(
                f"{self.path} was written by a newer version of instrument",
                "Upgrade, or give another store: --history PATH.",
            )
        schema = f"SELECT type, name, substr(sql, 1, {_MOST_SQL + 1}) FROM sqlite_master"
        made = connection.execute(schema).fetchall()
        tables = {name for kind, name, _ in made if kind == "table"}
        # An index that a key makes by itself has no statement.
        ours = all(_is_ours(sql) for kind, _, sql in made if (kind, sql) != ("index", None))
        unlike = not ours or not tables >= {"runs", "baselines"}
        if made if version == 0 else unlike:
            raise UsageError(
                f"{self.path} is not a history database", "Give another: --history PATH."
            )
        return version

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, zlib.error, ValueError, TypeError, MsgspecError) as error:
            fault = getattr(error, "strerror", None) or error
            raise UsageError(
                f"{self.path}: the history cannot be used: {fault}",
                "Give another store (--history PATH), or go without (--no-history).",
            ) from error
