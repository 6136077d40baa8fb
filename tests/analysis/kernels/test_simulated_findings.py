"""What a simulated kernel is told: nothing of a right one, each fault by name, less from a part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.kernels.findings import Finding
from instrumentor_analysis.kernels.simulated_findings import Simulated, simulated_findings, tiles
from instrumentor_analysis.kernels.simulation import read_simulation
from tests.analysis.kernels.counted import RUN, changed, folder_with


def found(folder: Path, document: dict[str, Any], cores: int = 2, **run: Any) -> dict[str, Finding]:
    counted = read_simulation(folder_with(folder, document))
    return {each.kind: each for each in simulated_findings(Simulated(counted, RUN | run, cores))}


def test_nothing_is_said_of_a_kernel_without_a_fault(tmp_path: Path) -> None:
    assert not found(tmp_path, changed())


def test_a_read_that_is_repeated_is_traffic(tmp_path: Path) -> None:
    document = changed()
    for row in document["copies"][::2]:
        row[4:] = [8, 32, 0, 0, 32]
    finding = found(tmp_path, document)["read-again"]
    assert finding.title == "a is read 8 times from DRAM" and finding.limits
    assert "64 tiles of 8" in finding.evidence
    # Each node writes one block: larger ones would leave nodes without any.
    assert finding.change == "Multicast: one node reads a and sends it over a ttl.Pipe."
    document["copies"][1][4] = 8
    assert found(tmp_path, document)["read-again"].change.startswith("Larger blocks (L1 has room")


def test_a_repeated_read_of_few_tiles_is_to_be_kept(tmp_path: Path) -> None:
    document = changed()
    document["tensors"]["a"]["units"] = 1
    assert "before the loops" in found(tmp_path, document)["read-again"].change


def test_l1_names_the_largest_buffer(tmp_path: Path) -> None:
    document = changed(l1_bytes=2_932_736)
    document["buffers"]["y_dfb"]["bytes"] = 2_000_000
    finding = found(tmp_path, document)["above-l1"]
    assert (
        finding.title.endswith("2.0 times the L1 of a node") and "of y_dfb first" in finding.change
    )


def test_nodes_that_do_nothing_or_more_than_others(tmp_path: Path) -> None:
    assert "(0, 2)" in found(tmp_path, changed(grid=[1, 3]))["idle-nodes"].evidence
    document = changed()
    document["copies"][0][5] = 40
    assert found(tmp_path, document)["uneven-nodes"].title.startswith("the busiest node moves 1.7")


def test_who_multicasts_moves_for_the_others(tmp_path: Path) -> None:
    document = changed(
        pipes=[[0, "pipe_0_to_1", "send", 4, 16], [1, "pipe_0_to_1", "receive", 4, 16]]
    )
    document["copies"][0][5] = 40
    assert "uneven-nodes" not in found(tmp_path, document)


def test_a_grid_that_is_not_the_chips(tmp_path: Path) -> None:
    assert found(tmp_path, changed(), cores=64)["small-grid"].title.endswith("2 of 64 cores")
    assert (
        found(tmp_path, changed(), cores=1)["large-grid"].title
        == "the grid has 2 nodes, wormhole 1"
    )


def test_small_copies_where_there_are_many(tmp_path: Path) -> None:
    document = changed()
    for row in document["copies"]:
        row[4:6] = [16, 16]
    document["tensors"]["a"]["units"] = document["tensors"]["y"]["units"] = 32
    finding = found(tmp_path, document)["small-blocks"]
    assert finding.title == "64 copies of 1 tile" and "16 times as much" in finding.change
    assert tiles(2.5) == "2.5 tiles"


def test_blocks_that_are_left_and_those_popped_for_it(tmp_path: Path) -> None:
    document = changed()
    document["blocks"][3][4] = 0
    finding = found(tmp_path, document)["left-over"]
    assert finding.title == "1 block of a_dfb is never used" and "a_dfb (line 6)" in finding.change
    document = changed()
    document["blocks"][7][7] = 1
    assert found(tmp_path, document)["implied-pop"].title == "write does not pop y_dfb"


def test_a_tensor_that_is_not_moved_and_one_written_twice(tmp_path: Path) -> None:
    assert "z is never" in found(tmp_path, changed(), tensors=["a", "z"])["untouched"].title
    document = changed()
    document["copies"][1][5] = 12
    assert "written 2 times" in found(tmp_path, document)["written-again"].title


def test_a_shard_is_whole_where_its_tensor_is_not(tmp_path: Path) -> None:
    document = changed()
    document["tensors"]["y"].update(units=32, devices=4)
    assert not found(tmp_path, document)
    document["tensors"]["y"]["devices"] = 1
    assert "8 of 32 tiles" in found(tmp_path, document)["partly-written"].title


def _turns(reader: int, computing: int) -> dict[str, Any]:
    """Ten blocks on each node; how often compute and read asked in vain."""
    document = changed()
    for row in document["blocks"]:
        row[4] = 10
        row[5] = {("compute", "wait"): computing, ("read", "reserve"): reader}.get(
            (row[1], row[3]), 0
        )
    return document


def test_who_is_behind_is_who_others_wait_for(tmp_path: Path) -> None:
    reader = found(tmp_path, _turns(0, 9))["behind"]
    assert reader.title == "read (line 9) is behind: compute waits for it" and not reader.limits
    assert "no time" in reader.evidence and "block_count=3 of a_dfb" in reader.change
    compute = found(tmp_path, _turns(9, 0))["behind"]
    assert compute.title == "compute (line 15) is behind: read waits for it"
    assert "behind" not in found(tmp_path, _turns(1, 1))


def test_one_block_makes_threads_take_turns_and_spare_ones_take_l1(tmp_path: Path) -> None:
    document = _turns(0, 0)
    document["buffers"]["a_dfb"].update(blocks=1, deepest=1)
    document["buffers"]["y_dfb"].update(blocks=8, deepest=3)
    kinds = found(tmp_path, document)
    assert "block_count=2" in kinds["single-block"].change
    assert "block_count=3 of y_dfb" in kinds["spare-blocks"].change


def _hung(*blocked: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    rows = [
        {"thread": t, "operation": o, "buffer": b, "file": "/x", "line": 5, "nodes": [0]}
        for t, o, b in blocked
    ]
    return changed(complete=False, problem={"kind": "deadlock", "blocked": rows}, **more)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (_hung(("compute", "wait", "a_dfb")), "read (line 9) has ended, compute (line 15) has not"),
        (_hung(("compute", "wait", "b_dfb")), "No thread ever pushes a block of b_dfb"),
        (
            _hung(("compute", "wait", "a_dfb"), ("read", "reserve", "a_dfb")),
            "The threads wait for each other",
        ),
    ],
)
def test_the_way_out_of_a_deadlock(tmp_path: Path, document: dict[str, Any], words: str) -> None:
    kinds = found(tmp_path, document)
    assert list(kinds) == ["deadlock"] and words in kinds["deadlock"].change


def test_of_a_part_nothing_is_said_that_the_rest_may_change(tmp_path: Path) -> None:
    document = changed(complete=False, grid=[4, 4])
    document["copies"][0][5] = 400
    assert not found(tmp_path, document)


def test_an_error_and_a_wrong_result_come_first(tmp_path: Path) -> None:
    problem = {"kind": "error", "message": "ValueError: no\nmore", "line": 3, "thread": "read"}
    kinds = found(tmp_path, changed(problem=problem), validation={"ok": False, "by": "pytest"})
    assert list(kinds) == ["error", "wrong-result"]
    assert kinds["error"].evidence == "ValueError: no"


def test_a_check_that_fails_after_later_calls_says_nothing_of_this_one(tmp_path: Path) -> None:
    kinds = found(tmp_path, changed(), validation={"ok": False, "by": "checks", "later": 3})
    assert "wrong-result" not in kinds
    assert kinds["wrong-later"].title == "a check of the script fails, 3 calls after this one"
    assert "--call N" in kinds["wrong-later"].change


def test_what_the_simulator_lacks_is_no_fault_of_the_kernel(tmp_path: Path) -> None:
    said = "NameError: name 'call_extern_func' is not defined"
    problem = {"kind": "error", "message": said, "line": 3, "thread": "read"}
    kinds = found(tmp_path, changed(problem={**problem, "lacks": "call_extern_func"}))
    assert list(kinds) == ["simulator-lacks"]
    assert kinds["simulator-lacks"].change.startswith("It may well be right")
