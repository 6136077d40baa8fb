"""Refusals that hang on the shape around the step: overrides, arguments, branches, threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Declined, Options
from instrumentor.locate import locate
from instrumentor.read.syntax import parse
from tests.locate.cases import HEAD, holds, lines_of, looped, plan_of, tables, timed
from tests.locate.test_rules import line_of, reason_of

# -- one loop, overridden methods ----------------------------------------------------------

EPOCHS = f"""{HEAD}
class Epoch:
    def run(self, loader):
        for x, y in loader:
            print(self.batch_update(x, y))

class TrainEpoch(Epoch):
    def batch_update(self, x, y):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

class ValidEpoch(Epoch):
    def batch_update(self, x, y):  # of validation
        with torch.no_grad():
            return criterion(model(x), y)
"""
OTHER = """
class {name}:
    def batch_update(self, x, y):
        {body}
"""
OWN_LOOP = """
    def run(self, loader):
        for x, y in loader:
            print(self.batch_update(x, y))
"""


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
    body = "criterion(model(x), y).backward()\n        optimizer.step()"
    made = "for e in TrainEpoch(), OtherEpoch(), ValidEpoch(): e.run(a)\n"
    reason = reason_of(EPOCHS + OTHER.format(name="OtherEpoch(Epoch)", body=body) + made)
    assert reason.kind == "train-and-eval"
    assert reason.line == line_of(EPOCHS, "# of validation")
    assert "another version without a backward" in reason.message


@pytest.mark.parametrize(
    ("more", "begin"),
    [
        ("TrainEpoch().run(loader)\n", "loss = criterion"),
        (f"{OWN_LOOP}TrainEpoch().run(a)\nValidEpoch().run(b)\n", "loss = criterion"),
        (
            OTHER.format(name="Logged(TrainEpoch)", body="return super().batch_update(x, y)")
            + "TrainEpoch().run(a)\nLogged().run(b)\n",
            "self.batch_update",
        ),
    ],
    ids=["never_made", "with_a_loop_of_its_own", "trains_too"],
)
def test_overrides_that_do_no_harm(more: str, begin: str) -> None:
    source = EPOCHS + more
    plan = plan_of(source)
    assert plan["loop"]["line"] == line_of(source, "for x, y in loader:")
    assert plan["region"]["start_line"] == line_of(source, begin)


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


AWAITED = f"""{HEAD}
import threading

def train(loader):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

def main(loader):
    worker = threading.Thread(target=train, args=(loader,))
    worker.start()
    worker.join()
    print("done")

if __name__ == "__main__":
    main(loader)
"""


def test_a_loop_in_the_one_thread_that_the_script_waits_for() -> None:
    """`SystemExit` ends that thread, and nothing is left for the main one to do."""
    plan = plan_of(AWAITED)
    assert plan["loop"]["line"] == line_of(AWAITED, "for x, y in loader")
    assert plan["stop"]["strategy"] == "SystemExit"


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("    worker.join()\n", ""),
        ("worker.join()", "worker.join(60)"),
        ('print("done")', "report(model)"),
        ('print("done")', "print(criterion(model(held), held))"),
        ("    worker.join()", "    serve(model)\n    worker.join()"),
        ("    main(loader)", "    main(loader)\n    report(model)"),
        ("    main(loader)", "    for each in loaders: main(each)"),
        ("    worker.start", "    threading.Thread(target=train).start()\n    worker.start"),
    ],
)
def test_a_loop_in_a_thread_beside_which_the_script_goes_on(written: str, instead: str) -> None:
    assert AWAITED.count(written) >= 1
    reason = reason_of(AWAITED.replace(written, instead))
    assert reason.kind == "own-process"
    assert "stopping it does not end the run" in reason.message


# -- closures ------------------------------------------------------------------------------

CLOSURE = f"""{HEAD}
import functools

def with_lbfgs():
    def closure():
        return 0
    lbfgs.step(closure)

def take_step(x, y):
    def closure():
        loss = criterion(model(x), y)
        loss.backward()
        return loss
    USE
    return loss

for x, y in loader:
    loss = take_step(x, y)
"""
CALLED = "loss = closure()\n    optimizer.step()"


@pytest.mark.parametrize(
    ("use", "handed_on"),
    [
        (CALLED, False),
        (f"{CALLED}\n    log(callback=closure)", False),
        ("loss = optimizer.step(closure)", True),
        ("loss = optimizer.step(closure=lambda: closure())", True),
        ("optimizer.step(lambda: criterion(model(x), y).backward())", True),
        ("loss = optimizer.step(functools.partial(closure))", True),
        ("loss = closure()\n    optimizer.step(closure)", True),
        (f"{CALLED}\n    optimizer.closure = closure", True),
        (f"{CALLED}\n    optimizer.closure = lambda: closure()", True),
    ],
)
def test_a_closure_that_an_optimizer_gets_or_not(use: str, handed_on: bool) -> None:
    """Whatever it is called, and another function does with a closure of its own."""
    source = CLOSURE.replace("USE", use)
    if handed_on:
        assert reason_of(source).kind == "closure"
        return
    plan = plan_of(source)
    assert (plan["label"], plan["call"]["line"]) == ("fwd+bwd", line_of(source, "loss = take_step"))
    assert plan_of(source.replace("closure", "forward_backward"))["label"] == "fwd+bwd"


# -- what is one step ----------------------------------------------------------------------


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


SHAPES = tables(
    """
=== a backward of another path is not between two steps
for x, y in loader:
    > begin
    loss = criterion(model(x), y)
    if amp:
        scaler.scale(loss).backward()
        > end
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        > end
    optimizer.step()
    > stop
=== two steps of one update
for x, y in loader:
    > begin
    criterion(model(x), y).backward()
    optimizer.first_step(zero_grad=True)
    criterion(model(x), y).backward()
    optimizer.second_step(zero_grad=True)  #! longer-sample
    > end label="step"
    > stop
=== steps of a loop inside are no line search
for x, y in loader:
    > begin
    while repeats(y):
        criterion(model(x), y).backward()
        optimizer.step()
    criterion(model(x), y).backward()
    optimizer.step()  #! longer-sample
    > end label="step"
    > stop
=== nor are the epochs around, which run the model too
def backward_all(losses):
    for loss in losses:
        loss.backward()

def train_one_epoch(optimizer, aux_optimizer):
    for x, y in loader:
        > begin
        criterion(model(x), y).backward()
        optimizer.step()
        backward_all(model.aux_losses())
        aux_optimizer.step()  #! longer-sample
        > end label="step"
        > stop

for epoch in range(3):
    train_one_epoch(optimizer, aux_optimizer)
    scale(model(x))
"""
)


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_one_step(name: str) -> None:
    holds(SHAPES[name])


# -- workers that an option starts ---------------------------------------------------------

WORKERS = f"""{HEAD}
import argparse
import torch.multiprocessing as mp

def worker(rank, args):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", action="store_true")
    parser.add_argument("--workers", type=int)
    args = parser.parse_args()
    if CASE:
        mp.spawn(worker, nprocs=2, args=(args,))
    else:
        worker(0, args)

main()
"""


@pytest.mark.parametrize(
    ("test", "arguments", "told"),
    [
        ("args.spawn", (), []),
        ("args.spawn", ("--spawn",), ["distributed"]),
        ("not args.spawn", (), ["distributed"]),
        ("torch.cuda.device_count() > 1", (), ["several-processes"]),
        ("args.spawn and torch.cuda.is_available()", ("--spawn",), ["several-processes"]),
    ],
)
def test_workers_that_the_options_start_train_instead_of_this_process(
    test: str, arguments: tuple[str, ...], told: list[str]
) -> None:
    source = parse(Path("train.py"), WORKERS.replace("CASE", test).encode())
    try:
        located = locate(source, Options(), None, arguments)
    except Declined as declined:
        assert [reason.kind for reason in declined.reasons] == told
        assert declined.reasons[0].line == line_of(WORKERS, "mp.spawn")
    else:
        kinds = [w.kind for w in located.warnings]
        assert [kind for kind in kinds if kind in ("distributed", "several-processes")] == told


# -- functions of an event loop ------------------------------------------------------------

ASYNC = f"""{HEAD}
import asyncio

async def train():
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        {{rest}}

asyncio.run(train())
"""


@pytest.mark.parametrize(
    ("rest", "switches"),
    [
        ("print(loss)", False),
        ("await log(loss)", True),
        ("[each async for each in log(loss)]", True),
        ("async def later(): await log(loss)", False),
    ],
)
def test_only_a_loop_that_awaits_lets_other_tasks_run(rest: str, switches: bool) -> None:
    source = ASYNC.format(rest=rest)
    if switches:
        assert reason_of(source).kind == "async"
    else:
        begin, end = lines_of(source, "        loss = criterion", "        loss.backward()")
        assert timed(plan_of(source)) == {"start_line": begin, "end_line": end}


BY_OPTION = f"""{HEAD}
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--solver", default="plain")
args = parser.parse_args()

class Solver:
    def __init__(self, second_order=False):
        self.second_order = second_order

    def fit(self, loader):
        for x, y in loader:
            def closure():
                optimizer.zero_grad()
                return criterion(model(x), y).backward()
            if TEST:
                optimizer.step(closure)
            else:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()

Solver().fit(loader)
"""


@pytest.mark.parametrize("test", ["self.second_order", 'args.solver == "lbfgs"'])
def test_a_closure_in_a_branch_that_the_script_does_not_take(test: str) -> None:
    source = BY_OPTION.replace("TEST", test)
    plan = plan_of(source)
    begin, end = lines_of(source, "loss = criterion", "loss.backward()")
    assert timed(plan) == {"start_line": begin, "end_line": end}
    place = f"train.py:{line_of(source, 'optimizer.step(closure)')}"
    assert place in [w["place"] for w in plan["warnings"] if w["kind"] == "branch-by-options"]


@pytest.mark.parametrize(
    ("test", "made"),
    [
        ("self.second_order", "Solver(True)"),
        ('args.solver == "plain"', "Solver()"),
        ("x", "Solver()"),
    ],
)
def test_a_closure_in_a_branch_that_the_script_may_take(test: str, made: str) -> None:
    source = BY_OPTION.replace("TEST", test).replace("Solver().fit", f"{made}.fit")
    assert reason_of(source).kind == "closure"


# -- a step in pieces that a generator gives ------------------------------------------------

PIECES = """
def pieces(out, y):
    parts = [part.detach().requires_grad_() for part in out.split(2)]
    for part, wanted in zip(parts, y.split(2)):
        yield part, wanted
    torch.autograd.backward(out.split(2), [part.grad for part in parts])

def losses(out, y):
    for part, wanted in {walked}:
        {inside}

for x, y in loader:
    out = model(x)
    losses(out, y)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("inside", "walked", "declined"),
    [
        ("criterion(part, wanted).backward()", "pieces(out, y)", False),
        # what walks over the pieces only shows them, in the middle of the step
        ("print(part)", "pieces(out, y)", True),
        # or somebody else does, who knows when
        ("criterion(part, wanted).backward()", "later(pieces(out, y))", True),
    ],
)
def test_a_generator_whose_pieces_are_differentiated_is_a_part_of_the_step(
    inside: str, walked: str, declined: bool
) -> None:
    source = HEAD + PIECES.format(walked=walked, inside=inside)
    if declined:
        assert reason_of(source).kind == "generator"
        return
    begin, end = lines_of(source, "out = model(x)", "    losses(out, y)")
    assert timed(plan_of(source)) == {"start_line": begin, "end_line": end}
