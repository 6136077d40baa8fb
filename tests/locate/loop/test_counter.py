"""The script's own count of steps, and where it stands in the iteration."""

from __future__ import annotations

from typing import Any

import pytest

from tests.locate.cases import looped, plan_of

LOSS = "loss = criterion(model(x), y)\nloss.backward()\n"
STEP = LOSS + "optimizer.step()\n"
LOOP = "for x, y in loader:"
ENUMERATED = "for i, (x, y) in enumerate(loader):"
BRANCH = "if (i + 1) % 4 == 0:\n    optimizer.step()\n    global_step += 1"
CONTINUED = "micro += 1\nif micro < 4:\n    continue\noptimizer.step()\nmicro = 0\nglobal_step += 1"
MICRO_STEPS = "for micro in range(4):\n    loss = criterion(model(x), y) / 4\n    loss.backward()\n"


@pytest.mark.parametrize(
    ("body", "header", "name", "line", "position"),
    [
        *(
            (f"{STEP}{name} += 1", LOOP, name, 12, "after")
            for name in ("global_step", "step", "iter_num", "n_iter", "self.global_step")
        ),
        (f"{STEP}step = step + 1", LOOP, "step", 12, "after"),
        (f"global_step += 1\n{STEP}", LOOP, "global_step", 9, "before"),
        (LOSS + BRANCH, ENUMERATED, "global_step", 13, "branch"),
        (LOSS + CONTINUED, LOOP, "global_step", 16, "after_continue"),
        (f"{MICRO_STEPS}optimizer.step()\nit += 1", "while True:", "it", 13, "outer"),
        (STEP, "for i, (x, y) in enumerate(tqdm(loader)):", "i", 8, "enumerate"),
        (STEP, "for step in range(100):", "step", 8, "enumerate"),
        (f"{STEP}global_step += 1", ENUMERATED, "global_step", 12, "after"),
    ],
)
def test_count(body: str, header: str, name: str, line: int, position: str) -> None:
    found: Any = plan_of(looped(body, header=header))["counter"]
    assert found == {"name": name, "line": line, "position": position}


@pytest.mark.parametrize(
    "counted", ["", "epoch += 1", "patience += 1", "micro += 1", "correct += 1", "n += len(x)"]
)
def test_what_is_no_step_counter(counted: str) -> None:
    assert plan_of(looped(STEP + counted))["counter"] is None
    drawn = looped(STEP + counted, header="for x in [draw() for _ in range(5)]:")
    assert plan_of(drawn)["counter"] is None
