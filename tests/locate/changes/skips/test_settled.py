"""Evaluations whose mode is not told go where the step's mode is set behind them on each path."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import HEAD, looped, plan_of
from tests.locate.changes.skips.test_modes import UNTOLD
from tests.locate.changes.test_skips import STEP, code_lines, stays

EVALUATOR = """\
class Evaluator:
    def __init__(self, net):
        self.net = net
    def run(self, loader):
        for x, y in loader:
            with torch.no_grad():
                self.net.eval()
                print(self.net(x))
    def keep(self):
        self.kept = 1
def begin(net):
    net.train()
    return net(x)
def run_first(net):
    out = net(x)
    net.train()
    return out
def run_inner(net, wrapped):
    if wrapped:
        net = net.module
    net = net.to('cuda')
    net.eval()
    for x, y in val_loader:
        with torch.no_grad():
            print(net(x))
evaluator = Evaluator(model)
val_loader = torch.utils.data.DataLoader(data)
"""
RUN = "evaluator.run(val_loader)\n"
INNER = "run_inner(model, n)\n"

#: what stands ahead of the loop, what ahead of the step, what behind it
GOES: dict[str, tuple[str, str, str]] = {
    "ahead_of_the_step": (
        "",
        "if step % 8 == 0:\n    evaluator.run(val_loader)\nmodel.train()",
        "",
    ),
    "to_evaluation": (RUN, "model.eval()", ""),
    "in_the_object_that_has_it": (RUN, "evaluator.net.train()", ""),
    "behind_what_runs_nothing": (RUN, "n = len(x)\nprint(n)\nx = x.to('cpu')\nmodel.train()", ""),
    "in_a_function": (RUN, "begin(model)", ""),
    "in_both_branches": (RUN, "if n:\n    model.train()\nelse:\n    model.train(True)", ""),
    "behind_the_step": ("", "model.train()", RUN),
    "behind_a_wrapper": (f"model = torch.nn.DataParallel(model)\n{RUN}", "model.train()", ""),
    "behind_a_move": (f"{RUN}model = model.cuda()\n", "model.train()", ""),
    "behind_a_look_at_what_it_is": (
        RUN,
        "inner = model.module if hasattr(model, 'module') else model\nmodel.train()",
        "",
    ),
    "behind_its_save": ("", "model.train()", f"{RUN}model.save_pretrained('out')"),
    "of_one_of_two": ("", "model.train()", INNER),
    "ahead_of_the_loop": (f"{RUN}model.train()\n", "", ""),
}
STAYS: dict[str, tuple[str, str, str]] = {
    "of_one_of_two_of_which_one_is_set": ("", "model.module.train()", INNER),
    "of_one_of_two_nowhere": ("", "", INNER),
    "nowhere": (RUN, "", ""),
    "in_one_branch": (RUN, "if n:\n    model.train()", ""),
    "in_a_loop_without_turns": (RUN, "for one in x:\n    model.train()", ""),
    "behind_a_forward": (RUN, "print(model(x))\nmodel.train()", ""),
    "in_a_function_that_runs_it_first": (RUN, "run_first(model)", ""),
    "behind_a_question": (RUN, "print(model.training)\nmodel.train()", ""),
    "behind_what_nobody_knows": (RUN, "unknown(x)\nmodel.train()", ""),
    "behind_a_library_that_gets_it": (RUN, "import ema\nema.Average(model)\nmodel.train()", ""),
    "another_module": (RUN, "other = torch.nn.Linear(4, 4)\nother.train()", ""),
    "a_mode_of_others": (RUN, "model.train(ready)", ""),
    "part_of_an_expression": (RUN, "ready and model.train()", ""),
    "another_model_since": (f"{RUN}model = torch.nn.Linear(4, 4)\n", "model.train()", ""),
    "set_elsewhere": (f"evaluator.net = torch.nn.Linear(4, 4)\n{RUN}", "model.train()", ""),
    "only_behind_the_step": ("", "", f"{RUN}scale(model(x))\nmodel.train()"),
}


def source_of(ahead: str, first: str, behind: str) -> str:
    return looped(f"{first}\n{STEP}{behind}", before=EVALUATOR + ahead)


@pytest.mark.parametrize("name", GOES)
def test_a_mode_that_is_set_before_anything_asks_for_it_is_as_good_as_told(name: str) -> None:
    source = source_of(*GOES[name])
    assert plan_of(source)["skipped_validation"], stays(source)
    assert not any("evaluator.net" in line and "# [ins" in line for line in code_lines(source))


@pytest.mark.parametrize("name", STAYS)
def test_a_mode_that_something_may_ask_for_is_not(name: str) -> None:
    source = source_of(*STAYS[name])
    assert plan_of(source)["skipped_validation"] == []
    assert UNTOLD in stays(source)[0]


#: a class around the step, where its evaluation is called, and what a call of the step begins with
TRAINER = """\
class Trainer:
    def __init__(self):
        self.net = model
    def evaluate(self):
        for x, y in val_loader:
            with torch.no_grad():
                print(self.net.eval()(x))
    def epoch(self):
        {}
        for x, y in loader:
            loss = criterion(self.net(x), y)
            loss.backward()
            optimizer.step()
        {}
    def train(self):
        for epoch in range(9):
            self.epoch()
def main():
    trainer = Trainer()
    {}
"""


@pytest.mark.parametrize(
    ("first", "last", "runs", "goes"),
    [
        ("self.net.train()", "self.evaluate()", "trainer.train()", True),
        ("pass", "self.evaluate()", "trainer.train()", False),
        ("self.net.train()", "self.evaluate()\nscale(self.net(x))", "trainer.train()", False),
        # the run is over then
        ("self.net.train()", "self.evaluate()", "trainer.train()\nscale(trainer.net(x))", True),
        (
            "self.net.train()",
            "self.evaluate()",
            "try:\n    trainer.train()\nfinally:\n    scale(trainer.net(x))",
            False,
        ),
        (
            "self.net.train()",
            "self.evaluate()",
            "for turn in range(3):\n    trainer.train()\n    scale(trainer.net(x))",
            False,
        ),
    ],
)
def test_the_paths_lead_out_to_the_callers_of_what_the_run_ends_in(
    first: str, last: str, runs: str, *, goes: bool
) -> None:
    body = TRAINER.format(
        first, textwrap.indent(last, " " * 8).lstrip(), textwrap.indent(runs, " " * 4).lstrip()
    )
    source = f"{HEAD}val_loader = torch.utils.data.DataLoader(data)\n{body}main()\n"
    assert bool(plan_of(source)["skipped_validation"]) is goes, stays(source)


@pytest.mark.parametrize("turns", [1, 2])
def test_a_caller_that_runs_again_may_ask_for_what_it_cannot_name(turns: int) -> None:
    body = TRAINER.format("self.net.train()", "self.evaluate()", "trainer.train()")
    source = f"{HEAD}val_loader = torch.utils.data.DataLoader(data)\n{body}" + "main()\n" * turns
    assert bool(plan_of(source)["skipped_validation"]) is (turns == 1)
