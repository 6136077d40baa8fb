"""Reading files while they grow: the log, and the record file of JSON lines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError

from instrumentor.runtime.recorder.observer import DEEPEST_PLACE, MOST_CHAINS
from instrumentor.shared.errors import RunFailed
from instrumentor_analysis.shared.documents import converted, parsed
from instrumentor_analysis.shared.files import opened

#: Read in one go: a script that prints without end must not keep the tool from its other work.
CHUNK_BYTES = 1 << 20  # also the longest line that is handed on whole
CHUNKS = 16  # in one call
FINAL_BYTES = 64 << 20  # of what was not read yet when the run has ended; its end is
#: Of a longer log, what is looked at for an explanation.
HEAD_BYTES, END_BYTES = 4 << 20, 16 << 20


class Tail:
    """Complete lines of a growing file; one that is not there yet, or no file at all, gives none.

    A line longer than ``CHUNK_BYTES`` comes in pieces.

    Args:
        most_bytes: a longer file is none of ours; None for one that may grow without limit.
        most_lines: so is one of more lines.
    """

    def __init__(
        self, path: Path | None, most_bytes: int | None = None, most_lines: int | None = None
    ) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.most_lines = most_lines
        self.offset = 0
        self.ended = 0  # lines that have come to their end
        self.rest = b""

    def lines(self, *, final: bool = False) -> Iterator[str]:
        """Lines that came since the last call, not more than some MB of them.

        ``final`` gives all, an unfinished one too; of a file without ``most_bytes`` no more than
        its last ``FINAL_BYTES``.

        Raises:
            RunFailed: the file is longer than ``most_bytes``, or has more than ``most_lines``.
        """
        if self.path is None:
            return
        with contextlib.suppress(FileNotFoundError), opened(self.path) as stream:
            end = self._end(stream.seek(0, os.SEEK_END), final)
            stream.seek(self.offset)
            while data := stream.read(min(CHUNK_BYTES, max(0, end - self.offset))):
                self.offset += len(data)
                self.ended += data.count(b"\n")
                if self.most_lines is not None and self.ended > self.most_lines:
                    raise self._too_large(f"more than {self.most_lines:,} lines")
                *whole, self.rest = (self.rest + data).split(b"\n")
                if len(self.rest) > CHUNK_BYTES:
                    whole.append(self.rest)
                    self.rest = b""
                for line in whole:
                    yield line.decode("utf-8", "replace").rstrip("\r")
        if final and self.rest:
            line, self.rest = self.rest, b""
            yield line.decode("utf-8", "replace")

    def _end(self, length: int, final: bool) -> int:
        """Where to stop reading; what grows meanwhile is for the next call."""
        if self.most_bytes is not None and length > self.most_bytes:
            raise self._too_large(f"{length:,} bytes, more than {self.most_bytes:,}")
        if not final:
            return min(length, self.offset + CHUNKS * CHUNK_BYTES)
        if self.most_bytes is None and length - self.offset > FINAL_BYTES:
            self.offset, self.rest = length - FINAL_BYTES, b""
        return length

    def _too_large(self, told: str) -> RunFailed:
        return RunFailed(
            f"the record {self.path} has {told}, as that of no run: something else than the "
            "recorder changed it",
            "Keep the script from writing to the file that INSTRUMENT_RECORD names.",
        )


def excerpt(log: Path) -> str:
    """A log as text; of a very long one its beginning and its end. Empty when there is none."""
    try:
        with opened(log) as stream:
            data = stream.read(HEAD_BYTES)
            length = stream.seek(0, os.SEEK_END)
            if length > HEAD_BYTES + END_BYTES:
                data += b"\n[%d bytes left out]\n" % (length - HEAD_BYTES - END_BYTES)
            stream.seek(max(HEAD_BYTES, length - END_BYTES))
            data += stream.read()
    except FileNotFoundError:
        return ""
    return data.decode("utf-8", "replace")


_Stack = list[tuple[str, int, str]]
"""File, line and function of each frame."""


class _Sample(Struct):
    label: str
    kind: str
    ms: float
    index: int = 0
    device: str = ""
    loss: float | Literal["nan", "inf", "-inf"] | None = None  # JSON has no word for those
    batch_shape: list[int] | None = None


class _Cause(Struct):
    kind: str
    what: str
    places: _Stack
    count: int
    ms: float


class _Profiled(Struct):
    ms: float


class _Warning(Struct):
    text: str


class _Memory(Struct):
    bytes: int


class _Problem(Struct):
    check: str
    text: str
    places: _Stack
    others: list[_Stack]


class _Counts(Struct):
    trainable: int
    with_gradient: int


class _Witness(Struct):
    status: Literal["verified", "partly", "unverified", "failed"]
    verified: list[str]
    unverified: dict[str, str]
    problems: list[_Problem]
    notes: list[str]
    parameters: _Counts | None
    undifferentiated: list[_Stack] = []

    def __post_init__(self) -> None:
        if (self.status == "failed") != bool(self.problems):
            raise ValueError("a failed check has a problem, and no other one has")


_Lines = Annotated[list[int], Meta(max_length=10_000)]
_Chains = Annotated[
    list[Annotated[_Stack, Meta(max_length=DEEPEST_PLACE)]], Meta(max_length=MOST_CHAINS)
]


class _Observed(Struct):
    loop: tuple[str, int, str] | None
    users: tuple[str, int, str] | None
    forward: _Lines
    backward: _Lines
    step: _Lines
    chains: dict[Literal["forward", "backward", "step"], _Chains]
    parameters: dict[Literal["trainable", "with_gradient"], int]
    in_turns: bool

    def __post_init__(self) -> None:
        if len(self.parameters) == 1:
            raise ValueError("one count of parameters stands without the other")


#: What readers take for granted of an event, by its name.
_SHAPES: dict[str, type[Struct]] = {
    "sample": _Sample,
    "profiled": _Profiled,
    "warning": _Warning,
    "memory": _Memory,
    "cause": _Cause,
    "witness": _Witness,
    "observed": _Observed,
}


def record_of(line: str) -> dict[str, Any] | None:
    """The object on a line of the record file; None when the line is no whole one.

    The script can write there, too: a sample without what every sample has is none.
    """
    try:
        entry = parsed(line, infinite=True)
        converted(entry, _SHAPES.get(str(entry.get("event")), dict[str, Any]))
    except (ValueError, AttributeError, ValidationError):  # a killed writer leaves half a line
        return None
    return dict(entry)
