"""Which sync ends the region: the script's own ahead of the optimizer, or an inserted one."""

from __future__ import annotations

import pytest

from tests.locate.cases import around, holds, looped, plan_of, rewritten, tables
from tests.warned import texts

FORWARD = "loss = criterion(model(x), y)\nloss.backward()\n"

SYNCS = tables(
    """
=== ended by the own sync, guarded
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    if config.use_tt:
        torch_xla.sync(wait=True)
    > end synced=bool(config.use_tt)
    optimizer.step()
    > stop
=== a guard that may change its mind is not asked twice
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    if want_sync():
        torch_xla.sync()
    > end
    optimizer.step()
    > stop
=== inserted where the own one follows the step
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    > end
    print(loss.item())
    optimizer.step()
    if use_tt:
        torch_xla.sync(wait=True)
    > stop
=== inserted where the own one is that of a validation | keep_validation=yes
def validate(model):
    with torch.no_grad():
        total = model(x).sum()
    torch_xla.sync(wait=True)
    return total
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    > end
    xm.optimizer_step(optimizer, barrier=True)
    > stop
    > kept
    total = validate(model)  #! validation-between
    > kept
    torch_xla.sync(wait=True)
=== clipping ahead of the own sync is named
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #! clipping-inside
    for p in model.parameters():
        p.grad = p.grad.clamp(-1, 1)  #! clipping-inside
    torch_xla.sync(wait=True)
    > end synced=True
    optimizer.step()
    > stop
=== also where the backward is in a helper
def forward_backward(x, y):
    loss = criterion(model(x), y)
    loss.backward()
    return loss
for x, y in loader:
    > begin
    loss = forward_backward(x, y)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #! clipping-inside
    torch_xla.sync(wait=True)
    > end synced=True
    optimizer.step()
    > stop
=== in a helper that syncs
def backward(loss):
    loss.backward()
    torch_xla.sync(wait=True)
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    backward(loss)
    > end synced=True
    optimizer.step()
    > stop
=== a last micro-batch that is fused with the optimizer is not split
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    count += 1
    if count != 4:  #! longer-sample
        torch_xla.sync(wait=True)
        > end synced=True
    else:
        optimizer.step()
        torch_xla.sync(wait=True)
        > end label="fwd+bwd+optimizer" synced=True
        count = 0
        > stop
=== unless forward and backward alone are asked for | scope=fwd-bwd
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    > end
    count += 1
    if count != 4:
        torch_xla.sync(wait=True)
    else:
        optimizer.step()
        count = 0
        > stop
=== only every n steps: a sample is the whole step
for i, (x, y) in enumerate(loader):
    > begin resume=True
    loss = criterion(model(x), y)
    loss.backward()
    if (i + 1) % 4 == 0:  #! longer-sample
        optimizer.step()
        torch_xla.sync()
        > end label="step" synced=True
        optimizer.zero_grad()
        > stop
"""
)


@pytest.mark.parametrize("name", SYNCS)
def test_end(name: str) -> None:
    holds(SYNCS[name])


@pytest.mark.parametrize(
    ("binding", "call", "api"),
    [
        ("", "torch_xla.sync(wait=True)", "torch_xla.sync"),
        ("", "xm.mark_step()", "xm.mark_step"),
        ("", "torch.cuda.synchronize()", "torch.cuda.synchronize"),
        ("import torch_xla as tx", "tx.sync()", "tx.sync"),
        ("from torch_xla import sync as cut", "cut(wait=True)", "cut"),
        ("from torch.cuda import synchronize", "synchronize()", "synchronize"),
        ("from torch_xla.core.xla_model import mark_step as ms", "ms()", "ms"),
        ("barrier = torch_xla.sync", "barrier()", "barrier"),
        ("def barrier(): torch_xla.sync()", "barrier()", "barrier"),
        ("from torch_xla import *", "sync()", "sync"),
        (
            "try:\n    import torch_xla as tx\nexcept ImportError:\n    tx = None",
            *["tx.sync()"],
            "tx.sync",
        ),
    ],
)
def test_the_own_sync_is_kept_under_any_name(binding: str, call: str, api: str) -> None:
    source = looped(FORWARD + f"{call}\noptimizer.step()", binding)
    result = rewritten(source)
    line = source.splitlines().index(f"    {call}") + 1
    assert result.plan.explanation["sync"] == {"action": "keep", "line": line, "api": api}
    assert around(result, "_instrument.end(")[0] == call


def test_an_inserted_sync_is_told_of_where_it_cuts_a_graph() -> None:
    source = looped(FORWARD + "optimizer.step()")
    plan = plan_of(source)
    assert plan["sync"] == {"action": "insert", "line": 10, "api": None}
    assert any("cuts the graph" in w for w in texts(plan["warnings"]))
    source = source.replace("import torch_xla\nimport torch_xla.core.xla_model as xm\n", "")
    assert texts(plan_of(source)["warnings"]) == []
