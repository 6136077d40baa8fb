"""A recorder as it stands in a script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from instrumentor.runtime.recorder.recorder import Recorder


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The regions here hold no step, which the witness would say where torch is there."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder of one step, writing into record.jsonl."""
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    return Recorder(steps=1, warmup=0, profiler="wallclock")
