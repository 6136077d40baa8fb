"""Defaults from `[tool.instrument]` of the nearest pyproject.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instrumentor.shared.errors import UsageError

TABLE = "instrument"


def find_defaults(start: Path) -> tuple[dict[str, Any], Path | None]:
    """The table of the nearest pyproject.toml that has one, from `start` upwards.

    Keys may be spelled with dashes or underscores; values are those of the options.

    Raises:
        UsageError: the file is not TOML, or the table holds something else than plain values.
    """
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        try:
            data = path.read_bytes()
        except OSError:
            continue
        # A file that cannot hold our table is not parsed: it may be broken, and that is not for us
        # to say.
        if b"tool.instrument" in data or b"[tool]" in data:
            table = _table(path, data)
            if table is not None:
                return {k.replace("-", "_"): v for k, v in table.items()}, path
    return {}, None


def _table(path: Path, data: bytes) -> dict[str, Any] | None:
    from instrumentor.shared.project import read_toml

    try:
        document = read_toml(data)
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    table = document.get("tool", {}).get(TABLE)
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [tool.{TABLE}] must be a table")
    return table
