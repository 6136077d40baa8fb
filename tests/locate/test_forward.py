"""Where the region may begin: at the first statement that takes part in the forward."""

from __future__ import annotations

import pytest

from tests.locate.cases import HEAD, around, lines_of, looped, plan_of, rewritten, timed

#: body, text of the line that the region starts at, text of the forward's line
STARTS = {
    "inputs_are_moved_first": (
        """\
        x = x.to(device)
        y = y.to(device)
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
        """,
        "output = model(x)",
    ),
    "labels_are_prepared_between": (
        """\
        output = model(x)
        target = torch.nn.functional.one_hot(y, 10).float()
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        """,
        "output = model(x)",
    ),
    "noise_is_prepared_first": (
        """\
        noise = torch.randn_like(x)
        noisy = scheduler.add_noise(x, noise, 3)
        loss = criterion(model(noisy), noise)
        loss.backward()
        optimizer.step()
        """,
        "loss = criterion(",
    ),
    "zero_grad_between": (
        """\
        output = model(x)
        optimizer.zero_grad()
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
        """,
        "output = model(x)",
    ),
    "under_autocast": (
        """\
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        """,
        "with torch.autocast",
    ),
    "backward_with_the_forward_in_it": (
        """\
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        """,
        "criterion(model(x), y).backward()",
    ),
    "helper_for_the_loss": (
        """\
        batch = collate(x, y)
        loss, metrics = compute_loss(model, batch)
        loss.backward()
        optimizer.step()
        """,
        "loss, metrics =",
    ),
    "frozen_teacher_first": (
        """\
        with torch.no_grad():
            target = teacher(x)
        output = model(x)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        """,
        "output = model(x)",
    ),
    "logging_first": (
        """\
        print("batch", len(x))
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
        """,
        "output = model(x)",
    ),
    "loss_is_summed_up": (
        """\
        loss = 0.0
        for part in x.chunk(2):
            loss = loss + criterion(model(part), y)
        loss.backward()
        optimizer.step()
        """,
        "for part in",
    ),
    "mode_is_switched": (
        """\
        model.train()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
        """,
        "output = model(x)",
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_begin(name: str) -> None:
    body, mark = STARTS[name]
    source = looped(body)
    (line,) = lines_of(source, mark)
    plan = plan_of(source)
    assert plan["region"]["start_line"] == line
    _, following = around(rewritten(source), "_instrument.begin(")
    assert mark in following


@pytest.mark.parametrize(
    "backward",
    [
        "loss.backward()",
        "(loss / 4).backward()",
        "loss.sum().backward()",
        "loss.mean().backward(retain_graph=True)",
        "scaler.scale(loss).backward()",
        "accelerator.backward(loss)",
        "fabric.backward(loss)",
        "engine.backward(loss)",
        "torch.autograd.backward(loss)",
        "torch.autograd.backward([loss])",
        "optimizer.backward(loss)",
    ],
)
def test_spelling_of_backward(backward: str) -> None:
    source = looped(
        f"optimizer.zero_grad()\nloss = criterion(model(x), y)\n{backward}\noptimizer.step()"
    )
    plan = plan_of(source)
    assert timed(plan) == {"start_line": 10, "end_line": 11}
    assert plan["backward"]["line"] == 11
    assert plan["forward"]["line"] == 10


@pytest.mark.parametrize(
    "header",
    [
        "for x, y in loader:",
        "for i, (x, y) in enumerate(loader):",
        "for i, (x, y) in enumerate(tqdm(loader, desc='train'), start=1):",
        "for x, y in itertools.islice(loader, 10):",
        "for x, y in zip(inputs, labels):",
        "for x, y in iter(loader):",
        "while step < 10:",
        "while True:",
        "for _ in range(100):",
    ],
)
def test_header_of_the_loop(header: str) -> None:
    source = looped(
        "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()", header=header
    )
    plan = plan_of(source)
    assert plan["loop"]["line"] == 8
    assert timed(plan) == {"start_line": 9, "end_line": 10}


def test_several_backwards_are_one_region() -> None:
    source = looped(
        """\
        features = model(x)
        first = criterion(features, y)
        first.backward(retain_graph=True)
        second = features.pow(2).mean()
        second.backward()
        optimizer.step()
        """
    )
    plan = plan_of(source)
    assert timed(plan) == {"start_line": 9, "end_line": 13}
    assert plan["backward"] == {"file": "train.py", "line": 11, "others": [13]}
    code = rewritten(source).code
    assert code.count(b"_instrument.begin(") == code.count(b"_instrument.end(") == 1


def test_each_exclusive_branch_is_closed() -> None:
    source = looped(
        """\
        optimizer.zero_grad()
        if use_amp:
            with torch.autocast("cuda"):
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        else:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """
    )
    result = rewritten(source)
    assert result.code.count(b"_instrument.end(") == 2
    assert result.code.count(b"_instrument.finished(") in (1, 2)
    assert result.plan.explanation["backward"]["others"] == [17]


def test_a_helper_that_walks_over_finished_losses_is_part_of_the_iteration() -> None:
    helper = "def backward_all(losses):\n    for loss in losses:\n        loss.backward()\n"
    body = "losses = [criterion(model(x), y), penalty()]\nbackward_all(losses)\noptimizer.step()"
    plan = plan_of(looped(body, helper))
    assert plan["loop"]["line"] == 11
    assert timed(plan) == {"start_line": 12, "end_line": 13}


@pytest.mark.parametrize("test", ["i == 0", "0 == i", "epoch == first and i == 0"])
def test_what_only_the_first_iteration_does_is_no_part_of_the_step(test: str) -> None:
    body = (
        f"if {test}:\n    out = criterion(model(x), y)\n    out.backward()\nx = prepare(x)\n"
        "out = criterion(model(x), y)\nout.backward()\noptimizer.step()"
    )
    header = "for i, (x, y) in enumerate(loader):"
    assert timed(plan_of(looped(body, header=header))) == {"start_line": 13, "end_line": 14}
    often = plan_of(looped(body.replace(test, "i % 4 == 0"), header=header))
    assert timed(often)["start_line"] == 9  # a penalty every few steps is


def test_an_update_that_every_caller_rules_out_is_none() -> None:
    before = (
        "def train(loader, lazy=False):\n    for x, y in loader:\n        if lazy:\n"
        "            optimizer.step(lambda: criterion(model(x), y))\n"
        "        loss = criterion(model(x), y)\n        loss.backward()\n"
        "        optimizer.step()\n\ntrain(loader)\n"
    )
    assert plan_of(HEAD + before)["label"] == "fwd+bwd"
    assert plan_of(HEAD + before + "train(loader, lazy=True)\n")["label"] == "step"
