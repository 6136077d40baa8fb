"""How one optimizer step covers several backwards."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of

BACKWARD = "loss = criterion(model(x), y)\nloss.backward()\n"

ACCUMULATIONS = {
    "none": ("none", BACKWARD + "optimizer.step()"),
    "modulo": ("branch", BACKWARD + "if (i + 1) % 4 == 0:\n    optimizer.step()"),
    "modulo_or_last": (
        "branch",
        BACKWARD + "if (i + 1) % n == 0 or i + 1 == len(loader):\n    optimizer.step()",
    ),
    "compared": (
        "branch",
        BACKWARD
        + "accumulated += 1\nif accumulated == n:\n    optimizer.step()\n    accumulated = 0",
    ),
    "fused": (
        "branch",
        BACKWARD + "micro += 1\nif micro != n:\n    torch_xla.sync()\nelse:\n    optimizer.step()",
    ),
    "counted_by_any_name": (
        "branch",
        BACKWARD + "acc += 1\nif acc != n:\n    torch_xla.sync()\nelse:\n    optimizer.step()",
    ),
    "continue": (
        "continue",
        BACKWARD + "accumulated += 1\nif accumulated < n:\n    continue\noptimizer.step()",
    ),
    "continue_modulo": ("continue", BACKWARD + "if (i + 1) % n:\n    continue\noptimizer.step()"),
    "accumulate": (
        "context",
        "with accelerator.accumulate(model):\n"
        "    loss = criterion(model(x), y)\n    accelerator.backward(loss)\n    optimizer.step()",
    ),
    "sync_gradients": (
        "context",
        "loss = criterion(model(x), y)\naccelerator.backward(loss)\n"
        "if accelerator.sync_gradients:\n    optimizer.step()",
    ),
    "micro_steps": (
        "nested",
        "for micro in range(4):\n    loss = criterion(model(x), y)\n    loss.backward()\n"
        "optimizer.step()",
    ),
    "micro_batches": (
        "nested",
        "for part in x.chunk(4):\n    loss = criterion(model(part), y)\n    loss.backward()\n"
        "optimizer.step()",
    ),
    "guard_that_does_not_count": (
        "none",
        BACKWARD + "if math.isfinite(norm):\n    optimizer.step()",
    ),
}


@pytest.mark.parametrize("name", ACCUMULATIONS)
def test_kind(name: str) -> None:
    kind, body = ACCUMULATIONS[name]
    source = looped(body, header="for i, (x, y) in enumerate(loader):")
    assert plan_of(source)["accumulation"] == kind
