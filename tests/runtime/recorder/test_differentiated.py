"""What the last backward started from, on real torch: it tells the device, and is let go again."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")

from instrumentor.runtime.recorder.recorder import Recorder  # noqa: E402
from tests.runtime.recorder.tensors import events  # noqa: E402


def train(weight: Any) -> Any:
    """Two backwards, of which the second is of the loss that is returned."""
    (weight * 3).sum().backward()
    loss = (weight * 2).sum()
    loss.backward()
    return loss


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("given", [(), ({}, "text")], ids=["nothing", "no tensors"])
def test_a_loss_without_a_name_tells_the_device(
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[object, ...],
    kept: bool,
) -> None:
    monkeypatch.setattr(recorder.facts[1], "wanted", True)
    real = torch.autograd._engine_run_backward
    recorder.begin()
    loss = train(torch.ones(4, requires_grad=True))
    if not kept:
        del loss
    recorder.end(*given)
    (sample,) = events(tmp_path, "sample")
    assert sample["device"] == "cpu"
    assert sample["loss"] == (8.0 if kept else None)
    assert not [e for e in events(tmp_path, "warning") if "no tensor" in e["text"]]
    recorder.complete()
    assert torch.autograd._engine_run_backward is real


def test_an_optimizer_tells_it_where_no_backward_was_seen(
    recorder: Recorder, tmp_path: Path
) -> None:
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    recorder.begin()
    optimizer.step()
    recorder.end()
    (sample,) = events(tmp_path, "sample")
    assert sample["device"] == "cpu"
    recorder.complete()


def test_a_loss_is_not_kept_alive(recorder: Recorder) -> None:
    recorder.begin()
    loss = weakref.ref(train(torch.ones(4, requires_grad=True)))
    recorder.witness.conclude()  # reads the graph of the first backwards
    gc.collect()
    assert loss() is None
    recorder.end()
    recorder.complete()
