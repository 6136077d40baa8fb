"""Ways to measure a run: Tracy on the device, torch.profiler, or the wall clock alone.

In: a script in its place; out: the command that measures it, and the files that it left.
"""

from __future__ import annotations

from instrumentor.machine.environment import Machine
from instrumentor.run.profilers.base import Artifacts, Launch, LaunchRequest, Profiler
from instrumentor.run.profilers.torch import TorchProfiler
from instrumentor.run.profilers.tracy import Tracy
from instrumentor.run.profilers.wallclock import Wallclock
from instrumentor.shared.errors import NotReady, UsageError

__all__ = [
    "PROFILERS",
    "Artifacts",
    "Launch",
    "LaunchRequest",
    "Profiler",
    "choose",
]

TRACY = Tracy()
TORCH = TorchProfiler()
WALLCLOCK = Wallclock()
PROFILERS: tuple[Profiler, ...] = (TRACY, TORCH, WALLCLOCK)


def choose(
    requested: str, machine: Machine, instead: str = "use --profiler auto"
) -> tuple[Profiler, str]:
    """Pick a profiler, and say in one line why.

    Args:
        requested: ``auto``, ``tracy``, ``torch`` or ``wallclock``.
        instead: what else can be done where the one asked for is not there.

    Raises:
        UsageError: there is no such profiler.
        NotReady: the one asked for cannot work on this machine.
    """
    if requested == "auto":
        return _automatic(machine)
    named = {profiler.name: profiler for profiler in PROFILERS}
    if requested not in named:
        raise UsageError(
            f"There is no profiler called {requested!r}.",
            f"Use auto, {', '.join(named)}.",
        )
    # The other profilers are named after the package that they need.
    if requested != "wallclock" and not machine.has(requested):
        raise NotReady(
            f"{requested} is not installed in {machine.python}.",
            f"Name the script's interpreter with --python, or {instead}.",
        )
    return named[requested], f"{requested}: asked for"


def _automatic(machine: Machine) -> tuple[Profiler, str]:
    if machine.device and machine.has("tracy"):
        if machine.untraced is not None:
            why = f"{machine.untraced} is built without Tracy, so it cannot time the device"
            return WALLCLOCK, f"wallclock: {why}"
        return TRACY, f"tracy: {machine.device} and the tracy package are there"
    if machine.device:
        without_tracy = "a Tenstorrent device, but no tracy package in the interpreter"
    else:
        without_tracy = "no Tenstorrent device on this machine"
    if machine.has("torch"):
        return TORCH, f"torch: {without_tracy}"
    return WALLCLOCK, f"wallclock: {without_tracy}, and no torch in {machine.python}"
