"""Which steps compiled: by the counters of who compiles, else by a time far above all others.

Counters are read of modules that the script has loaded, and never written. A device that nobody
counts for, such as one that is compiled for on its first use of a shape, is judged by its times
once they are all there; on the CPU nothing compiles that dynamo does not count.
"""

import sys
from typing import Any, Dict, List, Optional, Tuple

from instrumentor.runtime.recorder.records import Records

#: A step without counters compiled when it took so many times as long as the middle one,
TIMES = 5.0
#: and so many milliseconds longer,
LONGER_MS = 500.0
#: and the rest agree: the slowest of them took at most so many times as long as the fastest.
AGREE = 2.0


class Compilations:
    """Graphs that were compiled within each sample."""

    def __init__(self, records: Records) -> None:
        self.before: Dict[str, int] = {}

    def begin(self, batch: Tuple[Any, ...], resumed: bool) -> None:
        """Read the counters ahead of the step."""
        if not resumed:
            self.before = counted()

    def end(self, values: Tuple[Any, ...], batch: Tuple[Any, ...]) -> Dict[str, Any]:
        """By whom how many were compiled since; nothing when none were."""
        now = counted()
        more = {who: count - self.before.get(who, 0) for who, count in now.items()}
        found = {who: count for who, count in more.items() if count > 0}
        return {"compiled": found} if found else {}


def counted() -> Dict[str, int]:
    """Graphs compiled in this process so far, by each that counts them."""
    found: Dict[str, int] = {}
    try:
        lowest = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
        if lowest is not None:
            # What torch_xla.debug.metrics.metric_data reads; that module may not be loaded.
            data = lowest._xla_metric_data("CompileTime")
            found["torch_xla"] = int(data[0]) if data else 0
        dynamo = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if dynamo is not None:
            found["torch._dynamo"] = int((dynamo.get("stats") or {}).get("unique_graphs", 0))
    except Exception:  # another version counts in another way
        return {}
    return found


def far_above(samples: List[Tuple[str, float]], device: Optional[str]) -> List[str]:
    """Names of steady samples that must have compiled, by their milliseconds alone.

    None on the CPU and where torch_xla counts: there it was a pause.
    """
    if device in (None, "cpu", "unknown") or "torch_xla" in counted() or len(samples) < 3:
        return []
    times = sorted(ms for _, ms in samples)
    middle = times[(len(times) - 1) // 2]
    limit = max(TIMES * middle, middle + LONGER_MS)
    rest = [ms for ms in times if ms <= limit]
    if len(rest) < 2 or rest[-1] > AGREE * rest[0]:
        return []
    return [name for name, ms in samples if ms > limit]
