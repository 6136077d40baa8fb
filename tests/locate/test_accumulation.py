"""How one optimizer step covers several backwards."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of, rewritten, timed
from tests.warned import texts

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


@pytest.mark.parametrize("name", ["micro_steps", "micro_batches"])
def test_each_micro_step_is_a_sample(name: str) -> None:
    source = looped(ACCUMULATIONS[name][1])
    plan = plan_of(source)
    assert plan["loop"]["line"] == 9
    assert timed(plan) == {"start_line": 10, "end_line": 11}


def test_the_stop_asks_accelerate_whether_this_was_a_step() -> None:
    code = rewritten(looped(ACCUMULATIONS["accumulate"][1])).code
    assert b"_instrument.finished(accelerator.sync_gradients)" in code


def test_a_sync_only_every_n_steps_makes_the_sample_a_whole_step() -> None:
    source = looped(
        BACKWARD
        + """\
if (i + 1) % 4 == 0:
    optimizer.step()
    torch_xla.sync()
    optimizer.zero_grad()
""",
        header="for i, (x, y) in enumerate(loader):",
    )
    result = rewritten(source)
    plan = result.plan.explanation
    assert (plan["scope"], plan["label"]) == ("step", "step")
    assert plan["sync"] == {"action": "keep", "line": 13, "api": "torch_xla.sync"}
    assert b"resume=True" in result.code
    assert any("a sample is the whole step" in w for w in texts(plan["warnings"]))
