"""One invocation of a kernel, on the device or simulated: which of the two, and the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from instrumentor.kernels.device import DeviceRun
from instrumentor.kernels.options import KernelOptions
from instrumentor.kernels.pipeline import KernelPipeline, KernelRun
from instrumentor.kernels.simulate import SimulatedRun, without_device
from instrumentor.shared.progress import Progress

__all__ = ["KernelRun", "run_kernel"]


def run_kernel(
    script: Path | str,
    arguments: Sequence[str] = (),
    options: KernelOptions | None = None,
    progress: Progress | None = None,
) -> KernelRun:
    """Measure one invocation of one kernel; the user's files stay as they are.

    It is simulated where that was asked for, or where there is no device and the simulator is
    installed, which is said.

    Args:
        script: the script that invokes the kernel.
        arguments: its own arguments.

    Raises:
        Declined, UsageError, NotReady, ProofFailed: before anything is started.
        RunFailed, Interrupted: the script failed, or not exactly one invocation ran.
    """
    options = options or KernelOptions()
    why = "" if options.simulated.simulate else without_device(options, Path(script))
    if why and progress is not None:
        progress.note(why)
    kind: type[KernelPipeline] = SimulatedRun if options.simulated.simulate or why else DeviceRun
    return kind(script, arguments, options, progress).go()
