"""torch_xla: ops are collected into a graph, which a sync cuts and runs."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect, Kind, Role

LIBRARY = Library(
    packages=("torch_xla",),
    roles=(
        (Role.SYNC, rows("torch_xla.", "sync mark_step core.xla_model.mark_step")),
        (Role.WAIT, ("torch_xla.core.xla_model.wait_device_ops",)),
        (Role.STEP, ("torch_xla.core.xla_model.optimizer_step",)),
        (Role.ACTIVATION_CHECKPOINT, ("torch_xla.utils.checkpoint.*",)),
        (Role.ACTIVATION_CHECKPOINT, ("torch_xla.distributed.fsdp.checkpoint_module",)),
        (Role.SAVE, rows("torch_xla.", "core.xla_model.save utils.serialization.save")),
        (Role.SPAWN, rows("torch_xla.", "distributed.xla_multiprocessing.spawn launch")),
        (Role.COMPILE, rows("torch_xla.", "compile experimental.compile core.xla_model.compile")),
        (Role.STEP_CONTEXT, ("torch_xla.step",)),
        (Role.PROFILER, rows("torch_xla.debug.profiler.", "start_* Trace")),
    ),
    makes=(
        (Kind.OPTIMIZER, ("torch_xla.amp.syncfree.*",)),
        (Kind.SCALER, ("torch_xla.amp.GradScaler",)),
    ),
    effects=(
        (
            Effect.PROCESS,
            rows("torch_xla.core.xla_model.", "all_* rendezvous* optimizer_step"),
        ),
        (Effect.LOADS, ("torch_xla.utils.serialization.load",)),
        (Effect.NOTHING, ("torch_xla.*",)),
    ),
    compilers=("torch_xla.*compile",),
)
