"""What else went on on the machine while a run was measured, and whether that is to be doubted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from instrumentor_analysis.model import Busy
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import number

#: Share of the machine's CPUs that others may keep busy before a warning is given.
BUSY_SHARE = 0.25
#: What the system's count of a CPU's time may be off, seconds: two of its ticks.
OFF_S = 0.02
#: Kind of that warning.
BUSY = "busy-machine"
#: Drop of the CPU's clock, as a share of it, from which a warning is given.
SLOWER_SHARE = 0.1


class Beside(Struct, frozen=True):
    """What other processes did while extra steps of one kind ran, by the names of the record.

    Attributes:
        of: the kind.
        others_s: CPU time of theirs.
    """

    of: str = ""
    seconds: float = 0.0
    others_s: float = 0.0
    cpus: int = 1


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
    return busy(machine) is not None


def busy(machine: Any) -> Busy | None:
    """What others kept at work, where :func:`is_busy`."""
    if not isinstance(machine, Mapping):
        return None
    others, cpus = number(machine.get("other_cpus")), number(machine.get("cpus"))
    if others is None or not cpus or others < BUSY_SHARE * cpus:
        return None
    return Busy(others, round(cpus))


def busy_beside(taken: Iterable[Beside], of: str) -> Busy | None:
    """What others kept at work during the extra steps of a kind, where it was as much.

    Such steps may be over in tenths of a second, of which the system's count is not exact.
    """
    mine = [each for each in taken if each.of == of and each.seconds > 0 and each.cpus > 0]
    if not mine:
        return None
    seconds, others_s = sum(x.seconds for x in mine), sum(x.others_s for x in mine)
    cpus = mine[0].cpus
    if others_s < cpus * (BUSY_SHARE * seconds + OFF_S):
        return None
    return Busy(others_s / seconds, cpus)


def said(found: Busy, more: str = "") -> str:
    """``Machine busy: other processes used 1.3 of 2 CPUs. Do not trust these times``."""
    used = f"other processes used {found.other_cpus:.1f} of {found.cpus} CPUs"
    return f"Machine busy: {used}{more}. Do not trust these times"


def disturbed(extra: Mapping[str, Busy]) -> Iterator[Caveat]:
    """What is said of extra steps that others disturbed though the samples were not.

    Args:
        extra: by what these steps tell (`phases`, `ops`).
    """
    if not extra:
        return
    most, of = max(extra.values(), key=lambda each: each.other_cpus), " and ".join(extra)
    used = f"Other processes used {most.other_cpus:.1f} of {most.cpus} CPUs"
    text = f"{used} while the extra steps for the {of} ran. Do not trust the times of the {of}."
    yield Caveat("busy-extra-steps", text)


def _busy(machine: Mapping[str, Any]) -> list[Caveat]:
    found = busy(machine)
    if found is None:
        return []
    early = ", so the run ended early" if machine.get("ended_early") is True else ""
    return [Caveat(BUSY, f"{said(found, early)}; measure again when it is quiet.")]


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
