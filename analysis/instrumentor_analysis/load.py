"""An ops CSV, or a part of its bytes, to one typed frame.

The frame has one row per line of the file, signposts included, and the columns of
:mod:`.schema`: figures as float64 (NaN where blank), text as categoricals, tensor
dimensions as categoricals of the cells as written. ``line`` is the 1-based line in the file,
which is also the ID that tt-perf-report gives to an op.
"""

from __future__ import annotations

import io
import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor_analysis.errors import BadOption, DamagedFile
from instrumentor_analysis.scan import Header, Scan, check_rows, read_header, scan, wrong_cells
from instrumentor_analysis.schema import (
    NUMBERS,
    TEXT,
    CsvFormat,
    detect_format,
    dimension_columns,
    wanted_columns,
)

if TYPE_CHECKING:
    import pandas as pd

SIGNPOST = "signpost"
DEVICE_OP = "tt_dnn_device"
#: Files up to this size are read as a whole, larger ones only where needed, bytes.
WHOLE_FILE_BYTES = 64 << 20


@dataclass(frozen=True)
class Region:
    """Whole lines of a file: byte offsets, and the 1-based number of the first line."""

    start: int
    end: int
    first_line: int


@dataclass(frozen=True)
class Ops:
    """Rows of one or several ops CSVs.

    Attributes:
        frame: the rows, in file order; see the module's docstring.
        format: by the header of the (first) file.
        sources: the files.
        warnings: what was odd, e.g. text in a column of figures.
    """

    frame: pd.DataFrame
    format: CsvFormat
    sources: tuple[Path, ...]
    warnings: tuple[str, ...] = ()


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
    if region is None:
        check_rows(scan(path) if scanned is None else scanned)
        raw = _read(path, header, path, 2)
    else:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            body = view[region.start : region.end]
        _check_cells(path, header, body, region.first_line)
        raw = _read(path, header, io.BytesIO(header.raw + body), region.first_line)
    frame, warnings = raw
    return Ops(frame, detect_format(header.columns), (path,), tuple(warnings))


def load_hosts(paths: Sequence[Path]) -> Ops:
    """Read the CSVs of several hosts as one; devices of later hosts are numbered on.

    Raises:
        BadOption: the hosts have different numbers of devices, or no file is given.
    """
    import pandas as pd

    if not paths:
        raise BadOption("no ops CSV was given")
    parts = [load(path) for path in paths]
    if len(parts) == 1:
        return parts[0]
    per_host: int | None = None
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
        part.frame.loc[usable, "device_id"] += number * (per_host or 0)
    frames = [part.frame for part in parts]
    texts = [c for c in frames[0].columns if isinstance(frames[0][c].dtype, pd.CategoricalDtype)]
    merged = pd.concat(
        [f.astype({c: "object" for c in texts if c in f.columns}) for f in frames],
        ignore_index=True,
    )
    # As in a single file: the number of the row, counted on over all files.
    merged["line"] = range(2, len(merged) + 2)
    merged = merged.astype(dict.fromkeys(texts, "category"))
    warnings = tuple(w for part in parts for w in part.warnings)
    return Ops(merged, parts[0].format, tuple(paths), warnings)


def _read(
    path: Path, header: Header, source: Path | io.BytesIO, first_line: int
) -> tuple[pd.DataFrame, list[str]]:
    import numpy as np
    import pandas as pd

    wanted = wanted_columns(header.columns)
    numeric = set(NUMBERS)
    dtypes: dict[str, Any] = {c: np.float64 if c in numeric else "category" for c in wanted}
    warnings: list[str] = []
    try:
        frame = _parse(source, dtypes)
    except pd.errors.ParserError as error:
        raise _damaged(path, str(error), first_line) from error
    except ValueError:
        # Text among the figures: read them as text, keep what is a number, name the rest.
        frame = _parse(
            source, {c: "category" if d == "category" else "str" for c, d in dtypes.items()}
        )
        for column in sorted(numeric & set(wanted)):
            frame[column], odd = _numbers(frame[column])
            if odd:
                warnings.append(
                    f"{path.name}, line {odd[0] + first_line}, column {column!r}: "
                    f"{odd[1]!r} is not a number and counts as blank ({odd[2]} such cells)"
                )
    frame = frame.rename(columns=wanted)
    for ours in frame.columns.intersection(list(TEXT.values())):
        # A column that happens to hold only numbers or truth values is text all the same.
        texts = [str(value) for value in frame[ours].cat.categories]
        frame[ours] = frame[ours].cat.rename_categories(texts)
    for ours in (*NUMBERS.values(), *dimension_columns(header.columns).values()):
        if ours not in frame.columns:
            frame[ours] = np.nan
    frame["line"] = np.arange(first_line, first_line + len(frame))
    return frame, warnings


def _parse(source: Path | io.BytesIO, dtypes: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    if isinstance(source, io.BytesIO):
        source.seek(0)
    return pd.read_csv(
        source,
        usecols=list(dtypes),
        dtype=dtypes,
        index_col=False,
        encoding="utf-8-sig",
        encoding_errors="replace",
    )


def _numbers(text: pd.Series[Any]) -> tuple[pd.Series[float], tuple[int, str, int] | None]:
    """Text to float64; and the first cell that is no finite number: position, text, how many."""
    import numpy as np
    import pandas as pd

    numbers = pd.to_numeric(text, errors="coerce").astype("float64")
    numbers = numbers.where(np.isfinite(numbers))
    bad = np.flatnonzero((numbers.isna() & text.notna()).to_numpy())
    if len(bad) == 0:
        return numbers, None
    return numbers, (int(bad[0]), str(text.iloc[int(bad[0])]), len(bad))


def _check_cells(path: Path, header: Header, body: bytes, first_line: int) -> None:
    """As :func:`instrumentor_analysis.scan.check_rows`, for some lines."""
    per_row = len(header.columns) - 1
    rows = body.count(b"\n") + (not body.endswith(b"\n") and bool(body))
    if body.count(b",") == rows * per_row:
        return
    for offset, line in enumerate(body.splitlines()):
        if line.strip() and line.count(b",") != per_row:
            raise wrong_cells(path, header, first_line + offset, line.count(b",") + 1)


def _damaged(path: Path, message: str, first_line: int) -> DamagedFile:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    if not found:
        return DamagedFile(path, message.strip())
    expected, line, saw = (int(group) for group in found.groups())
    return DamagedFile(path, f"{saw} cells where the header has {expected}", line + first_line - 2)
