"""What compilers noted, from the copy that ran to the user's own files."""

from __future__ import annotations

from pathlib import Path

from instrumentor.rewrite.source_map import SourceMap
from instrumentor.run.compiler_breaks import causes

MAP = SourceMap(Path("/copy"), Path("/own"), {})


def record(*places: tuple[str, int], count: int = 1) -> dict[str, object]:
    stack = [[file, line, "f"] for file, line in places]
    facts = {"kind": "graph break", "what": "print", "places": stack, "count": count, "ms": 2.0}
    return {"event": "cause", **facts}


def test_the_innermost_place_of_the_project_is_named() -> None:
    found = causes([{"event": "sample"}, record(("/lib/a.py", 1), ("/copy/m/net.py", 7))], MAP)
    assert found == [
        {"kind": "graph break", "what": "print", "file": "m/net.py", "line": 7, "count": 1, "ms": 2}
    ]


def test_of_a_library_alone_no_place_is_told_and_equal_ones_are_one() -> None:
    (only,) = causes([record(("/lib/a.py", 1)), record(("/lib/b.py", 2), count=3)], MAP)
    assert (only["file"], only["line"], only["count"], only["ms"]) == (None, None, 4, 4.0)
