"""Source locations out of Tracy's messages, for an ops CSV that lacks the LOC column."""

from __future__ import annotations

from pathlib import Path

from instrumentor_analysis.perf_trace import DEVICE_BITS, read_messages
from instrumentor_analysis.table import Categorical, Table

LOGS = "tracy_ops_data.csv"


def with_locations(ops: Table, messages: Path) -> Table:
    """A per-op frame with ``location`` and ``const_eval`` of the messages; as it is without any."""
    described = {count >> DEVICE_BITS: told for count, told in read_messages(messages).items()}
    if not any(told["LOC"] for told in described.values()):
        return ops
    calls = [None if c != c else int(c) >> DEVICE_BITS for c in ops["global_call_count"].tolist()]
    told = [{} if call is None else described.get(call, {}) for call in calls]
    return ops.assign(
        location=Categorical.of([each.get("LOC", "").strip() or None for each in told]),
        const_eval=Categorical.of([each.get("CONST_EVAL_OP") or None for each in told]),
    )
