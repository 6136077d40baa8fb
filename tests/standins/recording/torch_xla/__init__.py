"""Stand-in for torch_xla: records syncs and waits."""

import sys
import types

import events
import torch


def device():
    return torch.device("xla")


def sync(wait=False):
    events.add("sync")


def _optimizer_step(optimizer, barrier=False, **keywords):
    optimizer.step()
    if barrier:
        events.add("sync")


def _module(name, **content):
    module = types.ModuleType(name)
    module.__dict__.update(content)
    module.__path__ = []
    sys.modules[name] = module
    parent, _, word = name.rpartition(".")
    setattr(sys.modules[parent], word, module)


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
