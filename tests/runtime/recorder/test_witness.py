"""The witness on real torch: every seeded mistake is named, and nothing that is right raises it."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402, F401 - for the steps below

from instrumentor.runtime.recorder.judging import (  # noqa: E402
    CHECKS,
    CHOSEN,
    INSIDE,
    LATER,
    UNVERIFIED,
    Evidence,
    Seen,
    offers,
)
from instrumentor.runtime.recorder.recorder import Recorder  # noqa: E402

#: Steps by name, each behind what it starts from; without that, a net and SGD of its parameters.
RIGHT = """
## plain
model = net()
optimizer = torch.optim.AdamW(model.parameters())
---
x = batch()
optimizer.zero_grad()
r.begin(x)
loss = model(x).mean()
loss.backward()
r.end(loss)
optimizer.step()
## whole_step
r.begin()
loss = model(batch()).mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()
r.end(loss, label="step")
## accumulation
r.begin()
loss = model(batch()).mean() / 4
loss.backward()
r.end(loss)
if n % 4 != 3:
    continue
optimizer.step()
optimizer.zero_grad()
## fused_last_micro_batch
r.begin()
loss = model(batch()).mean() / 2
loss.backward()
if n % 2 == 0:
    r.end(loss)
    continue
optimizer.step()
optimizer.zero_grad()
r.end(loss, label="fwd+bwd+optimizer")
## several_backwards
r.begin()
h = model[0](batch())
h.mean().backward(retain_graph=True)
loss = model[2](h.relu()).mean()
loss.backward()
r.end(loss)
optimizer.step()
## gan
maker, judge = net(8), net()
maker = nn.Linear(8, 8)
first = torch.optim.Adam(judge.parameters())
second = torch.optim.Adam(maker.parameters())
---
r.begin()
fake = maker(batch())
(judge(batch()).mean() - judge(fake.detach()).mean()).backward()
first.step()
first.zero_grad()
loss = judge(fake).mean()
loss.backward()
second.step()
r.end(loss, label="step")
## only_the_first_of_two_updates
maker, judge = nn.Linear(8, 8), net()
first = torch.optim.Adam(judge.parameters())
second = torch.optim.Adam(maker.parameters())
---
r.begin()
loss = judge(maker(batch()).detach()).mean()
loss.backward()
r.end(loss)
first.step()
judge(maker(batch())).mean().backward()
second.step()
## checkpointed
r.begin()
x = batch().requires_grad_()
x = checkpoint(model, x, use_reentrant=n % 2 == 1)
loss = x.mean()
loss.backward()
r.end(loss)
optimizer.step()
## reentrant_first
r.begin()
loss = checkpoint(model, batch().requires_grad_(), use_reentrant=True).mean()
loss.backward()
r.end(loss)
optimizer.step()
## scaled
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
---
r.begin()
loss = model(batch()).mean() * (float("inf") if n == 0 else 1)  # the first is skipped
scaler.scale(loss).backward()
r.end(loss)
scaler.step(optimizer)
scaler.update()
optimizer.zero_grad()
## functional_calls
model = net().eval()
parameters = {k: v.detach().requires_grad_() for k, v in model.named_parameters()}
optimizer = torch.optim.AdamW(parameters.values())
---
r.begin()
loss = torch.func.functional_call(model, parameters, (batch(),)).mean().reshape(1, 1, 1)
loss.backward(torch.ones_like(loss))
r.end(loss)
optimizer.step()
## carried_state
model, head = nn.LSTM(8, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
state = None
---
optimizer.zero_grad()
r.begin()
out, state = model(torch.randn(5, 2, 8), state)
state = tuple(s.detach() for s in state)
loss = head(out).mean()
loss.backward()
r.end(loss)
optimizer.step()
## carried_graph: The graphs of earlier steps hang on this one: they were made in their own samples.
model, head = nn.RNN(8, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
state = None
---
r.begin()
out, state = model(torch.randn(5, 2, 8), state)
loss = head(out).mean()
loss.backward(retain_graph=True)
r.end(loss)
optimizer.step()
## made_once_ahead
model, prompt = net(), nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
embedded = prompt(batch())
---
r.begin()
loss = model(batch() + embedded).mean()
loss.backward(retain_graph=True)
r.end(loss)
optimizer.step()
## own_function
r.begin()
loss = Doubled.apply(model(batch())).mean()
torch.autograd.backward(loss)
r.end(loss)
optimizer.step()
## gradient_penalty
x = batch().requires_grad_()
r.begin()
out = model(x).mean()
(slope,) = torch.autograd.grad(out, x, create_graph=True)
(out + slope.norm()).backward()
r.end(out)
optimizer.step()
## target_network_and_average
model, target = net(), net()
average = torch.optim.swa_utils.AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
---
r.begin()
with torch.no_grad():
    wanted = target(batch())
loss = functional.mse_loss(model(batch()), wanted)
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
average.update_parameters(model)
with torch.no_grad():
    for ours, theirs in zip(target.parameters(), model.parameters(), strict=True):
        ours.lerp_(theirs, 0.1)
r.end(loss, label="step")
## generates_first
r.begin()
model.eval()
with torch.no_grad():
    answer = model(batch())
model.train()
loss = functional.mse_loss(model(batch()), answer)
loss.backward()
r.end(loss)
optimizer.step()
## back_to_eval_at_the_end
model = net().eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
---
r.begin()
model.train()
loss = model(batch()).mean()
loss.backward()
model.eval()
r.end(loss)
optimizer.step()
## renormalised_embedding
model, head = nn.Embedding(16, 8, max_norm=0.1), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
---
r.begin()
loss = head(model(torch.randint(0, 16, (4,)))).mean()
loss.backward()
r.end(loss)
if n % 4 != 3:
    continue
optimizer.step()
## updated_by_hand
weight = torch.randn(8, 1, requires_grad=True)
---
r.begin()
loss = (batch() @ weight).mean()
loss.backward()
r.end(loss)
with torch.no_grad():
    weight -= 0.1 * weight.grad
    weight.grad = None
## another_loop_between: One sample, then the value network's own loop, then the next sample.
model, value = net(), net()
first = torch.optim.Adam(model.parameters())
second = torch.optim.Adam(value.parameters())
---
r.begin()
loss = model(batch()).mean()
loss.backward()
r.end(loss)
first.step()
for _ in range(3):
    second.zero_grad()
    value(batch()).mean().backward()
    second.step()
value.eval()
value.train()
"""

#: Steps whose region is wrong, with the check that says so at the line that it names.
WRONG = """
## begins_too_late
features = model[0](batch())  # wrong: forward
r.begin()
loss = model[2](features.relu()).mean()
loss.backward()
r.end(loss)
optimizer.step()
## a_critic_ahead
model, critic = net(), net()
optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
---
value = critic(batch())  # wrong: forward
r.begin()
loss = (model(batch()) - value).mean()
loss.backward()
r.end(loss)
optimizer.step()
## ends_too_early
r.begin()
loss = model(batch()).mean()
r.end(loss)
loss.backward()  # wrong: backward
optimizer.step()
## ends_before_the_second_backward
r.begin()
loss = model(batch()).mean()
loss.backward()
r.end(loss)
model(batch()).square().mean().backward()  # wrong: backward
optimizer.step()
## begins_behind_the_backward
optimizer.zero_grad()
model(batch()).mean().backward()  # wrong: backward
r.begin()
optimizer.step()
r.end(label="step")
## ends_after_the_update
r.begin()
loss = model(batch()).mean()
loss.backward()
optimizer.step()  # wrong: optimizer
r.end(loss)
## a_whole_step_without_its_update
r.begin()
loss = model(batch()).mean()
loss.backward()
r.end(loss, label="step")
optimizer.step()  # wrong: optimizer
## evaluates_inside
r.begin()
loss = model(batch()).mean()
loss.backward()
optimizer.step()
with torch.no_grad():
    model(batch())  # wrong: evaluation
r.end(loss, label="step")
## evaluates_inside_with_gradients: a validation loss behind the step, which nobody differentiates
r.begin()
loss = model(batch()).mean()
loss.backward()
optimizer.step()
held_out = model(batch()).mean()  # wrong: evaluation
r.end(loss, label="step")
## evaluates_ahead_of_the_update
r.begin()
loss = model(batch()).mean()
loss.backward()
with torch.inference_mode():
    model(batch())  # wrong: evaluation
optimizer.step()
r.end(loss, label="step")
## evaluates_another_model
model, average = net(), net().eval().requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
---
r.begin()
loss = model(batch()).mean()
loss.backward()
average(batch())  # wrong: evaluation
optimizer.step()
r.end(loss, label="step")
## evaluates_behind_gradients_by_hand
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
---
r.begin()
loss = model(batch()).mean()
for p, g in zip(model.parameters(), torch.autograd.grad(loss, model.parameters())):
    p.grad = g
model(batch())  # wrong: evaluation
optimizer.step()
r.end(loss, label="step")
## evaluates_inside_by_its_modes
r.begin()
loss = model(batch()).mean()
loss.backward()
model.eval()  # wrong: evaluation
model.train()
r.end(loss)
optimizer.step()
"""

#: Mistakes without a line of their own, by the check that finds them.
EMPTY = """
## backward: a region from which the step was taken out
r.begin()
optimizer.zero_grad()
r.end(label="step")
## optimizer: the update of every second micro-batch is timed with its forward and backward
r.begin()
loss = model(batch()).mean()
loss.backward()
if n % 2:
    optimizer.step()
r.end(loss)
"""

START = "model = net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


def net(width: int = 8) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))


def batch() -> Any:
    return torch.randn(4, 8)


def loops(text: str) -> dict[str, str]:
    """By name, a training loop of up to twelve steps."""
    found = {}
    for name, given in re.findall(r"^## (\w+).*\n((?:(?!##).*\n)+)", text, re.MULTILINE):
        start, _, step = given.rpartition("---\n")
        checked = textwrap.indent(f"{step}if r.finished():\n    break\n", "    ")
        body = textwrap.indent(f"{start or START}for n in range(12):\n{checked}", "    ")
        found[name] = f"def train():\n{body}\n\ntrain()\n"
    return found


def named(text: str) -> list[Any]:
    return [pytest.param(loop, id=name) for name, loop in loops(text).items()]


def ours() -> tuple[object, ...]:
    """What the witness replaces for a while."""
    mark = torch.autograd.profiler.record_function.__enter__
    return torch.autograd._engine_run_backward, mark, nn.Module.train, functional.linear


Run = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a loop of three samples as ``train.py``; afterwards torch is as it was."""
    record = tmp_path / "record.jsonl"
    monkeypatch.setenv("INSTRUMENT_RECORD", str(record))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    before = ours()
    import_module("torch._dynamo").reset()  # what other tests have compiled

    def call(loop: str) -> list[dict[str, Any]]:
        recorder = Recorder(steps=3, warmup=1, profiler="wallclock")
        names = {**globals(), "__name__": "train", "r": recorder}
        exec(compile(loop, str(tmp_path / "train.py"), "exec"), names)
        recorder.summarise()
        return [json.loads(line) for line in record.read_text().splitlines()]

    yield call
    assert ours() == before
    assert not torch.is_anomaly_enabled()


def verdict(events: list[dict[str, Any]]) -> dict[str, Any]:
    return [event for event in events if event["event"] == "witness"][-1]


@pytest.mark.parametrize("loop", named(RIGHT))
def test_no_false_alarm(loop: str, run: Run) -> None:
    events = run(loop)
    found = verdict(events)
    assert found["problems"] == []
    assert found["status"] == "verified", found
    kinds = [event["kind"] for event in events if event["event"] == "sample"]
    assert kinds.count("steady") >= 2
    assert events[-1]["event"] == "complete"


@pytest.mark.parametrize("loop", named(WRONG))
def test_a_mistake_is_named(loop: str, run: Run, tmp_path: Path) -> None:
    ((line, check),) = re.findall(r"^ *(.*)  # wrong: (\w+)$", loop, re.MULTILINE)
    events = run(loop)
    found = verdict(events)
    assert (found["status"], found["verified"]) == ("failed", [])
    (problem,) = found["problems"]
    assert problem["check"] == check
    file, number, function = problem["places"][0]
    assert (file, function) == (str(tmp_path / "train.py"), "train")
    assert loop.splitlines()[number - 1].strip() == f"{line}  # wrong: {check}"
    assert sum(event["event"] == "sample" for event in events) < 3
    assert not any(event.get("kind") == "steady" for event in events)


@pytest.mark.parametrize("check", loops(EMPTY))
def test_a_mistake_without_a_place_of_its_own(check: str, run: Run) -> None:
    found = verdict(run(loops(EMPTY)[check]))
    assert found["status"] == "failed"
    assert [problem["check"] for problem in found["problems"]] == [check]


#: Steps that run models without a backward, by the lines of those forwards.
UNDIFFERENTIATED = """
## a_teacher
model, teacher = net(), net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
---
r.begin()
with torch.no_grad():
    wanted = teacher(batch())  # told
loss = functional.mse_loss(model(batch()), wanted)
loss.backward()
r.end(loss)
optimizer.step()
## a_look_at_the_accuracy
r.begin()
held_out = model(batch()).mean()  # told
loss = model(batch()).mean()
loss.backward()
r.end(loss)
optimizer.step()
## frozen_by_its_weights
model, teacher = net(), net().requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
---
r.begin()
wanted = teacher(batch())  # told
loss = functional.mse_loss(model(batch()), wanted)
loss.backward()
r.end(loss)
optimizer.step()
## fakes_of_a_generator
maker, judge = nn.Linear(8, 8), net()
optimizer = torch.optim.Adam(judge.parameters())
---
r.begin()
fake = maker(batch())  # told
loss = judge(batch()).mean() - judge(fake.detach()).mean()
loss.backward()
r.end(loss)
optimizer.step()
## none: the first of two backwards, and what torch.autograd.grad differentiates
x = batch().requires_grad_()
r.begin()
(slope,) = torch.autograd.grad(model(x).sum(), x)
model(batch()).mean().backward()
loss = model(batch() + slope).mean()
loss.backward()
r.end(loss)
optimizer.step()
"""


@pytest.mark.parametrize("loop", named(UNDIFFERENTIATED))
def test_forwards_that_no_backward_comes_to_are_told(loop: str, run: Run) -> None:
    found = verdict(run(loop))
    assert found["problems"] == []
    lines = {stack[0][1] for stack in found["undifferentiated"]}
    told = {n for n, text in enumerate(loop.splitlines(), 1) if text.endswith("# told")}
    assert lines == told


FRAMES: list[int] = []
COMPILED = """
## compiled
from torch._dynamo.utils import counters

torch._dynamo.reset()
counters.clear()
model = net()
optimizer = torch.optim.AdamW(model.parameters())
forward = torch.compile(model, backend="eager")
update = torch.compile(optimizer.step, backend="eager")
---
r.begin()
model.train()
loss = forward(batch()).mean()
loss.backward()
r.end(loss)
update()
FRAMES.append(counters["frames"]["total"])
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_nothing_that_torch_compile_guards_on_is_touched(run: Run) -> None:
    """Model and optimizer are compiled once, in the first sample, and never again."""
    FRAMES.clear()
    (loop,) = loops(COMPILED).values()
    assert verdict(run(loop))["status"] == "verified"
    assert len(FRAMES) >= 3 and set(FRAMES) == {FRAMES[0]}


def test_a_run_that_never_comes_to_its_stop_is_complete_all_the_same(run: Run) -> None:
    events = run(
        loops(RIGHT)["plain"].replace("range(12)", "range(60)").replace("r.finished()", "False")
    )
    samples = sum(event["event"] == "sample" for event in events)
    assert 3 <= samples < 12
    (warning,) = (event for event in events if event["event"] == "warning")
    assert "the early stop was not reached" in warning["text"]
    assert events[-1] == {**events[-1], "event": "complete", "samples": samples}


def test_a_stop_that_is_asked_now_and_then_is_waited_for(run: Run) -> None:
    events = run(loops(RIGHT)["plain"].replace("r.finished()", "n % 4 == 3 and r.finished()"))
    assert not any(event["event"] == "warning" for event in events)
    assert sum(event["event"] == "sample" for event in events) == 4


def test_chosen_lines_are_not_said_to_lack_an_optimizer_that_may_step_in_a_later_sample() -> None:
    evidence = Evidence()
    evidence.label = CHOSEN
    evidence.seen = [Seen(kind, INSIDE, []) for kind in ("forward", "backward")]
    evidence.seen.append(Seen("changed", LATER, []))
    reasons = [
        says for _, sort, says, look in CHECKS if sort == UNVERIFIED and look(evidence) is not None
    ]
    assert reasons == ["no optimizer stepped in the first sample of the chosen lines"]


@pytest.mark.parametrize(
    ("made", "way"),
    [
        (lambda p, optim: optim.AdamW(p), "fused"),
        (lambda p, optim: optim.AdamW(p, fused=True), ""),
        (lambda p, optim: optim.SGD(p, lr=0.1, foreach=True), ""),
        (lambda p, optim: optim.RMSprop(p), "foreach"),
        (lambda p, optim: optim.LBFGS(p), ""),
    ],
)
def test_a_faster_update_is_told_where_the_optimizer_has_it_and_does_not_use_it(
    made: Callable[[list[Any], Any], Any], way: str
) -> None:
    optimizer = made([torch.nn.Parameter(torch.zeros(2))], torch.optim)
    assert offers(torch, optimizer) == {"class": type(optimizer).__name__, "offers": way}
