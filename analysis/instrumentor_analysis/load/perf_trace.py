"""``device_ops_perf_trace.csv``: Tracy's ops CSV with the compiler's view of each op beside it.

On runtimes built with perf tracing, ``tracy_ops_data.csv`` holds messages ahead of the ops that
they describe: ``MLIR_OP_LOCATION;loc(...);<ns>``, ``MLIR_CONST_EVAL_OP;true|false;<ns>`` and
``MLIR_PROGRAM_METADATA;...;<ns>``. They become the columns LOC, CONST_EVAL_OP and
PROGRAM_METADATA, joined by GLOBAL CALL COUNT; every column of Tracy's stays as it is.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.load.schema import SIMULATED
from instrumentor_analysis.shared.files import becoming, created, opened_text

COLUMNS = {
    "LOC": "MLIR_OP_LOCATION;",
    "CONST_EVAL_OP": "MLIR_CONST_EVAL_OP;",
    "PROGRAM_METADATA": "MLIR_PROGRAM_METADATA;",
}
CALL_COUNT = "GLOBAL CALL COUNT"
ARCH = "DEVICE ARCH"
#: GLOBAL CALL COUNT is the op's number shifted by so many bits, with the device below.
DEVICE_BITS = 10
_OPS = ("TT_DNN_DEVICE_OP", "TT_METAL_DEVICE_OP", "TT_DNN_FALL_BACK_OP")
_COUNT = re.compile(r",\s*(\d{1,20})\s*(?:->|`)")
_TIME = re.compile(r";\d+\s*$")


class Joined(Struct, frozen=True):
    """What was written.

    Attributes:
        rows: rows of device operations; signposts and host rows are not counted.
        located: of these, rows with a LOC.
    """

    rows: int
    located: int


def read_messages(path: Path) -> dict[int, Mapping[str, str]]:
    """The three columns by global call count, as the messages give it."""
    found: dict[int, Mapping[str, str]] = {}
    current = dict.fromkeys(COLUMNS, "")
    with opened_text(path, "replace") as lines:
        for line in lines:
            for column, prefix in COLUMNS.items():
                if line.startswith(prefix):
                    text = _TIME.sub("", line[len(prefix) :].rstrip("\r\n"))
                    current = {**current, column: text}
            if any(word in line for word in _OPS):
                counts = _COUNT.findall(line)
                if counts:
                    found[int(counts[-1])] = current
    return found


def join(ops_csv: Path, messages: Path | None, target: Path, *, simulated: bool = False) -> Joined:
    """Write Tracy's CSV with the three columns; a row that nothing describes has them empty.

    Args:
        ops_csv: ``ops_perf_results_*.csv``.
        messages: ``tracy_ops_data.csv`` of the same run; None when there is none.
        simulated: of a simulated device, which DEVICE ARCH then says of each op: no reader takes
            its cycles for times.

    Raises:
        OSError: a file cannot be read or written.
    """
    described = {} if messages is None else read_messages(messages)
    # A device in the low bits: messages name it in some versions, in others not.
    by_op = {count >> DEVICE_BITS: columns for count, columns in described.items()}
    rows = located = 0
    with (
        opened_text(ops_csv, "replace", newline="") as source,
        becoming(target) as temporary,
        io.TextIOWrapper(created(temporary), encoding="utf-8", newline="") as stream,
    ):
        reader = csv.DictReader(source)
        names = list(reader.fieldnames or ())
        added = [column for column in COLUMNS if column not in names]
        writer = csv.DictWriter(stream, [*names, *added], restval="", extrasaction="ignore")
        writer.writeheader()
        for row in reader:
            count = _whole(row.get(CALL_COUNT))
            if count is not None:
                entry = described.get(count) or by_op.get(count >> DEVICE_BITS, {})
                row.update({column: entry[column] for column in added if column in entry})
                rows += 1
                if simulated:
                    row[ARCH] = SIMULATED
                located += bool(row.get("LOC"))
            writer.writerow(row)
    return Joined(rows, located)


def _whole(text: str | None) -> int | None:
    """A call count; None for a signpost's blank and for whatever is no whole number."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return int(number) if number.is_integer() else None
