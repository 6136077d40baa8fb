"""Chips of a simulator of our own, whose truth is known: the late one is named, and its wait told.

Between two collectives every chip computes, one of them more slowly; no two chips share a clock.
"""

from __future__ import annotations

import random

from instrumentor_analysis.ops.skew import compare_devices
from tests.analysis.ops_rows import Row, frame_of, op

COLLECTIVES, OPS = 4, 3
#: Scatter of an op's duration, and of what a collective takes on one chip, as a share.
NOISE = 0.01


class Case:
    """One step on some chips, of which one is slower."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.chips = chance.choice((2, 4, 8))
        self.late = chance.randrange(self.chips)
        self.slower = 1 + chance.uniform(0.05, 0.4)
        self.rows: list[Row] = []
        self.waited_us = [0.0] * self.chips  # the truth
        self.clocks_us = [chance.uniform(0, 1e9) for _ in range(self.chips)]
        for _ in range(COLLECTIVES):
            self.part(chance)

    def part(self, chance: random.Random) -> None:
        """Some ops on each chip, then a collective, which ends on all of them together."""
        arrived = [0.0] * self.chips
        for _ in range(OPS):
            usual_us = chance.uniform(50, 500)
            for chip in range(self.chips):
                factor = self.slower if chip == self.late else 1.0
                took_us = usual_us * factor * chance.gauss(1, NOISE)
                arrived[chip] += took_us
                self.rows.append(op("MatmulDeviceOperation", took_us, device=chip))
        sends_us = chance.uniform(5, 50)
        for chip in range(self.chips):
            waits_us = max(arrived) - arrived[chip]
            self.waited_us[chip] += waits_us
            took_us = waits_us + sends_us * chance.gauss(1, NOISE)
            self.rows.append(op("AllGatherAsyncDeviceOperation", took_us, device=chip))


def shares(seeds: range) -> tuple[float, float]:
    """Share of the cases in which the late chip is named, and the worst of most errors of the wait.

    The error is that of the longest wait, as a share of it; of 100 cases the best 95 count.
    """
    named, errors = 0, []
    for seed in seeds:
        case = Case(seed)
        found = compare_devices(frame_of(*case.rows))
        assert found is not None
        (collective,) = found.collectives
        named += collective.last_device == case.late
        longest = max(range(case.chips), key=case.waited_us.__getitem__)
        told_us = (found.rows[longest].waited_ms or 0.0) * 1000
        errors.append(abs(told_us / case.waited_us[longest] - 1))
    return named / len(seeds), sorted(errors)[int(0.95 * len(errors)) - 1]


def test_the_late_chip_is_named_and_its_wait_told() -> None:
    named, error = shares(range(300))
    assert named >= 0.99
    assert error <= 0.03


def test_without_a_late_chip_none_waits_for_long() -> None:
    case = Case(7)
    # A chip that is not slower arrives last by chance, and the others hardly wait.
    assert max(case.waited_us) > 0
    case.slower, case.rows, case.waited_us = 1.0, [], [0.0] * case.chips
    chance = random.Random(8)
    for _ in range(COLLECTIVES):
        case.part(chance)
    found = compare_devices(frame_of(*case.rows))
    assert found is not None
    worked_ms = found.rows[0].device_time_ms or 0.0
    assert max(row.waited_ms or 0.0 for row in found.rows) < 0.05 * worked_ms
