"""Stand-in for torch_xla: records syncs and waits."""

import events
import torch
from torch import _module


def device():
    return torch.device("xla")


def sync(wait=False):
    events.add("sync")


def _optimizer_step(optimizer, barrier=False, **keywords):
    optimizer.step()
    if barrier:
        events.add("sync")


_module("torch_xla.core")
_module(
    "torch_xla.core.xla_model",
    mark_step=lambda **keywords: events.add("sync"),
    wait_device_ops=lambda *args: events.add("wait"),
    optimizer_step=_optimizer_step,
    xla_device=device,
    save=torch.save,
    get_rng_state=lambda *args: 0,
    set_rng_state=lambda *args: None,
)
_module(
    "torch_xla.runtime",
    clear_computation_cache=lambda: events.add("cache clear"),
    set_device_type=lambda kind: None,
)
