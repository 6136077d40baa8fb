"""The owners of an iteration's time in every format."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import Phase, Phases, RankRow, Ranks, Summary
from instrumentor_analysis.reports import brief, owners
from instrumentor_analysis.reports.drawing import CHARACTER, Bar, Label
from instrumentor_analysis.reports.summary import console, html, markdown

FOUND = Phases(
    count=20,
    ms=100.0,
    phases=(
        Phase("data", 55.0, 55.0, 10**9),
        Phase("forward", 15.0, 15.0, 2 * 10**9),
        Phase("backward", 29.0, 29.0, 3 * 10**9),
    ),
    unowned_percent=1.0,
    longer_percent=2.5,
)


def test_the_largest_owner_comes_first_and_the_cost_is_said() -> None:
    table = owners.table(FOUND)
    assert list(table.columns[0].texts) == ["data", "backward", "forward"]
    assert "20 extra iterations" in table.note and "2.5 % longer than in the samples" in table.note
    assert "1.0 % of it is in none of the phases" in table.note
    assert [column.title for column in table.columns][4] == "on the host"


def test_a_barrier_that_seems_to_save_time_is_noise() -> None:
    assert "noise" not in owners.note(FOUND)
    assert "21.2 % shorter than in the samples (noise: " in owners.note(
        msgspec.structs.replace(FOUND, longer_percent=-21.2)
    )


def test_much_longer_iterations_are_not_put_down_to_the_barriers_alone() -> None:
    longer = msgspec.structs.replace(FOUND, longer_percent=300.0)
    assert "4.0 times as long as in the samples (by that, other programs or chance" in owners.note(
        longer
    )
    assert "other programs" not in owners.note(FOUND)


def test_the_note_names_the_statistic_of_its_figure() -> None:
    assert owners.note(FOUND).startswith("Median of 20 extra iterations")
    mean = msgspec.structs.replace(FOUND, statistic="mean")
    assert owners.note(mean).startswith("Mean of 20 extra iterations")


def test_the_axis_has_room_for_its_last_value() -> None:
    drawing = owners.waterfall(FOUND)
    last = max(shape.x for shape in drawing.shapes if isinstance(shape, Label) and shape.y > 80)
    assert last + 1.5 * CHARACTER <= drawing.box[0] + drawing.box[2]


def test_each_bar_of_the_waterfall_begins_where_the_last_one_ends() -> None:
    bars = [shape for shape in owners.waterfall(FOUND).shapes if isinstance(shape, Bar)]
    assert len(bars) == 4 and "unaccounted: " in bars[-1].tip
    for one, following in pairwise(bars):
        assert abs(one.x + one.width - following.x) < 0.1
    owned = msgspec.structs.replace(FOUND, unowned_percent=0.0)
    assert "unaccounted" not in owners.waterfall(owned).says


@pytest.mark.parametrize(("ms", "unit"), [(0.2, "us"), (100.0, "ms"), (12_000.0, "s")])
def test_the_axis_of_the_waterfall_has_its_unit(ms: float, unit: str) -> None:
    longer = msgspec.structs.replace(FOUND, ms=ms)
    labels = [shape.text for shape in owners.waterfall(longer).shapes if isinstance(shape, Label)]
    assert unit in labels and {"0.2": "150", "100.0": "100", "12000.0": "10"}[str(ms)] in labels


def test_every_format_shows_them_and_none_without() -> None:
    summary = Summary("wallclock", phases=FOUND)
    for text in (console(summary), markdown(summary), html(summary)):
        assert owners.title("iteration") in text and "backward" in text
    assert owners.title("iteration") not in console(Summary("wallclock"))


def test_those_of_micro_steps_are_called_so() -> None:
    text = console(Summary("wallclock", phases=replace(FOUND, word="micro-step")))
    assert "Where the micro-step goes" in text and "extra micro-steps" in text
    assert "iteration" not in text


RANKS = Ranks(
    2,
    (RankRow(0, 6, 70.0, 71.0, 52.0, 1, 224.0), RankRow(1, 6, 70.0, 71.0, 0.5, 7, 224.0)),
    *(4, 8, 1, 52.0, 74.0, 448.0),
)


def test_the_late_rank_is_named_in_every_format() -> None:
    summary = Summary("wallclock", ranks=RANKS)
    for text in (console(summary), markdown(summary), html(summary)):
        assert "the others wait for rank 1" in text and "8 collectives" in text
    assert "448 samples/s" in brief.console(summary)
    assert not owners.ranks(None).tables


def test_without_times_of_collectives_no_rank_is_named() -> None:
    unknown = Ranks(2, (RankRow(0, 6, 70.0), RankRow(1, 6, 70.0)))
    text = console(Summary("wallclock", ranks=unknown))
    assert "2 processes train together" in text and "is unknown" in text
    assert "wait for rank" not in text


def test_a_page_has_bars_in_the_waterfall_alone() -> None:
    of_page, of_terminal = (owners.section(FOUND, drawn=drawn) for drawn in (True, False))
    assert of_page.charts and not any(each.shares for each in of_page.tables[0].columns)
    assert not of_terminal.charts and any(each.shares for each in of_terminal.tables[0].columns)
