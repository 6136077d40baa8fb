"""Device time out of what ttnn told of extra steps."""

from __future__ import annotations

import pytest

from instrumentor_analysis.clock.programs import Ran, Told, lost, programs


def told(busy: float, wall: float = 10.0, dropped: int = 0, **chips: float) -> Told:
    ran = {"0": Ran(4, busy + 1, busy), **{name[1:]: Ran(4, ms, ms) for name, ms in chips.items()}}
    return Told(wall, ran, {"0": Ran(1, 2.0, 2.0)}, (("bmm", 3, 3.0), ("exp", 1, 1.0)), dropped)


def test_figures_are_medians_of_the_busiest_chip() -> None:
    found = programs([told(4, 10), told(6, 12), told(50, 99)])
    assert found is not None
    assert (found.steps, found.device_ms, found.wall_ms, found.rest_ms) == (3, 6, 12, 2)
    found = programs([told(4, c1=7.0)])
    assert found is not None and found.device_ms == 7
    assert [(each.chip, each.busy_ms) for each in found.chips] == [("0", 4), ("1", 7)]


def test_a_step_that_lost_records_is_left_out_and_said() -> None:
    steps = [told(4), told(1, dropped=17)]
    found = programs(steps)
    assert found is not None and (found.steps, found.left_out, found.device_ms) == (1, 1, 4)
    (caveat,) = lost(steps)
    assert "1 of 2" in caveat.message and "17 records" in caveat.message
    assert caveat.code == "W117"


def test_no_figure_where_no_step_is_whole() -> None:
    steps = [told(4, dropped=1), Told(10.0), Told(10.0, {"0": Ran(2, 1.0, 1.0, untimed=1)})]
    assert programs(steps) is None
    assert "none is left" in lost(steps)[0].message
    assert programs([]) is None and lost([]) == ()


def test_kernels_are_shares_of_all() -> None:
    found = programs([told(4), told(4)])
    assert found is not None
    first, second = found.kernels
    assert (first.name, first.programs, first.percent) == ("bmm", 3, 75)
    assert second.ms == pytest.approx(1.0)


@pytest.mark.usefixtures("no_hang")
def test_a_chip_of_its_own_for_every_step_is_bounded() -> None:
    found = programs([Told(10.0, {str(n): Ran(4, 2.0, 1.0)}) for n in range(3_000)])
    assert found is not None and found.device_ms == 1.0 and len(found.chips) == 1024
