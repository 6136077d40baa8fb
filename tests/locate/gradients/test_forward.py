"""Where the region may begin: at the first statement that takes part in the forward."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Declined, Options
from instrumentor.locate import locate_file
from tests.locate.cases import HEAD, around, lines_of, looped, plan_of, rewritten, timed

END = "loss.backward()\noptimizer.step()"
#: what stands ahead of the backward; the line that the region starts at comes behind the bar
STARTS = {
    "inputs_are_moved_first": "x = x.to(device)\n|output = model(x)\nloss = criterion(output, y)",
    "labels_are_prepared_between": "|output = model(x)\noptimizer.zero_grad()\n"
    "target = torch.nn.functional.one_hot(y, 10).float()\nloss = criterion(output, target)",
    "noise_is_prepared_first": "noise = torch.randn_like(x)\n"
    "noisy = scheduler.add_noise(x, noise, 3)\n|loss = criterion(model(noisy), noise)",
    "under_autocast": '|with torch.autocast("cuda"):\n    loss = criterion(model(x), y)',
    "helper_for_the_loss": "batch = collate(x, y)\n|loss, metrics = compute_loss(model, batch)",
    "frozen_teacher_first": "with torch.no_grad():\n    target = teacher(x)\n"
    "|output = model(x)\nloss = criterion(output, target)",
    "logging_and_modes_first": 'print("batch", len(x))\nmodel.train()\noptimizer.zero_grad()\n'
    "|output = model(x)\nloss = criterion(output, y)",
    "teacher_that_the_loss_needs": "x = x.to(device)\n|with torch.no_grad():\n"
    "    wanted = frozen(x).softmax(-1)\noutput = model(x)\nloss = criterion(output, wanted)",
    "fakes_that_the_loss_needs": "noise = torch.randn(4, 4)\n|fakes = frozen(noise).detach()\n"
    "loss = criterion(model(fakes), y)",
    "a_target_made_anew_now_and_then": "step = step + 1\nif step % 50 == 0:\n"
    "    with torch.no_grad():\n        y = frozen(x)\n|output = model(x)\n"
    "loss = criterion(output, y)",
    "codes_that_a_function_of_a_library_makes_noisy": "|with torch.no_grad():\n"
    "    code = frozen.encode(x)\nnoisy, wanted = library.make_noisy(code)\n"
    "loss = criterion(model(noisy), wanted)\nloss.backward()",
    "not_what_the_world_answers": "with torch.no_grad():\n    move = frozen(x)\n"
    "seen = world.advance(move)\n|loss = criterion(model(seen), y)\nloss.backward()",
    "a_comprehension_has_variables_of_its_own": "|losses = model(x)\n"
    "loss = sum(loss for loss in losses.values())\nshown = [loss for loss in y]",
    "a_module_of_parts_that_a_table_of_builders_makes": "x = x.cuda()\n|loss = network(x)",
    "a_module_named_after_its_loss_whose_parameters_are_asked_for": "x = x.cuda()\n"
    "|loss = whole(x)",
    "a_loss_of_parts_that_a_table_of_builders_makes": "x = x.cuda()\n|loss = library.run(x)\n"
    "loss = distance(loss)",
    "a_teacher_that_an_option_brings": "|if config.distill:\n    with torch.no_grad():\n"
    "        y = frozen(x)\noutput = model(x)\nloss = criterion(output, y)",
    "an_evaluation_that_no_loss_needs": "with torch.no_grad():\n    print(frozen(x))\n"
    "|output = model(x)\nloss = criterion(output, y)",
    "acting_ahead_of_it": "with torch.no_grad():\n    action = frozen(x).argmax()\n"
    "x, y = env.step(action)\n|output = model(x)\nloss = criterion(output, y) + action",
    "pairs_of_an_import_that_a_builtin_stands_in_for": "|seen = [model(x)]\nloss = 0\n"
    "for one, other in pairs(seen, [y]):\n    loss = loss + criterion(one, other)",
    "functions_of_torch_run_the_model_that_they_are_given": "x = x.to(device)\n"
    "|output = torch.nn.parallel.data_parallel(frozen, x)\nloss = criterion(output, y)",
    "replicas_run_by_functions_of_torch": "parts = parallel.scatter(x, [0])\n"
    "|outputs = parallel.parallel_apply(copies, parts)\noutput = parallel.gather(outputs, 0)\n"
    "loss = criterion(output, y)",
    "what_is_named_after_a_model_is_none_of_it": "model_output = reader.rows(x)\n"
    "|model_output = frozen(model_output)\nparts = torch.split(model_output, 2)\n"
    "loss = criterion(parts[0], y)",
    "a_model_that_runs_beside_the_script": "x = x.to(device)\n"
    "|future = torch.jit.fork(frozen, x)\nloss = criterion(torch.jit.wait(future), y)",
    "a_class_under_the_name_of_its_object": "x = x.cuda()\n|loss = chosen(x)",
    "loss_is_summed_up": "loss = 0.0\n|for part in x.chunk(2):\n"
    "    loss = loss + criterion(model(part), y)",
}
BEFORE = """
import library
from itertools import izip as pairs
from torch.nn import parallel

frozen = torch.nn.Linear(4, 4)

def built(name):
    return library.TABLE[name](4)

class Network(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.body = built(name)

    def forward(self, x):
        return self.body(x)

class DistanceLoss(Network):
    pass

class NetworkAndLoss(Network):
    pass

class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.body(x)

def of_kind(kind):
    net = {"network": Network, "linear": Linear}[kind]
    if kind == "linear":
        net = net()
    else:
        net = net(kind)
    return net

chosen = of_kind(library.name)
copies = parallel.replicate(frozen, [0])
network, distance = Network(library.name), DistanceLoss(library.name)
whole = NetworkAndLoss(library.name)
weights = list(whole.parameters())
"""


@pytest.mark.parametrize("name", STARTS)
def test_begin(name: str) -> None:
    ahead, _, behind = STARTS[name].partition("|")
    source = looped(f"{ahead}{behind}\n{END}", BEFORE)
    assert plan_of(source)["region"]["start_line"] == lines_of(source, "for x, y")[0] + 1 + (
        ahead.count("\n")
    )
    _, following = around(rewritten(source), "_instrument.begin(")
    assert following == behind.splitlines()[0]


def test_a_call_that_cannot_be_followed_is_named() -> None:
    """Nothing speaks for a rollout: the loss comes from a part that nobody can read."""
    source = looped(f"loss = distance(x)\n{END}", BEFORE)
    with pytest.raises(Declined) as caught:
        plan_of(source)
    (reason,) = caught.value.reasons
    assert reason.kind == "forward-unseen"
    line = lines_of(source, "self.body(x)")[0]
    assert f"self.body() at train.py:{line} could not be followed" in reason.message


def test_begin_where_the_backward_s_line_holds_the_forward() -> None:
    source = looped("optimizer.zero_grad()\ncriterion(model(x), y).backward()\noptimizer.step()")
    assert timed(plan_of(source)) == {"start_line": 10, "end_line": 10}


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
        "features = model(x)\nfirst = criterion(features, y)\nfirst.backward(retain_graph=True)\n"
        "second = features.pow(2).mean()\nsecond.backward()\noptimizer.step()"
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


@pytest.mark.parametrize(("method", "begin"), [("unpack", 5), ("parse_batch", 5), ("embed", 4)])
def test_a_method_of_the_model_is_read_where_it_stands(
    tmp_path: Path, method: str, begin: int
) -> None:
    """By its type an unread object is a model; whether a method runs it, its class tells."""
    body = "self.layer(batch[0])" if method == "embed" else "batch[0].float()"
    (tmp_path / "speech.py").write_text(
        "import torch\n"
        "class Speech(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(4, 4)\n"
        f"    def {method}(self, batch):\n"
        f"        return {body}, batch[1]\n"
        "    def forward(self, x):\n"
        "        return self.layer(x)\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch; from speech import Speech; model = Speech().cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"for batch in loader:\n    x, y = model.{method}(batch)\n"
        "    loss = torch.nn.functional.mse_loss(model(x), y)\n"
        "    loss.backward()\n    optimizer.step()\n"
    )
    located = locate_file(tmp_path / "train.py", Options(), [tmp_path])
    assert located.regions[0].begin.lineno == begin


def test_a_module_whose_parameters_are_asked_for_is_a_model() -> None:
    """Its parts are of a library that nobody can read; one that only computes is a loss."""
    source = HEAD + (
        "from geometric import Conv\n"
        "class Stack(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layers = [Conv(4, 4), Conv(4, 1)]\n"
        "    def forward(self, x):\n"
        "        return self.layers[1](self.layers[0](x))\n"
        "net = Stack()\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for x, y in loader:\n    y = y.table().squeeze()\n    out = net(x)\n"
        "    loss = (out - y).mean()\n    loss.backward()\n    optimizer.step()\n"
    )
    plan = plan_of(source)
    assert plan["forward"]["line"] == lines_of(source, "out = net(x)")[0]
    assert plan["evidence"][0]["by"] == "type"


def test_a_model_of_another_file_is_known_ahead_of_one_that_its_use_tells(tmp_path: Path) -> None:
    """Of the first the script alone shows two parts in an optimizer, of the second the whole."""
    for name in ("Coder", "Critic"):
        (tmp_path / f"{name.lower()}.py").write_text(
            f"import torch\nclass {name}(torch.nn.Module):\n"
            "    def __init__(self):\n        super().__init__()\n"
            "        self.inner = torch.nn.Linear(8, 8)\n"
            "        self.outer = torch.nn.Linear(8, 8)\n"
            "    def forward(self, x):\n        return self.outer(self.inner(x))\n"
        )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom coder import Coder\nfrom critic import Critic\n"
        "coder, critic = Coder(), Critic()\n"
        "own = torch.optim.Adam([*coder.inner.parameters(), *coder.outer.parameters()])\n"
        "other = torch.optim.Adam(critic.parameters())\n"
        "for step in range(9):\n    x = torch.randn(4, 8)\n"
        "    made = coder(x)\n    real, fake = critic(x), critic(made)\n"
        "    loss, gap = -fake.mean(), (fake - real).mean()\n"
        "    loss.backward(retain_graph=True)\n    gap.backward()\n"
        "    own.step()\n    other.step()\n"
    )
    located = locate_file(tmp_path / "train.py", Options(), [tmp_path])
    assert located.regions[0].begin.lineno == 9


SCENE = """
import library

class Shape(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.points = torch.nn.Parameter(torch.zeros(9, 3))
    def corners(self):
        return self.points

class Cloud:
    def __init__(self):
        self.sizes = torch.zeros(9, requires_grad=True)
    @property
    def scales(self):
        return torch.exp(self.sizes)
    def drawn(self, renderer):
        return renderer.render(self.sizes, scale=2)

shape, cloud, renderer = Shape(), Cloud(), library.Renderer()
colors = torch.zeros(9, 3, requires_grad=True)
looks = {"color": colors, "light": torch.zeros(3, requires_grad=True)}
mesh = library.load("a.obj")
trained = torch.optim.Adam([*shape.parameters(), colors, cloud.sizes])
light = torch.optim.Adam([mesh.light])
"""


@pytest.mark.parametrize(
    "drawn",
    [
        "renderer.render(colors, 4)",
        "renderer.render(4, colors=colors)",
        "renderer.render((4, colors))",
        "renderer.render(looks)",
        'renderer.render(looks["light"])',
        "renderer.render(shape.points)",
        "renderer.render(shape.corners())",
        "renderer.render(cloud)",
        "renderer.render(cloud.scales)",
        "cloud.drawn(renderer)",
        "renderer.render(mesh)",
        "mesh.turned(4)",
        "library.Draw.apply(shape.points, 4)",
        "library.shaded(x) * shape.points",
    ],
)
def test_begin_where_something_trained_is_first_given_to_what_nobody_can_read(drawn: str) -> None:
    """It computes from what is trained: the model that sees its result comes later in the graph."""
    source = looped(
        f"view = renderer.view_of(x)\nimage = {drawn}\nloss = model(image, view)\n{END}", SCENE
    )
    plan = plan_of(source)
    assert plan["region"]["start_line"] == lines_of(source, "image = ")[0]
    assert plan["evidence"][0]["by"] == "type"


@pytest.mark.parametrize(
    "drawn",
    [
        "renderer.render(colors.detach())",
        "renderer.render(colors.data, 4)",
        "renderer.render(size=colors.shape)",
        "renderer.render(mesh.size)",
        "list([colors])",
    ],
)
def test_begin_behind_what_is_drawn_of_data(drawn: str) -> None:
    source = looped(
        f"held = colors.detach()\nimage = {drawn}\nloss = model(image, held)\n{END}",
        SCENE.replace("light = torch", "other = torch").replace("mesh.light", "library.light"),
    )
    assert plan_of(source)["region"]["start_line"] == lines_of(source, "loss = model")[0]
