"""What else went on on the machine while a run was measured, and whether that is to be doubted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import number

#: Share of the machine's CPUs that others may keep busy before a warning is given.
BUSY_SHARE = 0.25
#: Kind of that warning.
BUSY = "busy-machine"
#: Drop of the CPU's clock, as a share of it, from which a warning is given.
SLOWER_SHARE = 0.1


def doubts(machine: Any) -> tuple[Caveat, ...]:
    """What `machine` of a run's facts gives reason to doubt; nothing where it was not recorded."""
    if not isinstance(machine, Mapping):
        return ()
    return (*_busy(machine), *_slower(machine), *_shared(machine))


def other_cpus(machine: Any) -> float | None:
    """CPUs that other processes kept busy on average; None where it was not recorded."""
    return number(machine.get("other_cpus")) if isinstance(machine, Mapping) else None


def is_busy(machine: Any) -> bool:
    """Whether others kept so much of the machine at work that no conclusion is to be drawn.

    Args:
        machine: of a run's facts, as :func:`doubts` takes it; False where it was not recorded.
    """
    if not isinstance(machine, Mapping):
        return False
    others, cpus = number(machine.get("other_cpus")), number(machine.get("cpus"))
    return others is not None and bool(cpus) and others >= BUSY_SHARE * (cpus or 0.0)


def _busy(machine: Mapping[str, Any]) -> list[Caveat]:
    others, cpus = number(machine.get("other_cpus")), number(machine.get("cpus"))
    if others is None or not cpus or not is_busy(machine):
        return []
    early = ", so the run ended early" if machine.get("ended_early") is True else ""
    text = (
        f"Machine busy: other processes used {others:.1f} of {cpus:.0f} CPUs{early}. Do not trust "
        "these times; measure again when it is quiet."
    )
    return [Caveat(BUSY, text)]


def _slower(machine: Mapping[str, Any]) -> list[Caveat]:
    before = number(machine.get("frequency_mhz_before"))
    after = number(machine.get("frequency_mhz_after"))
    if not before or not after or after > (1 - SLOWER_SHARE) * before:
        return []
    text = (
        f"The CPU's clock fell from {before:,.0f} to {after:,.0f} MHz during the run (heat, or a "
        "power limit): later steps are slower."
    )
    return [Caveat("slower-clock", text)]


def _shared(machine: Mapping[str, Any]) -> list[Caveat]:
    count = number(machine.get("device_holders"))
    if not count:
        return []
    who = "another process" if count == 1 else f"{count:.0f} other processes"
    text = f"{who.capitalize()} had the device open at the end of the run and may have used it."
    return [Caveat("shared-device", text)]
