"""An evaluation of a model stays that hands something on from one forward to the next."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from tests.locate.cases import looped, plan_of
from tests.warned import texts

STEP = "loss = criterion(net(x), y)\nloss.backward()\noptimizer.step()\n"
VALIDATE = """\
def validate(net):
    {mode}
    with torch.no_grad():
        for x, y in val_loader:
            total = net(x).sum()
    {back}
    print(total)
"""
NET = """\
import torch
def clamp(w):
    w.data.clamp_(-1.0, 1.0)
def centred(w, by=0):
    clamp(w)
    return w - by
class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.kept, self.at, self.n = torch.nn.Linear(4, 4), None, 0, 4
    def forward(self, x):
{forward}
        return y
    def push(self, y):
        self.kept[self.at] = y
        self.at = (self.at + 1) % 4
    def show(self):
        print(self.kept)
    def start(self, x):
        self.kept = x
    def may_start(self, x):
        if x.sum() > 0:
            self.kept = x
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {part}
    def forward(self, x):
        return self.part(x)
net = Net()
"""
OWN = "Part()"


def script(forward: str, *, part: str = OWN, evaluates: bool = True) -> str:
    mode, back = ("net.eval()", "net.train()") if evaluates else ("pass", "pass")
    net = NET.format(forward=textwrap.indent(forward, " " * 8), part=part)
    return looped(STEP, before=net + VALIDATE.format(mode=mode, back=back) + "validate(net)")


#: statements of the forward
HANDS_ON = {
    "a_hidden_state": "y = self.fc(x + self.kept)\nself.kept = y.detach()",
    "a_running_mean_in_place": "self.kept.mul_(0.9).add_(x.mean(0))\ny = self.fc(x - self.kept)",
    "a_part_of_a_queue": "self.kept[0] = x\ny = self.fc(self.kept.mean(0))",
    "a_queue_through_a_method": "y = self.fc(x + self.kept.mean(0))\nself.push(y.detach())",
    "through_another_name": "queue = self.kept\nqueue[0] = x\ny = self.fc(queue.mean(0))",
    "read_before_it_is_moved": "y = self.fc(x * self.kept)\nself.kept = self.kept.to(x.device)",
    "another_one_that_is_moved": "y = self.fc(x + self.kept)\nself.kept = self.at.to(x.device)",
    "moved_and_grown": "self.kept = self.kept.to(x.device) + x\ny = self.fc(self.kept)",
    "a_list": "self.kept.append(x)\ny = self.fc(sum(self.kept))",
    "a_counter": "self.at += 1\ny = self.fc(x * self.at)",
    "set_in_one_branch": "if x.sum() > 0:\n    self.kept = x\ny = self.fc(self.kept)",
    "read_by_a_method_ahead": "self.show()\nself.kept = x\ny = self.fc(x)",
    "set_by_a_method_perhaps": "x.sum() > 0 and self.start(x)\ny = self.fc(self.kept)",
    "perhaps_set_by_a_method": "self.may_start(x)\ny = self.fc(self.kept)",
    "made_once_from_the_first_batch": (
        "if self.kept is None:\n    self.kept = x.mean(0)\ny = self.fc(x - self.kept)"
    ),
    "made_once_from_weights": (
        "if self.kept is None:\n    self.kept = self.fc.weight.clone()\ny = self.fc(x) + self.kept"
    ),
    "a_global": "global total\ntotal = total + x\ny = self.fc(total)",
    "given_as_a_place": "torch.add(self.kept, x, out=self.kept)\ny = self.fc(self.kept)",
    "changed_by_a_function_it_is_given_to": "y = self.fc(x + centred(self.kept))",
    "changed_by_a_function_that_names_it": "centred(by=x, w=self.kept)\ny = self.fc(x + self.kept)",
    "outside_of_evaluation_too": (
        "if self.training or x.ndim:\n    self.at += 1\ny = self.fc(x * self.at)"
    ),
}


@pytest.mark.parametrize("name", HANDS_ON)
@pytest.mark.parametrize("part", [OWN, "torch.nn.Sequential(Part())"])
def test_what_a_forward_leaves_for_the_next_keeps_the_evaluation(name: str, part: str) -> None:
    source = script(HANDS_ON[name], part=part).replace(
        "import torch\n", "import torch\ntotal = 0\n"
    )
    plan = plan_of(source)
    assert plan["skipped_validation"] == []
    (why,) = [w for w in texts(plan["warnings"]) if "Validation is kept" in w]
    assert "net() at train.py:" in why and "might change" in why


def test_a_part_in_a_list_is_run_as_well() -> None:
    forward = HANDS_ON["a_hidden_state"]
    source = script(forward, part="torch.nn.ModuleList([Part()])")
    source = source.replace("return self.part(x)", "return [part(x) for part in self.part][-1]")
    assert plan_of(source)["skipped_validation"] == []
    source = source.replace("ModuleList([Part()])", "ModuleList()")
    source = source.replace("net = Net()\n", "net = Net()\nnet.part.append(Part())\n")
    assert plan_of(source)["skipped_validation"] == []


@pytest.mark.parametrize("put", ["net._modules[name] = Part()", "setattr(net, name, Part())"])
def test_a_part_that_takes_the_place_of_another_is_run_as_well(put: str) -> None:
    source = script(HANDS_ON["a_counter"], part="torch.nn.Linear(4, 4)")
    assert plan_of(source)["skipped_validation"]
    swapped = f"net = Net()\nfor name, _ in list(net.named_children()):\n    {put}\n"
    plan = plan_of(source.replace("net = Net()\n", swapped))
    assert plan["skipped_validation"] == []


#: statements of the forward
KEEPS_TO_ITSELF = {
    "set_by_a_method": "self.start(x)\ny = self.fc(self.kept)",
    "set_before_it_is_read": "self.kept = self.fc(x)\ny = self.kept * 2",
    "set_before_a_method_reads_it": "self.kept = self.fc(x)\nself.show()\ny = self.kept",
    "filled_anew": "self.kept = []\nself.kept.append(x)\ny = self.fc(sum(self.kept))",
    "shown_alone": "y = self.fc(x)\nself.at = y.detach()",
    "moved_to_where_its_input_is": (
        "self.kept = self.kept.to(x.device)\nself.at = self.at.type_as(x)\n"
        "y = self.fc(x + self.kept) * self.at"
    ),
    "made_once_for_a_shape": (
        "if self.kept is None or self.kept.size(0) != x.size(0):\n"
        "    n = x.size(0)\n    self.kept = torch.ones(n, self.n)\ny = self.fc(x) * self.kept"
    ),
    "made_once_for_a_key": (
        "n = x.size(0)\nif n not in self.kept:\n    self.kept[n] = torch.ones(n)\n"
        "y = self.fc(x) * self.kept[n]"
    ),
    "another_name_for_it": "n, at = self.n, self.at\nn = n * 2\ny = self.fc(x) * n + at",
    "a_function_called_like_a_method": "y = torch.add(self.fc(x), x)",
    "of_its_input": "x.add_(1)\ny = self.fc(x)",
    "of_its_input_in_a_function": "y = self.fc(centred(x, by=self.kept))",
    "in_training_alone": "if self.training and x.ndim:\n    self.at += 1\ny = self.fc(x * self.at)",
    "behind_the_return_of_evaluations": (
        "y = self.fc(x * self.at)\nif not self.training:\n    return y\nself.at += 1"
    ),
}


@pytest.mark.parametrize("name", KEEPS_TO_ITSELF)
def test_what_a_forward_sets_for_itself_keeps_none(name: str) -> None:
    assert plan_of(script(KEEPS_TO_ITSELF[name]))["skipped_validation"]


def test_a_list_of_another_module_is_handed_on(tmp_path: Path) -> None:
    (tmp_path / "state.py").write_text("seen = []\n")
    (tmp_path / "train.py").write_text(
        "from state import seen\n" + script("seen.append(x)\ny = self.fc(x) * len(seen)")
    )
    assert not locate_file(tmp_path / "train.py", Options(), [tmp_path]).skipped


def test_what_training_mode_hands_on_counts_where_nobody_leaves_it() -> None:
    source = script(KEEPS_TO_ITSELF["in_training_alone"], evaluates=False)
    assert plan_of(source)["skipped_validation"] == []


@pytest.mark.parametrize(
    ("test", "value", "goes"),
    [
        ("n not in window", "torch.hann_window(n)", True),
        ("n not in window", "torch.hann_window(n) * x", False),
        ("x not in window", "torch.hann_window(n)", False),
        ("n > 3", "torch.hann_window(n)", False),
    ],
)
def test_a_cache_that_step_and_evaluation_share(test: str, value: str, goes: bool) -> None:
    cache = (
        f"window = {{}}\ndef scaled(x, n):\n    if {test}:\n        window[n] = {value}\n"
        "    return x * window[n]\n"
    )
    validate = VALIDATE.format(mode="model.eval()", back="model.train()")
    validate = validate.replace("net(x)", "scaled(model(x), 4)")
    step = STEP.replace("net(x)", "scaled(model(x), 4)")
    source = looped(step, before=cache + validate + "validate(model)")
    assert bool(plan_of(source)["skipped_validation"]) is goes


RETURNED = """\
made = {{}}
def found(x, n, shape):
    key = {key}
    if key in made:
        {found}
    def grow(y):
        return y * n
    class Own:
        def run(self, y):
            {runs}
    made[key] = {value}
    return made[key]
"""


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        ({}, True),
        ({"value": "torch.ones(shape)"}, True),
        ({"value": "grow"}, True),
        ({"key": "(n, len(shape))", "value": "torch.ones(shape)"}, False),
        ({"key": "(tuple(shape),)"}, False),
        ({"found": "print(key)"}, False),
        ({"runs": "return grow(y) + x"}, False),
        ({"value": "x"}, False),
    ],
)
def test_a_cache_whose_function_returns_what_it_finds(
    change: dict[str, str], *, goes: bool
) -> None:
    known = {"key": "(n, tuple(shape))", "found": "return made[key]", "value": "Own"}
    cache = RETURNED.format(**{**known, "runs": "return grow(y)", **change})
    validate = VALIDATE.format(mode="model.eval()", back="model.train()")
    validate = validate.replace("net(x)", "model(x) * found(x, 4, [2])")
    step = STEP.replace("net(x)", "model(x) * found(x, 4, [2])")
    source = looped(step, before=cache + validate + "validate(model)")
    assert bool(plan_of(source)["skipped_validation"]) is goes


TWO_CACHES = """\
windows, scales = {{}}, {{}}
def features(x, size, rate):
    key = {key}
    if key not in windows:
        windows[key] = torch.hann_window(size)
        scales[{at}] = {value}
    return x * scales[key] * windows[key]
{more}def validate(net):
    net.eval()
    with torch.no_grad():
        for x, y in val_loader:
            print(net(features(x, 4, 2)))
    net.train()
validate(net)
"""


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        ({}, True),
        ({"key": "(size, rate)"}, True),
        ({"value": "torch.ones(rate)"}, True),
        ({"key": 'f"{size}{rate}"', "value": "torch.ones(rate)"}, False),
        ({"value": "x.sum()"}, False),
        ({"at": "rate"}, False),
        ({"more": "scales[3] = 4\n"}, False),
        ({"more": "scales.clear()\n"}, False),
        ({"more": "other = scales\n"}, False),
    ],
)
def test_two_caches_that_are_filled_together(change: dict[str, str], *, goes: bool) -> None:
    known = {"key": 'f"{size}_{rate}"', "at": "key", "value": "torch.ones(size)", "more": ""}
    net = NET.format(forward="        y = x", part=OWN)
    before = net + TWO_CACHES.format(**{**known, **change})
    step = STEP.replace("net(x)", "net(features(x, 4, 2))")
    assert bool(plan_of(looped(step, before=before))["skipped_validation"]) is goes


GENERATES = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
    def forward(self, x, cache=None):
        if cache is None:
            return self.fc(x)
        before = cache.last
        cache.last = x
        return self.fc(x if before is None else before)
cache = Cache()
net = Net()
"""


@pytest.mark.parametrize(
    ("call", "wrapped", "goes"),
    [
        ("net(x)", "", True),
        ("net(x, None)", "", True),
        ("net(x)", "net = torch.compile(net)\n", True),
        ("net(x, cache)", "", False),
        ("net(x, cache=cache)", "", False),
        ("net(x, **options)", "", False),
        ("net(x, *options)", "", False),
    ],
)
def test_a_branch_that_an_option_of_the_call_leaves_out_hands_nothing_on(
    call: str, wrapped: str, *, goes: bool
) -> None:
    validate = VALIDATE.format(mode="net.eval()", back="net.train()").replace("net(x)", call)
    step = STEP.replace("net(x)", "net(x, cache)")
    before = f"{GENERATES}{wrapped}{validate}validate(net)"
    assert bool(plan_of(looped(step, before=before))["skipped_validation"]) is goes


CACHES = """\
import functools, random, time
state, kept = {{"scale": 1.0}}, {{}}
SIZE = 4
def make(n):
    return {made}
def by_key(n):
    if n not in kept:
        kept[n] = make(n)
    return kept[n]
@functools.lru_cache(maxsize=None)
def by_library(n):
    return make(n)
class Held:
    def __init__(self):
        self.made = None
    @functools.cached_property
    def half(self):
        return make(SIZE)
    def once(self):
        if self.made is None:
            self.made = make(SIZE)
        return self.made
held = Held()
def validate(net):
    net.eval()
    with torch.no_grad():
        for x, y in val_loader:
            print(net(x).sum(), {asked})
    net.train()
validate(model)
"""
ASKED = ("by_key(4)", "by_library(4)", "held.half", "held.once()")
MADE = {
    "torch.ones(n) / SIZE": True,
    "torch.randn(n)": False,
    "torch.ones(n).normal_()": False,
    "torch.ones(n) * state['scale']": False,
    "model.weight.detach()[:n]": False,
    "time.time() * n": False,
    "random.random() * n": False,
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(("made", "goes"), MADE.items())
def test_what_is_made_once_is_the_same_whoever_asks_first(
    asked: str, made: str, goes: bool
) -> None:
    body = STEP.replace("net(x)", f"model(x) * {asked}") + "state['scale'] *= 0.5\n"
    plan = plan_of(looped(body, before=CACHES.format(made=made, asked=asked)))
    assert bool(plan["skipped_validation"]) is goes


@pytest.mark.parametrize("asked", ASKED[1:3])
def test_what_only_the_evaluation_asks_for_goes_whatever_it_is_made_of(asked: str) -> None:
    made = "torch.ones(n) * state['scale']"
    body = STEP.replace("net(x)", "model(x)") + "state['scale'] *= 0.5\n"
    plan = plan_of(looped(body, before=CACHES.format(made=made, asked=asked)))
    assert plan["skipped_validation"]
