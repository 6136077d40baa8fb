"""Where regions begin and end: one end per path, none behind an optimizer step unlabelled."""

from __future__ import annotations

import pytest

from instrumentor import Declined
from tests.locate.cases import holds, lines_of, looped, rewritten, tables

REGIONS = tables(
    """
=== a helper per branch that steps closes its own region
def wide(x, y):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync(wait=True)
def narrow(x, y):
    loss = model(x).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for x, y in loader:
    if wanted:
        > begin
        wide(x, y)  #! longer-sample
        > end label="step" synced=True
        > stop
    else:
        > begin
        narrow(x, y)  #! longer-sample
        > end label="step"
        > stop
=== a second backward in one branch ends behind the step of each
for x, y in loader:
    optimizer.zero_grad()
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    if not twice:
        optimizer.step()
        > end label="step"
        > stop
    else:
        criterion(model(x * 2), y).backward()  #! longer-sample
        optimizer.step()
        > end label="step"
        > stop
=== a second backward under the step's own count, asked for as a whole | scope=step
for x, y in loader:
    > begin resume=True
    loss = criterion(model(x), y)
    loss.backward()
    count += 1
    if count % 4 == 0:
        penalty(model).backward()
        optimizer.step()
        > end label="step"
        optimizer.zero_grad()
        > stop
=== a block that always runs is ended inside, ahead of its step
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    with guarded():
        penalty(model).backward()
        > end
        optimizer.step()
        > stop
=== a branch without a backward on the way to the step is named
from elsewhere import amp_backward
for x, y in loader:
    > begin when=not use_amp
    loss = criterion(model(x), y)
    if use_amp:  #! branch-without-samples
        amp_backward(loss, optimizer)
    else:
        loss.backward()
        > end
    optimizer.step()
    > stop
=== two branches that both run it close once
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    if use_amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    > end
    optimizer.step()
    > stop
=== nor does one that raises
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    if a:
        loss.backward()
    elif b:
        (loss / 2).backward()
    else:
        raise OSError
    > end
    optimizer.step()
    > stop
=== branches do not share an end that a third one would pass
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    if a:  #! branch-without-samples
        loss.backward()
        > end
    elif b:
        (loss / 2).backward()
        > end
    else:
        elsewhere.run(loss)
    optimizer.step()
    > stop
=== an end in an elif stands behind the whole if
step = 0
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    if step % 4 == 3:  #! longer-sample
        optimizer.step()
        > end label="fwd+bwd+optimizer"
        > stop
    elif on_xla:
        xm.mark_step()
    > end synced=bool(on_xla)
    step += 1
=== a forward ahead of the branches that use its output
class Distance(torch.autograd.Function):
    def forward(self, a, b):
        return (a - b).pow(2).mean()
for x, y in loader:
    > begin when=warm
    out = model(x)
    if warm:
        loss = Distance(0.1).forward(out, y)
        loss.backward()
        > end
        optimizer.step()
        > stop
    else:
        > begin
        loss = criterion(model(y), x)
        loss.backward()
        > end
        optimizer.step()
        > stop
=== gan in helpers
def train_discriminator(x):
    loss = criterion(discriminator(x), 1)
    loss.backward()
    optimizer_d.step()
    return loss
def train_generator(x):
    loss = criterion(discriminator(generator(x)), 1)
    loss.backward()
    optimizer_g.step()
    return loss
for x in loader:
    > begin
    a = train_discriminator(x)
    b = train_generator(x)  #! longer-sample
    > end label="step"
    > stop
=== inner and outer optimizer
for task in tasks:
    > begin
    learner = clone(model)
    for x, y in task:
        inner = criterion(learner(x), y)
        inner.backward()
        inner_optimizer.step()
    outer = criterion(learner(task.x), task.y)
    outer.backward()
    optimizer.step()  #! longer-sample
    > end label="step"
    > stop
=== a helper with a loop of its own is part of the iteration
def warm(x):
    for part in x:
        criterion(model(part), part).backward()
        optimizer.step()
for x, y in loader:
    > begin
    warm(x)
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()  #! longer-sample
    > end label="step"
    > stop
=== two optimizers of one backward are stepped behind it
other = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    > end
    optimizer.step()
    other.step()
    > stop
"""
)


@pytest.mark.parametrize("name", REGIONS)
def test_region(name: str) -> None:
    holds(REGIONS[name])


OPTION = """\
optimizer.zero_grad()
loss = criterion(model(x), y)
loss.backward()
if not twice:
    optimizer.step()
else:
    criterion(model(x * 2), y).backward()
    {step}
"""
COUNTED = """\
loss = criterion(model(x), y)
loss.backward()
count += 1
if count % 4 == 0:
    penalty(model).backward()
    optimizer.step()
"""
HELPER = "def step(x, y):\n    criterion(model(x), y).backward()\n    optimizer.step()"


@pytest.mark.parametrize(
    ("source", "scope", "at", "told", "remedy"),
    [
        (
            looped(OPTION.format(step="optimizer.step()")),
            "fwd-bwd",
            "optimizer.step()",
            "(last backward: line 15)",
            "--scope step",
        ),
        (looped(COUNTED), "auto", "optimizer.step()", "before forward", "--scope step"),
        (looped("step(x, y)", HELPER), "fwd-bwd", "    step(x, y)", "steps optimizer as", ""),
        *(
            (looped(OPTION.format(step="other.second()")), *rest)
            for rest in (
                ("auto", "optimizer.step()", "no end comes before it", "one of the branches"),
                ("step", "model(x * 2)", "would stay open", "one of the branches"),
                ("fwd-bwd", "optimizer.step()", "no end comes before it", "one of the branches"),
            )
        ),
    ],
)
def test_a_region_without_an_end_of_its_own_is_declined(
    source: str, scope: str, at: str, told: str, remedy: str
) -> None:
    with pytest.raises(Declined) as caught:
        rewritten(source, scope=scope)
    found = caught.value.reasons[0]
    assert (found.kind, found.line) == ("step-in-region", *lines_of(source, at))
    assert told in found.message and remedy in found.remedy
