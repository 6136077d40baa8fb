"""The sums of a simulated invocation: read back, added up, and measured by less of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.kernels.simulation import read_simulation
from instrumentor_analysis.shared.errors import NothingMeasured
from tests.analysis.kernels.counted import changed, folder_with


def test_rows_of_nodes_and_threads_are_added_up(tmp_path: Path) -> None:
    counted = read_simulation(folder_with(tmp_path, changed()))
    moved = counted.moved["a", "read"]
    assert (moved.copies, moved.tiles, moved.dram) == (2, 8, 8) and counted.times(moved) == 1
    assert counted.uses("a_dfb", "push")["read"].count == 2
    assert counted.count("a_dfb", "push", node=1) == 1
    assert counted.measures == {
        "dram_bytes": 16 * 2048,
        "busiest_node_bytes": 8 * 2048,
        "busiest_node_copies": 2,
    }
    assert counted.written_tiles == 8
    twice = [[node, "write", "y", "write", 2, 8, 0, 0, 8] for node in (0, 1)]
    again = read_simulation(folder_with(tmp_path, changed(copies=twice)))
    assert again.written_tiles == 8


def test_idle_nodes_and_their_coordinates(tmp_path: Path) -> None:
    counted = read_simulation(folder_with(tmp_path, changed(grid=[2, 3])))
    assert counted.idle == (2, 3, 4, 5)
    assert [counted.coordinates(node) for node in (0, 2, 5)] == ["(0, 0)", "(0, 2)", "(1, 2)"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"complete": 1}', '{"complete": true}'])
def test_a_damaged_file_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "simulation.json").write_text(text)
    with pytest.raises(NothingMeasured, match=r"simulation\.json: cannot be read"):
        read_simulation(tmp_path)


def test_a_folder_without_counts_is_said(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="counted nothing"):
        read_simulation(tmp_path)
