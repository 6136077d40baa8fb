"""Where the run ends early, and how it gets out."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import HEAD, around, holds, looped, rewritten, tables

STEP = "loss = criterion(model(x), y)\nloss.backward()\n"

#: what follows the backward, and the line behind which the stop stands
PLACES = [
    ("optimizer.step()\nprint(loss.item())", "optimizer.step()"),
    ("optimizer.step()\noptimizer.zero_grad()", "optimizer.zero_grad()"),
    ("optimizer.step()\nscheduler.step()", "scheduler.step()"),
    ("optimizer.step()\nlr_scheduler.step()", "lr_scheduler.step()"),
    ("scaler.step(optimizer)\nscaler.update()", "scaler.update()"),
    ("optimizer.step()\nif use_tt:\n    torch_xla.sync()", "torch_xla.sync()"),
    ("optimizer.step()\nglobal_step += 1\nlog(global_step)", "global_step += 1"),
    ("global_step += 1\noptimizer.step()\nlog(global_step)", "optimizer.step()"),
    ("xm.optimizer_step(optimizer)\nprint(loss.item())", "xm.optimizer_step(optimizer)"),
    ("if tt:\n    xm.optimizer_step(optimizer)\nelse:\n    optimizer.step()", "optimizer.step()"),
    (
        "for p in model.parameters():\n    p.data -= 0.1 * p.grad\nprint(1)",
        "p.data -= 0.1 * p.grad",
    ),
    ("for optimizer in optimizers:\n    optimizer.step()\nprint(1)", "optimizer.step()"),
]


SEVERAL = tables(
    """
=== the second optimizer may be idle
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    > end
    optimizer.step()
    if sparse:
        other_optimizer.step()
        other_optimizer.zero_grad()
    > stop
    print(loss)
=== one of two
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    > end
    if sparse:
        other_optimizer.step()
    else:
        optimizer.step()
    > stop
    print(loss)
=== only now and then
for i, (x, y) in enumerate(loader):
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    > end
    if i % 4 == 0:
        optimizer.step()
        if sparse:
            other_optimizer.step()
        > stop
    print(loss)
=== a setting tells whether the step is in the loop or behind it
for batches in loader:
    for x, y in batches:
        > begin
        loss = criterion(model(x), y)
        loss.backward()
        > end
        if every == 1:
            optimizer.step()
            > stop
    if every > 1:
        optimizer.step()
    > stop
=== what is left over behind the loop needs no stop
for batches in loader:
    for i, (x, y) in enumerate(batches):
        > begin
        loss = criterion(model(x), y)
        loss.backward()
        > end
        if i % every == 0:
            optimizer.step()
            > stop
    optimizer.step()
=== the whole step ends where the stop is | scope=step
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if sparse:
        other_optimizer.step()
    > end label="step"
    > stop
"""
)


@pytest.mark.parametrize("name", SEVERAL)
def test_place_behind_several_optimizers(name: str) -> None:
    holds(SEVERAL[name])


@pytest.mark.parametrize(("rest", "behind"), PLACES)
def test_place(rest: str, behind: str) -> None:
    result = rewritten(looped(STEP + rest))
    assert around(result, "_instrument.finished(")[0] == behind
    assert result.code.count(b".finished(") == 1


def function(
    rest: str = "", *, returns: str = "", call: str = "train()", handler: str = "", after: str = ""
) -> str:
    """A script whose loop is in train(), called as given."""
    loop = "for x, y in loader:\n" + textwrap.indent(STEP + "optimizer.step()\n" + rest, "    ")
    if handler:
        loop = f"try:\n{textwrap.indent(loop, '    ')}\n{handler}:\n    print('failed')"
    body = loop + (f"\nreturn {returns}" if returns else "")
    return (
        HEAD + f"\ndef train():\n{textwrap.indent(body, '    ')}\n\n"
        f"if __name__ == '__main__':\n    {call}\n" + textwrap.indent(after, "    ")
    )


RETURNS = {
    "called_for_nothing": function(),
    "returned_but_not_used": function(call="train()", after="print('done')\n"),
    "result_is_none": function(returns="None"),
    "bare_except": function(handler="except"),
    "base_exception": function(handler="except BaseException"),
}
EXITS = {
    "module_level": looped(STEP + "optimizer.step()"),
    "value_is_used": function(returns="loss", call="loss = train()", after="print(loss)\n"),
    "value_is_printed": function(returns="loss", call="print(train())"),
    "called_in_a_loop": function(call="for epoch in range(3): train()"),
    "evaluated_behind": function(after="evaluate(model)\n"),
    "saved_behind": function(after="torch.save(model, 'model.pt')\n"),
    "another_loop_behind": function(after="for x in test: print(model(x))\n"),
    "never_called_but_returns": function(returns="loss", call="pass"),
    "debugger_behind": function(after="breakpoint()\n"),
    "exception_handler": function(
        returns="loss", call="loss = train()", handler="except Exception"
    ),
}


@pytest.mark.parametrize("name", RETURNS)
def test_return(name: str) -> None:
    result = rewritten(RETURNS[name])
    assert result.plan.explanation["stop"]["strategy"] == "return"
    assert around(result, "_instrument.finished(")[1] == "return  # [instrument]"


@pytest.mark.parametrize("name", EXITS)
def test_system_exit(name: str) -> None:
    result = rewritten(EXITS[name])
    assert result.plan.explanation["stop"]["strategy"] == "SystemExit"
    assert around(result, "_instrument.finished(")[1] == "raise SystemExit(0)  # [instrument]"


STOPS = tables(
    """
=== in another scope than the loop
def accumulate(x, y):
    for part in x:
        > begin
        loss = criterion(model(part), y)
        loss.backward()
        > end

def main():
    for x, y in loader:
        accumulate(x, y)
        optimizer.step()
        optimizer.zero_grad()
        > return

main()
=== only at a step that accelerate makes
for x, y in loader:
    with accelerator.accumulate(model):
        > begin
        loss = criterion(model(x), y)
        accelerator.backward(loss)
        > end
        optimizer.step()
        > stop accelerator.sync_gradients
=== a handler that raises again does not swallow
try:
    for x, y in loader:
        > begin
        loss = criterion(model(x), y)
        loss.backward()
        > end
        optimizer.step()
        > stop
except:
    print('failed')
    raise
=== nor does one that raises again in whatever branch
try:
    for x, y in loader:
        > begin
        loss = criterion(model(x), y)
        loss.backward()
        > end
        optimizer.step()
        > stop
except:
    if verbose:
        print('failed')
        raise
    else:
        raise
"""
)


@pytest.mark.parametrize("name", STOPS)
def test_stop(name: str) -> None:
    holds(STOPS[name])


@pytest.mark.parametrize("steps", [4, 12])
def test_number_of_samples(steps: int) -> None:
    source = looped(STEP + "optimizer.step()")
    code = rewritten(source, steps=steps, warmup=3, self_contained=True).code
    made = f'Recorder(steps={steps}, warmup=3, budget_s=None, profiler="auto")'
    assert made.encode() in code
