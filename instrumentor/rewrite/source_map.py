"""What an instrumented file says, in lines of the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from instrumentor.rewrite.line_format import MARKER, Line, classify
from instrumentor.runtime.bundle import MODULE

_FRAME = re.compile(
    r'^(?P<indent> *)File "(?P<file>[^"]+)", line (?P<line>\d+)(?P<rest>(?:\D.*)?)$'
)
#: Whose frames lead to the script: our own, and what runs it.
_WRAPPERS = (str(Path(__file__).resolve().parent.parent / "runtime"), "<frozen runpy>")
_PLACE = re.compile(r"(?P<file>/[^\s:\"']{1,1000}\.py):(?P<line>\d+)")


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


@dataclass(frozen=True)
class SourceMap:
    """The way from a place of the tree that ran to the user's own.

    Attributes:
        copy: root of the tree that ran.
        root: of the user's project; the same in a run in place.
        replacements: the instrumented texts, by the user's path.
        scratch: folder of what starts the script and of the recorder; None where there is none.
    """

    copy: Path
    root: Path
    replacements: Mapping[Path, bytes]
    scratch: Path | None = None

    @cached_property
    def _maps(self) -> dict[Path, dict[int, int]]:
        return {file: original_lines(new) for file, new in self.replacements.items()}

    def place(self, file: Path, line: int) -> tuple[Path, int] | None:
        """The user's file and line; None of inserted code and outside of the project."""
        if not file.is_relative_to(self.copy) or ".." in file.parts:
            return None
        own = self.root / file.relative_to(self.copy)
        number = self._maps[own].get(line) if own in self._maps else line
        return None if number is None else (own, number)

    def places(self, text: str) -> str:
        """Text with the user's own in each `FILE:LINE` of the tree that ran."""
        return _PLACE.sub(self._own, text)

    def _own(self, match: re.Match[str]) -> str:
        own = self.place(Path(match["file"]), int(match["line"]))
        return match[0] if own is None else f"{own[0]}:{own[1]}"

    def _leads_to_the_script(self, file: Path) -> bool:
        starts = self.scratch is not None and file.is_relative_to(self.scratch)
        return (starts and file.stem != MODULE) or str(file).startswith(_WRAPPERS)

    def raised_at(self, text: str) -> tuple[Path, int] | None:
        """The user's innermost line of the last traceback; None where no exception came from it.

        None as well where it came through inserted code, or through what that code calls.
        """
        found: tuple[Path, int] | None = None
        for match in filter(None, map(_FRAME.match, text.splitlines())):
            file = Path(match["file"])
            # What a library raises was called by the user's line, or by inserted code.
            if file.is_relative_to(self.copy) or file.stem == MODULE:
                found = self.place(file, int(match["line"]))
        return found

    def traceback(self, text: str) -> str:
        """Tracebacks in the user's files and lines; frames of inserted code are left out."""
        kept: list[str] = []
        dropping: int | None = None
        for line in text.splitlines():
            match = _FRAME.match(line)
            if match is None:
                # The source line and the carets below a frame that is left out go with it.
                indent = len(line) - len(line.lstrip())
                if dropping is not None and indent > dropping:
                    continue
                # What stands in the copy alone is nothing that its reader has written.
                dropping = indent - 1 if line.endswith(MARKER) else None
                kept += [] if dropping is not None else [self.places(line)]
                continue
            frame = self._frame(match)
            dropping = len(match["indent"]) if frame is None else None
            kept += [] if frame is None else [frame]
        return "\n".join(kept)

    def _frame(self, match: re.Match[str]) -> str | None:
        """The first line of a frame in the user's file; None of one that is not of the script."""
        file = Path(match["file"])
        if self._leads_to_the_script(file):
            return None
        if not file.is_relative_to(self.copy):
            return match[0]
        own = self.place(file, int(match["line"]))
        return own and f'{match["indent"]}File "{own[0]}", line {own[1]}{match["rest"]}'
