"""The plan as a value: its schema, its filters, the names it adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

import instrumentor
from instrumentor import Declined, Options, UsageError, explain, rewrite
from instrumentor.plan import explanation
from instrumentor.plan.explanation import EditLine, PlanDocument
from instrumentor.plan.passes import PASSES
from tests.conftest import RepoFactory
from tests.schemas import described, kept

FILE = Path(instrumentor.__file__).parent / "plan" / "plan.schema.json"
SCRIPT = """\
import torch


@torch.no_grad()
def validate(model):
    for inputs in []:
        model(inputs)


def train(model, loader, optimizer, criterion):
    step = 0
    validate(model)
    for inputs, labels in loader:
        loss = criterion(model(inputs), labels)
        print(loss.item())
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            torch.save(model.state_dict(), "model.pt")


train(None, [], None, None)
"""
INFERENCE = """\
import torch


def infer(model, inputs):
    with torch.no_grad():
        for batch in inputs:
            model(batch)


infer(None, [])
"""


def made() -> dict[str, Any]:
    """The schema of plan.json; edits are there where the script is eligible."""
    types = described([PlanDocument, EditLine])
    document = types.pop("PlanDocument")
    edits = {"type": "array", "items": {"$ref": "#/$defs/EditLine"}}
    edits["description"] = "The ordered edits; only when eligible. to: where a statement moves."
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{explanation.SCHEMA}: what `instrument explain --json` prints",
        "description": "Line numbers are 1-based lines of the original files; the line of a "
        "statement is the one it starts on.",
        "type": "object",
        "properties": {
            "schema": {"const": explanation.SCHEMA}, **document["properties"], "edits": edits,
        },
        "required": ["schema", *document["required"]],
        "$defs": types,
    }  # fmt: skip


SCHEMA = made()


def test_the_schema_is_that_of_the_types(request: pytest.FixtureRequest) -> None:
    update = request.config.getoption("--update-goldens")
    assert kept(FILE, SCHEMA, update=update), "pytest --update-goldens makes it anew"


@pytest.mark.parametrize("path", sorted(Path("fixtures/passes").glob("*/before.py")), ids=str)
def test_every_fixture_is_explained_within_the_schema(path: Path) -> None:
    jsonschema.validate(explain(path).to_json(), SCHEMA)


@pytest.mark.parametrize(
    ("source", "mode", "eligible"),
    [(SCRIPT, "train", True), (INFERENCE, "inference", True), ("x = 1\n", None, False)],
)
def test_the_document_follows_the_schema(
    git_repo: RepoFactory, source: str, mode: str | None, eligible: bool
) -> None:
    document = explain(git_repo({"train.py": source}) / "train.py").to_json()
    jsonschema.validate(document, SCHEMA)
    assert (document["mode"], document["eligible"]) == (mode, eligible)
    assert set(document) - {"edits"} == set(SCHEMA["required"])


def test_only_and_skip_choose_passes_and_keep_the_recorder() -> None:
    everything = rewrite(SCRIPT).plan
    assert {e.pass_name for e in everything.edits} == {
        "recorder",
        "region",
        "host_reads",
        "early_stop",
        "validation",
        "checkpoints",
    }
    only = rewrite(SCRIPT, Options(only=("region",))).plan
    assert {e.pass_name for e in only.edits} == {"recorder", "region"}
    without = rewrite(SCRIPT, Options(skip=("validation", "checkpoints"))).plan
    assert {e.pass_name for e in without.edits} == {
        "recorder",
        "region",
        "host_reads",
        "early_stop",
    }


def test_an_unknown_pass_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        rewrite(SCRIPT, Options(skip=("timers",)))
    assert "timers" in caught.value.message
    assert all(name in caught.value.hint for name in ("recorder", *PASSES))


def test_every_edit_says_why() -> None:
    assert all(e.reason for e in rewrite(SCRIPT).plan.edits)


def test_names_of_the_script_are_never_taken() -> None:
    taken = SCRIPT.replace("step = 0", "step = 0\n    _instrument = _instrument_recorder = 1")
    plan = rewrite(taken).plan
    assert plan.names == ("_instrument_2", "_instrument_2_recorder")
    assert "_instrument_2.begin(" in rewrite(taken).code.decode()


def test_inference_has_its_own_numbers_of_steps() -> None:
    def numbers(options: Options) -> tuple[int, int, float | None]:
        made = rewrite(INFERENCE, options).plan.options
        return made.samples, made.leading, made.budget_s

    assert numbers(Options()) == (13, 3, 30.0)
    assert numbers(Options(warmup=5, time_budget_s=9)) == (15, 5, 9)
    assert numbers(Options(steps=7, warmup=2)) == (7, 2, None)
    # Asked for, the numbers of training are as good as any.
    assert numbers(Options(steps=5, warmup=1)) == (5, 1, None)
    assert numbers(Options(steps=9)) == (9, 3, None)
    with pytest.raises(UsageError, match="after the 3 warm-up steps of inference"):
        rewrite(INFERENCE, Options(steps=3))
    assert numbers(Options(warmup=5, steps=6)) == (6, 5, None)


def test_a_number_that_is_asked_for_is_exact_and_else_there_is_a_budget() -> None:
    made = rewrite(SCRIPT).plan.options
    assert (made.samples, made.leading, made.budget_s) == (5, 1, 30.0)
    assert rewrite(SCRIPT, Options(steps=5)).plan.options.budget_s is None


def test_marked_lines_are_timed_and_whole_statements_are_asked_for() -> None:
    text = rewrite(INFERENCE, Options(region=("", 7, 7))).code.decode()
    assert text.index("_instrument.begin(") < text.index("model(batch)") < text.index(".end(")
    with pytest.raises(UsageError):
        rewrite(INFERENCE, Options(region=("", 3, 3)))
    multi = INFERENCE.replace("model(batch)", "model(\n                batch\n            )")
    with pytest.raises(Declined):
        rewrite(multi, Options(region=("", 7, 8)))
