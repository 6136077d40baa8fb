"""The file of events: whole lines of JSON, from the process that measures alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from instrumentor.runtime.recorder.records import Records
from tests.runtime.recorder.tensors import events


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    """Those of rank 1, whose every line bears it."""
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    return Records()


def test_what_comes_with_each_step_is_the_line_that_any_event_is(
    records: Records, tmp_path: Path
) -> None:
    steps: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"kind": "steady", "label": "100 %s", "memory": {"held": 1}}, {"name": "a_1", "ms": 0.1}),
        ({"kind": "steady", "label": "100 %s", "memory": {"held": 1}}, {"name": "a_2", "ms": 1e-9}),
        ({"kind": "steady", "label": "100 %s", "memory": {"held": 2}}, {"name": "a_3", "ms": 2}),
        ({"kind": "steady", "label": "100 %s", "memory": {"held": 2}}, {"ms": 0.5, "own_ms": 0.0}),
    ]
    for kept, changing in steps:
        records.again("sample", kept, **changing)
        records.write("sample", **kept, **changing)
    lines = events(tmp_path)
    assert lines[::2] == lines[1::2]
    assert [each["memory"]["held"] for each in lines[::2]] == [1, 1, 2, 2]
    assert all((each["rank"], each["pid"]) == (1, os.getpid()) for each in lines)


def test_memory_and_times_of_a_step_are_filled_in(records: Records, tmp_path: Path) -> None:
    kept = {"kind": "steady", "device": "cpu"}
    for memory, milliseconds in (({"resident": 7}, 0.1), ({"resident": 8}, 1e-9), ({}, 12345.678)):
        records.again("sample", kept, memory, name="a", index=3, ms=milliseconds)
        more = {"memory": memory} if memory else {}
        records.write("sample", **kept, **more, name="a", index=3, ms=milliseconds)
    lines = events(tmp_path)
    assert lines[::2] == lines[1::2]
    assert all(type(each["index"]) is int for each in lines)


def test_times_have_the_digits_of_a_clock(records: Records, tmp_path: Path) -> None:
    records.again("sample", {}, ms=1 / 3)
    assert '"ms": 0.333333333}' in (tmp_path / "record.jsonl").read_text()


def test_each_event_stands_in_the_file_at_once(records: Records, tmp_path: Path) -> None:
    for number in range(3):
        records.again("sample", {}, index=number)
        last = (tmp_path / "record.jsonl").read_text().splitlines()[-1]
        assert json.loads(last)["index"] == number


def test_a_fork_of_the_process_records_nothing(records: Records, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        records.write("from the fork")
        records.again("from the fork", {}, ms=1.0)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    records.write("from the process")
    assert [each["event"] for each in events(tmp_path)] == ["from the process"]
