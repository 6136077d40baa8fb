"""Source locations out of Tracy's messages, for an ops CSV that lacks the LOC column.

On runtimes built with perf tracing, ``.logs/tracy_ops_data.csv`` holds, before the messages of the
ops they describe, ``MLIR_OP_LOCATION;loc("file":line:col);<ns>`` and
``MLIR_CONST_EVAL_OP;true|false;<ns>``. An op's message ends in its global call count, whose low
ten bits are the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.table import Categorical, Table

LOGS = "tracy_ops_data.csv"
_DEVICE_BITS = 10
_LOCATION, _CONST_EVAL = "MLIR_OP_LOCATION;", "MLIR_CONST_EVAL_OP;"
_OP = "TT_DNN_DEVICE_OP"
_CALL_COUNT = re.compile(r",\s*(\d+)\s*(?:->|`)")
_TIME = re.compile(r";\d+\s*$")


class Described(Struct, frozen=True):
    """What the messages say of one op."""

    location: str | None
    const_eval: bool


def find_messages(folder: Path) -> Path | None:
    """The message log of a run folder, or None.

    Of a Tracy folder with several reports there is none to be had: every run wipes ``.logs``, so
    the one that lies there may belong to another report.
    """
    path = folder / "tracy_profile" / ".logs" / LOGS
    return path if path.is_file() else None


def read_messages(path: Path) -> dict[int, Described]:
    """Location and const-eval flag by call count, the device bits dropped."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        return _described(lines)


def _described(lines: Iterable[str]) -> dict[int, Described]:
    found: dict[int, Described] = {}
    location: str | None = None
    const_eval = False
    for line in lines:
        if line.startswith(_LOCATION):
            location = _TIME.sub("", line[len(_LOCATION) :]).strip() or None
        elif line.startswith(_CONST_EVAL):
            const_eval = _TIME.sub("", line[len(_CONST_EVAL) :]).strip().lower() == "true"
        elif _OP in line:
            counts = _CALL_COUNT.findall(line)
            if counts:
                found[int(counts[-1]) >> _DEVICE_BITS] = Described(location, const_eval)
    return found


def with_locations(ops: Table, described: dict[int, Described]) -> Table:
    """A per-op frame with ``location`` and ``const_eval`` of the messages; as it is without any."""
    if not any(entry.location for entry in described.values()):
        return ops
    calls = [None if c != c else int(c) >> _DEVICE_BITS for c in ops["global_call_count"].tolist()]
    entries = [None if call is None else described.get(call) for call in calls]
    return ops.assign(
        location=Categorical.of([e.location if e else None for e in entries]),
        const_eval=Categorical.of([str(e.const_eval) if e else None for e in entries]),
    )
