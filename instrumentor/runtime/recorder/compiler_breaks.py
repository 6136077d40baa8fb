"""What kept a compiler from making one program of a step, with the user's places.

Graph breaks and recompilations as dynamo has noted them, and ops that torch_xla runs on the host:
its counters say which, and the first sample's dispatch where they were called.
"""

import sys
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.watch import Place

BREAK, RECOMPILED, FALLBACK = "graph break", "recompiled", "fallback"
NEW_GRAPH, DROPPED = "new graph", "gradients dropped"


def write_causes(records: Records, called: Mapping[str, Mapping[Tuple[Place, ...], int]]) -> None:
    """An event for each cause, with how often it came.

    Args:
        called: by op, from where the first sample called it, and how often.
    """
    counts: Dict[Any, int] = {}
    spent_s: Dict[Any, float] = {}
    try:
        for kind, what, places, seconds, count in (*of_dynamo(), *of_xla(called)):
            key = kind, what, places
            counts[key] = counts.get(key, 0) + count
            spent_s[key] = spent_s.get(key, 0.0) + seconds
    except Exception as error:  # another version notes it in another way
        records.warn("what the compilers met cannot be read: %r" % (error,), "causes")
    for key, count in counts.items():
        kind, what, places = key
        milliseconds = spent_s[key] * 1000.0
        records.write("cause", kind=kind, what=what, places=places, count=count, ms=milliseconds)


Cause = Tuple[str, str, Tuple[Place, ...], float, int]


def of_dynamo() -> Iterator[Cause]:
    """Graph breaks, and functions that were compiled again and why."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    for each in getattr(utils, "graph_break_reasons", ()):
        places = tuple((f.filename, int(f.lineno or 0), f.name) for f in reversed(each.user_stack))
        yield BREAK, first_line(each.reason), places, 0.0, 1
    for each in getattr(utils, "get_compilation_metrics", list)():
        reason = getattr(each, "recompile_reason", None)
        if reason:
            place = (each.co_filename, int(each.co_firstlineno or 0), each.co_name)
            # "0/1: tensor 'x' size mismatch ...": the number is of the one that did not fit.
            what = first_line(reason).partition(": ")[2] or first_line(reason)
            yield RECOMPILED, what, (place,), float(each.entire_frame_compile_time_s or 0.0), 1


def of_xla(called: Mapping[str, Mapping[Tuple[Place, ...], int]]) -> Iterator[Cause]:
    """Ops of the first sample that torch_xla does not have, or that read a value."""
    for op in sorted(fallbacks()):
        for places, count in called.get(op, {}).items():
            yield FALLBACK, op, places, 0.0, count


def fallbacks() -> Dict[str, int]:
    """Ops that torch_xla has run on the host so far, and how often."""
    if "torch_xla" not in sys.modules:
        return {}
    lowest: Any = getattr(sys.modules["torch_xla"], "_XLAC", None)
    names: List[str] = getattr(lowest, "_xla_counter_names", list)()
    return {n: int(lowest._xla_counter_value(n)) for n in names if n.startswith("aten::")}


def first_line(text: Any) -> str:
    return str(text).strip().partition("\n")[0]
