"""Checks of the devices."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.device import find_smi
from instrumentor.device_nodes import Holder, device_holders, device_root
from instrumentor.doctor.model import Check, PlannedRun, Status


def devices(planned: PlannedRun) -> Iterator[Check]:
    """The device nodes."""
    devices = planned.machine.devices
    folder = planned.device_folder or device_root(planned.env)
    if devices:
        yield Check("device", Status.OK, ", ".join(map(str, devices)))
    elif planned.for_tracy:
        yield Check(
            "device",
            Status.FAILED,
            f"no Tenstorrent device in {folder}",
            "Load the driver (tt-kmd), or measure with --profiler torch or wallclock.",
        )
    else:
        yield Check("device", Status.OK, f"no Tenstorrent device; {planned.profiler} needs none")


def holders(planned: PlannedRun) -> Iterator[Check]:
    """Processes that have a device open."""
    if not planned.machine.devices:
        return
    holders = device_holders(planned.device_folder or device_root(planned.env))
    if not holders:
        yield Check("device-in-use", Status.OK, "no process has the device open")
    for holder in holders:
        yield planned.lacking("device-in-use", describe(holder), _ending(holder))


def describe(holder: Holder) -> str:
    """A process that has a device open, in one line."""
    return (
        f"process {holder.pid} of {holder.user} has had {', '.join(map(str, holder.devices))} "
        f"open, started {_ago(holder.age_s)}: {holder.command[:120]}"
    )


def _ending(holder: Holder) -> str:
    return (
        f"If it is left over: kill -INT {holder.pid}, then kill {holder.pid}; never kill -9, "
        "which leaves the device in a bad state."
    )


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} seconds ago"


def smi(planned: PlannedRun) -> Iterator[Check]:
    """tt-smi, which resets devices."""
    machine = planned.machine
    if not machine.devices:
        return
    found = find_smi(machine.python, planned.env)
    if found:
        yield Check("tt-smi", Status.OK, str(found))
    else:
        remedy = f"{machine.python} -m pip install tt-smi"
        yield Check("tt-smi", Status.WARNING, "tt-smi is missing: no reset is possible", remedy)
