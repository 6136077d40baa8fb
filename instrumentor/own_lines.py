"""What an instrumented file says, in lines of the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from instrumentor.engine.marks import Line, classify

_FRAME = re.compile(r'^(?P<indent> *)File "(?P<file>[^"]+)", line (?P<line>\d+)(?P<rest>.*)$')


def original_lines(instrumented: bytes) -> dict[int, int]:
    """Line numbers of an instrumented text -> of the original; inserted lines are absent.

    A replaced statement stands behind its disabled original: its lines count as the last of it.
    """
    found: dict[int, int] = {}
    original = 0
    off = False
    for number, (kind, _) in enumerate(classify(instrumented.splitlines(keepends=True)), 1):
        if kind is Line.OURS:
            if off:
                found[number] = original
            continue
        original += 1
        off = kind is Line.OFF
        found[number] = original
    return found


def in_own_lines(text: str, copy: Path, root: Path, replacements: Mapping[Path, bytes]) -> str:
    """Tracebacks in the user's files and lines; frames of inserted code are left out.

    Args:
        copy: root of the tree that ran.
        root: of the user's project; the same in a run in place.
        replacements: the instrumented texts, by the user's path.
    """
    maps = {file: original_lines(new) for file, new in replacements.items()}
    kept: list[str] = []
    dropping: int | None = None
    for line in text.splitlines():
        match = _FRAME.match(line)
        if match is None:
            deeper = len(line) - len(line.lstrip()) > (dropping if dropping is not None else -1)
            if dropping is None or not deeper:
                dropping = None
                kept.append(line)
            continue
        dropping = None
        path = Path(match["file"])
        if not path.is_relative_to(copy):
            kept.append(line)
            continue
        own = root / path.relative_to(copy)
        number: int | None = int(match["line"])
        if own in maps:
            number = maps[own].get(int(match["line"]))
        if number is None:
            dropping = len(match["indent"])
            continue
        kept.append(f'{match["indent"]}File "{own}", line {number}{match["rest"]}')
    return "\n".join(kept)
