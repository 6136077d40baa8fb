"""Which sync ends the region: the script's own ahead of the optimizer, or an inserted one."""

from __future__ import annotations

import pytest

from tests.locate.cases import around, lines_of, looped, plan_of, rewritten, timed
from tests.warned import texts

FORWARD = "loss = criterion(model(x), y)\nloss.backward()\n"


@pytest.mark.parametrize(
    ("sync", "api"),
    [
        ("torch_xla.sync(wait=True)", "torch_xla.sync"),
        ("torch_xla.sync()", "torch_xla.sync"),
        ("xm.mark_step()", "xm.mark_step"),
        ("torch.cuda.synchronize()", "torch.cuda.synchronize"),
    ],
)
def test_own_sync_is_kept(sync: str, api: str) -> None:
    source = looped(FORWARD + f"{sync}\noptimizer.step()")
    result = rewritten(source)
    assert result.plan.explanation["sync"] == {"action": "keep", "line": 11, "api": api}
    before, _ = around(result, "_instrument.end(")
    assert before == sync


@pytest.mark.parametrize(
    ("guard", "synced"),
    [
        ("use_tt", "bool(use_tt)"),
        ("config.use_tt", "bool(config.use_tt)"),
    ],
)
def test_guarded_sync_says_whether_it_ran(guard: str, synced: str) -> None:
    source = looped(FORWARD + f"if {guard}:\n    torch_xla.sync(wait=True)\noptimizer.step()")
    result = rewritten(source)
    assert result.plan.explanation["sync"] == {
        "action": "keep",
        "line": 12,
        "api": "torch_xla.sync",
    }
    assert f"_instrument.end(loss, synced={synced})".encode() in result.code


def test_a_guard_that_may_change_its_mind_is_not_asked_twice() -> None:
    source = looped(FORWARD + "if want_sync():\n    torch_xla.sync()\noptimizer.step()")
    result = rewritten(source)
    assert result.plan.explanation["sync"]["action"] == "keep"
    assert result.code.count(b"want_sync()") == 1


@pytest.mark.parametrize(
    "rest",
    [
        "optimizer.step()",
        "optimizer.step()\ntorch_xla.sync(wait=True)",
        "xm.optimizer_step(optimizer, barrier=True)",
        "optimizer.step()\nif use_tt:\n    torch_xla.sync(wait=True)",
        "print(loss.item())\noptimizer.step()",
    ],
)
def test_otherwise_one_is_inserted_right_behind_the_backward(rest: str) -> None:
    source = looped(FORWARD + rest)
    result = rewritten(source)
    assert result.plan.explanation["sync"] == {"action": "insert", "line": 10, "api": None}
    before, _ = around(result, "_instrument.end(loss)")
    assert before == "loss.backward()"
    assert any("cuts the graph" in w for w in texts(result.plan.warnings))


def test_on_a_script_without_xla_an_inserted_sync_is_no_news() -> None:
    source = looped(FORWARD + "optimizer.step()").replace("import torch_xla\n", "")
    source = source.replace("import torch_xla.core.xla_model as xm\n", "")
    assert texts(plan_of(source)["warnings"]) == []


def test_the_sync_of_a_validation_in_between_is_not_it() -> None:
    source = looped(
        FORWARD + "optimizer.step()\ntotal = validate(model)\ntorch_xla.sync(wait=True)",
        before="""\
        def validate(model):
            with torch.no_grad():
                total = model(x).sum()
            torch_xla.sync(wait=True)
            return total
        """,
    )
    assert plan_of(source)["sync"]["action"] == "insert"


def test_clipping_before_the_own_sync_is_named() -> None:
    source = looped(
        FORWARD
        + """\
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
torch_xla.sync(wait=True)
optimizer.step()
"""
    )
    plan = plan_of(source)
    assert timed(plan) == {"start_line": 9, "end_line": 12}
    assert any(w.startswith("train.py:11:") and "clipping" in w for w in texts(plan["warnings"]))


@pytest.mark.parametrize(
    "clipping",
    [
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "for p in model.parameters():\n    p.grad = p.grad.clamp(-1, 1)",
    ],
)
def test_clipping_is_named_where_the_backward_is_in_a_helper(clipping: str) -> None:
    source = looped(
        f"loss = forward_backward(x, y)\n{clipping}\ntorch_xla.sync(wait=True)\noptimizer.step()",
        """\
def forward_backward(x, y):
    loss = criterion(model(x), y)
    loss.backward()
    return loss
""",
    )
    warnings = texts(plan_of(source)["warnings"])
    assert any("gradient clipping before the script's own sync" in w for w in warnings)


def test_clipping_behind_an_inserted_sync_is_outside() -> None:
    clipping = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    source = looped(FORWARD + f"{clipping}\noptimizer.step()")
    assert timed(plan_of(source)) == {"start_line": 9, "end_line": 10}


HELPER = """\
def backward(loss):
    loss.backward()
    {sync}
"""


@pytest.mark.parametrize(
    ("sync", "action", "ending"),
    [
        ("torch_xla.sync(wait=True)", "keep", "_instrument.end(loss, model, synced=True)"),
        ("pass", "insert", "_instrument.end(loss, model)"),
    ],
)
def test_sync_in_a_helper(sync: str, action: str, ending: str) -> None:
    source = looped(
        "loss = criterion(model(x), y)\nbackward(loss)\noptimizer.step()",
        before=HELPER.format(sync=sync),
    )
    result = rewritten(source)
    assert result.plan.explanation["sync"]["action"] == action
    assert ending.encode() in result.code
    assert result.code.count(b"_instrument.end(") == 1


def test_fused_last_micro_batch_is_not_split() -> None:
    source = looped(
        FORWARD
        + """\
count += 1
if count != 4:
    torch_xla.sync(wait=True)
else:
    optimizer.step()
    torch_xla.sync(wait=True)
    count = 0
"""
    )
    result = rewritten(source)
    assert b'_instrument.end(loss, label="fwd+bwd+optimizer", synced=True)' in result.code
    assert b"_instrument.end(loss, synced=True)" in result.code
    (line,) = lines_of(source, "if count != 4")
    assert any(
        w.startswith(f"train.py:{line}:") and "fuse" in w for w in texts(result.plan.warnings)
    )
    lines = [line.strip() for line in result.code.decode().splitlines()]
    backward = lines.index("loss.backward()")
    assert lines[backward + 1] == "count += 1"


def test_forced_to_forward_and_backward_the_fused_one_is_split_too() -> None:
    source = looped(
        FORWARD
        + """\
count += 1
if count != 4:
    torch_xla.sync()
else:
    optimizer.step()
    count = 0
"""
    )
    result = rewritten(source, scope="fwd-bwd")
    assert b"fwd+bwd+optimizer" not in result.code
    assert result.plan.explanation["scope"] == "fwd-bwd"


@pytest.mark.parametrize(
    ("binding", "call"),
    [
        ("import torch_xla as tx", "tx.sync()"),
        ("from torch_xla import sync", "sync()"),
        ("from torch_xla import sync as cut", "cut(wait=True)"),
        ("from torch.cuda import synchronize", "synchronize()"),
        ("from torch_xla.core.xla_model import mark_step as ms", "ms()"),
        ("import torch_xla.core.xla_model", "torch_xla.core.xla_model.mark_step()"),
        ("barrier = torch_xla.sync", "barrier()"),
        ("def barrier(): torch_xla.sync()", "barrier()"),
        ("from torch_xla import *", "sync()"),
        ("try:\n    import torch_xla as tx\nexcept ImportError:\n    tx = None", "tx.sync()"),
    ],
)
def test_a_sync_under_any_name(binding: str, call: str) -> None:
    result = rewritten(looped(FORWARD + f"{call}\noptimizer.step()", binding))
    assert result.plan.explanation["sync"]["action"] == "keep"
    assert around(result, "_instrument.end(")[0] == call
