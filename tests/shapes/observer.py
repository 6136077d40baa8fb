"""Watches a script from outside the tool: when its forwards, backwards and updates really happened.

Nothing of the tool is used or changed. All times are ``time.perf_counter``, the clock of the
samples. Every reading of that clock is kept together with autograd's sequence number, which grows
with each node made in a forward: so it is known for any two readings which nodes were made between
them, and the graph that a backward walks tells which forward work fed it.
"""

import hashlib
import json
import os
import time
from pathlib import Path

ACCUMULATE = 2**64 - 1  # the number of nodes that stand for a leaf


class Observer:
    """What was seen; ``save`` writes it."""

    def __init__(self, path: str) -> None:
        self.path, self.pid = path, os.getpid()
        self.depth = 0
        self.inputs = hashlib.sha256()  # of the forwards since the last backward
        self.seen: dict[str, list] = {
            "readings": [],  # [seconds, sequence number]
            "backwards": [],  # {start, end, oldest, value, inputs}
            "updates": [],  # {start, end, gradients, bits}
            "without_graph": [],  # [seconds, name of the module]
        }

    def save(self) -> None:
        """Write all of it as JSON, in the process that was watched."""
        if self.path and os.getpid() == self.pid:
            Path(self.path).write_text(json.dumps(self.seen), encoding="utf-8")


def install(path: str) -> Observer:
    """Begin to watch this process; an empty path watches nothing."""
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    watched = Observer(path)
    if not path:
        return watched
    number = torch._C._autograd._get_sequence_nr
    clock, backward = time.perf_counter, torch.autograd.backward
    readings = watched.seen["readings"]

    def perf_counter() -> float:
        now = clock()
        readings.append((now, number()))
        return now

    def observed_backward(tensors, *arguments, **keywords):
        outermost, watched.depth = watched.depth == 0, watched.depth + 1
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        facts = {"oldest": oldest(roots), "value": value(roots)}
        if outermost:
            facts["inputs"], watched.inputs = watched.inputs.hexdigest(), hashlib.sha256()
        facts["start"] = clock()
        try:
            return backward(tensors, *arguments, **keywords)
        finally:
            watched.depth -= 1
            if outermost:
                watched.seen["backwards"].append({**facts, "end": clock()})

    def before_update(optimizer, *_):
        held = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = sum(p.grad is not None for p in held)
        bits = hashlib.sha256()
        for parameter in held:
            digest(bits, parameter.grad)
        facts = {"gradients": gradients, "bits": bits.hexdigest()}
        watched.seen["updates"].append({"start": clock(), "end": 0.0, **facts})

    def after_update(*_):
        watched.seen["updates"][-1]["end"] = clock()

    def before_forward(module, given):
        if torch.compiler.is_compiling():
            return
        # an evaluation that keeps its gradients runs its model in evaluation mode
        if torch.is_grad_enabled() and module.training and watched.depth == 0:
            for each in given:
                digest(watched.inputs, each)
        if not torch.is_grad_enabled() and watched.depth == 0:
            watched.seen["without_graph"].append((clock(), type(module).__name__))

    time.perf_counter = perf_counter
    torch.autograd.backward = observed_backward
    register_optimizer_step_pre_hook(before_update)
    register_optimizer_step_post_hook(after_update)
    register_module_forward_pre_hook(before_forward)
    return watched


def oldest(roots) -> int:
    """The smallest sequence number in the graphs behind some tensors."""
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    known, smallest = set(), ACCUMULATE
    while waiting:
        node = waiting.pop()
        if node is None or node in known:
            continue
        known.add(node)
        smallest = min(smallest, node._sequence_nr())
        waiting.extend(following for following, _ in node.next_functions)
    return smallest


def digest(bits, given) -> None:
    """Add the exact bits of a tensor; none, or one of a function transform, adds nothing."""
    import torch
    from torch._C._functorch import is_functorch_wrapped_tensor

    plain = isinstance(given, torch.Tensor) and not is_functorch_wrapped_tensor(given)
    if plain and given.layout is torch.strided and given.device.type == "cpu":
        with torch.no_grad():
            bits.update(given.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def value(roots) -> str:
    """The exact sum of what is differentiated."""
    return float(sum(root.detach().double().sum() for root in roots)).hex()
