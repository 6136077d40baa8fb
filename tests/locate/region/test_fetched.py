"""A batch that the forward's own statement fetches is fetched ahead of the clock."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of, rewritten

END = "loss.backward()\noptimizer.step()"
HEADER = "for step in range(100):"


def body(statement: str) -> list[str]:
    """The inserted and replaced lines up to the backward, without their marks."""
    code = rewritten(looped(f"{statement}\n{END}", header=HEADER)).code.decode()
    lines = code.partition(HEADER)[2].partition("loss.backward()")[0].splitlines()
    shown = [line.partition("  # [instr")[0].strip() for line in lines if "off|" not in line]
    return [line for line in shown if line]


@pytest.mark.parametrize(
    ("statement", "fetch", "rest"),
    [
        ("loss = model(next(batches)).mean()", "next(batches)", "loss = model({}).mean()"),
        (
            "loss = model(next(batches).to(device), return_loss=True)",
            "next(batches).to(device)",
            "loss = model({}, return_loss=True)",
        ),
        (
            "loss = criterion(model(*next(batches)), 1)",
            "next(batches)",
            "loss = criterion(model(*{}), 1)",
        ),
        ("loss = model(get_batch(), 3).mean()", "get_batch()", "loss = model({}, 3).mean()"),
    ],
)
def test_the_clock_begins_behind_the_fetch(statement: str, fetch: str, rest: str) -> None:
    name = "_instrument_batch"
    begin = f"{name} = {fetch}", f"_instrument.begin({name})"
    assert body(statement) == [*begin, rest.format(name), f"del {name}"]
    warnings = plan_of(looped(f"{statement}\n{END}", header=HEADER))["warnings"]
    assert not any(each["kind"] == "fetch-inside" for each in warnings)


@pytest.mark.parametrize(
    "statement",
    [
        "loss = model(first(), next(batches)).mean()",  # which would be done later
        "loss = model(x if x else next(batches)).mean()",  # not always
        "loss = model(next(model.parameters())).mean()",
        "loss = model([next(batches) for _ in range(3)]).mean()",
    ],
)
def test_what_is_not_evaluated_first_stays(statement: str) -> None:
    assert body(statement) == ["_instrument.begin()", statement]
