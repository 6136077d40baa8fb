"""Loops as people write them for torch_xla: each is measured, and each trains as it did before.

Every script draws dropout masks on the device. A sync moves the device's seed on, so a sync too
many shows as other losses.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.xla.runs import Measured, losses, measure, run_plainly

pytestmark = pytest.mark.xla

HEAD = """\
import torch
{imports}
device = {device}
torch.manual_seed(1)
model = torch.nn.Sequential(
    torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Dropout({dropout}), torch.nn.Linear(512, 8)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loss_fn = torch.nn.CrossEntropyLoss()
batches = [(torch.randn(32, 256), torch.randint(8, (32,))) for _ in range(12)]
use_tt = {use_tt}


def train():
    accumulated = 0
"""

LOOP = """\
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
"""

TAIL = """\
        print("loss: %.6f" % loss.item())


{before}train()
"""

Measure = Callable[..., tuple[Measured, list[float]]]


@pytest.fixture
def measured(git_repo: RepoFactory, run_cli: RunCli, xla_python: Path, tmp_path: Path) -> Measure:
    """Writes a script, runs it plainly and measured; returns the run and the plain losses."""

    def run(
        body: str,
        *options: str,
        imports: str = "import torch_xla",
        device: str = "torch_xla.device()",
        use_tt: bool = True,
        dropout: float = 0.2,
        before: str = "",
    ) -> tuple[Measured, list[float]]:
        head = HEAD.format(imports=imports, device=device, use_tt=use_tt, dropout=dropout)
        source = head + body + TAIL.format(before=before)
        repo = git_repo({"loop.py": source})
        plain = losses(run_plainly(xla_python, repo, "loop.py"))
        assert len(plain) == 12
        done = measure(run_cli, xla_python, repo, "loop.py", *options, output=tmp_path / "measured")
        return done, plain

    return run


def _after(text: str) -> str:
    return LOOP + textwrap.indent(text, " " * 8) + "\n"


def _holds(run: Measured, label: str = "fwd+bwd", device: str = "xla") -> None:
    """Every sample has the label and the device, and left nothing behind."""
    assert len(run.samples) >= 5
    assert {(s["label"], s["device"]) for s in run.samples} == {(label, device)}
    for wait in run.waits:
        assert 0 < wait.sync_only <= wait.barrier
        assert wait.second < 0.5 * wait.barrier


def _trains_alike(run: Measured, plain: list[float]) -> None:
    seen = losses(run.log)
    assert len(seen) >= 4  # the stop comes before the last step is printed
    assert seen == pytest.approx(plain[: len(seen)], rel=1e-5)


KEPT = {
    "guarded": ("if use_tt:\n    torch_xla.sync(wait=True)\noptimizer.step()", {}),
    "without waiting": ("torch_xla.sync()\noptimizer.step()", {}),
    "xm.mark_step": (
        "xm.mark_step()\noptimizer.step()\nxm.mark_step()",
        {"imports": "import torch_xla.core.xla_model as xm", "device": "xm.xla_device()"},
    ),
    "sync around the optimizer": (
        "torch_xla.sync()\noptimizer.step()\ntorch_xla.sync()",
        {},
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_scripts_own_sync_is_the_only_one(measured: Measure, name: str) -> None:
    text, options = KEPT[name]
    run, plain = measured(_after(text), **options)
    _holds(run)
    _trains_alike(run, plain)


def test_guard_that_is_off_while_the_tensors_are_on_xla(measured: Measure) -> None:
    body = _after("if use_tt:\n    torch_xla.sync(wait=True)\noptimizer.step()")
    run, plain = measured(body, use_tt=False)
    _holds(run)
    _trains_alike(run, plain)


def test_guard_that_is_off_on_the_cpu_opens_no_xla_device(measured: Measure) -> None:
    body = _after("if use_tt:\n    torch_xla.sync(wait=True)\noptimizer.step()")
    probe = 'import atexit, os\natexit.register(lambda: print("opened:", opened()))\n'
    opened = (
        "def opened():\n"
        "    import torch_xla\n"
        "    return torch_xla._XLAC._xla_runtime_is_initialized()\n\n\n"
    )
    run, plain = measured(
        body,
        "--profiler",
        "torch",
        device='torch.device("cpu")',
        use_tt=False,
        before=probe + opened,
    )
    _holds(run, device="cpu")
    _trains_alike(run, plain)
    assert run.waits == []
    assert "opened: False" in run.log
    assert any(event["event"] == "profiled" for event in run.events)
    assert run.summary["profiler"] == "torch"


def test_no_sync_at_all(measured: Measure) -> None:
    """What the script never imported is imported at the barrier."""
    run, plain = measured(_after("optimizer.step()"), device='torch.device("xla")')
    _holds(run)
    _trains_alike(run, plain)


def test_xm_optimizer_step(measured: Measure) -> None:
    """The sync is inserted before a step that has its own: one more, so other dropout masks."""
    run, plain = measured(
        _after("xm.optimizer_step(optimizer, barrier=True)"),
        imports="import torch_xla\nimport torch_xla.core.xla_model as xm",
        dropout=0.0,
    )
    _holds(run)
    _trains_alike(run, plain)


def test_waiting_is_not_syncing(measured: Measure) -> None:
    """``wait_device_ops`` waits for what was launched; the graph of the step was not."""
    run, plain = measured(
        _after("xm.wait_device_ops()\noptimizer.step()"),
        imports="import torch_xla\nimport torch_xla.core.xla_model as xm",
    )
    _holds(run)
    _trains_alike(run, plain)


def test_sync_in_a_helper(measured: Measure) -> None:
    """The barrier outside cannot tell whether the helper's guard was open."""
    helper = """\
    pass


def step(x, y):
    loss = loss_fn(model(x), y)
    loss.backward()
    if use_tt:
        torch_xla.sync(wait=True)
    return loss


def loop():
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = step(x, y)
        optimizer.step()
"""
    run, plain = measured(helper, before="train = loop\n")
    _holds(run)
    _trains_alike(run, plain)


def test_last_micro_batch_is_fused_with_the_optimizer(measured: Measure) -> None:
    body = """\
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        loss = loss_fn(model(x), y) / 3
        loss.backward()
        accumulated += 1
        if accumulated != 3:
            torch_xla.sync(wait=True)
        else:
            optimizer.step()
            torch_xla.sync(wait=True)
            optimizer.zero_grad()
            accumulated = 0
"""
    run, plain = measured(body)
    labels = [sample["label"] for sample in run.samples]
    # a step that compiled again is made up for by another one
    assert labels == ["fwd+bwd", "fwd+bwd", "fwd+bwd+optimizer"] * (len(labels) // 3)
    assert len(labels) in (6, 9)
    for wait in run.waits:
        assert wait.second < 0.5 * wait.barrier
    _trains_alike(run, plain)


def test_parallel_loader(measured: Measure) -> None:
    """MpDeviceLoader syncs when the next batch is asked for: outside the sample."""
    body = """\
    for x, y in pl.MpDeviceLoader(batches, device):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        xm.optimizer_step(optimizer)
"""
    run, plain = measured(
        body,
        imports=(
            "import torch_xla\nimport torch_xla.core.xla_model as xm\n"
            "import torch_xla.distributed.parallel_loader as pl"
        ),
        dropout=0.0,
    )
    _holds(run)
    _trains_alike(run, plain)
