"""Where regions begin and end: one end per path, none behind an optimizer step unlabelled."""

from __future__ import annotations

import pytest

from tests.locate.cases import holds, tables

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
=== a forward in each branch starts there, behind what makes its batch
for step in range(100):
    if cached:
        rows = torch.load("rows.pt").cuda()
        > begin
        out = model(rows)
    elif step % 2:
        rows = torch.ones(8, 4)
        print(rows.sum().item())
        > begin
        with torch.autocast("cpu"):
            rows = rows + 1
            out = model(rows)
    else:
        continue
    loss = criterion(out, 1)
    loss.backward()
    > end
    optimizer.step()
    > stop
=== a loop of steps that is two calls away is a part of the step
critic = torch.nn.Linear(4, 1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
def criticize(x):
    for _ in range(5):
        critic_optimizer.zero_grad()
        (critic(x).mean() - critic(model(x).detach()).mean()).backward()
        critic_optimizer.step()
def both(x):
    > begin
    criticize(x)
    optimizer.zero_grad()
    loss = -critic(model(x)).mean()
    loss.backward()
    optimizer.step()  #! longer-sample
    > end label="step"
for x, y in loader:
    both(x)
    > stop
=== a part that may return at once, and one that runs anyhow
critic = torch.nn.Linear(4, 1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
def criticize(fakes):
    if config.kind == "none":
        return 0
    critic_optimizer.zero_grad()
    loss = critic(fakes).mean()
    loss.backward(retain_graph=True)
    critic_optimizer.step()
    return loss.item()  #! host-read-inside
for x, y in loader:
    > begin
    fakes = model(x)
    of_critic = criticize(fakes)
    optimizer.zero_grad()
    loss = criterion(fakes, y)
    loss.backward()
    optimizer.step()  #! longer-sample
    > end label="step"
    > stop
=== what a helper trains behind the step is none of it
class Generator:
    def __init__(self, steps):
        self.steps = steps
    def generate(self, x):
        with torch.no_grad():
            mesh = model(x)
        if self.steps > 0:
            self.refine(mesh)
        return mesh
    def refine(self, mesh):
        leaf = torch.nn.Parameter(mesh.clone())
        refiner = torch.optim.RMSprop([leaf], lr=1e-4)
        for _ in range(self.steps):
            refiner.zero_grad()
            (model(leaf) - mesh).pow(2).sum().backward()
            refiner.step()
generator = Generator(steps)
for n, (x, y) in enumerate(loader):
    > begin
    loss = model(x).mean()
    loss.backward()
    > end
    optimizer.step()
    > stop
    if n % 100 == 0:
        for picture in pictures:
            print(generator.generate(picture).sum())
=== what one branch alone has fetched is no batch of the others
for step in range(100):
    if step % 2:
        rows = next(batches)
        > begin
        out = model(rows)
    else:
        > begin
        out = model(torch.ones(8, 4))
    out.mean().backward()
    > end
    optimizer.step()
    > stop
=== a branch without a forward has the start ahead of them all
for x, y in loader:
    > begin
    if fresh:
        x = x.cuda()  #! copy-inside
        out = model(x)
    elif x.ndim > 1:
        out = x * scale
    out.mean().backward()
    > end
    optimizer.step()
    > stop
=== a part of a step that some iterations leave out, beside one that runs anyhow
critic = torch.nn.Linear(4, 4)
other = torch.optim.SGD(critic.parameters(), lr=0.1)
def judge(x):
    critic(model(x).detach()).mean().backward()
    other.step()
def fool(x):
    if weight == 0:
        return 0
    loss = weight * critic(model(x)).mean()
    loss.backward()
    optimizer.step()
    return len(x)
for x, y in loader:
    > begin
    judge(x)
    seen = fool(x)  #! longer-sample
    > end label="step"
    > stop
=== of two helpers that may both return early none is certain to run
def warm(x):
    if x is None:
        return  #! conditional-step: Call the helper only when it makes a step.
    model(x).mean().backward()
    optimizer.step()
def cool(x):
    if x is None:
        return
    model(x).sum().backward()
    optimizer.step()
for x, y in loader:
    warm(x)
    cool(y)
=== a look at gradients that the step clears is no loop of steps
def slope(rows):
    for x in rows.chunk(4):
        model(x).mean().backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
def step(rows):
    optimizer.zero_grad()
    for x in rows.chunk(4):
        > begin
        loss = model(x).mean()
        loss.backward()
        > end
    optimizer.step()
    > stop
for rows in loader:
    if wanted:
        print(slope(rows))
    step(rows)
=== a read in the test around the backward is named
def valid(number):
    return number < 1e4
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    if valid(loss.data.item()):  #! host-read-inside
        optimizer.zero_grad()
        loss.backward()
        > end
        optimizer.step()
        > stop
=== so is a sync ahead of the backward
def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)
for x, y in loader:
    wait(device)
    > begin
    loss = criterion(model(x), y)
    wait(device)  #! host-read-inside
    loss.backward()
    > end
    optimizer.step()
    > stop
=== so is one in the forward of a class that its library's base makes
from transformers import BertForTokenClassification
class Tagger(BertForTokenClassification):
    def forward(self, words, valid):
        out = self.bert(words)[0]
        if valid[0].item() == 1:  #! host-read-inside
            out = out * 2
        return self.classifier(out).mean()
tagger = Tagger.from_pretrained("bert-base-cased")
optimizer = torch.optim.SGD(tagger.parameters(), lr=0.1)
for x, y in loader:
    > begin
    loss = tagger(x, y)
    loss.backward()
    > end
    optimizer.step()
    > stop
=== a look at gradients ahead of a training by epochs is no loop of steps either
def train(net, rows):
    for x, y in rows:
        optimizer.zero_grad()
        > begin
        loss = criterion(net(x), y)
        loss.backward()
        > end
        optimizer.step()
        > stop
def train_epochs(net, rows):
    for epoch in range(9):
        train(net, rows)
def prune(net, rows):
    for x, y in rows:
        net(x).sum().backward()
prune(model, loader)
train_epochs(model, loader)
=== the loop whose call clears, differentiates and updates is no look at gradients
def part(rows):
    > begin
    loss = model(rows).mean()
    loss.backward()
    > end
    return loss.item()
def update(rows, pieces):
    optimizer.zero_grad()
    if pieces == 1:
        total = part(rows)
    else:
        total = 0
        for piece in rows.chunk(pieces):
            total += part(piece)
    optimizer.step()
    return total
def epoch(rows, pieces):
    for batch in rows:
        total = update(batch, pieces)
        > stop
while True:
    epoch(loader, 1)
=== a count of gradients ahead of the training is no loop of steps
def views(batches):
    for batch in batches:
        ones = torch.nn.Linear(4, 1)
        for rays in batch.split(4):
            ones(rays).sum().backward()
        seen.append(ones.weight.grad > 1)
views(batches)
for x, y in loader:
    optimizer.zero_grad()
    > begin
    loss = model(x).mean()
    loss.backward()
    > end
    optimizer.step()
    > stop
=== nor where a function trains
def train():
    for x, y in loader:
        > begin
        loss = model(x).mean()
        loss.backward()
        > end
        optimizer.step()
        optimizer.zero_grad()
        > return
for rays in batches:
    model(rays).sum().backward()
seen.append(model.weight.grad > 1)
train()
=== a backward behind the step whose gradients are cleared is no part of it
for n, (x, y) in enumerate(loader):
    > begin
    loss = model(x).mean()
    loss.backward()
    > end
    optimizer.step()
    > stop
    if n % 10 == 9:
        sampled = criterion(model(x), y)
        sampled.backward()  #! backward-cleared
        curvature.append(model.weight.grad.square())
    optimizer.zero_grad()
=== but one whose gradients the next step takes is
for n, (x, y) in enumerate(loader):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()  #! step-in-region: Give a script with one of the branches
    optimizer.zero_grad()
    if n % 10 == 9:
        sampled = criterion(model(x), y)
        sampled.backward()
=== callbacks in a table are told apart by their keys
from functools import partial
hooks = {}
for name in ("on_start", "on_epoch", "on_loss", "on_end"):
    hooks[name] = lambda state: None
def on_start(state):
    state["schedule"] = torch.optim.lr_scheduler.StepLR(state["optimizer"], 20)
def on_epoch(state):
    state["schedule"].step()
def on_end(seen, state):
    torch.save(state["model"].state_dict(), "last.pt")
hooks["on_start"], hooks["on_epoch"] = on_start, on_epoch
hooks["on_end"] = partial(on_end, {})
state = {"model": model}
state["optimizer"] = optimizer
hooks["on_start"](state)
for epoch in range(10):
    hooks["on_epoch"](state)
    for x, y in loader:
        > begin
        loss = criterion(state["model"](x), y)
        hooks["on_loss"](state)
        loss.backward()
        > end
        state["optimizer"].step()
        > stop
=== a second update that the options leave out is not timed
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--again", type=int, default=-1)
args = parser.parse_args()
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    > end
    optimizer.step()
    > stop
    if args.again > 0:
        criterion(model(x * 2), y).backward()  #! branch-by-options
        optimizer.step()
=== one that a launcher may give is left to it
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if args.local_rank > 0:
        criterion(model(x * 2), y).backward()
        optimizer.step()  #! longer-sample
        > end label="step"
    > end label="step"
    > stop
=== what follows the last optimizer in its branch is not timed
other = torch.nn.Linear(4, 4)
second = torch.optim.SGD(other.parameters(), lr=0.1)
for i, x in enumerate(loader):
    > begin
    loss = criterion(model(x), 1)
    loss.backward()
    optimizer.step()
    if i % 5 == 0:
        criterion(other(x), 1).backward()
        second.step()  #! longer-sample
        > end label="step"
        print(i)
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
=== forward and backward alone have no end with a second backward in a branch | scope=fwd-bwd
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    if not twice:
        optimizer.step()  #! step-in-region: Use --scope step
    else:
        criterion(model(x * 2), y).backward()
        optimizer.step()
=== nor where the step of that branch is not known | scope=auto
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    if not twice:
        optimizer.step()  #! step-in-region: Give a script with one of the branches
    else:
        criterion(model(x * 2), y).backward()
        other.second()
=== and the whole step would stay open there | scope=step
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    if not twice:
        optimizer.step()
    else:
        model(x * 2).sum().backward()  #! step-in-region: Give a script with one of the branches
        other.second()
=== a second backward under the step's own count wants the whole step
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    count += 1
    if count % 4 == 0:
        penalty(model).backward()
        optimizer.step()  #! step-in-region: Use --scope step
=== a helper that steps is entered
def step(x, y):
    > begin
    criterion(model(x), y).backward()
    > end
    optimizer.step()
for x, y in loader:
    step(x, y)
    > stop
=== gradients that torch.autograd.grad takes for an optimizer are a backward
from torch.autograd import grad as slopes
wide = torch.nn.Linear(4, 4)
other = torch.optim.Adam(wide.parameters())
def look_ahead(x, y):
    found = slopes(criterion(model(wide(x)), y), list(wide.parameters()))
    for p, g in zip(wide.parameters(), found):
        p.grad = g
for x, y in loader:
    > begin
    look_ahead(x, y)
    other.step()
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()  #! longer-sample
    > end label="step"
    > stop
=== so are those of the only optimizer
for x, y in loader:
    x = x.cuda()
    > begin
    loss = criterion(model(x), y)
    found = torch.autograd.grad(loss, list(model.parameters()))
    > end
    for p, g in zip(model.parameters(), found):
        p.grad = g
    optimizer.step()
    > stop
=== an optimizer ahead of every backward has one that nobody sees
import search
other = torch.optim.Adam(search.weights())
for x, y in loader:
    search.look_ahead(x, y)
    other.step()  #! gradients-unseen: Give a script in whose files both backwards are to be seen.
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
=== one that is a graph, and steps, is not called forward and backward | scope=fwd-bwd
@torch.compile
def step(x, y):
    criterion(model(x), y).backward()
    optimizer.step()
for x, y in loader:
    step(x, y)  #! step-in-region: Use --scope step
"""
)


@pytest.mark.parametrize("name", REGIONS)
def test_region(name: str) -> None:
    holds(REGIONS[name])
