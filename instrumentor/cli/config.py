"""Defaults from `[tool.instrument]` of the nearest pyproject.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from instrumentor.shared.errors import UsageError
from instrumentor.shared.project import is_git_root
from instrumentor_analysis.shared.files import SETTINGS_BYTES, Unfit, read_bytes

TABLE = "instrument"


class Defaults(NamedTuple):
    """What stands in configuration files.

    Attributes:
        table: keys spelled with underscores; values are those of the options.
        path: the file that the table is of; None without one.
        ignored: one sentence for each file on the way that does not count.
    """

    table: dict[str, Any]
    path: Path | None = None
    ignored: tuple[str, ...] = ()


def find_defaults(start: Path) -> Defaults:
    """The table of the nearest pyproject.toml that has one, from `start` upwards.

    The search ends at the repository's root. A file that belongs to somebody else than this user
    or root does not count: whoever can write in a parent folder could choose what a run starts.

    Raises:
        UsageError: the file is not TOML, or the table holds something else than plain values.
    """
    ignored: list[str] = []
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        try:
            table = _table_of(path, read_bytes(path, SETTINGS_BYTES, own=True))
        except Unfit as error:
            ignored.append(f"{path} {error.strerror}: it is ignored")
            table = None
        except OSError:
            table = None
        if table is not None:
            found = {key.replace("-", "_"): value for key, value in table.items()}
            return Defaults(found, path, tuple(ignored))
        if is_git_root(folder):
            break
    return Defaults({}, None, tuple(ignored))


def _table_of(path: Path, data: bytes) -> dict[str, Any] | None:
    # A file that cannot hold our table is not parsed: it may be broken, and that is not for us
    # to say.
    return _table(path, data) if b"tool.instrument" in data or b"[tool]" in data else None


def _table(path: Path, data: bytes) -> dict[str, Any] | None:
    from instrumentor.shared.project import read_toml

    try:
        document = read_toml(data)
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    tool = document.get("tool", {})
    if not isinstance(tool, dict):
        raise UsageError(f"{path}: [tool] must be a table")
    table = tool.get(TABLE)
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [tool.{TABLE}] must be a table")
    return table
