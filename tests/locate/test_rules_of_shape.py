"""Refusals that hang on the shape around the step: overrides, arguments, branches, threads."""

from __future__ import annotations

import pytest

from tests.locate.cases import HEAD, lines_of, looped, plan_of, timed
from tests.locate.test_rules import line_of, reason_of

# -- one loop, overridden methods ----------------------------------------------------------

EPOCHS = (
    HEAD
    + """
class Epoch:
    def batch_update(self, x, y):
        raise NotImplementedError

    def run(self, loader):
        for x, y in loader:
            loss = self.batch_update(x, y)
            print(loss)

class TrainEpoch(Epoch):
    def batch_update(self, x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

class ValidEpoch(Epoch):
    def batch_update(self, x, y):  # of validation
        with torch.no_grad():
            return criterion(model(x), y)
"""
)


@pytest.mark.parametrize(
    "made",
    [
        "",
        "TrainEpoch().run(a)\nValidEpoch().run(b)\n",
        "for e in TrainEpoch(), ValidEpoch(): e.run(a)\n",
    ],
)
def test_a_loop_that_validation_runs_too(made: str) -> None:
    """Also when none is made: a library's file by itself."""
    begin, end = lines_of(EPOCHS, "        loss = criterion", "        loss.backward()")
    assert timed(plan_of(EPOCHS + made)) == {"start_line": begin, "end_line": end}


def test_a_loop_that_validation_and_two_trainings_run() -> None:
    second = EPOCHS.partition("class TrainEpoch(Epoch)")[2].partition("class ValidEpoch")[0]
    made = "for e in TrainEpoch(), OtherEpoch(), ValidEpoch(): e.run(a)\n"
    reason = reason_of(f"{EPOCHS}\nclass OtherEpoch(Epoch){second}\n{made}")
    assert reason.kind == "train-and-eval"
    assert reason.line == line_of(EPOCHS, "# of validation")
    assert "another version without a backward" in reason.message


OWN_LOOP = """
class ValidEpoch(Epoch):
    def batch_update(self, x, y):
        with torch.no_grad():
            return criterion(model(x), y)

    def run(self, loader):
        for x, y in loader:
            print(self.batch_update(x, y))
"""


@pytest.mark.parametrize(
    "source",
    [
        EPOCHS + "TrainEpoch().run(loader)\n",
        EPOCHS.partition("class ValidEpoch")[0]
        + OWN_LOOP
        + "TrainEpoch().run(a)\nValidEpoch().run(b)\n",
        EPOCHS.partition("class ValidEpoch")[0]
        + """
class Logged(TrainEpoch):
    def batch_update(self, x, y):
        print(x)
        return super().batch_update(x, y)

TrainEpoch().run(a)
Logged().run(b)
""",
    ],
    ids=["never_made", "with_a_loop_of_its_own", "trains_too"],
)
def test_overrides_that_do_no_harm(source: str) -> None:
    assert plan_of(source)["loop"]["line"] == line_of(source, "for x, y in loader:")


# -- steps on different paths --------------------------------------------------------------

AMP = """
loss = criterion(model(x), y)
optimizer.zero_grad()
if amp:
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
else:
    loss.backward()
optimizer.step()
"""


def test_a_backward_of_another_path_is_not_between_two_steps() -> None:
    source = looped(AMP)
    plan = plan_of(source)
    assert plan["backward"]["line"] == line_of(source, "scaler.scale(loss)")
    assert plan["backward"]["others"] == lines_of(source, "    loss.backward()")


def test_a_backward_between_two_steps_on_one_path() -> None:
    source = looped(AMP.replace("else:\n    loss.backward()", "criterion(model(y), x).backward()"))
    assert plan_of(source)["label"] == "step"


# -- threads -------------------------------------------------------------------------------

THREAD = """\
import subprocess
import threading
import torch

class Learner({base}):
    def run(self):
        for x, y in loader:
            loss = criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()

learner = Learner()
subprocess.run(["ls"])
"""


@pytest.mark.parametrize(
    ("base", "start", "what"),
    [
        ("threading.Thread", "start", "a thread"),
        ("multiprocessing.Process", "start", "a process"),
        ("threading.Thread", "run", ""),
        ("Base", "run", ""),
    ],
)
def test_a_loop_in_a_run_that_the_main_thread_calls_or_not(
    base: str, start: str, what: str
) -> None:
    source = THREAD.format(base=base) + f"learner.{start}()\n"
    if not what:
        assert plan_of(source)["loop"]["line"] == line_of(source, "for x, y in loader")
        return
    reason = reason_of(source)
    assert (reason.kind, reason.line) == ("own-process", line_of(source, "def run"))
    assert what in reason.message


# -- closures ------------------------------------------------------------------------------

CLOSURE = (
    HEAD
    + """
import functools

def take_step(x, y):
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss
    {use}
    return loss

for x, y in loader:
    loss = take_step(x, y)
"""
)


CALLED = "loss = closure()\n    optimizer.step()"
OTHERS = "def with_lbfgs():\n    def closure():\n        return 0\n    lbfgs.step(closure)\n"


@pytest.mark.parametrize(("use", "before"), [(CALLED, ""), (CALLED, OTHERS)])
def test_a_closure_that_the_helper_calls_itself(use: str, before: str) -> None:
    """Whatever another function does with a closure of its own."""
    source = CLOSURE.format(use=use).replace("\nfor x, y", f"\n{before}\nfor x, y")
    assert plan_of(source)["call"]["line"] == line_of(source, "loss = take_step(x, y)")


@pytest.mark.parametrize(
    "use",
    [
        "loss = optimizer.step(closure)",
        "loss = optimizer.step(closure=lambda: closure())",
        "optimizer.step(lambda: criterion(model(x), y).backward())",
        f"{CALLED}\n    optimizer.closure = lambda: closure()",
        "loss = optimizer.step(functools.partial(closure))",
        "loss = closure()\n    optimizer.step(closure)",
        f"{CALLED}\n    optimizer.closure = closure",
    ],
)
def test_a_closure_that_is_handed_on(use: str) -> None:
    assert reason_of(CLOSURE.format(use=use)).kind == "closure"


@pytest.mark.parametrize("use", [CALLED, f"{CALLED}\n    log(callback=closure)"])
def test_a_closure_by_any_name_that_no_optimizer_gets(use: str) -> None:
    assert plan_of(CLOSURE.format(use=use))["label"] == "step"
    assert (
        plan_of(CLOSURE.format(use=use).replace("closure", "forward_backward"))["label"] == "step"
    )


# -- what is said --------------------------------------------------------------------------


def test_a_step_under_torch_xla_step() -> None:
    source = looped(
        "with torch_xla.step():\n    loss = criterion(model(x), y)\n    loss.backward()\n"
        "    optimizer.step()\nprint(loss)"
    )
    reason = reason_of(source)
    assert (reason.kind, reason.line) == ("compiled-step", line_of(source, "with torch_xla"))
    assert "compile" not in reason.message + reason.remedy
    assert f"--region train.py:{reason.line}-{reason.line + 3}" in reason.remedy
    marked = plan_of(source, region=("train.py", reason.line, reason.line + 3))
    assert marked["region"]["start_line"] == reason.line


SAM = """
criterion(model(x), y).backward()
optimizer.first_step(zero_grad=True)
criterion(model(x), y).backward()
optimizer.second_step(zero_grad=True)
"""


def test_two_steps_of_one_update() -> None:
    source = looped(SAM)
    plan = plan_of(source)
    assert (plan["label"], plan["region"]["end_line"]) == ("step", line_of(source, "second_step"))


def test_steps_of_a_loop_inside_are_no_line_search() -> None:
    source = looped(
        """
        while repeats(y):
            criterion(model(x), y).backward()
            optimizer.step()
        criterion(model(x), y).backward()
        optimizer.step()
        """
    )
    plan = plan_of(source)
    assert plan["label"] == "step"
    assert timed(plan) == {"start_line": line_of(source, "while repeats"), "end_line": 13}


def test_the_epochs_around_a_loop_are_no_line_search() -> None:
    """The caller steps the optimizer in its loop, which runs the model too and is around."""
    source = (
        HEAD
        + """
def backward_all(losses):
    total = 0
    for loss in losses:
        total += loss
        loss.backward()
    return total

def train_one_epoch(optimizer, aux_optimizer):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
        backward_all(model.aux_losses())
        aux_optimizer.step()

for epoch in range(3):
    train_one_epoch(optimizer, aux_optimizer)
    print(model(x))
"""
    )
    assert plan_of(source)["label"] == "step"
