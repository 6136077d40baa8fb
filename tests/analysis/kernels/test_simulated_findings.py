"""What a simulated kernel is told: nothing of a right one, each fault by name, less from a part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.kernels.findings import Finding
from instrumentor_analysis.kernels.simulated_findings import Simulated, simulated_findings, tiles
from instrumentor_analysis.kernels.simulation import (
    MOST_EXTENTS,
    MOST_NAMES,
    MOST_WAITING,
    BufferFacts,
    Simulation,
    Used,
    read_simulation,
)
from instrumentor_analysis.shared.errors import NothingMeasured
from tests.analysis.kernels.counted import RUN, changed, folder_with

WAITS: dict[str, Any] = {
    "thread": "read",
    "operation": "wait",
    "buffer": "a_dfb",
    "file": "/x",
    "line": 5,
    "nodes": [0],
}


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


def _writing(**written: Any) -> dict[str, Any]:
    """Eight tiles of y in as many places as said, each written at line 30."""
    nothing = {"never": 0, "again": 0, "shared": 0, "differing": 0, "unplaced": 0, "box": []}
    place = {"thread": "write", "what": "write", "name": "y", "buffer": "y_dfb"}
    at = [{**place, "file": "/x/double.py", "line": 30, "count": 2}]
    return changed(written={"y": {**nothing, "clashes": [], **written}}, places=at)


def _clash(differ: bool, later: int) -> dict[str, Any]:
    writers = [{"node": n, "thread": "write", "file": "/x", "line": 30} for n in (0, later)]
    return {"tile": [0, 1], "differ": differ, "earlier": writers[0], "later": writers[1]}


def test_as_many_tiles_in_the_wrong_places_are_no_whole_output(tmp_path: Path) -> None:
    clash = _clash(True, 1)
    document = _writing(
        never=4, again=4, shared=4, differing=4, box=[[4, 7], [0, 0]], first=[4, 0], clashes=[clash]
    )
    kinds = found(tmp_path, document, source_file="/x/double.py")
    assert list(kinds) == ["partly-written", "overlapping-writes"]
    partly, overlapping = kinds.values()
    assert partly.title == "y is written only in part: 4 of 8 tiles" and partly.limits
    assert "never written: tiles (4, 0) to (7, 0); written at line 30" in partly.evidence
    assert overlapping.title == ("4 tiles of y are written by several nodes, with different values")
    assert overlapping.evidence == "tile (0, 1): by node (0, 0), then by node (1, 0) at line 30"
    assert overlapping.limits and "slice y at line 30" in overlapping.change
    for right in ({"validation": {"ok": True, "by": "pytest"}}, {"own_check": 50}):
        approved = found(tmp_path, document, **right)
        assert approved and not any(finding.limits for finding in approved.values())
    wrong = {"ok": False, "by": "its own", "detail": "no"}
    assert found(tmp_path, document, own_check=50, validation=wrong)["partly-written"].limits


@pytest.mark.parametrize(
    ("later", "shared", "words"),
    [(0, 0, "by the same node each"), (1, 2, "2 of them by several nodes, with the same values")],
)
def test_what_is_written_again_alike_is_a_remark(
    tmp_path: Path, later: int, shared: int, words: str
) -> None:
    document = _writing(again=2, shared=shared, clashes=[_clash(False, later)])
    again = found(tmp_path, document)["written-again"]
    assert again.title == "2 tiles of y are written more than once" and not again.limits
    assert words in again.evidence


def test_holes_that_fill_no_box_have_an_example(tmp_path: Path) -> None:
    document = _writing(never=2, box=[[1, 6], [0, 0]], first=[1, 0])
    evidence = found(tmp_path, document)["partly-written"].evidence
    assert "2 tiles within tiles (1, 0) to (6, 0), such as (1, 0)" in evidence
    document = _writing(never=1, box=[[7, 7], [0, 0]], first=[7, 0])
    assert "never written: tile (7, 0)" in found(tmp_path, document)["partly-written"].evidence


def test_without_places_the_amount_still_tells(tmp_path: Path) -> None:
    document = _writing(unplaced=1)
    document["copies"][1][5] = 2
    assert "6 of 8 tiles" in found(tmp_path, document)["partly-written"].title


def test_a_kernel_that_writes_nothing_is_not_right(tmp_path: Path) -> None:
    document = changed()
    document["copies"] = document["copies"][::2]
    assert found(tmp_path, document)["nothing-written"].limits
    idle = changed(copies=[], blocks=[], buffers={}, l1_bytes=2_932_736)
    kinds = found(tmp_path, idle)
    assert list(kinds) == ["above-l1", "nothing-written"]
    assert kinds["above-l1"].change == "Smaller blocks, or a lower block_count."


def test_what_is_not_right_comes_first_then_what_limits(tmp_path: Path) -> None:
    document = changed()
    for row in document["copies"][::2]:
        row[4:] = [8, 32, 0, 0, 32]
    kinds = list(found(tmp_path, document, cores=64, tensors=["a", "z"]))
    assert kinds[:3] == ["untouched", "small-grid", "read-again"]


def test_a_wrong_result_names_its_likely_cause(tmp_path: Path) -> None:
    wrong = {"ok": False, "by": "the script's own checks", "detail": "no"}
    alone = found(tmp_path, changed(), validation=wrong)["wrong-result"].change
    assert "compute (line 15) computes" in alone and "Also" not in alone
    unused = found(tmp_path, changed(), validation=wrong, tensors=["a", "z"])["wrong-result"]
    assert unused.change.startswith("Most likely because z is never read or written.")


def test_lines_of_what_is_never_used_not_popped_or_idle(tmp_path: Path) -> None:
    document = _writing()
    document["blocks"][7][7] = 1
    document["grid"] = [3, 1]
    wait = {"thread": "write", "what": "wait", "name": "y_dfb", "buffer": "", "file": "/x"}
    document["places"].append({**wait, "line": 29, "count": 1})
    kinds = found(
        tmp_path,
        document,
        tensors=["a", "y", "z"],
        parameters=["a", "y", "z"],
        parameter_lines=[3, 3, 4],
        grid={"kind": "tuple", "line": 2},
        source_file="/x",
    )
    assert kinds["untouched"].title == "z (line 4) is never read or written"
    assert kinds["implied-pop"].evidence.endswith("wait() at line 29")
    assert "grid 3x1 (line 2); idle: (2, 0)" in kinds["idle-nodes"].evidence


def test_idle_nodes_get_work_by_the_loops_or_by_more_blocks(tmp_path: Path) -> None:
    few = found(tmp_path, changed(grid=[3, 1]))["idle-nodes"]
    assert few.change.startswith("2 blocks are too few for 3 nodes: smaller blocks")
    document = changed(grid=[3, 1])
    for row in document["copies"]:
        row[4] = 4
    many = found(tmp_path, document)["idle-nodes"]
    assert many.change.startswith("8 blocks are enough for 3 nodes: let each node take one in 3")


def test_a_node_that_no_pipe_reaches_is_told_of_the_pipes(tmp_path: Path) -> None:
    """Other loops would not employ it."""
    document = changed(grid=[3, 1])
    document["pipes"] = [
        [0, "pipe_(0,0)_to_(0:2,0)", "send", 1, 1],
        [1, "pipe_(0,0)_to_(0:2,0)", "receive", 1, 1],
    ]
    kinds = found(tmp_path, document)
    said = kinds["in-no-pipe"]
    assert said.title == "1 node is in no pipe and does nothing: (2, 0)" and said.goal == 1
    assert "pipe_(0,0)_to_(0:2,0)" in said.evidence and "idle-nodes" not in kinds
    document["tensors"]["y"]["units"] = 3 * document["tensors"]["y"]["units"]
    assert found(tmp_path, document)["in-no-pipe"].goal == 4
    wrong = {"ok": False, "by": "the script's own checks", "detail": "wrong result"}
    result = found(tmp_path, document, validation=wrong)["wrong-result"]
    assert result.change.startswith("Most likely because 1 node is in no pipe")
    document["pipes"].append([2, "pipe_(0,0)_to_(0:2,0)", "receive", 1, 1])
    assert "idle-nodes" in found(tmp_path, document)


def test_a_run_that_was_ended_tells_where_it_stood(tmp_path: Path) -> None:
    problem = {"kind": "stopped", "line": 28, "thread": "compute", "node": 1}
    (finding,) = found(tmp_path, changed(complete=False, problem=problem)).values()
    assert finding.title == "the simulation was ended in compute, line 28"
    assert "on node (1, 0)" in finding.evidence
    problem["line"] = 0
    assert not found(tmp_path, changed(complete=False, problem=problem))


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
    assert "which are not time" in reader.evidence and "block_count" not in reader.change
    short = _turns(3, 9)
    for row in short["blocks"]:
        row[5] = 9 if row[1] == "write" and row[3] == "wait" else row[5]
    assert found(tmp_path, short)["behind"].change.startswith("Block_count=3 of a_dfb lets it run")
    compute = found(tmp_path, _turns(9, 0))["behind"]
    assert compute.title == "compute (line 15) is behind: read waits for it"
    assert "behind" not in found(tmp_path, _turns(1, 1))


def test_copies_are_to_be_started_together_only_where_they_are_not(tmp_path: Path) -> None:
    for beside, said in ((0, True), (10, False)):
        document = _turns(0, 9)
        rows = [[0, "read", "b_dfb", what, 10, 0, 40, 0] for what in ("reserve", "push")]
        document["blocks"] += rows
        document["starts"] = [[node, "read", 20, beside] for node in (0, 1)]
        change = found(tmp_path, document)["behind"].change
        assert ("Start all copies of a block" in change) == said


def test_one_block_makes_threads_take_turns_and_spare_ones_take_l1(tmp_path: Path) -> None:
    document = _turns(0, 0)
    document["buffers"]["a_dfb"].update(blocks=1, deepest=1)
    document["buffers"]["y_dfb"].update(blocks=8, deepest=3)
    kinds = found(tmp_path, document)
    assert "block_count=2" in kinds["single-block"].change
    assert "block_count=3 of y_dfb" in kinds["spare-blocks"].change


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


def test_a_tensor_given_for_two_parameters_is_used_by_either_name(tmp_path: Path) -> None:
    document = changed(same={"c": "y"})
    assert not found(tmp_path, document, tensors=["a", "c", "y"])
    assert "untouched" in found(tmp_path, changed(same={"c": "d"}), tensors=["a", "c", "y"])


def test_a_block_that_refuses_is_named_with_what_may_follow(tmp_path: Path) -> None:
    said = "RuntimeError: Cannot perform pop().\n\nNext: out_block.store(this_block).\n"
    problem = {"kind": "error", "message": said, "thread": "compute", "line": 9, "buffer": "a_dfb"}
    error = found(tmp_path, changed(complete=False, problem=problem))["error"]
    assert "The block is one of a_dfb (line 6)." in error.evidence
    assert error.change.startswith("tt-lang allows this next: out_block.store(this_block).")
    problem["message"] = said.replace("out_block.store(this_block)", "see allowed ops in Details")
    error = found(tmp_path, changed(complete=False, problem=problem))["error"]
    assert error.change.startswith("Correct that line.")


def test_a_slice_behind_the_edge_is_told_as_that_with_its_node(tmp_path: Path) -> None:
    said = "ValueError: Tensor shape (64, 0) does not match Block shape (2, 2)"
    problem = {"kind": "error", "message": said, "thread": "read", "line": 9, "node": 1}
    error = found(tmp_path, changed(complete=False, problem=problem))["error"]
    assert error.evidence == f"{said} On node (1, 0)."
    assert error.change.startswith("The slice begins at or beyond the edge of the tensor")
    problem.update(message=said.replace("(64, 0)", "(60, 32)"), node=7)
    error = found(tmp_path, changed(complete=False, problem=problem))["error"]
    assert "On node" not in error.evidence and error.change.startswith("Correct that line.")


def test_a_tensor_that_is_read_in_part_is_told_where_nothing_checks_the_result(
    tmp_path: Path,
) -> None:
    part = {"never": 2, "box": [[6, 7], [0, 0]], "first": [6, 0]}
    document = changed(reached={"a": part})
    finding = found(tmp_path, document)["partly-read"]
    assert finding.title == "a is read only in part: 6 of 8 tiles" and not finding.limits
    assert finding.evidence == "never read: tiles (6, 0) to (7, 0)"
    assert "partly-read" not in found(tmp_path, document, own_check=50)
    wrong = {"ok": False, "by": "pytest", "detail": "no"}
    assert (
        "a is read only in part"
        in found(tmp_path, document, validation=wrong)["wrong-result"].change
    )
    assert not found(tmp_path, changed(reached={"a": {**part, "unplaced": 1}}))
    both = found(tmp_path, changed(reached={"a": part, "y": part}))["partly-read"]
    assert both.title == "a and y are read only in part: 6 of 8 tiles"
    hole = changed(reached={"a": part}, written={"y": part})
    assert "partly-read" not in found(tmp_path, hole)
    # Of what is read in part only that part is read again.
    document["copies"][0][5] = 40
    document["copies"][0][8] = 40
    assert found(tmp_path, document)["read-again"].title == "a is read 7.33 times from DRAM"


@pytest.mark.usefixtures("no_hang")
def test_as_many_buffers_as_there_may_be_in_many_lines() -> None:
    names = [f"b{at}" for at in range(MOST_NAMES)]
    counted = Simulation(
        complete=True,
        events=1,
        operations=1,
        grid=(1,),
        buffers={name: BufferFacts(blocks=2) for name in names},
        blocks=tuple(
            Used(0, f"t{at % 5}", names[at % MOST_NAMES], "push", 1, 0, 1, 1)
            for at in range(500_000)
        ),
    )
    kinds = Counter(each.kind for each in simulated_findings(Simulated(counted, RUN, 2)))
    assert kinds["left-over"] == MOST_NAMES and kinds["implied-push"] == 5 * MOST_NAMES


@pytest.mark.parametrize(
    "document",
    [
        changed(grid=[1] * (MOST_EXTENTS + 1)),
        changed(problem={"kind": "deadlock", "blocked": [WAITS] * (MOST_WAITING + 1)}),
    ],
    ids=["grid", "blocked"],
)
def test_more_than_any_kernel_has_is_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    with pytest.raises(NothingMeasured, match="cannot be read"):
        read_simulation(folder_with(tmp_path, document))
