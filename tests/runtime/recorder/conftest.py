"""A recorder as it stands in a script."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from instrumentor.runtime.recorder.recorder import Recorder


@pytest.fixture(scope="module", autouse=True)
def without_what_other_tests_compiled() -> Iterator[None]:
    """The recorder looks for compiled functions among all objects of its process: of ours only."""
    compiles = sys.modules.pop("torch.nn.attention.flex_attention", None)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    if compiles is not None:
        sys.modules["torch.nn.attention.flex_attention"] = compiles


@pytest.fixture(autouse=True)
def no_mode_left_on() -> Iterator[None]:
    """A recorder that a test gives up in the middle watches the ops of all tests behind it."""
    yield
    lowest = getattr(sys.modules.get("torch"), "_C", None)  # a test's own torch has none
    while lowest is not None and lowest._len_torch_dispatch_stack():
        sys.modules["torch.utils._python_dispatch"]._pop_mode()


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
