"""Flow graphs and pipe graphs, whole and cut."""

from __future__ import annotations

import pytest

from instrumentor_analysis.kernels.graphs import read_buffers, read_document, read_pipes
from instrumentor_analysis.kernels.log import parse_log
from instrumentor_analysis.kernels.model import BufferUse, Pipe
from tests.analysis.kernels.printed import FLOW, PIPES


@pytest.mark.parametrize("name", ["CB", "DFB"])
def test_buffers_in_both_spellings_by_index(name: str) -> None:
    first, second = parse_log(FLOW.format(name=name)).buffers
    assert (first.index, second.index) == (0, 1)
    assert first.producers == (BufferUse("dm0", "noc", 10, "cb_reserve"),)
    assert first.consumers == (BufferUse("comp", "compute", 20, "cb_wait"),)
    assert second.copies == (BufferUse("dm1", "noc", 40, "copy", "write"),)


def test_a_cut_graph_says_where_it_stopped() -> None:
    log = parse_log(FLOW.format(name="DFB")[:-120])
    assert log.buffers == ()
    assert "cut or damaged" in log.sections[0].problem
    assert not log.sections[0].complete


def test_a_heading_without_a_graph() -> None:
    assert parse_log("=== CB FLOW GRAPH ===\n").sections[0].problem == "no JSON follows"


def test_pipes() -> None:
    assert parse_log(PIPES).pipes == (Pipe("(0,0)", "[[1, 0], [2, 0]]"),)


def test_a_kernel_without_pipes_prints_the_heading_alone() -> None:
    (section,) = parse_log("=== PIPE GRAPH ===\n\n").sections
    assert section.complete


@pytest.mark.parametrize(
    "value", [None, 3, [], {}, {"circular_buffers": 5}, [{"cb_index": "x"}], {"pipes": [1, {}]}]
)
def test_other_shapes_give_nothing(value: object) -> None:
    assert read_buffers(value) == []
    assert read_pipes(value) == []


def test_document_stops_at_its_end() -> None:
    document = read_document(["words", '{"a":', "1}", "more {"])
    assert document is not None
    assert (document.value, document.lines, document.problem) == ({"a": 1}, 3, "")
