"""bfloat16 in the source: the model and what goes into it, or a refusal with line and reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune import precision
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TRAIN, accepted, set_by, target_of

CAST = "if torch.is_tensor({0}) and {0}.is_floating_point():\n"
LOOP = """\
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
"""


def looped(loop: str = LOOP, before: str = "") -> str:
    """The script with another loop."""
    start = TRAIN.index("    for step")
    return TRAIN[:start] + before + loop + TRAIN[TRAIN.index("\n\nif __name__") :]


def cast(tmp_path: Path, text: str) -> str:
    """The script's text in bfloat16."""
    target = target_of(tmp_path, text)
    return accepted(target, set_by(precision.way(target), "bfloat16", target))


def test_the_model_behind_its_last_binding_before_its_parameters_are_taken(tmp_path: Path) -> None:
    assert (
        "    model = model.to(device)\n    model = model.to(dtype=torch.bfloat16)\n    optimizer = "
    ) in cast(tmp_path, TRAIN)


def test_inputs_are_cast_where_they_are_moved(tmp_path: Path) -> None:
    text = cast(tmp_path, looped())
    move = "        inputs, targets = inputs.to(device), targets.to(device)\n"
    for name in ("inputs", "targets"):
        assert CAST.format(name) in text
    assert text.index(move) < text.index(CAST.format("inputs")) < text.index("zero_grad")


def test_inputs_that_nobody_moves_are_cast_before_the_model_runs(tmp_path: Path) -> None:
    text = cast(tmp_path, TRAIN)
    assert text.index("zero_grad") < text.index(CAST.format("batch")) < text.index("loss = model")


def test_validation_is_cast_as_well(tmp_path: Path) -> None:
    check = (
        "    for x, y in loader:\n        x = x.to(device)\n"
        "        with torch.no_grad():\n            print(model(x))\n"
    )
    text = cast(tmp_path, looped(LOOP + check))
    assert CAST.format("x") in text
    assert CAST.format("y") not in text


def test_a_whole_dictionary_is_left(tmp_path: Path) -> None:
    loop = LOOP.replace("inputs, targets in", "batch in").replace(
        "inputs, targets = inputs.to(device), targets.to(device)",
        "batch = {k: v.to(device) for k, v in batch.items()}",
    )
    text = cast(tmp_path, looped(loop.replace("model(inputs), targets", 'model(batch["ids"])')))
    assert "is_floating_point" not in text


def test_compiled_later_is_no_matter(tmp_path: Path) -> None:
    text = cast(tmp_path, looped(before='    model.compile(backend="tt")\n'))
    assert text.index("dtype=torch.bfloat16") < text.index("model.compile")


def test_a_type_that_has_a_name_is_changed_there(tmp_path: Path) -> None:
    script = TRAIN.replace("    batch_size", "    dtype = torch.float32\n    batch_size")
    text = cast(tmp_path, script)
    assert "dtype = torch.bfloat16\n" in text
    assert "is_floating_point" not in text


@pytest.mark.parametrize(
    "made", ["torch.Linear().to(torch.bfloat16)", "AutoModel.from_pretrained(dtype=torch.bfloat16)"]
)
def test_own_bfloat16_is_seen(tmp_path: Path, made: str) -> None:
    own = "model.to(device)" if "Linear" not in made else "model.to(torch.bfloat16)"
    script = TRAIN.replace("model.to(device)", own).replace("torch.Linear()", made)
    assert precision.way(target_of(tmp_path, script)).own is not None
    assert cast(tmp_path, script) == script


@pytest.mark.parametrize(
    ("script", "line", "why"),
    [
        (looped(LOOP.replace("loss = ", "with torch.autocast('xla'):\n            loss = ")), 18,
         "manages mixed precision itself"),
        (TRAIN.replace("    model = torch.Linear()\n    model = model.to(device)\n", "").replace(
            "def train():", "def train(model):").replace("    train()", "    train(make())"), 16,
         "is not made in this module"),
        (TRAIN.replace("model(batch)", "model(batch[step])"), 18,
         r"`batch\[step\]` goes into the model, but it is not clear where it is made"),
        (TRAIN.replace("import torch\n", "from torch import Linear, SGD, randn\n"), 18,
         "does not import torch by name"),
    ],
)  # fmt: skip
def test_refusals_name_line_and_reason(tmp_path: Path, script: str, line: int, why: str) -> None:
    with pytest.raises(NotApplicable, match=why) as refused:
        cast(tmp_path, script)
    assert refused.value.line == line


def test_made_and_compiled_in_one_go_is_still_bound_before_it_is_compiled_again(
    tmp_path: Path,
) -> None:
    script = TRAIN.replace("torch.Linear()", "torch.compile(torch.Linear())")
    script = script.replace("    model = model.to(device)\n", "    model.compile()\n")
    made = "model = torch.compile(torch.Linear())\n    model = model.to(dtype=torch.bfloat16)\n"
    assert made in cast(tmp_path, script)
