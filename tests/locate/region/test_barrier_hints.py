"""Which loss the barrier is given, and which batch a region begins with."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate
from instrumentor.locate.region.barrier_hints import hands_nothing_out
from instrumentor.read.syntax import parse
from tests.locate.cases import looped, rewritten


def given(source: str, method: str) -> list[str]:
    """The arguments of each inserted call of a method, as written."""
    code = rewritten(source).code.decode()
    head = f"_instrument.{method}("
    lines = [line.partition("  # [")[0].strip() for line in code.splitlines()]
    return [line[len(head) : -1] for line in lines if line.startswith(head)]


DIRECT = """
    loss = criterion(model(x), y)
    loss.backward()
    {}
    optimizer.step()
    {}
"""


@pytest.mark.parametrize(
    ("before_the_step", "behind_it", "expected"),
    [
        ("pass", "pass", "loss"),
        ("pass", "del loss", "loss"),  # far behind the barrier
        ("pass", "del loss, x, y", "loss"),
        ("torch_xla.sync(wait=True)", "del loss", "loss, synced=True"),
        ("del loss\n    torch_xla.sync(wait=True)", "pass", "synced=True"),
        ("loss = loss.item()\n    torch_xla.sync(wait=True)", "pass", "loss, synced=True"),
    ],
)
def test_the_loss_as_it_is_at_the_end(before_the_step: str, behind_it: str, expected: str) -> None:
    source = looped(textwrap.dedent(DIRECT.format(before_the_step, behind_it)))
    assert given(source, "end") == [expected]
    assert given(source, "begin") == ["x, y"]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ("loss = criterion(model(x), y)\nloss.backward()", ["loss"]),
        ("loss = criterion(model(x), y)\n(loss / 4).backward()", ["loss"]),
        ("loss = criterion(model(x), y)\nscaler.scale(loss).backward()", ["loss"]),
        ("criterion(model(x), y).backward()", [""]),
        ("a = model(x).sum()\na.backward()\nb = model(y).sum()\nb.backward()", [""]),
        ("loss = train(model, x, y)", [""]),
        ("self.loss = criterion(model(x), y)\nself.loss.backward()", [""]),
    ],
)
def test_a_loss_that_has_a_name_in_the_loop(losses: str, expected: list[str]) -> None:
    helper = (
        "@torch.compile\ndef train(model, x, y):\n    loss = model(x).sum()\n    loss.backward()\n"
    )
    assert given(looped(f"{losses}\noptimizer.step()", helper), "end") == expected


@pytest.mark.parametrize(
    ("before", "header", "first", "expected"),
    [
        ("bar = tqdm(range(9))", "for index in bar:", "x, y = next(data)", "x, y"),
        ("bar = tqdm(range(9))", "for index in bar:", "x = next(data).to(device)", "x"),
        ("bar = tqdm(loader)", "for x, y in bar:", "pass", "x, y"),
        ("bar = enumerate(loader)", "for index, (x, y) in bar:", "pass", "x, y"),
        ("", "for index in tqdm(range(9)):", "x, y = next(data)", "x, y"),
        ("", "for x, y in loader:", "pass", "x, y"),
        ("loader = [make(i) for i in range(9)]", "for x, y in loader:", "pass", "x, y"),
        ("loader = [b for _, b in enumerate(data)]", "for x, y in loader:", "pass", "x, y"),
    ],
)
def test_the_batch(before: str, header: str, first: str, expected: str) -> None:
    body = f"{first}\nloss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\ndel x"
    assert given(looped(body, before, header), "begin") == [expected]


def test_a_bar_of_a_with_statement() -> None:
    body = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()"
    loop = textwrap.indent(f"x, y = next(data)\n{body}", "    ")
    source = looped(f"for index in bar:\n{loop}", header="with tqdm(range(9)) as bar:")
    assert given(source, "begin") == ["x, y"]


@pytest.mark.parametrize(
    ("before", "header", "nothing"),
    [
        ("bar = tqdm(range(9))", "for index in bar:", True),
        ("", "for number, index in enumerate(range(0, 90, 10)):", True),
        ("", "while True:", True),
        ("", "while (x := next(data)) is not None:", False),
        ("", "for x, y in loader:", False),
        ("bar = enumerate(loader)", "for index, (x, y) in bar:", False),
        ("", "for index, x in zip(range(9), loader):", False),
    ],
)
def test_a_head_that_only_counts_hands_out_no_batch(
    before: str, header: str, nothing: bool
) -> None:
    body = "x, y = batch()\nloss = criterion(model(x), y)\nloss.backward()\noptimizer.step()"
    found = locate(parse(Path("train.py"), looped(body, before, header).encode()), Options())
    assert hands_nothing_out(found.candidate.knowledge, found.candidate) is nothing
