"""Regions that close in branches: one end per path, none behind an optimizer step unlabelled."""

from __future__ import annotations

import pytest

from instrumentor import Declined
from tests.locate.cases import around, lines_of, looped, rewritten
from tests.warned import texts

HELPERS = """\
def wide(x, y):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {behind}
def narrow(x, y):
    loss = model(x).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TWO_HELPERS = """\
if wanted:
    wide(x, y)
else:
    narrow(x, y)
"""
OPTION = """\
optimizer.zero_grad()
loss = criterion(model(x), y)
loss.backward()
if {test}:
    optimizer.step()
else:
    criterion(model(x * 2), y).backward()
    {step}
"""


def lines(source: str, **options: str) -> list[str]:
    """The rewritten lines, stripped, without the marks of what was inserted."""
    code = rewritten(source, **options).code.decode()
    return [line.partition("  # [")[0].strip() for line in code.splitlines()]


def reason(source: str, **options: str) -> tuple[int, str, str, str]:
    with pytest.raises(Declined) as caught:
        rewritten(source, **options)
    found = caught.value.reasons[0]
    return found.line, found.kind, found.message, found.remedy


@pytest.mark.parametrize("scope", ["auto", "step"])
def test_a_helper_per_branch_that_steps_closes_its_own_region(scope: str) -> None:
    found = lines(looped(TWO_HELPERS, HELPERS.format(behind="")), scope=scope)
    for call in ("wide(x, y)", "narrow(x, y)"):
        at = found.index(call)
        assert found[at - 1].startswith("_instrument.begin(")
        assert found[at + 1].startswith("_instrument.end(") and 'label="step"' in found[at + 1]
        assert found[at + 2] == "if _instrument.finished():"
    assert sum(line.startswith("_instrument.end(") for line in found) == 2


def test_only_the_helper_that_syncs_is_taken_to_have_synced() -> None:
    source = looped(TWO_HELPERS, HELPERS.format(behind="torch_xla.sync(wait=True)"))
    found = lines(source)
    assert "synced=True" in found[found.index("wide(x, y)") + 1]
    assert "synced" not in found[found.index("narrow(x, y)") + 1]


def test_a_second_backward_in_one_branch_ends_behind_the_step_of_each() -> None:
    source = looped(OPTION.format(test="not twice", step="optimizer.step()"))
    result = rewritten(source)
    found = lines(source)
    steps = [n for n, line in enumerate(found) if line == "optimizer.step()"]
    assert len(steps) == 2
    for at in steps:
        assert found[at + 1].startswith("_instrument.end(") and 'label="step"' in found[at + 1]
        assert found[at + 2] == "if _instrument.finished():"
    assert result.plan.label == "step"
    (line,) = lines_of(source, "model(x * 2)")
    assert any(w.startswith(f"train.py:{line}:") for w in texts(result.plan.warnings))
    assert b"resume" not in result.code.rpartition(b"# [instrument] end")[2]


def test_forced_to_forward_and_backward_it_is_declined() -> None:
    source = looped(OPTION.format(test="not twice", step="optimizer.step()"))
    line, kind, message, remedy = reason(source, scope="fwd-bwd")
    assert (line, kind) == (lines_of(source, "optimizer.step()")[0], "step-in-region")
    assert str(lines_of(source, "model(x * 2)")[0]) in message
    assert "--scope step" in remedy


@pytest.mark.parametrize("scope", ["auto", "step", "fwd-bwd"])
def test_a_branch_whose_step_is_not_known_is_declined(scope: str) -> None:
    source = looped(OPTION.format(test="plain", step="perturbed.second(zero_grad=True)"))
    line, kind, _, remedy = reason(source, scope=scope)
    assert line in lines_of(source, "optimizer.step()", "model(x * 2)")
    assert kind == "step-in-region"
    assert "--scope" not in remedy


def test_a_helper_that_steps_is_not_called_forward_and_backward() -> None:
    source = looped("narrow(x, y)", HELPERS.format(behind=""))
    assert reason(source, scope="fwd-bwd")[1] == "step-in-region"


def test_a_second_backward_under_the_steps_own_count_wants_the_whole_step() -> None:
    source = looped(
        """\
loss = criterion(model(x), y)
loss.backward()
count += 1
if count % 4 == 0:
    penalty(model).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    )
    line, kind, _, remedy = reason(source)
    assert (line, kind) == (lines_of(source, "optimizer.step()")[0], "step-in-region")
    assert "--scope step" in remedy
    result = rewritten(source, scope="step")
    assert b"resume=True" in result.code
    assert around(result, "_instrument.end(")[0] == "optimizer.step()"


def test_a_block_that_always_runs_is_ended_inside_ahead_of_its_step() -> None:
    source = looped(
        """\
loss = criterion(model(x), y)
loss.backward()
with guarded():
    penalty(model).backward()
    optimizer.step()
"""
    )
    before, behind = around(rewritten(source), "_instrument.end(")
    assert (before, behind) == ("penalty(model).backward()", "optimizer.step()")


def test_a_branch_without_a_backward_on_the_way_to_the_step_is_named() -> None:
    source = looped(
        """\
loss = criterion(model(x), y)
if use_amp:
    amp_backward(loss, optimizer)
else:
    loss.backward()
optimizer.step()
""",
        before="from elsewhere import amp_backward",
    )
    found = texts(rewritten(source).plan.warnings)
    (line,) = lines_of(source, "if use_amp")
    assert sum(w.startswith(f"train.py:{line}:") and "no samples" in w for w in found) == 1


@pytest.mark.parametrize(
    "body",
    [
        "if use_amp:\n    scaler.scale(loss).backward()\nelse:\n    loss.backward()",
        "if torch.isnan(loss):\n    continue\nelse:\n    loss.backward()",
        "if a:\n    loss.backward()\nelif b:\n    (loss / 2).backward()\nelse:\n    raise OSError",
        "with guarded():\n    loss.backward()",
    ],
)
def test_branches_that_all_end_are_not(body: str) -> None:
    source = looped(f"loss = criterion(model(x), y)\n{body}\noptimizer.step()\n")
    assert not [w for w in texts(rewritten(source).plan.warnings) if "no samples" in w]


def test_three_branches_close_once_behind_them_all() -> None:
    source = looped(
        """\
loss = criterion(model(x), y)
if a:
    if b:
        loss.backward()
    else:
        (1 * loss).backward()
else:
    (2 * loss).backward()
optimizer.step()
"""
    )
    found = lines(source)
    (at,) = [n for n, line in enumerate(found) if line.startswith("_instrument.end(")]
    assert (found[at - 1], found[at + 1]) == ("(2 * loss).backward()", "optimizer.step()")
    result = rewritten(source).code.decode()
    assert "\n    _instrument.end(" in result


def test_branches_do_not_share_an_end_that_a_third_one_would_pass() -> None:
    source = looped(
        """\
loss = criterion(model(x), y)
if a:
    loss.backward()
elif b:
    (loss / 2).backward()
else:
    elsewhere.run(loss)
optimizer.step()
"""
    )
    result = rewritten(source)
    code = result.code.decode()
    assert code.count("        _instrument.end(") == 2 and code.count("_instrument.end(") == 2
    assert any("no samples" in w for w in texts(result.plan.warnings))


def test_an_end_in_an_elif_stands_behind_the_whole_if() -> None:
    source = looped(
        "loss = criterion(model(x), y)\nloss.backward()\nif step % 4 == 3:\n    optimizer.step()\n"
        "elif on_xla:\n    xm.mark_step()\nstep += 1",
        before="step = 0",
    )
    lines = [line.strip() for line in rewritten(source).code.decode().splitlines()]
    ends = [n for n, line in enumerate(lines) if line.startswith("_instrument.end(")]
    assert [lines[n - 1] for n in ends][-1] == "xm.mark_step()"


def test_a_forward_ahead_of_the_branches_that_use_its_output() -> None:
    source = looped(
        "out = model(x)\nif warm:\n    loss = Distance(0.1).forward(out, y)\n"
        "    loss.backward()\n    optimizer.step()\nelse:\n    loss = criterion(model(y), x)\n"
        "    loss.backward()\n    optimizer.step()",
        before="class Distance(torch.autograd.Function):\n    def forward(self, a, b):\n"
        "        return (a - b).pow(2).mean()",
    )
    lines = [line.strip() for line in rewritten(source).code.decode().splitlines()]
    begins = [n for n, line in enumerate(lines) if line.startswith("_instrument.begin(")]
    assert [lines[n + 1] for n in begins] == ["out = model(x)", "loss = criterion(model(y), x)"]
