"""The page of a comparison: self-contained, escaped, and in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from instrumentor_analysis.reports.comparison import html
from tests.analysis.reports.comparison.samples import timed, traced
from tests.analysis.reports.pages import Page
from tests.analysis.reports.test_html_browser import chromium, dump


def tags(text: str) -> list[tuple[str, dict[str, str | None]]]:
    page = Page(text)
    assert page.errors == []
    return page.elements


def test_the_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    found = tags(html.render(traced(tmp_path)))
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in found}
    outside = [a for tag, a in found if "src" in a or (tag != "a" and "href" in a)]
    assert outside == []


def test_foreign_names_are_text(tmp_path: Path) -> None:
    text = html.render(traced(tmp_path))
    assert "&lt;/script&gt;&lt;img src=x" in text
    assert "\u202e" not in text and "\\x202e" in text
    assert not any(name.startswith("on") for _, attributes in tags(text) for name in attributes)


def test_every_sample_and_every_interval_is_drawn() -> None:
    text = html.render(timed(2.0, 0.5))
    assert len(re.findall(r"<circle[^>]*steady step", text)) == 18
    assert text.count("<circle") - 18 == 2
    first = text[text.index("<svg") : text.index("</svg>")]
    assert [colour for colour in ("good", "bad", "other") if f"var(--{colour})" in first] == [
        "good",
        "bad",
        "other",
    ]


def test_the_conclusion_comes_first_and_shared_warnings_once() -> None:
    text = html.render(timed(2.0, 0.5))
    assert text.index(">Conclusion<") < text.index(">Warnings<") < text.index("<svg")
    assert text.count("one run on each side") == 1
    assert "&lt;section" not in text


def test_both_sides_stand_side_by_side() -> None:
    text = html.render(timed(2.0))
    row = re.search(r"<tr><th[^>]*>wall clock of fwd\+bwd</th>(.*?)</tr>", text)
    assert re.findall(r">([^<]+)</td>", row[1])[:3] == ["100.0 ms", "200.0 ms", "+100.0 %"]


@pytest.mark.browser
def test_a_browser_shows_it(tmp_path: Path) -> None:
    text = html.render(traced(tmp_path))
    shown = dump(text, tmp_path)
    assert "Conclusion" in shown
    picture = tmp_path / "page.png"
    chromium(
        [f"--screenshot={picture}", "--window-size=1240,2000"], tmp_path, tmp_path / "page.html"
    )
    assert picture.stat().st_size > 20_000
