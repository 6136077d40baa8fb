"""Find signposts and their byte positions without parsing the file.

The writer of the ops CSV never quotes, so a row is a line and a cell holds no comma; a step can
then be cut out of the bytes between two signpost rows and only that be parsed. A file that does
hold a quote (traces with LOC do) is left to the parser as a whole: ``Scan.quoted`` says so.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import RawIOBase
from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.errors import DamagedFile, NotAnOpsFile
from instrumentor_analysis.schema import DEVICE_ONLY, REQUIRED, is_records, known_names

# Small enough to stay in a core's cache for the passes over each block.
_BLOCK = 1 << 19
_WORD, _CELL = b"signpost", b"signpost,"
_NEWLINE = ord("\n")


class Header(Struct, frozen=True):
    """The first line: column names, and where the rows begin (bytes)."""

    columns: tuple[str, ...]
    raw: bytes

    @property
    def size(self) -> int:
        """Bytes of the header line, its newline included."""
        return len(self.raw)


class Signpost(Struct, frozen=True):
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


class Scan(Struct, frozen=True):
    """What one pass over the bytes found.

    Attributes:
        quoted: the file holds a quote: byte offsets of rows cannot be trusted.
    """

    header: Header
    signposts: tuple[Signpost, ...]
    quoted: bool


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
        raise NotAnOpsFile(f"{path.name} is not a text file") from None
    if not text.strip():
        raise NotAnOpsFile(f"{path.name} is empty")
    if text.startswith("#"):
        raise NotAnOpsFile(f"{path.name}, line 1: a comment where the header should be")
    if "\r" in text and not text.endswith("\n"):
        raise NotAnOpsFile(
            f"{path.name}: its lines end in a carriage return alone, not in a line feed "
            f"(tr '\\r' '\\n' < {path.name} > NEW.csv gives it some)",
        )
    try:
        columns = known_names(next(csv.reader([text])))
    except csv.Error as error:
        raise NotAnOpsFile(f"{path.name}, line 1: {error}") from error
    if is_records(columns):
        raise NotAnOpsFile(
            f"{path.name} holds records of the real-time profiler: start and end of programs in "
            "ticks of the device, no ops and no durations",
        )
    missing = tuple(name for name in REQUIRED if name not in columns)
    if missing and not all(name in columns for name in DEVICE_ONLY):
        listed = ", ".join(repr(name) for name in missing)
        raise NotAnOpsFile(f"{path.name}, line 1: no column {listed}")
    return Header(columns, raw)


def scan(path: Path) -> Scan:
    """One pass over the bytes, in constant memory.

    Raises:
        NotAnOpsFile: see :func:`read_header`.
        DamagedFile: the last line is cut short.
    """
    header = read_header(path)
    found = _Found(header)
    with path.open("rb", buffering=0) as file:
        _pass(file, found)
    if not found.quoted:
        _check_last_line(path, header, found.lines, found.size)
    posts = () if found.quoted else tuple(found.signposts)
    return Scan(header, posts, found.quoted)


class _Found:
    """What a pass has come across so far; lines and offsets are those of the file."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.signposts: list[Signpost] = []
        self.quoted = False
        self.lines = self.size = 0
        columns = header.columns
        # A CSV of the device alone has no signposts.
        there = "OP TYPE" in columns and "OP CODE" in columns
        self.kind = columns.index("OP TYPE") if there else len(columns)
        self.code = columns.index("OP CODE") if there else len(columns)
        self.stamp = columns.index("HOST START TS") if "HOST START TS" in columns else None

    def row(self, cells: bytes, start: int, line: int) -> None:
        """Look at a row that holds the word somewhere."""
        parts = cells.rstrip(b"\r\n").split(b",")
        if len(parts) <= self.kind or parts[self.kind] != _WORD:
            return
        there = self.stamp is not None and len(parts) > self.stamp
        text = parts[self.stamp] if there and self.stamp is not None else b""
        self.signposts.append(
            Signpost(
                name=parts[self.code].decode("utf-8", "replace"),
                line=line,
                start=start,
                end=start + len(cells),
                host_ns=int(text) if text.isdigit() else None,
            )
        )


def _pass(file: RawIOBase, found: _Found) -> None:
    """Whole rows of a block after the other; what is left of a row waits for the next block."""
    import numpy as np

    # The type is the second cell of a row in every file known: then it is looked for there only.
    second = (found.code, found.kind) == (0, 1)
    buffer = bytearray(_BLOCK)
    kept = 0
    while True:
        if kept == len(buffer):
            buffer += bytes(len(buffer))
        with memoryview(buffer) as view:
            read = file.readinto(view[kept:]) or 0
        filled = kept + read
        if not read:
            # A last row without a newline is a row.
            if kept:
                _rows(found, bytes(buffer[:kept]), [kept], second)
                found.lines -= 1
                found.size += kept
            return
        found.quoted = found.quoted or buffer.find(b'"', kept, filled) >= 0
        array = np.frombuffer(buffer, dtype=np.uint8, count=read, offset=kept)
        ends = (np.flatnonzero(array == _NEWLINE) + (kept + 1)).tolist()
        del array
        if ends:
            _rows(found, buffer, ends, second)
            found.size += ends[-1]
            kept = filled - ends[-1]
            buffer[:kept] = buffer[ends[-1] : filled]
        else:
            kept = filled


def _rows(found: _Found, block: bytes | bytearray, ends: Sequence[int], second: bool) -> None:
    """The signposts among the rows of a block, each of which ends at one of ``ends``."""
    find, start, line, size = block.find, 0, found.lines, found.size
    for end in ends:
        line += 1
        if second:
            at = find(b",", start, end) + 1
            here = block.startswith(_CELL, at, end)
        else:
            here = find(_WORD, start, end) >= 0
        if here:
            found.row(bytes(block[start:end]), size + start, line)
        start = end
    found.lines = line


def _check_last_line(path: Path, header: Header, newlines: int, size: int) -> None:
    """A last line without newline and with too few cells: the writer was interrupted."""
    with path.open("rb") as file:
        file.seek(max(0, size - (1 << 16)))
        tail = file.read()
    refuse_cut_line(path, header, tail.rsplit(b"\n", 1)[-1], newlines + 1)


def refuse_cut_line(path: Path, header: Header, last: bytes, line: int) -> None:
    """Refuse a last line, without its newline, that has too few cells.

    Raises:
        DamagedFile: the writer was interrupted.
    """
    cells = last.count(b",") + 1
    if last.strip() and cells < len(header.columns):
        raise DamagedFile(
            path,
            f"the file ends within this line ({cells} of {len(header.columns)} cells)",
            line=line,
            column=header.columns[cells - 1],
        )


def wrong_cells(path: Path, header: Header, line: int, cells: int) -> DamagedFile:
    """The error of a row with too few or too many cells."""
    names = header.columns
    column = names[cells - 1] if cells <= len(names) else None
    return DamagedFile(path, f"{cells} cells where the header has {len(names)}", line, column)
