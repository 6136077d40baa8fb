"""Find signposts and their byte positions without parsing the file.

The writer of the ops CSV never quotes, so a row is a line and a cell holds no comma; a step can
then be cut out of the bytes between two signpost rows and only that be parsed. A file that does
hold a quote (traces with LOC do) is left to the parser as a whole: ``Scan.quoted`` says so.
"""

from __future__ import annotations

import csv
import mmap
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import DamagedFile, NotAnOpsFile
from analysis.schema import REQUIRED

# Small enough to stay in a core's cache for the three passes over each block.
_BLOCK = 1 << 20
_NEEDLE = b",signpost,"


@dataclass(frozen=True)
class Header:
    """The first line: column names, and where the rows begin (bytes)."""

    columns: tuple[str, ...]
    raw: bytes

    @property
    def size(self) -> int:
        """Bytes of the header line, its newline included."""
        return len(self.raw)


@dataclass(frozen=True)
class Signpost:
    """One signpost row.

    Attributes:
        name: its OP CODE.
        line: 1-based line in the file (the header is line 1).
        start, end: byte offsets of its row, the newline included in the row.
        host_ns: HOST START TS, or None when blank.
    """

    name: str
    line: int
    start: int
    end: int
    host_ns: int | None = None


@dataclass(frozen=True)
class Scan:
    """What one pass over the bytes found.

    Attributes:
        quoted: the file holds a quote: byte offsets of rows cannot be trusted.
        lines: number of lines, the header included.
    """

    path: Path
    header: Header
    signposts: tuple[Signpost, ...]
    quoted: bool
    lines: int
    size: int


def read_header(path: Path) -> Header:
    """The header of an ops CSV.

    Raises:
        NotAnOpsFile: empty, not text, or without the columns that every ops CSV has.
    """
    with path.open("rb") as file:
        raw = file.readline(1 << 20)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotAnOpsFile(path, f"{path.name} is not a text file") from None
    if not text.strip():
        raise NotAnOpsFile(path, f"{path.name} is empty")
    columns = tuple(next(csv.reader([text])))
    missing = tuple(name for name in REQUIRED if name not in columns)
    if missing:
        listed = ", ".join(repr(name) for name in missing)
        raise NotAnOpsFile(path, f"{path.name}, line 1: no column {listed}", missing)
    return Header(columns, raw)


def scan(path: Path) -> Scan:
    """One pass over the bytes, in constant memory.

    Raises:
        NotAnOpsFile: see :func:`read_header`.
        DamagedFile: the last line is cut short.
    """
    header = read_header(path)
    hits: list[tuple[int, int]] = []
    lines, size, quoted = 0, 0, False
    buffer = bytearray(_BLOCK + len(_NEEDLE) - 1)
    with path.open("rb", buffering=0) as file:
        kept = 0
        view = memoryview(buffer)
        while read := file.readinto(view[kept : kept + _BLOCK]):
            filled = kept + read
            base = size - kept
            counted = kept
            position = buffer.find(_NEEDLE, 0, filled)
            while position >= 0:
                lines += buffer.count(b"\n", counted, max(position, counted))
                counted = max(position, counted)
                hits.append((base + position, lines))
                position = buffer.find(_NEEDLE, position + 1, filled)
            lines += buffer.count(b"\n", counted, filled)
            quoted = quoted or buffer.find(b'"', kept, filled) >= 0
            size += read
            # The needle may lie across two blocks; its newlines are counted once, since the
            # kept bytes are skipped by `counted`.
            kept = min(len(_NEEDLE) - 1, filled)
            buffer[:kept] = buffer[filled - kept : filled]
    if not quoted:
        _check_last_line(path, header, lines, size)
    signposts = () if quoted else _signposts(path, header, hits)
    return Scan(path, header, signposts, quoted, lines, size)


def _check_last_line(path: Path, header: Header, newlines: int, size: int) -> None:
    """A last line without newline and with too few cells: the writer was interrupted."""
    with path.open("rb") as file:
        file.seek(max(0, size - (1 << 16)))
        tail = file.read()
    last = tail.rsplit(b"\n", 1)[-1]
    cells = last.count(b",") + 1
    if last.strip() and cells < len(header.columns):
        raise DamagedFile(
            path,
            f"the file ends within this line ({cells} of {len(header.columns)} cells)",
            line=newlines + 1,
            column=header.columns[cells - 1],
        )


def _signposts(path: Path, header: Header, hits: list[tuple[int, int]]) -> tuple[Signpost, ...]:
    if not hits:
        return ()
    columns = header.columns
    kind, code = columns.index("OP TYPE"), columns.index("OP CODE")
    stamp = columns.index("HOST START TS") if "HOST START TS" in columns else None
    found: list[Signpost] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        for position, newlines in hits:
            start = view.rfind(b"\n", 0, position + 1) + 1
            end = view.find(b"\n", position) + 1 or len(view)
            cells = view[start:end].rstrip(b"\r\n").split(b",")
            if len(cells) > kind and cells[kind] == b"signpost":
                text = cells[stamp].decode() if stamp is not None and len(cells) > stamp else ""
                found.append(
                    Signpost(
                        name=cells[code].decode("utf-8", "replace"),
                        line=newlines + 1,
                        start=start,
                        end=end,
                        host_ns=int(text) if text.isdecimal() else None,
                    )
                )
    return tuple(found)
