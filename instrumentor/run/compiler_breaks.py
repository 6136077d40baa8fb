"""What kept a compiler from making one program of a step, in the user's files and lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from instrumentor.rewrite.source_map import SourceMap


def causes(records: Iterable[Mapping[str, Any]], source_map: SourceMap) -> list[dict[str, Any]]:
    """The causes of a run's records; ``file`` and ``line`` are None outside of the project.

    Returns:
        ``kind`` (graph break, recompiled, fallback), ``what``, ``file``, ``line``, ``count``,
        ``ms``; one entry for each place.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        if record.get("event") != "cause":
            continue
        own = (source_map.place(Path(file), line) for file, line, _ in record["places"])
        file, line = next(filter(None, own), (None, None))
        name = None if file is None else _named(file, source_map.root)
        facts = {"kind": record["kind"], "what": record["what"], "file": name, "line": line}
        known = found.setdefault(tuple(facts.values()), {**facts, "count": 0, "ms": 0.0})
        known["count"] += record["count"]
        known["ms"] += record["ms"]
    return list(found.values())


def _named(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
