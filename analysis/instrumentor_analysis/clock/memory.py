"""Memory of the script: its peaks, and what is held from step to step.

What is held at the end of a step grows with each when something keeps what the step made, such as a
list of losses that are still on the device.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from instrumentor_analysis.model import Memory, MemoryAt, Sample
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import number
from instrumentor_analysis.shared.units import size

#: Growths in a row from which it is one: allocators settle in the first steps.
FEWEST = 5
#: What the recorder calls the peak up to the first step under torch.profiler.
BEFORE = "before_profiled"


def memory(events: Sequence[Mapping[str, Any]], samples: Sequence[Sample]) -> Memory | None:
    """The last peaks that were read, and the samples; None where nothing was read."""
    allocated, resident, before = (
        next((number(e.get(key)) for e in reversed(events) if e["event"] == kind), None)
        for kind, key in (("memory", "bytes"), ("resident", "bytes"), ("resident", BEFORE))
    )
    profiled = any(each["event"] == "profiled" for each in events)
    told = tuple(
        MemoryAt(each.name, *map(each.memory.get, ("resident", "held", "held_l1")))
        for each in samples
        if each.memory
    )
    if allocated is resident is None and not told:
        return None
    return Memory(
        allocated_bytes=None if allocated is None else int(allocated),
        resident_bytes=None if resident is None else int(resident if before is None else before),
        before_profiled=before is not None if profiled else None,
        device_bytes=_most(each.device_bytes for each in told),
        device_room_bytes=_most(each.memory.get("room") for each in samples),
        l1_bytes=_most(each.l1_bytes for each in told),
        l1_room_bytes=_most(each.memory.get("room_l1") for each in samples),
        growth_bytes=_growth(samples),
        samples=told,
    )


def peak_of(found: Memory | None, profiler: str) -> str:
    """What the peak of the process is of, where that is not the script alone, start to end.

    Args:
        profiler: of the run.
    """
    if found is None or found.resident_bytes is None:
        return ""
    if found.before_profiled is not None:
        return "up to the first profiled step" if found.before_profiled else "with torch.profiler"
    return "with Tracy" if profiler == "tracy" else ""


def _most(sizes: Iterable[int | None]) -> int | None:
    return max((size for size in sizes if size is not None), default=None)


def _growth(samples: Sequence[Sample]) -> int | None:
    """Of the devices from one steady sample to the next; None unless each has grown."""
    held = [each.memory.get("held") for each in samples if each.kind == "steady"]
    known = [size for size in held if size is not None]
    more = [after - before for before, after in pairwise(known)]
    grows = len(more) >= FEWEST and min(more) > 0
    return round(statistics.median(more)) if grows else None


def growing(found: Memory | None) -> tuple[Caveat, ...]:
    """A warning where the devices hold more after each step, and when they are full."""
    if found is None or not found.growth_bytes or found.device_bytes is None:
        return ()
    text = f"Device memory grows by {size(found.growth_bytes)} with each step"
    if found.device_room_bytes is not None:
        free = found.device_room_bytes - found.device_bytes
        text += f": it is full after {max(0, free) // found.growth_bytes:,} more"
    hint = (
        "Do not keep tensors of a step: .item() or .detach().cpu() for a loss, ttnn.deallocate for "
        "the rest."
    )
    return (Caveat("memory-grows", f"{text}.", hint=hint),)
