"""An ops CSV, or a part of its bytes, to one table.

The table has one row per line of the file, signposts included, and the columns of
:mod:`.schema`: figures as float64 (NaN where blank), text and tensor dimensions (the cells as
written) as categoricals. ``line`` is the 1-based line in the file, which is also the ID that
tt-perf-report gives to an op.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from msgspec import Struct

from instrumentor_analysis.errors import BadOption, DamagedFile
from instrumentor_analysis.ops import Ops
from instrumentor_analysis.rows import RowReader
from instrumentor_analysis.scan import Header, Scan, read_header, refuse_cut_line, wrong_cells
from instrumentor_analysis.schema import detect_format
from instrumentor_analysis.table import Table, concat

SIGNPOST = "signpost"
DEVICE_OP = "tt_dnn_device"
#: Files up to this size are read as a whole, larger ones only where needed, bytes.
WHOLE_FILE_BYTES = 64 << 20
#: Read at once, bytes.
_BLOCK = 4 << 20
# No cell of a text file holds them: they part the cells of a file with quotes.
_UNIT, _RECORD = b"\x1f", b"\x1e"


class Region(Struct, frozen=True):
    """Whole lines of a file: byte offsets, and the 1-based number of the first line."""

    start: int
    end: int
    first_line: int


def load(path: Path, region: Region | None = None, scanned: Scan | None = None) -> Ops:
    """Read a file, or only some of its lines.

    Args:
        region: the lines; None for all.
        scanned: of the same file, when there is one already.

    Raises:
        NotAnOpsFile: no ops CSV.
        DamagedFile: a row with too few or too many cells; names the line.
    """
    header = read_header(path) if scanned is None else scanned.header
    first_line = 2 if region is None else region.first_line
    start = header.size if region is None else region.start
    end = path.stat().st_size if region is None else region.end
    reader = RowReader(path, header, first_line)
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        quoted = False
        line = first_line
        for block in _blocks(file, end - start):
            quoted = b'"' in block
            if quoted:
                break
            if not block.endswith(b"\n"):
                refuse_cut_line(path, header, block.rsplit(b"\n", 1)[-1], line + block.count(b"\n"))
                block += b"\n"
            line += block.count(b"\n")
            reader.feed(block)
    if quoted:
        reader = _read_quoted(path, header)
    return Ops(reader.table(), detect_format(header.columns), (path,), reader.warnings())


def _blocks(file: BinaryIO | io.RawIOBase, size: int) -> Iterator[bytes]:
    """Bytes from where the file stands, in pieces of whole lines."""
    rest = b""
    while size > 0:
        read = file.read(min(_BLOCK, size))
        if not read:
            break
        size -= len(read)
        end = read.rfind(b"\n") + 1
        if end:
            yield b"".join((rest, memoryview(read)[:end]))
            rest = read[end:]
        else:
            rest += read
    if rest:
        yield rest


def _read_quoted(path: Path, header: Header) -> RowReader:
    """A file with quotes, whose cells may hold commas and newlines: the csv module parts them."""
    reader = RowReader(path, header, 2, _UNIT, _RECORD)
    width = len(header.columns)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = csv.reader(file)
        rows: list[str] = []
        size = 0
        try:
            next(lines)
            start = lines.line_num
            for cells in lines:
                start, first = lines.line_num, start + 1
                if len(cells) != width and cells and start > first:
                    raise DamagedFile(path, "a quote opens here and does not close", first)
                if len(cells) != width and cells:
                    raise wrong_cells(path, header, lines.line_num, len(cells))
                row = "\x1f".join(cells)
                rows.append(row if row.count("\x1f") == width - 1 else _parted(cells))
                size += len(rows[-1])
                if size > _BLOCK:
                    reader.feed(_fed(rows))
                    rows, size = [], 0
        except csv.Error as error:
            raise DamagedFile(path, str(error), lines.line_num) from error
    reader.feed(_fed(rows))
    return reader


def _parted(cells: Sequence[str]) -> str:
    return "\x1f".join(cell.replace("\x1f", " ") for cell in cells)


def _fed(rows: Sequence[str]) -> bytes:
    kept = (row.replace("\x1e", " ") + "\x1e" for row in rows if row)
    return "".join(kept).encode("utf-8", "replace")


def load_hosts(paths: Sequence[Path]) -> Ops:
    """Read the CSVs of several hosts as one; devices of later hosts are numbered on.

    Raises:
        BadOption: the hosts have different numbers of devices, or no file is given.
    """
    if not paths:
        raise BadOption("no ops CSV was given")
    parts = [load(path) for path in paths]
    if len(parts) == 1:
        return parts[0]
    per_host: int | None = None
    frames: list[Table] = []
    for number, part in enumerate(parts):
        ids = part.frame["device_id"]
        usable = (ids % 1 == 0) & (ids >= 0)
        count = int(ids[usable].max()) + 1 if usable.any() else None
        if per_host is None:
            per_host = count
        elif count is not None and count != per_host:
            raise BadOption(
                f"{paths[number].name} has {count} devices, {paths[0].name} has {per_host}",
                "Give the CSVs of hosts of one system, each with all of its devices.",
            )
        on = np.where(usable, ids + number * (per_host or 0), ids)
        frames.append(part.frame.assign(device_id=on))
    merged = concat(frames)
    # As in a single file: the number of the row, counted on over all files.
    merged = merged.assign(line=np.arange(2, len(merged) + 2))
    warnings = tuple(w for part in parts for w in part.warnings)
    return Ops(merged, parts[0].format, tuple(paths), warnings)
