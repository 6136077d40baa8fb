"""Find signposts and their byte positions without parsing the file.

The writer of the ops CSV never quotes, so a row is a line and a cell holds no comma; a step can
then be cut out of the bytes between two signpost rows and only that be parsed. A file that does
hold a quote (traces with LOC do) is left to the parser as a whole: ``Scan.quoted`` says so.
"""

from __future__ import annotations

import csv
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from instrumentor_analysis.errors import DamagedFile, NotAnOpsFile
from instrumentor_analysis.schema import REQUIRED

# Small enough to stay in a core's cache for the three passes over each block.
_BLOCK = 1 << 19
_NEEDLE = b",signpost,"
_NEWLINE, _COMMA = ord("\n"), ord(",")
_SHORTEST_RUN, _LONGEST_RUN = 24, 64


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
        lines: number of newlines, the header's included.
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
    try:
        columns = tuple(next(csv.reader([text])))
    except csv.Error as error:
        raise NotAnOpsFile(path, f"{path.name}, line 1: {error}") from error
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
    blanks = _blank_run(header)
    found = _pass(path, blanks or _NEEDLE)
    signposts = () if found.quoted else _signposts(path, header, found.hits)
    if blanks and not found.quoted and not _all_paired(signposts):
        # Not the rows that we know: look for the word itself, in whatever row it stands.
        found = _pass(path, _NEEDLE)
        signposts = _signposts(path, header, found.hits)
    if not found.quoted:
        _check_last_line(path, header, found.lines, found.size)
    return Scan(path, header, signposts, found.quoted, found.lines, found.size)


@dataclass(frozen=True)
class _Pass:
    hits: tuple[tuple[int, int], ...]
    quoted: bool
    lines: int
    size: int


def _blank_run(header: Header) -> bytes | None:
    """The commas at the end of a signpost row: everything behind HOST START TS is blank.

    So long a needle is found several times faster than the word, since a search skips its
    length at every character that is no comma. None when there are too few columns for that.
    """
    if "HOST START TS" not in header.columns:
        return None
    run = len(header.columns) - 1 - header.columns.index("HOST START TS")
    return b"," * min(run, _LONGEST_RUN) if run >= _SHORTEST_RUN else None


def _all_paired(signposts: tuple[Signpost, ...]) -> bool:
    """There are signposts, and each is one of a pair or the end of our run."""
    names = [post.name for post in signposts if post.name != "benchmark_complete"]
    starts = [n.removesuffix("_start") for n in names if n.endswith("_start")]
    ends = [n.removesuffix("_end") for n in names if n.endswith("_end")]
    return bool(names) and starts == ends and len(names) == 2 * len(starts)


def _pass(path: Path, needle: bytes) -> _Pass:
    """Rows that hold the needle: (offset of it, number of newlines before it)."""
    import numpy as np

    hits: list[tuple[int, int]] = []
    lines, size, quoted, kept = 0, 0, False, 0
    overlap = len(needle) - 1
    buffer = bytearray(_BLOCK + overlap)
    view, array = memoryview(buffer), np.frombuffer(buffer, dtype=np.uint8)
    newline = np.zeros(-(-_BLOCK // 1024) * 1024, dtype=np.bool_)
    # Bytes are counted in the lanes of 64-bit words: 128 words to a sum, so no lane overflows.
    words = newline.view(np.uint64).reshape(128, -1)
    with path.open("rb", buffering=0) as file:
        # What is kept of the last block has been counted; the needle may reach over its end.
        while read := file.readinto(view[kept : kept + _BLOCK]):
            filled = kept + read
            np.equal(array[kept:filled], _NEWLINE, out=newline[:read])
            newline[read:] = False
            # Backwards first: most blocks hold none, and to know that takes a fifth of the time.
            position = buffer.rfind(needle, 0, filled)
            position = position if position < 0 else buffer.find(needle, 0, filled)
            while position >= 0:
                before = int(np.count_nonzero(newline[: max(0, position - kept)]))
                hits.append((size - kept + position, lines + before))
                row_end = buffer.find(b"\n", position, filled)
                position = -1 if row_end < 0 else buffer.find(needle, row_end, filled)
            lines += int(words.sum(axis=0).view(np.uint8).sum(dtype=np.int64))
            quoted = quoted or buffer.find(b'"', kept, filled) >= 0
            size += read
            kept = min(overlap, filled)
            buffer[:kept] = buffer[filled - kept : filled]
    return _Pass(tuple(hits), quoted, lines, size)


def _commas(path: Path) -> int:
    import numpy as np

    buffer = bytearray(_BLOCK)
    array, comma = np.frombuffer(buffer, dtype=np.uint8), np.empty(_BLOCK, dtype=np.bool_)
    count = 0
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(buffer):
            count += int(np.count_nonzero(np.equal(array[:read], _COMMA, out=comma[:read])))
    return count


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


def check_rows(scanned: Scan) -> None:
    """Every row has as many cells as the header: a parser pads a short one in silence.

    A file with quotes is left alone; the parser knows what its commas mean.

    Raises:
        DamagedFile: names the first row of another length.
    """
    per_row = len(scanned.header.columns) - 1
    # The last line may lack its newline; a count of lines that is one short is looked at below.
    if scanned.quoted or _commas(scanned.path) == scanned.lines * per_row:
        return
    with scanned.path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and line.count(b",") != per_row:
                raise wrong_cells(scanned.path, scanned.header, number, line.count(b",") + 1)


def wrong_cells(path: Path, header: Header, line: int, cells: int) -> DamagedFile:
    """The error of a row with too few or too many cells."""
    names = header.columns
    column = names[cells - 1] if cells <= len(names) else None
    return DamagedFile(path, f"{cells} cells where the header has {len(names)}", line, column)


def _signposts(path: Path, header: Header, hits: Sequence[tuple[int, int]]) -> tuple[Signpost, ...]:
    if not hits:
        return ()
    columns = header.columns
    kind, code = columns.index("OP TYPE"), columns.index("OP CODE")
    stamp = columns.index("HOST START TS") if "HOST START TS" in columns else None
    found: dict[int, Signpost] = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        for position, newlines in hits:
            start = view.rfind(b"\n", 0, position + 1) + 1
            end = view.find(b"\n", position) + 1 or len(view)
            cells = view[start:end].rstrip(b"\r\n").split(b",")
            if len(cells) > kind and cells[kind] == b"signpost":
                text = cells[stamp] if stamp is not None and len(cells) > stamp else b""
                # By offset: a row across two blocks is found in both.
                found[start] = Signpost(
                    name=cells[code].decode("utf-8", "replace"),
                    line=newlines + 1,
                    start=start,
                    end=end,
                    host_ns=int(text) if text.isdigit() else None,
                )
    return tuple(found.values())
