"""What dynamo and torch_xla have noted, as events."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.compiler_breaks import write_causes
from instrumentor.runtime.recorder.records import Records
from tests.runtime.recorder.tensors import events


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    return Records()


def dynamo(monkeypatch: pytest.MonkeyPatch, **has: Any) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(**has))


def test_equal_breaks_are_one_event_and_a_first_compilation_is_none(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [SimpleNamespace(filename="a.py", lineno=n, name="f") for n in (1, 7)]
    stop = SimpleNamespace(reason="print\n  Explanation: none", user_stack=frames)
    again = SimpleNamespace(
        recompile_reason="0/0: tensor 'x' size mismatch",
        co_filename="a.py",
        co_firstlineno=3,
        co_name="f",
        entire_frame_compile_time_s=0.5,
    )
    metrics = [SimpleNamespace(recompile_reason=None), again]
    found = {"graph_break_reasons": [stop, stop], "get_compilation_metrics": lambda: metrics}
    dynamo(monkeypatch, **found)
    write_causes(records, {})
    first, second = events(tmp_path, "cause")
    assert (first["kind"], first["what"], first["count"]) == ("graph break", "print", 2)
    assert first["places"][0] == ["a.py", 7, "f"]  # the innermost
    assert (second["what"], second["ms"]) == ("tensor 'x' size mismatch", 500.0)
    assert second["places"] == [["a.py", 3, "f"]]


def test_only_ops_that_torch_xla_ran_on_the_host_are_causes(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowest = SimpleNamespace(
        _xla_counter_names=lambda: ["aten::nonzero", "xla::add"], _xla_counter_value=lambda _: 3
    )
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=lowest))
    place = ("t.py", 4, "train")
    write_causes(records, {"aten::nonzero": {(place,): 1, (): 2}, "aten::add": {(place,): 5}})
    found = [(each["what"], each["places"], each["count"]) for each in events(tmp_path, "cause")]
    assert found == [("aten::nonzero", [[*place]], 1), ("aten::nonzero", [], 2)]


def test_another_version_is_a_warning_and_no_failure(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dynamo(monkeypatch, graph_break_reasons=[SimpleNamespace(reason="x")])
    write_causes(records, {})
    (warned,) = events(tmp_path, "warning")
    assert warned["kind"] == "causes" and not events(tmp_path, "cause")
