"""What is found, in which order, and what it is worth."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor_analysis.kernels.device_log import DeviceLog, Zone, ZoneKey
from instrumentor_analysis.kernels.facts import (
    Argument,
    Block,
    Facts,
    element_bytes,
    gather,
    tensor_bytes,
)
from instrumentor_analysis.kernels.findings import Finding, bottleneck, findings
from instrumentor_analysis.kernels.log import parse_log
from instrumentor_analysis.kernels.model import (
    KernelLog,
    LineCycles,
    Machine,
    Operation,
    Program,
    Roofline,
    Traffic,
)
from tests.analysis.kernels.printed import AUTO, OLD_PERF, PERF

MB = 1 << 20
BUSY = Program(
    number=1,
    name="k",
    grid=(8, 8),
    cores=64,
    duration_cycles=100_000,
    duration_us=100.0,
    dram_read=Traffic(8 * MB, 4096),
    dram_write=Traffic(4 * MB, 2048),
    bandwidth_gb_s=120.0,
    transfer_sizes={2048: 0},
    barriers=(256, 128),
    kernel_cycles={"BRISC": (95_000, 100_000)},
)
ARGUMENTS = tuple(Argument(str(n), (2048, 1024), "bfloat16") for n in range(3))


def facts(program: Program | None = BUSY, **changes: Any) -> Facts:
    """A kernel that misses no goal, changed."""
    base = Facts(
        kernel="k",
        mode="perf",
        log=KernelLog(),
        device=None,
        machine=Machine("wormhole_b0", 1000, 64),
        program=program,
        duration_us=program.duration_us if program else None,
        available_cores=64,
        peak_gb_s=288.0,
        arguments=ARGUMENTS,
        blocks=(Block("a", 1, (8, 8), 2, 262_144),),
    )
    return replace(base, **changes)


def kinds(of: Facts) -> list[str]:
    return [finding.kind for finding in findings(of)]


def only(of: Facts, kind: str) -> Finding:
    (found,) = [finding for finding in findings(of) if finding.kind == kind]
    return found


def test_a_kernel_that_misses_no_goal() -> None:
    assert kinds(facts()) == []
    assert bottleneck(facts(), ()) is None


def test_a_single_core_comes_first_and_its_gain_stops_at_the_dram() -> None:
    single = facts(replace(BUSY, grid=(1, 1), cores=1, bandwidth_gb_s=120.0))
    found = findings(single)
    limit = bottleneck(single, found)
    assert limit is not None
    assert (limit.kind, limit.goal, limit.limits) == ("single-core", 1, True)
    floor = 12 * MB / 288e3
    assert limit.gain == pytest.approx(100.0 / floor)
    assert "DRAM is the limit" in limit.evidence


SMALL = replace(BUSY, barriers=(4096, 2048))
TWICE = replace(BUSY, dram_read=Traffic(16 * MB, 8192))
WAITING = LineCycles("TRISC_0", "f", 5, "", 100, 100.0, operations=(Operation("cb_wait", 80),))
CHAINED = {"chained": [{"from": "a", "to": "b", "tensor": "t"}]}


def block(extent: int, size: int) -> tuple[Block, ...]:
    return (Block("a", 1, (extent, extent), 2, size),)


@pytest.mark.parametrize(
    ("of", "kind", "said"),
    [
        (facts(replace(BUSY, grid=(8, 7), cores=60)), "unused-cores", {"limits": False}),
        (facts(TWICE), "redundant-traffic", {"goal": 2, "gain": pytest.approx(20 / 12)}),
        (facts(SMALL, blocks=block(1, 4096)), "small-blocks",
         {"goal": 3, "limits": True, "change": "by 16x"}),
        (facts(SMALL, blocks=block(24, 900_000)), "small-blocks",
         {"limits": False, "change": "lower buffer_factor"}),
        (facts(blocks=block(64, 16_777_216)), "blocks-above-l1", {}),
        (facts(replace(BUSY, kernel_cycles={"BRISC": (10_000, 100_000)})), "imbalanced-cores",
         {"title": "90%"}),
        (facts(lines=(WAITING,)), "stalls", {"title": "TRISC_0 80%"}),
        (facts(replace(BUSY, bandwidth_gb_s=20.0)), "low-bandwidth", {}),
        (facts(run=CHAINED), "kernels-chained", {"evidence": "t from a to b"}),
        (facts(production=((32768, 32768),)), "fits-only-in-test", {"change": "stream"}),
        (facts(production=((8192, 2048),), chips=1), "fits-only-in-test", {}),
    ],
)  # fmt: skip
def test_one_thing_that_is_wrong(of: Facts, kind: str, said: dict[str, Any]) -> None:
    found = only(of, kind)
    assert kinds(of) == [kind]
    for name, value in said.items():
        told = getattr(found, name)
        assert value in told if isinstance(value, str) else told == value


@pytest.mark.parametrize(
    "of",
    [
        facts(replace(BUSY, kernel_cycles={"BRISC": (99_000, 100_000), "TRISC_1": (10, 500)})),
        facts(
            replace(BUSY, bandwidth_gb_s=20.0), log=KernelLog(roofline=Roofline(50.0, "compute"))
        ),
        facts(production=((2048, 1024),)),
        facts(production=((8192, 2048),), chips=4),
    ],
)
def test_what_is_no_matter(of: Facts) -> None:
    """A short thread that varies, bandwidth where compute is the limit, data that fits L1."""
    assert kinds(of) == []


def test_goals_are_in_order() -> None:
    bad = facts(
        replace(BUSY, cores=1, dram_read=Traffic(64 * MB, 32768), barriers=(32768, 2048)),
        blocks=(Block("a", 1, (1, 1), 2, 4096),),
    )
    limiting = [finding.goal for finding in findings(bad) if finding.limits]
    assert limiting == [1, 2, 3]


def test_imbalance_in_the_device_log_names_the_core() -> None:
    zones = tuple(
        Zone(ZoneKey(0, x, 1, "BRISC", "BRISC-KERNEL"), (cycles,), 1, 1)
        for x, cycles in ((1, 100), (2, 300))
    )
    found = only(facts(device=DeviceLog(Machine(), zones)), "imbalanced-cores")
    assert "(2, 1) the most" in found.evidence
    assert found.gain == pytest.approx(1.5)


def test_stalls_by_the_roofline() -> None:
    roofline = Roofline(10.0, "memory", 90, 80, {"TRISC_1": 100, "BRISC": 100}, {"TRISC_1": 60})
    found = only(facts(log=KernelLog(roofline=roofline)), "stalls")
    assert "TRISC_1 60%" in found.title
    assert "BRISC" not in found.title


def test_unequal_counts_as_in_tt_langs_own_sample() -> None:
    of = gather(parse_log(AUTO), None, {"kernel": "k"}, [])
    found = only(of, "unequal-counts")
    assert found.title == "NCRISC: 512 cb_reserve but 384 cb_push"


def test_several_profiles_in_one_log() -> None:
    assert "several-outputs" in kinds(facts(log=parse_log(AUTO * 2)))


@pytest.mark.parametrize("bound", ["compute", "memory"])
def test_without_a_missed_goal_the_bound_is_told(bound: str) -> None:
    of = facts(log=KernelLog(roofline=Roofline(40.0, bound, 60, 100)))
    limit = bottleneck(of, findings(of))
    assert limit is not None
    assert limit.kind == f"{bound}-bound"
    assert "40 %" in limit.title


def test_gather_takes_the_kernels_own_program() -> None:
    of = gather(parse_log(PERF), None, {"kernel": "make.__demo_kernel"}, [])
    assert of.program is not None
    assert of.program.number == 1024
    assert of.duration_us == pytest.approx(2225436 / 1350)
    assert of.available_cores == 64
    assert of.peak_gb_s == 288


def test_gather_reads_arguments_blocks_and_lines_of_the_original() -> None:
    records = [
        {
            "event": "kernel-start",
            "arguments": [{"name": "0", "shape": [40, 64], "dtype": "DataType.BFLOAT8_B"}],
        }
    ]
    run = {
        "buffers": [{"name": "a", "line": 3, "tiles": [2, 2], "factor": 2}],
        "line_map": {"106": 6},
    }
    of = gather(parse_log(AUTO + OLD_PERF), None, run, records)
    assert of.arguments[0].bytes == int(64 * 64 * 1.0625)
    assert of.block_bytes == int(4 * 1024 * 1.0625 * 2)
    assert of.lines[0].line == 6


@pytest.mark.parametrize("broken", [None, 3, "x", [{"shape": "no"}], [3], [{"shape": [1.5]}]])
def test_gather_survives_broken_records(broken: object) -> None:
    assert gather(KernelLog(), None, {}, [{"event": "kernel-start", "arguments": broken}])


def test_sizes() -> None:
    assert tensor_bytes((1, 1), "float32") == 32 * 32 * 4
    assert tensor_bytes((2, 33, 32), "bfloat16") == 2 * 64 * 32 * 2
    assert element_bytes("unknown") == 2.0
    assert Finding("k", 1, "", "", "", 1.01).worth == "negligible"
