"""The script's own count of steps, and where it stands in the iteration."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"


@pytest.mark.parametrize("name", ["global_step", "step", "iter_num", "n_iter", "completed_steps"])
@pytest.mark.parametrize("spelling", ["{} += 1", "{0} = {0} + 1"])
def test_behind_the_step(name: str, spelling: str) -> None:
    plan = plan_of(looped(STEP + spelling.format(name)))
    assert plan["counter"] == {"name": name, "line": 12, "position": "after"}


def test_ahead_of_the_forward() -> None:
    plan = plan_of(looped("global_step += 1\n" + STEP))
    assert plan["counter"] == {"name": "global_step", "line": 9, "position": "before"}


def test_attribute_of_self() -> None:
    source = looped(STEP + "self.global_step += 1")
    assert plan_of(source)["counter"]["name"] == "self.global_step"


def test_in_the_accumulation_branch() -> None:
    source = looped(
        """\
        loss = criterion(model(x), y)
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            global_step += 1
        """,
        header="for i, (x, y) in enumerate(loader):",
    )
    assert plan_of(source)["counter"] == {"name": "global_step", "line": 13, "position": "branch"}


def test_behind_continue() -> None:
    source = looped(
        """\
        loss = criterion(model(x), y)
        loss.backward()
        accumulated += 1
        if accumulated < 4:
            continue
        optimizer.step()
        accumulated = 0
        global_step += 1
        """
    )
    plan = plan_of(source)
    assert plan["counter"] == {"name": "global_step", "line": 16, "position": "after_continue"}
    assert plan["accumulation"] == "continue"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("for step, (x, y) in enumerate(loader):", "step"),
        ("for i, (x, y) in enumerate(tqdm(loader)):", "i"),
        ("for step in range(100):", "step"),
    ],
)
def test_of_the_header(header: str, name: str) -> None:
    plan = plan_of(looped(STEP, header=header))
    assert plan["counter"] == {"name": name, "line": 8, "position": "enumerate"}


def test_own_counter_goes_before_enumerate() -> None:
    source = looped(STEP + "global_step += 1", header="for i, (x, y) in enumerate(loader):")
    assert plan_of(source)["counter"]["name"] == "global_step"


def test_around_micro_steps() -> None:
    source = looped(
        """\
        for micro in range(4):
            loss = criterion(model(x), y) / 4
            loss.backward()
        optimizer.step()
        iter_num += 1
        """,
        header="while True:",
    )
    plan = plan_of(source)
    assert plan["counter"] == {"name": "iter_num", "line": 13, "position": "outer"}
    assert plan["loop"]["outer_lines"] == [8]


@pytest.mark.parametrize(
    "counted", ["epoch += 1", "patience += 1", "micro += 1", "correct += 1", "samples += len(x)"]
)
def test_what_is_no_step_counter(counted: str) -> None:
    assert plan_of(looped(STEP + counted))["counter"] is None


def test_none() -> None:
    assert plan_of(looped(STEP))["counter"] is None
