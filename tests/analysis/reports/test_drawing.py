"""Shapes, scales and their SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from instrumentor_analysis.reports.drawing import (
    Bar,
    Dot,
    Drawing,
    Key,
    Label,
    Line,
    Scale,
    decades,
    framed,
    svg,
)
from tests.analysis.reports.summaries import HOSTILE


@pytest.mark.parametrize("top", [0.003, 0.9, 7.0, 421.0, 9e6])
def test_ticks_are_round_and_few(top: float) -> None:
    ticks = Scale(0, top, 100).ticks(4)
    assert 3 <= len(ticks) <= 6 and ticks[0] == 0 and ticks[-1] <= top
    first = ticks[1]
    assert ticks == pytest.approx([at * first for at in range(len(ticks))])
    assert f"{first:.0e}"[0] in "1235"


def test_a_logarithmic_scale_has_equal_decades() -> None:
    scale = decades([2.0, 300.0], 90)
    assert scale.ticks() == [1, 10, 100, 1000]
    assert [scale.at(tick) for tick in scale.ticks()] == [0, 30, 60, 90]
    assert decades([2.0, 300.0], 90, flipped=True).at(1) == 90
    assert decades([10.0], 90).ticks() == [10, 100], "never without any width"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_is_markup(name: str) -> None:
    shapes = (
        Bar(0, 0, 1, 1, "compute", name),
        Line(((0, 0), (1, 1)), tip=name),
        Dot(0, 0, 1, "tm", name),
        Label(0, 0, name, turned=True),
    )
    drawing = Drawing(name, name, (0, 0, 10, 10), shapes, (Key("tm", name),), name)
    for each in (drawing, framed(drawing)):
        root = ElementTree.fromstring(svg(each))
        assert {e.tag for e in root.iter()} == {
            "svg",
            "rect",
            "polyline",
            "circle",
            "text",
            "title",
        }
        assert all(e.get("data-tip") == e[0].text for e in root.iter() if e.get("data-tip"))


def test_a_frame_has_room_for_every_key() -> None:
    keys = tuple(Key("tm", f"a key of some length, {at}") for at in range(9))
    drawing = Drawing("title", "", (-50, -10, 400, 100), (), keys, "a note")
    left, top, width, height = framed(drawing).box
    labels = [shape for shape in framed(drawing).shapes if isinstance(shape, Label)]
    assert [label.text for label in labels] == ["title", *(key.text for key in keys), "a note"]
    assert all(left < label.x < left + width and top < label.y < top + height for label in labels)
    assert len({(label.x, label.y) for label in labels}) == len(labels)
