"""What the end of a region is given to tell the batch: names that are bound there, no more."""

from __future__ import annotations

import re

import pytest

from instrumentor import Declined, Options, rewrite

LOOP = """\
import torch

model = torch.nn.Linear(8, 1)
data, labels = torch.randn(64, 8), torch.randn(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = data[:4], labels[:4]
for i in range(0, 64, 4):
    {body}
    loss.backward()
    optimizer.step()
"""


def instrumented(script: str) -> str:
    made = rewrite(script)
    assert not isinstance(made, Declined)
    return made.code.decode()


def given(body: str) -> str:
    """The batch in the inserted end of the region, or an empty text."""
    found = re.search(r"\.end\([^\n]*batch=\[(.*?)\]", instrumented(LOOP.format(body=body)))
    return found[1] if found else ""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("out = model(torch.rand(4, 8))\n    loss = out.mean()", "out"),
        ("out, loss = model(x, y)", "x, y, out"),
        ("loss = (model(x) - y).pow(2).mean()", "x"),
        ("x = data[i:i + 4]\n    out = model(x)\n    loss = out.mean()", "x, out"),
        ("out = model(data[i:i + 4])\n    loss = out.mean()", "out"),
        ("out = model(x.to('cpu'))\n    loss = out.mean()", "x, out"),
        ("with torch.autocast('cpu'):\n        out = model(x)\n    loss = out.mean()", "x, out"),
        # In a branch, or deleted: it may not be there.
        (
            "if i:\n        out = model(x)\n    else:\n        out = model(y)\n    loss = out",
            "",
        ),
        ("z = data[:4]\n    out = model(z)\n    loss = out.mean()\n    del z", "out"),
    ],
)
def test_names(body: str, names: str) -> None:
    assert given(body) == names


def test_a_loop_that_names_its_batch_is_asked_for_nothing_more() -> None:
    script = LOOP.format(body="out = model(x)\n    loss = out.mean()")
    named = script.replace("for i in range(0, 64, 4):", "for x, y in zip(data, labels):")
    assert "batch=[" not in instrumented(named)


def test_one_name_of_the_loop_may_be_a_number() -> None:
    script = LOOP.format(body="x = torch.randn(size, 8)\n    out = model(x)\n    loss = out.mean()")
    sizes = script.replace("for i in range(0, 64, 4):", "for size in [4, 8]:")
    assert "begin(size)" in instrumented(sizes) and "batch=[x, out]" in instrumented(sizes)
    batches = LOOP.format(body="out = model(**batch)\n    loss = out.mean()")
    batches = batches.replace("for i in range(0, 64, 4):", "for batch in loader:")
    assert "batch=[" not in instrumented(batches)


def test_names_of_a_helper_in_the_same_file_are_not_bound_in_the_loop() -> None:
    helper = (
        "def step(inputs):\n"
        "    out = model(inputs).mean()\n"
        "    out.backward()\n"
        "    optimizer.step()\n\n\n"
        "for i in range(9):\n"
        "    step(x)\n"
    )
    head, _, _ = LOOP.partition("for i")
    assert "batch=[inputs" in instrumented(head + helper)
    assert "batch=" not in instrumented(f"{head}@torch.compile\n{helper}")


IN_A_FUNCTION = """\
import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(64, 8), 4)


def train_step(batch):
    loss = model(batch["x"]).mean()
    loss.backward()
    optimizer.step()


for {header}:
    train_step(batch)
"""


@pytest.mark.parametrize(
    ("header", "item"),
    [
        ("batch in loader", "batch"),
        ("at, batch in enumerate(loader)", "batch"),
        ("batch in range(3)", ""),
    ],
)
def test_the_loop_s_item_of_a_region_in_a_function(header: str, item: str) -> None:
    assert f"_instrument.enter({item})" in instrumented(IN_A_FUNCTION.format(header=header))


def test_marked_lines_are_given_what_their_loop_hands_out() -> None:
    script = IN_A_FUNCTION.format(header="at, batch in enumerate(loader)")
    made = rewrite(script, Options(region=("train.py", 15, 15)), filename="train.py")
    assert b"_instrument.begin(batch)" in made.code
