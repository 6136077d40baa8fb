"""How one optimizer step covers several backwards."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of

BACKWARD = "loss = criterion(model(x), y)\nloss.backward()\n"
FUSED = "{0} += 1\nif {0} != n:\n    torch_xla.sync()\nelse:\n    optimizer.step()"
ACCUMULATE = "with accelerator.accumulate(model):\n    "


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("none", f"{BACKWARD}optimizer.step()"),
        ("none", f"{BACKWARD}if math.isfinite(norm):\n    optimizer.step()"),
        ("branch", f"{BACKWARD}if (i + 1) % 4 == 0:\n    optimizer.step()"),
        ("branch", f"{BACKWARD}if i % n == 0 or i + 1 == len(loader):\n    optimizer.step()"),
        ("branch", f"{BACKWARD}done += 1\nif done == n:\n    optimizer.step()\n    done = 0"),
        ("branch", BACKWARD + FUSED.format("micro")),
        ("branch", BACKWARD + FUSED.format("acc")),
        ("continue", f"{BACKWARD}done += 1\nif done < n:\n    continue\noptimizer.step()"),
        ("continue", f"{BACKWARD}if (i + 1) % n:\n    continue\noptimizer.step()"),
        ("context", f"{BACKWARD}if accelerator.sync_gradients:\n    optimizer.step()"),
        ("context", f"{ACCUMULATE}model(x).sum().backward()\n    optimizer.step()"),
        ("nested", "for micro in range(4):\n    model(x).sum().backward()\nopt.step()"),
        ("nested", "for part in x.chunk(4):\n    model(part).sum().backward()\noptimizer.step()"),
    ],
)
def test_kind(kind: str, body: str) -> None:
    source = looped(body, header="for i, (x, y) in enumerate(loader):")
    assert plan_of(source)["accumulation"] == kind
