"""report.html without a browser: what stands in it, and what can never get out of its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from instrumentor_analysis.load.table import Categorical, Table
from instrumentor_analysis.model import Locations, SlowOp, SourceLine
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.reports.document import CodeLine, Document, Statement, Verdict
from instrumentor_analysis.reports.html import render
from instrumentor_analysis.reports.ops_data import MOST_ROWS, ops_table, script_safe
from instrumentor_analysis.reports.sources import listings
from instrumentor_analysis.reports.summary import html, tiles
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.reports.pages import Page
from tests.analysis.reports.summaries import ALL, HOSTILE, run_folder, torch_folder, tracy


def page_of(folder: Path) -> str:
    analysis = analyse(folder)
    return html(analysis.summary, details.of(analysis))


def data_of(page: str) -> dict[str, list[dict[str, list[object]]]]:
    found = re.search(r'id="ops-data">(.*?)</script>', page, re.DOTALL)
    assert found
    document: dict[str, list[dict[str, list[object]]]] = json.loads(found[1])
    return document


@pytest.mark.parametrize("name", ALL)
def test_every_summary_makes_a_page(name: str) -> None:
    page = Page(html(ALL[name]()))
    assert page.errors == []


def test_a_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    text = page_of(run_folder(tmp_path / "run"))
    page = Page(text)
    assert page.errors == []
    for tag in ("link", "img", "iframe", "object", "embed", "base", "form"):
        assert page.of(tag) == []
    assert all("src" not in script for script in page.of("script"))
    assert not re.search(r"url\(|@import|https?://|//[a-z]+\.", text)
    policy = page.of("meta")[3]["content"]
    assert policy.startswith("default-src 'none'")
    assert re.search(r"script-src 'sha256-[\w+/=]+';", policy)


def test_the_figures_stand_on_the_page() -> None:
    text = " ".join(" ".join(Page(html(tracy())).texts).split())
    for shown in ("411 ms", "63.2 ms", "85.0 %", "286 us", "1,251", "host-bound", "3.3 %"):
        assert shown in text
    assert "Tracy inflates the wall clock" in text
    assert "uncommitted changes yes" in text and "training loop train.py:96" in text


def test_headings_descend_and_every_section_has_a_name(tmp_path: Path) -> None:
    page = Page(page_of(run_folder(tmp_path / "run")))
    assert [tag for tag, _ in page.elements].count("h1") == 1
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    for section in page.of("section"):
        assert section["aria-labelledby"] in ids
    assert all(row.get("scope") in ("col", "row") for row in page.of("th"))


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", hostile=True)
    analysis = analyse(folder)
    ops = tuple(SlowOp(name, 1, 1.0, 5.0, name, name) for name in HOSTILE)
    lines = tuple(SourceLine(name, 2, 1.0, 5.0, 1, ops=(name,)) for name in HOSTILE)
    summary = replace(
        analysis.summary,
        slow_ops=ops,
        locations=Locations(lines),
        warnings=tuple(Caveat("x", text) for text in HOSTILE),
        run=dict.fromkeys(HOSTILE, HOSTILE[0]) | {"name": HOSTILE[0]},
        artifacts=dict.fromkeys(HOSTILE, HOSTILE[1]),
    )
    sources = dict.fromkeys(HOSTILE, f"a\n{HOSTILE[0]}\nb")
    text = html(summary, details.of(analysis, sources=sources))
    page = Page(text)
    assert page.errors == []
    assert len(page.of("script")) == 2
    assert page.of("img") == []
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert not any((a.get("href") or "").startswith("javascript") for a in page.of("a"))
    names = next(c for c in data_of(text)["columns"] if c["key"] == "op")["names"]
    # The writer of the format put semicolons for commas; nothing else was lost.
    assert {"</script><img src=x onerror=alert(1)>", "<!--<script>"} <= set(names)


@pytest.mark.parametrize("name", HOSTILE)
def test_script_safe_ends_no_script(name: str) -> None:
    text = script_safe({"name": name})
    assert json.loads(text) == {"name": name}
    assert not set("<>&\u2028\u2029") & set(text)


def test_figures_that_are_none_are_null(tmp_path: Path) -> None:
    analysis = analyse(run_folder(tmp_path / "run"))
    table = ops_table(details.of(analysis))
    columns = {column.key: column for column in table.columns}
    assert columns["gap"].values[0] is None
    assert columns["time"].values[-1] is None
    assert "NaN" not in table.for_script()
    assert columns["time"].values[:3] == [187.0, 60.0, 53.5]
    assert [columns["op"].names[at] for at in columns["op"].values][3] == "PermuteDeviceOperation"  # type: ignore[index]


def test_what_each_op_could_save_stands_in_the_table(tmp_path: Path) -> None:
    analysis = analyse(run_folder(tmp_path / "run"))
    table = ops_table(details.of(analysis))
    (saves,) = [column for column in table.columns if column.key == "saves"]
    assert (saves.title, saves.unit, saves.names) == ("Saves", "us", None)
    # At its bound by DRAM, 12.6 us for 2 x (32 x 1280 + 1280 x 5120 + 32 x 5120) bytes.
    assert saves.values[0] == pytest.approx(187 - 2 * (32 * 1280 + 1280 * 5120 + 32 * 5120) / 288e3,
                                            abs=1e-4)  # fmt: skip
    assert saves.values[2:] == [None] * 5, "no model, no bound"
    assert "saves" not in [c.key for c in ops_table(Detail(ops=analysis.ops)).columns]


def test_torch_ops_have_columns_of_their_own(tmp_path: Path) -> None:
    analysis = analyse(torch_folder(tmp_path / "run"))
    table = ops_table(details.of(analysis))
    assert [column.title for column in table.columns] == [
        "No.", "Op", "Self time", "Duration", "Start", "Category", "Input shapes", "Source",
    ]  # fmt: skip
    assert table.sort == "self"
    assert Page(html(analysis.summary, details.of(analysis))).errors == []


def test_more_ops_than_a_page_bears_leave_the_slowest() -> None:
    count = MOST_ROWS + 7
    frame = Table(
        {
            "op": Categorical.of(["aten::add"] * count),
            "torch_category": Categorical.of(["Compute"] * count),
            "start_us": np.arange(count),
            "duration_us": np.ones(count),
            "self_time_us": np.arange(count, dtype=np.float64),
            "device_time_us": np.full(count, np.nan),
        }
    )
    table = ops_table(Detail(ops=frame))
    assert (table.rows, table.left_out) == (MOST_ROWS, 7)
    assert table.columns[0].values[0] == 8


def test_source_lines_stand_beside_their_code() -> None:
    text = "".join(f"line_{number} = {number}\n" for number in range(1, 101))
    first, second, unlocated = listings(tracy(), {"train.py": text})
    assert (first.title, first.last) == ("train.py", "code")
    assert [line.number for line in first.lines] == list(range(1, 8))
    assert first.lines[3] == CodeLine(
        4, "line_4 = 4", ("38.4 ms", "60.8 %"), 1.0, "120 ops: MatmulDeviceOperation"
    )
    assert (second.last, second.note) == ("ops", "")
    assert [line.text for line in second.lines] == ["24 ops, evaluated once: Attention"]
    assert unlocated.title == "no location"


def test_code_that_changed_since_the_run_is_not_shown() -> None:
    sources = {"train.py": None, "model/attention.py": "x = 1\n" * 99}
    first, second, _ = listings(tracy(), sources)
    assert (first.last, second.last, second.note) == ("ops", "code", "")
    assert [line.text for line in first.lines] == ["120 ops: MatmulDeviceOperation"]
    texts = Page(html(tracy(), Detail(sources=sources))).texts
    said = "(changed since the run: shown without its code)"
    assert texts[texts.index(said) - 1] == "train.py "
    assert texts.count(said) == 1


def test_what_has_no_location_stands_last_among_the_sources() -> None:
    text = " ".join(Page(html(tracy())).texts)
    row = "no location line device time share ops 13.1 ms 20.7 % 1,107 ops"
    assert row in " ".join(text.split())
    located = replace(tracy().locations or Locations(), unlocated_ms=None)
    assert "no location" not in html(replace(tracy(), locations=located))


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("a b/c.csv", "./a%20b/c.csv"),
        ("javascript:alert(1)", "./javascript%3Aalert%281%29"),
        ("/etc/passwd", None),
        ("../up", None),
        ("\\\\host\\x", None),
    ],
)
def test_links_stay_below_the_page(path: str, link: str | None) -> None:
    text = html(replace(tracy(), artifacts={"file": path}))
    assert [a["href"] for a in Page(text).of("a")][1:] == ([link] if link else [])


def test_the_headline_of_inference_is_throughput_and_latency() -> None:
    (steady,) = tiles(ALL["inference"]())
    assert [(tile.name, tile.value) for tile in steady.lines] == [
        ("inference, median", "14.0 ms"),
        ("latency p95", "15.5 ms"),
        ("inference only", "574 samples/s"),
        ("MFU", "31.2 %"),
    ]


def test_a_row_of_tiles_is_of_one_step_or_of_all() -> None:
    summary = tracy()
    steady, step = tiles(summary)
    assert steady.title.endswith("steady steps")
    assert step.title.startswith(f"{summary.window.step}: ")
    wall_ms, device_ms = summary.step_wall_clock_ms, summary.device_time_ms
    assert wall_ms is not None and device_ms is not None
    values = {tile.name: tile.value for tile in step.lines}
    assert values["wall clock"] == formatting.ms(wall_ms)
    assert values["device time"] == formatting.ms(device_ms)
    assert values["overhead"] == formatting.percent((wall_ms - device_ms) / wall_ms * 100)
    assert not set(values) & {tile.name for tile in steady.lines}


def test_what_is_to_be_typed_stands_apart_and_is_not_broken() -> None:
    levers = (
        Statement("measure again", "`instrument doctor` shows its <load>"),
        Statement("compare", "in turn: instrument compare --refs HEAD.. 'a b.py'"),
    )
    page = render(Document("A run", verdict=Verdict("Verdict", "none", "plain", levers=levers)))
    assert "<code>instrument doctor</code> shows its &lt;load&gt;" in page
    command = "instrument compare --refs HEAD.. &#39;a b.py&#39;"
    assert f'in turn:<code class="command">{command}</code>' in page
