"""Find signposts and their byte positions without parsing the file.

The writer of the ops CSV never quotes, so a row is a line and a cell holds no comma; a step can
then be cut out of the bytes between two signpost rows and only that be parsed. A file that does
hold a quote (traces with LOC do) is left to the parser as a whole: ``Scan.quoted`` says so.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.load.schema import DEVICE_ONLY, REQUIRED, is_records, known_names
from instrumentor_analysis.shared.errors import DamagedFile, NotAnOpsFile
from instrumentor_analysis.shared.files import lines_of, opened

_WORD, _CELL = b"signpost", b"signpost,"


class Header(Struct, frozen=True):
    """The first line: column names, and the line itself with its newline."""

    columns: tuple[str, ...]
    raw: bytes


class Region(Struct, frozen=True):
    """Whole lines of a file: byte offsets, and the 1-based number of the first line."""

    start: int
    end: int
    first_line: int


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
    with opened(path) as file:
        # A file that is no text may have no newline at all.
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
    """One pass over the lines, in constant memory.

    Raises:
        NotAnOpsFile: see :func:`read_header`.
        DamagedFile: the last line is cut short.
    """
    header = read_header(path)
    # The type is the second cell in every file known: then it is looked for there only.
    second = header.columns[:2] == ("OP CODE", "OP TYPE")
    found: list[Signpost] = []
    start, line = 0, b""
    with opened(path) as file:
        for number, line in enumerate(lines_of(file), 1):
            if b'"' in line:
                return Scan(header, (), quoted=True)
            if line.startswith(_CELL, line.find(b",") + 1) if second else _WORD in line:
                found += _signpost(header.columns, line, number, start)
            start += len(line)
    if not line.endswith(b"\n"):
        refuse_cut_line(path, header, line)
    return Scan(header, tuple(found), quoted=False)


def _signpost(columns: Sequence[str], line: bytes, number: int, start: int) -> list[Signpost]:
    """The signpost of a line that holds the word somewhere."""
    cells = dict(zip(columns, line.rstrip(b"\r\n").split(b","), strict=False))
    # A CSV of the device alone has no signposts.
    if "OP CODE" not in cells or cells.get("OP TYPE") != _WORD:
        return []
    name, time = cells["OP CODE"].decode("utf-8", "replace"), cells.get("HOST START TS", b"")
    host_ns = int(time) if time.isdigit() else None
    return [Signpost(name, number, start, start + len(line), host_ns)]


def refuse_cut_line(path: Path, header: Header, last: bytes) -> None:
    """Refuse a last line of a file, without its newline, that has too few cells.

    Raises:
        DamagedFile: the writer was interrupted.
    """
    cells = last.count(b",") + 1
    if last.strip() and cells < len(header.columns):
        with opened(path) as file:
            number = sum(1 for _ in lines_of(file))
        message = f"the file ends within this line ({cells} of {len(header.columns)} cells)"
        raise DamagedFile(path, message, number, header.columns[cells - 1])


def wrong_cells(path: Path, header: Header, line: int, cells: int) -> DamagedFile:
    """The error of a row with too few or too many cells; raising it is left to the caller.

    Args:
        line: 1-based line of the file.
        cells: number of cells in it.
    """
    names = header.columns
    column = names[cells - 1] if cells <= len(names) else None
    return DamagedFile(path, f"{cells} cells where the header has {len(names)}", line, column)
