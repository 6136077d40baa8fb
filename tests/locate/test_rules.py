"""What must not be instrumented: each kind with its line, its reason and what would work."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from instrumentor import Declined, Options, Reason, UsageError, explain, rewrite
from instrumentor.locate import locate_file
from instrumentor.locate.region_suggestion import with_region
from instrumentor.read.syntax import SOURCE_BYTES, parse
from tests.locate.cases import HEAD, lines_of, plan_of, timed
from tests.warned import texts

PREAMBLE = """\
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """\
loss = (model(x) - y).pow(2).mean()
loss.backward()
optimizer.step()
"""
LOOP = f"for x, y in loader:\n{indent(STEP, '    ')}"


def reason_of(source: str, options: Options | None = None) -> Reason:
    """The first reason for which a script is declined."""
    with pytest.raises(Declined) as caught:
        rewrite(source, options, filename="train.py")
    reason = caught.value.reasons[0]
    assert caught.value.exit_code == 3
    assert reason.message and reason.remedy
    assert str(reason).startswith(f"train.py:{reason.line}: ")
    return reason


def line_of(source: str, mark: str) -> int:
    """1-based line that holds a text."""
    return next(n for n, line in enumerate(source.splitlines(), 1) if mark in line)


#: name | kind | text on the line that is named; PREAMBLE, STEP and LOOP stand for the above
DECLINED = """\
=== jax | jax | import jax
import jax
import optax
def step(params, state, batch):
    loss, gradients = jax.value_and_grad(loss_fn)(params, batch)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(params, updates), state, loss
for batch in batches:
    params, state, loss = step(params, state, batch)
=== lightning_fit | lightning | trainer.fit
import lightning
class Module(lightning.LightningModule):
    def training_step(self, batch, index):
        return self.model(batch).loss
trainer = lightning.Trainer(max_epochs=3)
trainer.fit(Module(), loader)
=== lightning_manual | lightning | import lightning
import lightning
class Module(lightning.LightningModule):
    def training_step(self, batch, index):
        loss = self.model(batch).loss
        self.manual_backward(loss)
        self.optimizers().step()
=== lightning_manual_in_a_loop | lightning | manual_backward
PREAMBLE
for x in loader:
    trainer.manual_backward(model(x).sum())
    optimizer.step()
=== hf_trainer | hf-trainer | trainer.train()
from trl import SFTTrainer
trainer = SFTTrainer(model="m", train_dataset=data)
trainer.train()
=== hf_trainer_of_ones_own | hf-trainer | Mine(model).train()
import transformers
class Mine(transformers.Trainer):
    def compute_loss(self, model, inputs):
        return model(**inputs).loss
Mine(model).train()
=== keras | keras | import tensorflow
import tensorflow as tf
model = tf.keras.Sequential()
model.fit(x, y)
=== forge_compiled_backward | foreign-runtime | import forge
import forge
import torch
compiled_model = forge.compile(model, sample_inputs=[x], training=True)
for x, y in loader:
    value = loss_fn(compiled_model(x)[0], y)
    compiled_model.backward()
    optimizer.step()
=== ttml | foreign-runtime | import ttml
import ttml
for batch in loader:
    loss = model(batch)
    loss.backward(False)
    optimizer.step()
=== lbfgs | closure | optimizer.step(closure)
import torch
optimizer = torch.optim.LBFGS(model.parameters())
for epoch in range(10):
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        return loss
    optimizer.step(closure)
=== generator | generator | yield loss
PREAMBLE
def steps(loader):
    for x, y in loader:
        STEP
        yield loss
for loss in steps(loader):
    print(loss.item())
=== forward_in_a_rollout | forward-apart | loss.backward()
PREAMBLE
def finish(log_probs, rewards):
    loss = sum(-p * r for p, r in zip(log_probs, rewards))
    loss.backward()
    optimizer.step()
for episode in range(100):
    log_probs, rewards = [], []
    for t in range(1000):
        action, log_prob = select(state)
        log_probs.append(log_prob)
        rewards.append(environment.act(action))
    finish(log_probs, rewards)
def select(state):
    probabilities = model(state)
    return probabilities.argmax(), probabilities.log().max()
=== compiled_step_function | compiled-step | torch_xla.compile(
PREAMBLE
import torch_xla
def step(x, y):
    STEP
compiled = torch_xla.compile(step, full_graph=True)
for x, y in loader:
    step(x, y)
=== compiled_step_in_an_attribute | compiled-step | self.compiled = torch_xla.compile
PREAMBLE
import torch_xla
class Trainer:
    def __init__(self):
        self.compiled = torch_xla.compile(self.step, full_graph=True)
    def step(self, x, y):
        STEP
    def train(self):
        for x, y in loader:
            print(self.compiled(x, y))
Trainer().train()
=== compiled_step_decorator | compiled-step | def step(x, y)
PREAMBLE
import torch_xla
@torch_xla.compile(full_graph=True)
def step(x, y):
    STEP
for x, y in loader:
    step(x, y)
=== spawn | distributed | mp.spawn
PREAMBLE
import torch.multiprocessing as mp
def worker(rank, world):
    LOOP
if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
=== async_loop | async | async for
import torch
async def train(model, stream, optimizer):
    async for x, y in stream:
        STEP
=== an_engine_that_is_installed | hidden-backward | engine.train(
import torch
from torchnet.engine import Engine
engine = Engine()
engine.train(lambda sample: (criterion(model(sample[0]), sample[1]), None), loader, 10, optimizer)
=== handed_to_an_engine | hidden-backward | trainer.run(
import torch
from ignite.engine import Engine
def update(engine, batch):
    loss = criterion(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
trainer = Engine(update)
trainer.run(loader, max_epochs=3)
=== hidden_in_a_scaler | hidden-backward | loss_scaler(loss
import torch
from timm.utils import NativeScaler
loss_scaler = NativeScaler()
for step, (x, y) in enumerate(loader):
    loss = model(x, y)
    loss_scaler(loss, optimizer, parameters=model.parameters())
=== deepspeed_pipeline | hidden-backward | engine.train_batch
import deepspeed
engine, *_ = deepspeed.initialize(model=model)
for step in range(10):
    loss = engine.train_batch(data_iter=batches)
=== bare_except_that_eats_the_stop | swallowed-stop | except:
PREAMBLE
try:
    LOOP
except:
    print("failed")
=== bare_except_that_may_raise | swallowed-stop | except:
PREAMBLE
def train(model, optimizer, loader):
    try:
        LOOP
    except:
        if quiet:
            return loss
        raise
print(train(model, optimizer, loader))
=== base_exception_and_used_result | swallowed-stop | except BaseException
PREAMBLE
def train(model, optimizer, loader):
    try:
        LOOP
    except BaseException as error:
        print(error)
    return loss
print(train(model, optimizer, loader))
=== a_phase_that_is_told_behind_the_forward | train-and-eval | if training
PREAMBLE
for x, y in loader:
    loss = (model(x) - y).pow(2).mean()
    training = queue.get() == "train"
    if training:
        loss.backward()
        optimizer.step()
=== a_backward_on_demand | train-and-eval | if train:
PREAMBLE
def finish(loss, train):
    if train:
        loss.backward()
        optimizer.step()
for x, y in loader:
    finish((model(x) - y).pow(2).mean(), flag)
=== a_backward_that_may_not_come | conditional-step | return
PREAMBLE
def finish(loss):
    if not torch.isfinite(loss):
        return
    loss.backward()
    optimizer.step()
for x, y in loader:
    finish((model(x) - y).pow(2).mean())
=== line_search | line-search | while criterion
PREAMBLE
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    size = 1.0
    while criterion(model(x), y) > loss:
        size *= 0.5
        optimizer.step()
=== no_optimizer | no-optimizer-step | for x in images
import torch
for x in images:
    x.requires_grad_(True)
    score = model(x).max()
    score.backward()
    saliency.append(x.grad.abs())
=== assertions_on_gradients | no-optimizer-step | for dtype in
import torch
def test_backward(shape):
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(shape, dtype=dtype, requires_grad=True)
        model(x).sum().backward()
        assert x.grad is not None
=== empty | no-loop |
=== nothing_that_trains | no-loop | '''Call loss.backward() and optimizer.step() in a loop.'''
'''Call loss.backward() and optimizer.step() in a loop.'''
import torch
def validate(model, loader):
    model.eval()
    with torch.no_grad():
        return sum(criterion(model(x), y).item() for x, y in loader)
class Scale(torch.autograd.Function):
    @staticmethod
    def backward(ctx, gradient):
        for part in ctx.parts:
            gradient = Inner.backward(ctx, gradient)
        return gradient
model.train()
for epoch in range(3):
    print("loss.backward(); optimizer.step()", validate(model, loader))  # optimizer.step()
    scheduler.step()
    tokens = torch.cat([tokens, model(tokens).argmax(-1)])
    print(Scale.apply(tokens))
    while not done:
        state, reward, done = env.step(policy(state))
model.train(False)
=== single_step | no-loop | loss.backward()
PREAMBLE
STEP
"""


def _written_out(script: str) -> str:
    """A script with what PREAMBLE, STEP and LOOP stand for."""

    def text(found: re.Match[str]) -> str:
        return indent({"PREAMBLE": PREAMBLE, "STEP": STEP, "LOOP": LOOP}[found[2]], found[1])

    return re.sub(r"^( *)(PREAMBLE|STEP|LOOP)\n", text, script, flags=re.MULTILINE)


def declined() -> dict[str, tuple[str, str, str]]:
    """The scripts above: kind, text on the line that is named, source."""
    found = {}
    for script in DECLINED.split("=== ")[1:]:
        head, _, source = script.partition("\n")
        name, kind, mark = (part.strip() for part in head.split("|"))
        found[name] = (kind, mark, _written_out(source))
    return found


SCRIPTS = declined()


@pytest.mark.parametrize("name", SCRIPTS)
def test_declined(name: str) -> None:
    kind, mark, source = SCRIPTS[name]
    reason = reason_of(source)
    assert (reason.kind, reason.line) == (kind, line_of(source or "\n", mark)), reason.message
    assert kind != "no-loop" or "backward()" in reason.message
    if kind in ("jax", "foreign-runtime"):
        assert "`instrument profile`" in reason.remedy and "--region" in reason.remedy


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (b"x = 1\nloss.cuda(async=True)\n", 2),
        (b"print 'Python 2'\n", 1),
        (b"# coding: nonsense\n", 1),
        (b"x = '\xff'\n", 1),
        (b"x = 1\0\n", 1),
    ],
)
def test_what_does_not_parse(source: bytes, line: int) -> None:
    with pytest.raises(Declined) as caught:
        rewrite(source, filename="train.py")
    (reason,) = caught.value.reasons
    assert (reason.kind, reason.line) == ("syntax", line)
    assert "syntax" in reason.remedy


def test_a_file_that_no_person_wrote_is_declined_by_name() -> None:
    with pytest.raises(Declined) as caught:
        rewrite(b"x = 1\n" * (SOURCE_BYTES // 6 + 1), filename="train.py")
    (reason,) = caught.value.reasons
    assert reason.kind == "too-large"
    assert reason.message == "the file has 1.0 MiB of Python, more than the 1 MiB that are read"


def test_declining_is_an_answer_of_explain(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPTS["lbfgs"][2])
    answer = explain(script)
    assert not answer.eligible and answer.plan is None
    document = answer.to_json()
    assert document["eligible"] is False and document["loop"] is None
    (reason,) = document["reasons"]
    line = line_of(script.read_text(), "optimizer.step(closure)")
    assert (reason["kind"], reason["line"], reason["file"]) == ("closure", line, str(script))


# -- what is not declined ------------------------------------------------------------------------


@pytest.mark.parametrize("filename", ["test_finetuning.py", "evaluate.py", "conftest.py"])
def test_names_of_files_and_functions_decide_nothing(filename: str) -> None:
    source = PREAMBLE + "def test_validate_generate(loader):\n" + indent(LOOP, "    ")
    assert rewrite(source, filename=filename).plan.explanation["loop"]["line"] == 6


def test_a_script_that_imports_tt_crank_is_a_plain_torch_loop() -> None:
    source = f"from tt_crank.torch._compile import CompileOption\n{PREAMBLE}{LOOP}"
    assert rewrite(source, filename="train.py").plan.edits


def test_gradient_penalty_is_no_backward_of_its_own() -> None:
    """`autograd.grad` in a helper called inside does not make a second loop or region."""
    source = f"""{PREAMBLE}
def gradient_penalty(critic, real):
    for sample in real:
        (gradient,) = torch.autograd.grad(critic(sample).sum(), sample, create_graph=True)
        total = total + (gradient.norm() - 1).pow(2)
    return total

for x, y in loader:
    loss = (model(x) - y).pow(2).mean() + 10 * gradient_penalty(model, x)
    loss.backward()
    optimizer.step()
"""
    plan = rewrite(source).plan.explanation
    assert plan["loop"]["line"] == line_of(source, "for x, y in loader")
    assert plan["backward"]["others"] == []


WORLDS = (
    "import os\nimport torch.distributed as dist\n"
    'if "RANK" in os.environ:\n    dist.init_process_group("nccl")\n',
    "from torch.nn.parallel import DistributedDataParallel as P\nmodel = P(model)\n",
    "from torch.distributed.fsdp import FullyShardedDataParallel as P\nmodel = P(model)\n",
)


@pytest.mark.parametrize("world", WORLDS)
def test_distributed_code_is_measured_as_one_process(world: str) -> None:
    """The recorder stops the run of a larger world, unless torchrun has started all of it here."""
    (warning,) = rewrite(PREAMBLE + world + LOOP, filename="train.py").plan.warnings
    assert "measured as one process" in warning.message


@pytest.mark.parametrize(
    ("limit", "told"),
    [("3", True), ("300", False), ("args.most", True), ("args.enough", False)],
)
def test_a_limit_that_no_run_reaches_is_not_told_of(limit: str, told: bool) -> None:
    options = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--most", type=int, default=30)
parser.add_argument("--enough", type=int, default=500)
args = parser.parse_args()
"""
    loop = LOOP.replace("for x, y in loader", "for n, (x, y) in enumerate(loader)")
    source = PREAMBLE + options + loop + f"    if n >= {limit}:\n        break\n"
    kinds = [w.kind for w in rewrite(source, filename="train.py").plan.warnings]
    assert ("own-limit" in kinds) is told


@pytest.mark.parametrize(
    ("inner", "told"), [("", True), ("for n, x in enumerate(held_out):", False)]
)
def test_a_count_that_ends_an_inner_loop_is_no_limit(inner: str, told: bool) -> None:
    limit = "if n >= 3:\n    break\n"
    source = PREAMBLE + LOOP.replace("for x, y in loader", "for n, (x, y) in enumerate(loader)")
    source += indent(f"{inner}\n{indent(limit, '    ')}" if inner else limit, "    ")
    kinds = [w.kind for w in rewrite(source, filename="train.py").plan.warnings]
    assert ("own-limit" in kinds) is told
    # --steps may not have been given.
    texts = [w.message for w in rewrite(source, filename="train.py").plan.warnings]
    assert not any("--steps" in text for text in texts)


def test_calls_in_functions_that_are_never_reached_count_for_nothing() -> None:
    source = PREAMBLE + "import torch.distributed as dist\n"
    source += "def stop():\n    dist.destroy_process_group()\n    dist.init_process_group()\n"
    assert texts(rewrite(source + LOOP, filename="train.py").plan.warnings) == []


# -- which loop ----------------------------------------------------------------------------------

SEVERAL = PREAMBLE + LOOP.replace("loader", "islice(loader, 9)") + LOOP


def test_several_loops_are_listed() -> None:
    with pytest.raises(Declined) as caught:
        rewrite(SEVERAL, filename="train.py")
    reasons = caught.value.reasons
    assert [(r.kind, r.line) for r in reasons] == [("several-loops", 5), ("several-loops", 9)]
    assert "--loop train.py:5" in caught.value.hint
    assert "--loop train.py:9" in caught.value.hint


@pytest.mark.parametrize(("file", "line", "found"), [("", 5, 5), ("train.py", 9, 9), ("", 10, 9)])
def test_the_named_loop_is_taken(file: str, line: int, found: int) -> None:
    result = rewrite(SEVERAL, Options(loop=(file, line)), filename="train.py")
    assert result.plan.explanation["loop"]["line"] == found


@pytest.mark.parametrize("place", [("", 1), ("other.py", 5)])
def test_a_named_loop_that_is_none(place: tuple[str, int]) -> None:
    with pytest.raises(UsageError, match="no training loop starts there") as caught:
        rewrite(SEVERAL, Options(loop=place), filename="train.py")
    assert "train.py:5" in caught.value.hint


def test_a_named_loop_holds_the_steps_of_a_loop_inside() -> None:
    source = f"{PREAMBLE}for xs, y in loader:\n    for x in xs:\n{indent(STEP, '        ')}"
    source += indent(STEP, "    ")
    for line, label in ((5, "step"), (6, "fwd+bwd")):
        plan = rewrite(source, Options(loop=("", line)), filename="train.py").plan
        assert (plan.explanation["loop"]["line"], plan.label) == (line, label)


@pytest.mark.parametrize(
    "held",
    [
        "from sklearn.preprocessing import StandardScaler\nStandardScaler().fit(rows)",
        "agent = registry.make(name)\nagent.fit(loader)",
        "scaler(rows, columns)",
        "from pytorch_lightning import seed_everything\nseed_everything(1)",
        "import tensorflow as tf\nshown = tf.summary\nfeatures.fit(rows)\n"
        "class Apart:\n    def step(self):\n        loss.backward()",
    ],
    ids=["features", "unknown", "rows", "seeds", "plots"],
)
def test_who_holds_the_loop_is_said_where_it_is_known(held: str) -> None:
    """What is named like a trainer's method, or only imported, may hold anything."""
    assert reason_of(f"import torch\n\n{held}\nregistry.start(name)\n").kind == "no-loop"


def test_a_trainer_in_what_is_not_seen_to_run_holds_no_loop(tmp_path: Path) -> None:
    (tmp_path / "others.py").write_text(
        "import trl\n\ndef tune():\n    trl.SFTTrainer(model).train()\n"
    )
    script = tmp_path / "train.py"
    script.write_text("import others\n\nregistry.start(name)\n")
    with pytest.raises(Declined) as caught:
        locate_file(script, Options(), [tmp_path])
    assert caught.value.reasons[0].kind == "no-loop"
    script.write_text("import others\n\nothers.tune()\n")
    with pytest.raises(Declined) as caught:
        locate_file(script, Options(), [tmp_path])
    assert caught.value.reasons[0].kind == "hf-trainer"


def test_a_loop_that_is_not_seen_to_be_called_goes_before_a_backward_apart(tmp_path: Path) -> None:
    """Of another module: there a probe of gradients says nothing of the script."""
    (tmp_path / "probes.py").write_text(
        "def probe(net, xs):\n    for x in xs:\n        net(x).sum().backward()\n"
    )
    trainer = "import torch\n\nclass Trainer:\n    def train(self):\n" + indent(LOOP, "        ")
    (tmp_path / "trainers.py").write_text(trainer)
    script = tmp_path / "train.py"
    script.write_text(
        "import probes\nimport trainers\n\nprobes.probe(net, xs)\n"
        "registry.start(trainers.Trainer)\n"
    )
    with pytest.raises(Declined) as caught:
        locate_file(script, Options(), [tmp_path])
    assert "train(), which holds one at trainers.py:5, is not seen" in str(caught.value.reasons[0])


def test_a_named_loop_of_another_module_that_is_not_seen_to_be_reached(tmp_path: Path) -> None:
    client = "class Client:\n    def train(self):\n" + indent(LOOP, "        ")
    (tmp_path / "clients.py").write_text(PREAMBLE + client)
    script = tmp_path / "train.py"
    script.write_text("import clients\n\n# torch.autograd\nregistry.select(clients.Client)\n")
    found = locate_file(script, Options(loop=("clients.py", 7)), [tmp_path])
    assert found.candidate.loop.lineno == 7
    with pytest.raises(UsageError):
        locate_file(script, Options(loop=("clients.py", 2)), [tmp_path])


@pytest.mark.parametrize("arguments", [(), ("--warm",)])
def test_of_loops_on_the_same_lines_of_two_files_the_one_that_runs_first_is_taken(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    fits = PREAMBLE + "def fit(self):\n" + indent(LOOP, "    ")
    (tmp_path / "main_part.py").write_text(fits)
    (tmp_path / "warm.py").write_text(fits + "        log(loss)\n        log(loss)\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import argparse\nimport main_part\nimport warm\n\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--warm', action='store_true')\n"
        "args = parser.parse_args()\n"
        "if args.warm:\n    warm.fit(1)\nmain_part.fit(1)\n"
    )
    found = locate_file(script, Options(), [tmp_path], arguments=arguments)
    kinds = [w.kind for w in found.warnings]
    taken = found.candidate.source.path.name
    if arguments:
        assert taken == "warm.py" and "one-loop" in kinds
    else:
        assert taken == "main_part.py" and "one-loop" not in kinds


def test_a_loop_that_is_never_reached_is_no_rival() -> None:
    unused = "def other():\n" + indent(LOOP, "    ")
    plan = rewrite(PREAMBLE + unused + LOOP, filename="train.py").plan
    assert plan.explanation["loop"]["line"] == 10


UNKNOWN_STEP = """\
import torch
from elsewhere import apply_all

model = torch.nn.Linear(4, 4)
for x in loader:
    loss = model(x).sum()
    loss.backward()
    apply_all(model)
for x in loader:
    print(x)
"""


#: A criterion that one of its parts, which trains a judge in its own forward, may belong to.
OF_A_FORWARD = (
    HEAD
    + """
class Judged(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.judge = torch.nn.Linear(4, 1)
        self.own = torch.optim.SGD(self.judge.parameters(), lr=0.1)

    def forward(self, made, real):
        for _ in range(2):
            self.own.zero_grad()
            wrong = self.judge(made.detach()).mean() - self.judge(real).mean()
            wrong.backward()
            self.own.step()
        return -self.judge(made).mean()

class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Judged()

    def forward(self, made, real):
        return (made - real).abs().mean() + self.part(made, real)

measure = Both()
{ahead}
for x, y in loader:
    made = model(x)
    total = measure(made, y)
    total.backward()
    optimizer.step()
"""
)


def test_what_a_forward_trains_by_itself_is_a_part_of_it() -> None:
    source = OF_A_FORWARD.format(ahead="")
    begin, end, step = lines_of(source, "made = model(x)", "total.backward()", "self.own.step()")
    plan = plan_of(source)
    assert timed(plan) == {"start_line": begin, "end_line": end}
    longer = [w["place"] for w in plan["warnings"] if w["kind"] == "longer-sample"]
    assert longer == [f"train.py:{step}"]


def test_what_a_forward_trains_is_a_loop_of_its_own_where_it_is_called_by_itself() -> None:
    source = OF_A_FORWARD.format(ahead="warm_up = Judged()\nwarm_up(first, second)")
    assert reason_of(source).kind == "several-loops"


def test_a_loop_without_a_known_step_is_taken_when_it_is_asked_for() -> None:
    plan = rewrite(UNKNOWN_STEP, Options(loop=("train.py", 5)), filename="train.py").plan
    assert timed(plan.explanation) == {"start_line": 6, "end_line": 7}
    assert plan.explanation["stop"]["line"] == 8
    assert any("No optimizer step was found" in w for w in texts(plan.warnings))


def test_a_loop_without_a_backward_is_answered_with_its_lines() -> None:
    with pytest.raises(UsageError) as caught:
        rewrite(UNKNOWN_STEP, Options(loop=("train.py", 9)), filename="train.py")
    assert "--region train.py:10-10" in str(caught.value.hint)


def test_lines_of_the_users_choice_are_offered_in_a_decline() -> None:
    reason = reason_of(UNKNOWN_STEP)
    first, last = map(int, reason.region.removeprefix("train.py:").split("-"))
    assert first <= last and f"--region {reason.region}" in reason.hint


@pytest.mark.parametrize("error", [RecursionError(), UsageError("no"), None])
def test_lines_are_offered_only_where_they_can_be_located(error: Exception | None) -> None:
    path = Path("train.py")
    source = parse(path, b"for x in y:\n    step(x)\n")

    def place(*given: object) -> Any:
        if error is not None:
            raise error

    reason = Reason(path, 1, "no-loop", "none", "none")
    offered = with_region(reason, source, Options(), place).region
    assert offered == ("" if error else "train.py:2-2")


# -- one step in several loops, and what is none ---------------------------------------------------

#: Evaluations that go through the functions of the step, and never come to its backward.
PASSED_OVER = {
    "two_calls_deep": """
def forward(x, y, quiet):
    loss = criterion(model(x), y)
    if not quiet:
        loss.backward()
    return loss
def batch(x, y, quiet):
    loss = forward(x, y, quiet)
    if not quiet:
        optimizer.step()
    return loss
def evaluate():
    for x, y in held_out:
        print(batch(x, y, quiet=True))
for x, y in loader:  # the loop
    batch(x, y, quiet=False)
evaluate()
""",
    "an_object_that_returns": """
class Compute:
    def __init__(self, optimizer):
        self.optimizer = optimizer
    def __call__(self, output, y, only=False):
        loss = criterion(output, y)
        if only:
            return loss
        loss.sum().backward()
        if self.optimizer is not None:
            self.optimizer.step()
        return loss
compute = Compute(optimizer)
def evaluate():
    with torch.no_grad():
        for x, y in held_out:
            print(compute(model(x), y, only=True))
for n, (x, y) in enumerate(loader):  # the loop
    output = model(x)
    compute(output, y)  # the end
    if n % 100 == 0:
        evaluate()
""",
}


@pytest.mark.parametrize("name", PASSED_OVER)
def test_an_evaluation_that_passes_the_backward_over_is_no_loop(name: str) -> None:
    source = f"{PREAMBLE}criterion = torch.nn.MSELoss()\n{PASSED_OVER[name]}"
    plan = rewrite(source, filename="train.py").plan.explanation
    assert plan["loop"]["line"] == line_of(source, "# the loop")
    if "# the end" in source:  # the evaluation behind it makes no step either
        assert plan["region"]["end_line"] == line_of(source, "# the end")


MICRO_BATCHES = """
def step(batches):
    first.zero_grad()
    for x in batches:
        net(x).sum().backward()  # one
    first.step()
    second.zero_grad()
    for x in batches:
        other(x).mean().backward()
    second.step()  # all
"""


def test_loops_over_micro_batches_are_parts_of_one_step() -> None:
    made = "".join(
        f"{net} = torch.nn.Linear(4, 4)\n{opt} = torch.optim.SGD({net}.parameters(), lr=0.1)\n"
        for net, opt in (("net", "first"), ("other", "second"))
    )
    called = f"import torch\n{made}{MICRO_BATCHES}for batches in loader:\n    step(batches)\n"
    in_line = MICRO_BATCHES.partition("def step(batches):\n")[2]
    direct = f"import torch\n{made}for batches in loader:\n{in_line}"
    for source in (called, direct):
        plan = rewrite(source, filename="train.py").plan.explanation
        assert plan["loop"]["line"] == line_of(source, "for batches in loader")
        assert plan["region"]["end_line"] == line_of(source, "# all")
        assert plan["backward"]["line"] == line_of(source, "# one")


def test_of_loops_with_an_update_in_each_the_first_is_taken() -> None:
    two = "".join(f"    for x in {data}:\n{indent(STEP, '        ')}" for data in ("one", "two"))
    source = f"{PREAMBLE}for epoch in range(9):\n{two}"
    plan = rewrite(source, filename="train.py").plan
    assert plan.explanation["loop"]["line"] == line_of(source, "for x in one")
    assert [w.kind for w in plan.warnings if w.kind == "one-loop"]


MADE = """
def make_step():
    def step(x):
        optimizer.zero_grad()
        loss = criterion(model(x), 0)
        loss.backward()
        optimizer.step()
    return step

"""


@pytest.mark.parametrize(
    ("uses", "said", "remedy"),
    [
        (
            "step = make_step()\nstep(xs)\n",
            "is called at {place}",
            "put one around the call at {place}",
        ),
        ("go(make_step())\n", "is made by make_step() at {place}", "looks for the loop by running"),
        (
            "registry[name] = make_step()\n",
            "is made by make_step() at {place}",
            "looks for the loop",
        ),
    ],
    ids=["called once", "given away", "kept"],
)
def test_a_step_that_a_function_makes_is_declined_where_it_is_called_or_made(
    tmp_path: Path, uses: str, said: str, remedy: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PREAMBLE + MADE + uses)
    place = f"train.py:{len((PREAMBLE + MADE + uses).splitlines())}"
    with pytest.raises(Declined) as caught:
        locate_file(script, Options(), [tmp_path])
    (reason,) = caught.value.reasons
    assert f"step(){' ' if 'called' in said else ', which'}" in reason.message
    assert said.format(place=place) in reason.message
    assert remedy.format(place=place) in reason.remedy
