"""An ops CSV, or a part of its bytes, to one table.

The table has one row per line of the file, signposts included, and the columns of
:mod:`.schema`: figures as float64 (NaN where blank), text and tensor dimensions (the cells as
written) as categoricals. ``line`` is the 1-based line in the file, which is also the ID that
tt-perf-report gives to an op.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from instrumentor_analysis.load.rows import RowReader
from instrumentor_analysis.load.scan import (
    Header,
    Region,
    Scan,
    read_header,
    refuse_cut_line,
    wrong_cells,
)
from instrumentor_analysis.load.schema import CsvFormat, detect_format
from instrumentor_analysis.load.table import Floats, Table, any_known, concat
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.errors import BadOption, DamagedFile
from instrumentor_analysis.shared.files import lines_of, opened, opened_text

SIGNPOST = "signpost"
DEVICE_OP = "tt_dnn_device"
#: Files up to this size are read as a whole, larger ones only where needed, bytes.
#: (a window alone lacks the core budgets that other rows report, so small files are not cut).
WHOLE_FILE_BYTES = 64 << 20
# Read at once, bytes; and rows of a file with quotes.
_BLOCK, _ROWS_AT_ONCE = 4 << 20, 4096
# No cell of a text file holds them: they part the cells of a file with quotes.
_UNIT, _RECORD = "\x1f", "\x1e"


class Ops(Struct, frozen=True):
    """Rows of one or several ops CSVs.

    Attributes:
        frame: the rows, in file order.
        format: by the header of the (first) file.
        sources: the files.
        warnings: what was odd, e.g. text in a column of figures.
    """

    frame: Table
    format: CsvFormat
    sources: tuple[Path, ...]
    warnings: tuple[Caveat, ...] = ()


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
    region = region or Region(len(header.raw), path.stat().st_size, 2)
    reader = RowReader(path, header, region.first_line)
    for block in _whole_lines(path, region):
        if b'"' in block:
            reader = _read_quoted(path, header)
            break
        if not block.endswith(b"\n"):
            refuse_cut_line(path, header, block.rpartition(b"\n")[2])
            block += b"\n"
        reader.feed(block)
    return Ops(reader.table(), detect_format(header.columns), (path,), reader.warnings())


def _whole_lines(path: Path, region: Region) -> Iterator[bytes]:
    with opened(path) as file:
        file.seek(region.start)
        while block := file.read(max(0, min(_BLOCK, region.end - file.tell()))):
            yield block if block.endswith(b"\n") else block + next(lines_of(file), b"")


def _read_quoted(path: Path, header: Header) -> RowReader:
    """A file with quotes, whose cells may hold commas and newlines: the csv module parts them."""
    reader = RowReader(path, header, 2, _UNIT.encode(), _RECORD.encode())
    rows = _quoted_rows(path, header)
    while some := "".join(itertools.islice(rows, _ROWS_AT_ONCE)):
        reader.feed(some.encode("utf-8", "replace"))
    return reader


def _quoted_rows(path: Path, header: Header) -> Iterator[str]:
    """Rows without quotes, parted by bytes that are no text."""
    width = len(header.columns)
    with opened_text(path, "replace", encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        try:
            next(lines)
            before = lines.line_num
            for cells in lines:
                first, before = before + 1, lines.line_num
                if cells and len(cells) != width:
                    if before > first:
                        raise DamagedFile(path, "a quote opens here and does not close", first)
                    raise wrong_cells(path, header, before, len(cells))
                row = _UNIT.join(cells)
                if row.count(_UNIT) >= width or _RECORD in row:
                    row = _UNIT.join(re.sub(f"[{_UNIT}{_RECORD}]", " ", cell) for cell in cells)
                if row:
                    yield row + _RECORD
        except csv.Error as error:
            raise DamagedFile(path, str(error), lines.line_num) from error


def device_ids(frame: Table) -> Floats:
    """DEVICE ID where it is one (whole, not negative), else NaN."""
    ids = frame["device_id"]
    return np.where((ids >= 0) & (ids % 1 == 0), ids, np.nan)


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
    ids = [device_ids(part.frame) for part in parts]
    counts = [int(np.nanmax(some)) + 1 if any_known(some) else None for some in ids]
    per_host = next((count for count in counts if count is not None), 0)
    for path, count in zip(paths, counts, strict=True):
        if count not in (None, per_host):
            raise BadOption(
                f"{path.name} has {count} devices, {paths[0].name} has {per_host}",
                "Give the CSVs of hosts of one system, each with all of its devices.",
            )
    merged = concat(
        [
            part.frame.assign(device_id=some + number * per_host)
            for number, (part, some) in enumerate(zip(parts, ids, strict=True))
        ]
    )
    # As in a single file: the number of the row, counted on over all files.
    merged = merged.assign(line=np.arange(2, len(merged) + 2))
    warnings = tuple(w for part in parts for w in part.warnings)
    return Ops(merged, parts[0].format, tuple(paths), warnings)
