"""The witness on real torch: every seeded mistake is named, and nothing that is right raises it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from instrumentor.runtime.recorder.recorder import Recorder  # noqa: E402

Loop = Callable[[Recorder], None]
SHAPES: dict[str, Loop] = {}
MISTAKES: dict[str, tuple[str, str, Loop]] = {}


def right(loop: Loop) -> Loop:
    """A loop whose region is the step."""
    SHAPES[loop.__name__] = loop
    return loop


def wrong(check: str, line: str) -> Callable[[Loop], Loop]:
    """A loop whose region is not: the check that says so, and the line that it names."""

    def named(loop: Loop) -> Loop:
        MISTAKES[loop.__name__] = (check, line, loop)
        return loop

    return named


def net(width: int = 8) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))


def batch() -> Any:
    return torch.randn(4, 8)


def steps(count: int = 6) -> range:
    return range(count)


@right
def plain(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in steps():
        x = batch()
        optimizer.zero_grad()
        r.begin(x)
        loss = model(x).mean()
        loss.backward()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def whole_step(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = model(batch()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        r.end(loss, label="step")
        if r.finished():
            return


@right
def accumulation(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in steps(12):
        r.begin()
        loss = model(batch()).mean() / 4
        loss.backward()
        r.end(loss)
        if n % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
            if r.finished():
                return


@right
def fused_last_micro_batch(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in steps(12):
        r.begin()
        loss = model(batch()).mean() / 2
        loss.backward()
        if n % 2 == 0:
            r.end(loss)
            continue
        optimizer.step()
        optimizer.zero_grad()
        r.end(loss, label="fwd+bwd+optimizer")
        if r.finished():
            return


@right
def several_backwards(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        h = model[0](batch())
        h.mean().backward(retain_graph=True)
        loss = model[2](h.relu()).mean()
        loss.backward()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def gan(r: Recorder) -> None:
    maker, judge = net(8), net()
    maker = nn.Linear(8, 8)
    first = torch.optim.Adam(judge.parameters())
    second = torch.optim.Adam(maker.parameters())
    for _ in steps():
        r.begin()
        fake = maker(batch())
        (judge(batch()).mean() - judge(fake.detach()).mean()).backward()
        first.step()
        first.zero_grad()
        loss = judge(fake).mean()
        loss.backward()
        second.step()
        r.end(loss, label="step")
        if r.finished():
            return


@right
def only_the_first_of_two_updates(r: Recorder) -> None:
    maker, judge = nn.Linear(8, 8), net()
    first = torch.optim.Adam(judge.parameters())
    second = torch.optim.Adam(maker.parameters())
    for _ in steps():
        r.begin()
        loss = judge(maker(batch()).detach()).mean()
        loss.backward()
        r.end(loss)
        first.step()
        judge(maker(batch())).mean().backward()
        second.step()
        if r.finished():
            return


@right
def checkpointed(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for reentrant in (False, True, False, True):
        r.begin()
        x = batch().requires_grad_()
        x = checkpoint(model, x, use_reentrant=reentrant)
        loss = x.mean()
        loss.backward()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def reentrant_first(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = checkpoint(model, batch().requires_grad_(), use_reentrant=True).mean()
        loss.backward()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def scaled(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for n in steps():
        r.begin()
        loss = model(batch()).mean() * (float("inf") if n == 0 else 1)  # the first is skipped
        scaler.scale(loss).backward()
        r.end(loss)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if r.finished():
            return


@right
def functional_calls(r: Recorder) -> None:
    model = net().eval()
    parameters = {k: v.detach().requires_grad_() for k, v in model.named_parameters()}
    optimizer = torch.optim.AdamW(parameters.values())
    for _ in steps():
        r.begin()
        loss = torch.func.functional_call(model, parameters, (batch(),)).mean().reshape(1, 1, 1)
        loss.backward(torch.ones_like(loss))
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def carried_state(r: Recorder) -> None:
    model, head = nn.LSTM(8, 8), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    state = None
    for _ in steps():
        optimizer.zero_grad()
        r.begin()
        out, state = model(torch.randn(5, 2, 8), state)
        state = tuple(s.detach() for s in state)
        loss = head(out).mean()
        loss.backward()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def carried_graph(r: Recorder) -> None:
    """The graphs of earlier steps hang on this one: they were made in their own samples."""
    model, head = nn.RNN(8, 8), nn.Linear(8, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    state = None
    for _ in steps():
        r.begin()
        out, state = model(torch.randn(5, 2, 8), state)
        loss = head(out).mean()
        loss.backward(retain_graph=True)
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def made_once_ahead(r: Recorder) -> None:
    model, prompt = net(), nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    embedded = prompt(batch())
    for _ in steps():
        r.begin()
        loss = model(batch() + embedded).mean()
        loss.backward(retain_graph=True)
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


@right
def own_function(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = Doubled.apply(model(batch())).mean()
        torch.autograd.backward(loss)
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def gradient_penalty(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        x = batch().requires_grad_()
        r.begin()
        out = model(x).mean()
        (slope,) = torch.autograd.grad(out, x, create_graph=True)
        (out + slope.norm()).backward()
        r.end(out)
        optimizer.step()
        if r.finished():
            return


@right
def target_network_and_average(r: Recorder) -> None:
    model, target = net(), net()
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
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
        if r.finished():
            return


@right
def generates_first(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        model.eval()
        with torch.no_grad():
            answer = model(batch())
        model.train()
        loss = functional.mse_loss(model(batch()), answer)
        loss.backward()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def back_to_eval_at_the_end(r: Recorder) -> None:
    model = net().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        model.train()
        loss = model(batch()).mean()
        loss.backward()
        model.eval()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@right
def renormalised_embedding(r: Recorder) -> None:
    model, head = nn.Embedding(16, 8, max_norm=0.1), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    for n in steps(12):
        r.begin()
        loss = head(model(torch.randint(0, 16, (4,)))).mean()
        loss.backward()
        r.end(loss)
        if n % 4 == 3:
            optimizer.step()
            if r.finished():
                return


@right
def updated_by_hand(r: Recorder) -> None:
    weight = torch.randn(8, 1, requires_grad=True)
    for _ in steps():
        r.begin()
        loss = (batch() @ weight).mean()
        loss.backward()
        r.end(loss)
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            weight.grad = None
        if r.finished():
            return


@right
def another_loop_between(r: Recorder) -> None:
    """One sample, then the value network's own loop, then the next sample."""
    model, value = net(), net()
    first = torch.optim.Adam(model.parameters())
    second = torch.optim.Adam(value.parameters())
    for _ in steps():
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
        if r.finished():
            return


# -- mistakes -------------------------------------------------------------------------------------


@wrong("forward", "features = model[0](batch())")
def begins_too_late(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        features = model[0](batch())
        r.begin()
        loss = model[2](features.relu()).mean()
        loss.backward()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@wrong("forward", "value = critic(batch())")
def a_critic_ahead(r: Recorder) -> None:
    model, critic = net(), net()
    optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
    for _ in steps():
        value = critic(batch())
        r.begin()
        loss = (model(batch()) - value).mean()
        loss.backward()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


@wrong("backward", "loss.backward()")
def ends_too_early(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = model(batch()).mean()
        r.end(loss)
        loss.backward()
        optimizer.step()
        if r.finished():
            return


@wrong("backward", "model(batch()).square().mean().backward()")
def ends_before_the_second_backward(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = model(batch()).mean()
        loss.backward()
        r.end(loss)
        model(batch()).square().mean().backward()
        optimizer.step()
        if r.finished():
            return


@wrong("backward", "model(batch()).mean().backward()")
def begins_behind_the_backward(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        optimizer.zero_grad()
        model(batch()).mean().backward()
        r.begin()
        optimizer.step()
        r.end(label="step")
        if r.finished():
            return


@wrong("optimizer", "optimizer.step()")
def ends_after_the_update(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = model(batch()).mean()
        loss.backward()
        optimizer.step()
        r.end(loss)
        if r.finished():
            return


@wrong("optimizer", "optimizer.step()")
def a_whole_step_without_its_update(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = model(batch()).mean()
        loss.backward()
        r.end(loss, label="step")
        optimizer.step()
        if r.finished():
            return


@wrong("evaluation", "model(batch())")
def evaluates_inside(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = model(batch()).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model(batch())
        r.end(loss, label="step")
        if r.finished():
            return


@wrong("evaluation", "model.eval()")
def evaluates_inside_by_its_modes(r: Recorder) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        loss = model(batch()).mean()
        loss.backward()
        model.eval()
        model.train()
        r.end(loss)
        optimizer.step()
        if r.finished():
            return


# -- how they are run -----------------------------------------------------------------------------


def ours() -> tuple[object, ...]:
    """What the witness replaces for a while."""
    mark = torch.autograd.profiler.record_function.__enter__
    return torch.autograd._engine_run_backward, mark, nn.Module.train, functional.linear


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Loop], Any]]:
    """Runs a loop of three samples; afterwards torch is as it was."""
    record = tmp_path / "record.jsonl"
    monkeypatch.setenv("INSTRUMENT_RECORD", str(record))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    # These loops stand among the tests, and are the user's code all the same.
    monkeypatch.setattr("instrumentor.runtime.recorder.places.LIBRARIES", ("/site-packages/",))
    before = ours()

    def call(loop: Loop) -> Any:
        recorder = Recorder(steps=3, warmup=1, profiler="wallclock")
        loop(recorder)
        recorder.summarise()
        return [json.loads(line) for line in record.read_text().splitlines()]

    yield call
    assert ours() == before
    assert not torch.is_anomaly_enabled()


def verdict(events: list[dict[str, Any]]) -> dict[str, Any]:
    return [event for event in events if event["event"] == "witness"][-1]


@pytest.mark.parametrize("name", SHAPES)
def test_no_false_alarm(name: str, run: Callable[[Loop], Any]) -> None:
    events = run(SHAPES[name])
    found = verdict(events)
    assert found["problems"] == []
    assert found["status"] == "verified", found
    kinds = [event["kind"] for event in events if event["event"] == "sample"]
    assert kinds.count("steady") >= 2
    assert events[-1]["event"] == "complete"


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name: str, run: Callable[[Loop], Any]) -> None:
    check, line, loop = MISTAKES[name]
    events = run(loop)
    found = verdict(events)
    assert (found["status"], found["verified"]) == ("failed", [])
    (problem,) = found["problems"]
    assert problem["check"] == check
    file, number, function = problem["places"][0]
    assert (file, function) == (inspect.getfile(loop), name)
    assert Path(file).read_text().splitlines()[number - 1].strip() == line
    assert sum(event["event"] == "sample" for event in events) < 3
    assert not any(event.get("kind") == "steady" for event in events)


def holds_nothing(r: Recorder) -> None:
    """Backward: a region from which the step was taken out."""
    optimizer = torch.optim.SGD(net().parameters(), lr=0.1)
    for _ in steps():
        r.begin()
        optimizer.zero_grad()
        r.end(label="step")
        if r.finished():
            return


def holds_a_later_update(r: Recorder) -> None:
    """Optimizer: the update of every second micro-batch is timed with its forward and backward."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in steps(12):
        r.begin()
        loss = model(batch()).mean()
        loss.backward()
        if n % 2:
            optimizer.step()
        r.end(loss)
        if r.finished():
            return


@pytest.mark.parametrize("loop", [holds_nothing, holds_a_later_update])
def test_a_mistake_without_a_place_of_its_own(loop: Loop, run: Callable[[Loop], Any]) -> None:
    found = verdict(run(loop))
    assert found["status"] == "failed"
    check, _, _ = (loop.__doc__ or "").partition(":")
    assert [problem["check"] for problem in found["problems"]] == [check.lower()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_nothing_that_torch_compile_guards_on_is_touched(run: Callable[[Loop], Any]) -> None:
    """Model and optimizer are compiled once, in the first sample, and never again."""
    from torch._dynamo.utils import counters

    frames: list[int] = []

    def compiled(r: Recorder) -> None:
        torch._dynamo.reset()
        counters.clear()
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        forward = torch.compile(model, backend="eager")
        update = torch.compile(optimizer.step, backend="eager")
        for _ in steps():
            r.begin()
            model.train()
            loss = forward(batch()).mean()
            loss.backward()
            r.end(loss)
            update()
            frames.append(counters["frames"]["total"])
            if r.finished():
                return

    found = verdict(run(compiled))
    assert found["status"] == "verified"
    assert len(frames) >= 3 and set(frames) == {frames[0]}
