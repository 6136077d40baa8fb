"""What the run.json of a kernel's run says; it may have come from anybody.

Every key may be absent. What is not of the type that its readers take for granted counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from instrumentor_analysis.shared.documents import object_in, sound

#: A size or a count that sums and products of which are figures still.
Count = Annotated[int, Meta(ge=0, le=1 << 40)]
Shape = Annotated[tuple[Count, ...], Meta(max_length=16)]
#: No kernel has more buffers, threads or tensors.
_MOST_NAMES = 1 << 10


class _Named(Struct):
    name: str
    line: int


class _Buffer(_Named):
    tiles: Shape | None = None
    factor: Count | None = None


class _Production(Struct):
    shapes: list[Shape] = []
    chips: Count = 1


class _Verdict(Struct):
    ok: bool = False
    by: str = ""
    detail: str = ""
    later: int = 0


class _Site(Struct):
    line: int


class _Call(_Site):
    number: int
    through: list[_Site] = []


class _Grid(Struct):
    kind: str
    text: str = ""
    line: int = 0


_SHAPES: dict[str, Any] = {
    **dict.fromkeys(("name", "script", "kernel", "mode", "arch"), str | None),
    **dict.fromkeys(("rerun", "source_text", "source_file"), str | None),
    "warnings": list[str],
    "invocation": _Call | None,
    "grid": _Grid | None,
    "buffers": Annotated[list[_Buffer], Meta(max_length=_MOST_NAMES)],
    "threads": Annotated[list[_Named], Meta(max_length=_MOST_NAMES)],
    "tensors": Annotated[list[str], Meta(max_length=_MOST_NAMES)],
    "production": _Production | None,
    "line_map": dict[str, int],
    "chained": list[dict[str, Any]],
    "validated": bool | None,
    "validation": _Verdict | None,
    "script_exit_code": int | None,
    "parameters": list[str],
    "parameter_lines": list[int],
    # Each is held against each.
    "given": Annotated[dict[str, str], Meta(max_length=256)] | None,
    "own_check": int | None,
}


def run_facts(folder: Path) -> Mapping[str, Any]:
    """The facts in a folder; none without its run.json, or where that is no object."""
    return sound(object_in(folder / "run.json"), _SHAPES)
