"""Checks of the script's interpreter, of the devices and of the disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from instrumentor.locate.experiment_yaml import chips_of
from instrumentor.machine.device_locks import find_smi
from instrumentor.machine.device_nodes import SIMULATOR_VARIABLE, Holder
from instrumentor.machine.load import busy_lately
from instrumentor.run.ready.doctor.model import Check, PlannedRun, Status
from instrumentor_analysis.reports.formatting import plural

OLDEST_PYTHON = (3, 8)  # for which recorder, launcher and hook are written: they run in the script
NEEDED_BYTES = 200 * 2**20  # less stops a run
WISHED_BYTES = 2 * 2**30  # less is a warning
CHIPS_OF_A_BOARD = 2  # at most, behind one node: an n300 has the second one behind the first


def interpreter(planned: PlannedRun) -> Iterator[Check]:
    """The script's interpreter, and what was passed over for it."""
    machine = planned.machine
    shown = machine.python_version or "of an unknown version"
    text = f"{machine.python} (Python {shown}, {machine.interpreter.source})"
    if not machine.asked:
        text += " comes with the project: not started, its folders were read"
        yield Check("interpreter", Status.WARNING, text, f"To ask it: --python {machine.python}")
    elif tuple(map(int, machine.python_version.split(".")[:2])) < OLDEST_PYTHON:
        yield Check("interpreter", Status.FAILED, text, "Python 3.8 or newer is needed.")
    else:
        yield Check("interpreter", Status.OK, text)
    for note in machine.interpreter.notes:
        remedy = "Activate the environment again, or name the interpreter with --python."
        yield Check("interpreter", Status.WARNING, note, remedy)


def torch(planned: PlannedRun) -> Iterator[Check]:
    """Whether that interpreter has torch."""
    machine = planned.machine
    if machine.has("torch"):
        yield Check("torch", Status.OK, f"torch {machine.version_of('torch') or 'from a folder'}")
        return
    needed = planned.needs_torch or planned.profiler == "torch"
    status = Status.FAILED if needed else Status.WARNING
    remedy = (
        "Activate the script's environment, or name its interpreter: --python PATH. If the script "
        "finds torch by itself: --profiler wallclock."
    )
    passed_over = "".join(f"; {note}" for note in machine.interpreter.notes)
    yield Check("torch", status, f"no torch in {machine.python}{passed_over}", remedy)


def devices(planned: PlannedRun) -> Iterator[Check]:
    """The device nodes, or the simulator in their place."""
    devices, simulator = planned.machine.devices, planned.machine.simulator
    if simulator is not None and simulator.exists():
        text = f"simulated: {simulator}; its results are real, its times measure nothing"
        yield Check("device", Status.OK, text)
    elif simulator is not None:
        text = f"{SIMULATOR_VARIABLE} names {simulator}, which is not there"
        remedy = f"Name the simulator's library, or unset {SIMULATOR_VARIABLE} for a device."
        yield Check("device", Status.FAILED, text, remedy)
    elif devices:
        yield Check("device", Status.OK, ", ".join(map(str, devices)))
    elif planned.for_tracy:
        yield Check(
            "device",
            Status.FAILED,
            f"no Tenstorrent device in {planned.device_root}",
            "Load the driver (tt-kmd), or measure with --profiler torch or wallclock; "
            f"{SIMULATOR_VARIABLE}=PATH has tt-metal use a simulator.",
        )
    else:
        text = f"no Tenstorrent device; {planned.profiler} needs none"
        if not planned.machine.has("ttnn"):
            yield Check("device", Status.OK, text)
            return
        text += ", but a script that opens one through ttnn ends there"
        remedy = f"{SIMULATOR_VARIABLE}=PATH has tt-metal use a simulator."
        yield Check("device", Status.WARNING, text, remedy)


def chips(planned: PlannedRun) -> Iterator[Check]:
    """Whether there are the chips that a mesh asks for: a node is a board of one chip, or two."""
    needed, nodes = chips_of(planned.config), len(planned.machine.devices)
    if needed == 1 or not nodes:  # without a node the script may mean other devices
        return
    asked = f"the configuration's mesh asks for {needed} chips"
    there = f"this machine has {plural(nodes, 'device node')}"
    if nodes >= needed:
        yield Check("chips", Status.OK, f"{asked}, {there}")
    elif CHIPS_OF_A_BOARD * nodes >= needed:
        text = f"{asked}, {there}: enough on boards of two chips (n300)"
        yield Check("chips", Status.WARNING, text, "tt-smi -ls shows the chips of each board.")
    else:
        remedy = "Give a YAML with a smaller mesh, or run it on a machine with that many chips."
        yield Check("chips", Status.FAILED, f"{asked}, {there}", remedy)


def kernel_simulator(planned: PlannedRun) -> Iterator[Check]:
    """tt-lang's simulator, which runs kernels where there is no device."""
    machine = planned.machine
    if machine.simulates_kernels:
        version = machine.version_of("ttl") or "of a checkout"
        yield Check("tt-lang-sim", Status.OK, f"tt-lang-sim {version}: kernel run --simulate")


def holders(planned: PlannedRun) -> Iterator[Check]:
    """Processes that have a device open."""
    found = planned.holders() if planned.machine.devices else ()
    if planned.machine.devices and not found:
        yield Check("device-in-use", Status.OK, "no process has the device open")
    for holder in found:
        ending = (
            f"If it is left over: kill -INT {holder.pid}, then kill {holder.pid}; never kill -9, "
            "which leaves the device in a bad state."
        )
        yield planned.lacking("device-in-use", describe(holder), ending)


def describe(holder: Holder) -> str:
    """A process that has a device open, in one line."""
    units = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
    # At least two of a unit, so that its name is always plural.
    size, unit = next(((n, name) for n, name in units if holder.age_s >= 2 * n), units[-1])
    return (
        f"process {holder.pid} of {holder.user} has had {', '.join(map(str, holder.devices))} "
        f"open, started {holder.age_s // size:.0f} {unit} ago: {holder.command[:120]}"
    )


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


def load(_planned: PlannedRun) -> Iterator[Check]:
    """Whether other processes would spoil the times of a run that starts now."""
    if busy := busy_lately():
        remedy = "Times measured now are not to be trusted: wait until it is quiet (top)."
        yield Check("load", Status.WARNING, busy, remedy)


def space(planned: PlannedRun) -> Iterator[Check]:
    """Room where the run will write."""
    for folder in planned.folders:
        # The run will make the folder: until then its nearest parent tells which disk it is on.
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        text = f"{free / 2**30:.1f} GiB free in {there}"
        if free >= WISHED_BYTES:
            yield Check("disk", Status.OK, text)
            continue
        status = Status.FAILED if free < NEEDED_BYTES else Status.WARNING
        remedy = "Make room, or choose other folders with TMPDIR and --output."
        yield Check("disk", status, text, remedy)
