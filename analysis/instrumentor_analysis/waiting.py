"""How the samples waited for their device, from the recorder's events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from instrumentor_analysis.caveats import Caveat
from instrumentor_analysis.documents import number
from instrumentor_analysis.model import Barrier


def barrier(events: Sequence[Mapping[str, Any]]) -> Barrier | None:
    """The barrier of the last sample and what checks found; None where nothing can be pending."""
    waited = [e for e in events if e["event"] == "sample" and e.get("barrier")]
    if not waited:
        return None
    device, method = str(waited[-1].get("device")), str(waited[-1]["barrier"])
    passed: Mapping[str, Any] = {}
    given_up: dict[str, float] = {}
    for each in events:
        if each["event"] != "barrier" or each.get("device") != device:
            continue
        left, used = number(each.get("left_ms")), str(each.get("method"))
        if each.get("idle") is True and used == method:
            passed = each
        elif each.get("idle") is False and used != method:
            given_up[used] = max(left or 0.0, given_up.get(used, 0.0))
    return Barrier(
        device=device,
        method=method,
        left_ms=number(passed.get("left_ms")),
        tensors_read=int(number(passed.get("reads")) or 0),
        given_up=given_up,
    )


def remarks(events: Sequence[Mapping[str, Any]]) -> Iterator[Caveat]:
    """Warnings: steps that are no samples, and barriers that nothing has confirmed."""
    refused = [e for e in events if e["event"] == "refused"]
    if refused:
        count = len(refused)
        yield Caveat(
            "not-waited-for",
            f"{count} {'step was' if count == 1 else 'steps were'} not counted as "
            f"{'a sample' if count == 1 else 'samples'}: {refused[-1].get('reason')}",
            hint="return the loss from the step as a tensor, or keep the model visible in the loop",
        )
    found = barrier(events)
    if found is not None and found.left_ms is None:
        yield Caveat(
            "barrier-unconfirmed",
            f"it was not confirmed that {found.method} leaves nothing pending on the device "
            f"{found.device}: no tensor of the step was in sight to be read",
            "wrong",
        )
