"""What was seen of a run chooses the loop, or the lines from the first forward to the backward."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.run.discovery import Observed, choices, loop_around, span_in
from instrumentor.shared.options import Options

SOURCE = """\
def train(model, data):
    for epoch in range(2):
        for x in data:
            with model.lock:
                y = model(x)
                loss = (
                    y.mean()
                )
                loss.backward()
            model.update()
        model.save()
"""


def seen(file: Path, *, library: bool = False, step: int = 10) -> Observed:
    return Observed(file, "train", library, (file, 1), (5,), (9,), (step,), {}, None)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.mark.parametrize(("lines", "expected"), [((9, 10), 3), ((9, 11), 2), ((1, 9), None)])
def test_the_innermost_loop_that_holds_all(lines: tuple[int, ...], expected: int | None) -> None:
    loop = loop_around(ast.parse(SOURCE), lines)
    assert (loop.lineno if loop else None) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"), [(5, 9, (5, 9)), (7, 9, (6, 9)), (5, 10, (4, 10)), (5, 11, None)]
)
def test_whole_statements_of_the_innermost_block(
    first: int, last: int, expected: tuple[int, int] | None
) -> None:
    loop = loop_around(ast.parse(SOURCE), (9, 10))
    assert loop is not None
    assert span_in(loop.body, first, last) == expected


def test_the_loop_is_tried_before_its_lines(script: Path) -> None:
    by_loop, by_lines = choices(seen(script), Options())
    assert by_loop.loop == (str(script), 3)
    assert (by_lines.region, by_lines.region_label) == ((str(script), 5, 9), "fwd+bwd")


def test_lines_that_hold_the_update_are_a_step(script: Path) -> None:
    _, found = choices(seen(script, step=9), Options())
    assert found.region_label == "step"


def test_nothing_of_a_library_is_edited(script: Path) -> None:
    assert not list(choices(seen(script, library=True), Options()))
