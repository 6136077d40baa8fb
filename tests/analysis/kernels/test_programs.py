"""PERF SUMMARY and NOC PROFILER SUMMARY."""

from __future__ import annotations

import pytest

from instrumentor_analysis.kernels.log import parse_log
from instrumentor_analysis.kernels.model import Machine, Traffic
from instrumentor_analysis.kernels.programs import exact_us
from tests.analysis.kernels.printed import OLD_PERF, PERF


def test_new_spelling_with_two_programs() -> None:
    log = parse_log(PERF)
    assert log.machine == Machine("wormhole_b0", 1350, 64)
    kernel, op = log.programs
    assert (kernel.number, kernel.name, kernel.grid, kernel.cores) == (
        1024, "__demo_kernel", (8, 7), 56,
    )  # fmt: skip
    assert kernel.duration_cycles == 2225436
    assert kernel.duration_us == pytest.approx(1650)
    assert kernel.dram_read == Traffic(5662310, 2790)
    assert kernel.dram_write == Traffic(5242880, 2582)
    assert kernel.l1_read == Traffic(65536, 32)
    assert kernel.l1_write == Traffic(512, 4)
    assert kernel.multicast == Traffic(2048, 1)
    assert kernel.bandwidth_gb_s == 6.7
    assert kernel.transfer_sizes == {64: 3, 2048: 5369}
    assert kernel.barriers == (57, 161)
    assert (kernel.semaphores, kernel.dram_channels) == (12, 16)
    assert kernel.kernel_cycles == {
        "BRISC": (2225356, 2225356),
        "NCRISC": (2211871, 2211999),
        "TRISC_0": (2222025, 2222025),
    }
    assert (op.number, op.name, op.dram_read) == (1025, "", Traffic(0, 0))


def test_old_spelling() -> None:
    log = parse_log(OLD_PERF)
    (program,) = log.programs
    assert log.machine == Machine("blackhole", 1000, 130)
    assert (program.cores, program.transfer_sizes) == (1, {2048: 0})
    assert program.kernel_cycles == {"BRISC": (13400, 13500), "NCRISC": (9000, 9000)}
    assert log.sections[0].title == "NOC PROFILER SUMMARY"


def test_exact_time_comes_from_cycles_and_clock() -> None:
    log = parse_log(PERF)
    assert exact_us(log.programs[0], 1350) == pytest.approx(1648.471, abs=1e-3)
    assert exact_us(log.programs[0], None) == pytest.approx(1650)


def test_a_block_without_its_heading() -> None:
    text = PERF.partition("\n\n")[2]
    assert [program.number for program in parse_log(text).programs] == [1024, 1025]


def test_fewer_programs_than_announced_are_told() -> None:
    log = parse_log(PERF.partition("--- Program 1025")[0])
    assert len(log.programs) == 1
    assert "1 of 2 programs" in log.sections[0].problem
