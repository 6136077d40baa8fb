"""Tensors in the place of another one, by their names: told where nothing says it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.kernels.findings import Finding
from instrumentor_analysis.kernels.simulated_facts import Simulated
from instrumentor_analysis.kernels.simulated_names import called_like, misplaced
from instrumentor_analysis.kernels.simulation import read_simulation
from tests.analysis.kernels.counted import RUN, changed, folder_with


def found(folder: Path, places: list[dict[str, Any]], **run: Any) -> list[Finding]:
    counted = read_simulation(folder_with(folder, changed(places=places)))
    return list(misplaced(Simulated(counted, {**RUN, "source_file": "/x", **run})))


def copied(name: str, buffer: str, what: str = "read") -> dict[str, Any]:
    ends = {"thread": "read", "what": what, "name": name, "buffer": buffer}
    return {**ends, "file": "/x", "line": 9, "count": 1}


@pytest.mark.parametrize(
    ("name", "other", "like"),
    [
        ("x_dfb", "x", True),
        ("xd", "x", True),
        ("dev_x", "x", True),
        ("x1_dfb", "x", False),
        ("acc_dfb", "a", False),
        ("wd", "x", False),
        ("A", "a", True),
    ],
)
def test_names_that_are_made_of_another(name: str, other: str, like: bool) -> None:
    assert called_like(name, other) == like


CALL = {"number": 1, "line": 40}


def test_crossed_arguments_are_told_with_the_line_of_the_call(tmp_path: Path) -> None:
    (swapped,) = found(tmp_path, [], invocation=CALL, given={"a": "yd", "y": "ad"})
    assert swapped.evidence == "line 40 gives yd for a and ad for y" and not swapped.limits


@pytest.mark.parametrize("given", [{"a": "ad", "y": "yd"}, {"a": "b", "y": "a"}, {"a": "q"}])
def test_arguments_that_do_not_cross_are_not(tmp_path: Path, given: dict[str, str]) -> None:
    assert not found(tmp_path, [], invocation=CALL, given=given)


def test_a_copy_for_the_buffer_of_another_tensor(tmp_path: Path) -> None:
    (swapped,) = found(tmp_path, [copied("y", "a_dfb")])
    assert swapped.title == "y is copied where a seems to belong"
    assert swapped.evidence == "line 9: y to a_dfb"
    assert not found(tmp_path, [copied("a", "a_dfb"), copied("a", "in_dfb"), copied("a", "")])


def test_what_was_found_right_is_not_suspected(tmp_path: Path) -> None:
    crossed = [copied("y", "a_dfb")]
    assert not found(tmp_path, crossed, validation={"ok": True})
    assert not found(tmp_path, crossed, own_check=50)
    assert found(tmp_path, crossed, own_check=50, validation={"ok": False})
