"""Checks of the script's interpreter."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.doctor.model import Check, PlannedRun, Status

OLDEST_PYTHON = (3, 8)


def interpreter(planned: PlannedRun) -> Iterator[Check]:
    """The script's interpreter, and what was passed over for it."""
    machine = planned.machine
    shown = machine.python_version or "of an unknown version"
    text = f"{machine.python} (Python {shown}, {machine.python_source})"
    if not machine.asked:
        text += " comes with the project: not started, its folders were read"
        yield Check("interpreter", Status.WARNING, text, f"To ask it: --python {machine.python}")
    elif tuple(map(int, machine.python_version.split(".")[:2])) < OLDEST_PYTHON:
        yield Check("interpreter", Status.FAILED, text, "Python 3.8 or newer is needed.")
    else:
        yield Check("interpreter", Status.OK, text)
    for note in machine.notes:
        remedy = "Activate the environment again, or name the interpreter with --python."
        yield Check("interpreter", Status.WARNING, note, remedy)


def torch(planned: PlannedRun) -> Iterator[Check]:
    """Whether that interpreter has torch."""
    machine = planned.machine
    if machine.has("torch"):
        yield Check("torch", Status.OK, f"torch {machine.version_of('torch') or 'from a folder'}")
        return
    status = Status.FAILED if planned.profiler == "torch" else Status.WARNING
    remedy = "Name the interpreter that the script runs under with --python."
    yield Check("torch", status, f"no torch in {machine.python}", remedy)
