"""The gate, run as the text that goes into scripts; which call it lets through: test_properties."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instrumentor.kernels.gate import gate_text


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "kernel.jsonl"
    monkeypatch.setenv("INSTRUMENT_RECORD", str(path))
    monkeypatch.setattr("atexit.register", lambda function: function)
    monkeypatch.delitem(sys.modules, "_instrument_gate", raising=False)
    yield path
    sys.modules.pop("_instrument_gate", None)


def gate(kernel: str = "k", path: tuple[int, ...] | None = (1,), file: str = "/x/a.py") -> Any:
    """The gate of one file."""
    names: dict[str, Any] = {"__file__": file}
    exec(gate_text(kernel, path), names)
    return names["_instrument_gate"]


def events(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()]


def kernel(calls: list[Any]) -> Any:
    def run(*args: Any, **named: Any) -> str:
        calls.append(args)
        return "ran"

    return run


def test_only_the_chosen_place_runs_and_only_once(record: Path) -> None:
    calls: list[Any] = []
    one = gate()
    k = one.watch("k", kernel(calls))
    assert one.at(2, k)("a", "out") == "out"
    assert one.at(1, k)("b", "out") == "ran"
    assert one.at(1, k)("c", "out") == "out"
    assert k("d", "out") == "out"
    assert calls == [("b", "out")]
    kinds = [event["event"] for event in events(record)]
    assert kinds == ["load", "skipped", "kernel-start", "kernel", "skipped", "skipped"]


def test_others_that_run_are_counted_from_the_chosen_one_on(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSTRUMENT_KERNEL_OTHERS", "run")
    calls: list[Any] = []
    one = gate()
    k = one.watch("k", kernel(calls))
    for site in (2, 1, 3, 3):
        one.at(site, k)(site)
    one.finish()
    assert len(calls) == 4
    assert [(e["ran"], e["later"]) for e in events(record) if e["event"] == "kernel-count"] == [
        (1, 2)
    ]


def test_a_kernel_inside_the_running_one_is_part_of_it(record: Path) -> None:
    calls: list[Any] = []
    one = gate()
    inner = one.watch("inner", kernel(calls))
    outer = one.watch("k", lambda *args: inner(*args))
    assert one.at(1, outer)(1, 2) == "ran"
    assert calls == [(1, 2)]


def test_what_stands_for_a_result(record: Path) -> None:
    one = gate("other")
    k = kernel([])
    assert one.watch("k", k)() is None
    assert one.watch("k", k)(1, out=2) == 2
    assert one.watch("k", k, 0)(1, 2) == 1


def test_a_failing_kernel_is_recorded_and_its_error_goes_on(record: Path) -> None:
    one = gate()

    def fails(*args: Any) -> None:
        raise RuntimeError("TT_FATAL")

    with pytest.raises(RuntimeError):
        one.at(1, one.watch("k", fails))(1)
    assert events(record)[-1]["ok"] is False
    assert one.sites == []


def test_everything_else_is_the_kernels_own(record: Path) -> None:
    k = kernel([])
    k.grid = (8, 8)
    watched = gate().watch("k", k)
    assert watched.grid == (8, 8)
    assert watched.__name__ == "run"
    with pytest.raises(AttributeError):
        _ = watched.absent


def test_it_binds_as_a_method(record: Path) -> None:
    calls: list[Any] = []

    class Model:
        k = gate().watch("k", kernel(calls))

    model = Model()
    model.k(1)
    assert Model.k is Model.__dict__["k"]
    assert calls == []


def test_the_text_has_no_annotations_and_parses_as_python_3_8() -> None:
    text = gate_text("k", None)
    tree = ast.parse(text, feature_version=(3, 8))
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.AnnAssign)]
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.arg) and n.annotation]
