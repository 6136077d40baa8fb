"""What holds for every generated training script: proofs on its text, rules on its run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, note, settings

from instrumentor import Options, Rewritten, rewrite
from tests.recording import Recorder, expectation, is_prefix, shown, violations
from tests.training_scripts import Shape, compose, shapes

THOROUGH = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    process = Recorder()
    yield process
    process.close()


def rewritten(shape: Shape, options: Options | None = None) -> tuple[bytes, Rewritten]:
    source = compose(shape)
    note(source.decode())
    result = rewrite(source, options)
    note(result.code.decode())
    return source, result


@THOROUGH
@given(shapes())
@example(Shape())
def test_region(shape: Shape) -> None:
    """The region holds forward and backward, and nothing that logs or validates."""
    source, result = rewritten(shape)
    plan = result.plan.explanation
    assert plan["region"]["start_line"] <= plan["call"]["line"] if plan["call"] else True
    assert plan["backward"]["others"] == []
    lines = source.decode().splitlines()
    start, end = plan["region"]["start_line"], plan["region"]["end_line"]
    if plan["call"] is None:
        assert start <= plan["forward"]["line"] <= plan["backward"]["line"] <= end
    moved = set(plan["deferred_host_reads"])
    for number in range(start, end + 1):
        words = lines[number - 1]
        assert not any(w in words for w in ("validate(", "torch.save", "log_metrics"))
        if "item()" in words or "print(" in words:
            assert number in moved or shape.read == "dependent" or plan["warnings"]
    body = ast.parse(result.code)
    assert isinstance(body, ast.Module)


@THOROUGH
@given(shapes())
@example(Shape())
def test_explanation(shape: Shape) -> None:
    """The plan says what the script's author would."""
    _, result = rewritten(shape)
    plan = result.plan.explanation
    assert len(plan["loop"]["outer_lines"]) == shape.outer + (shape.accumulation == "nested")
    accumulation = {"compare": "branch"}.get(shape.accumulation, shape.accumulation)
    assert plan["accumulation"] == accumulation
    counter = plan["counter"]
    if shape.counter == "none":
        assert counter is None or counter["name"] in ("index", "rounds")
    else:
        position = shape.counter
        if shape.accumulation in ("branch", "compare") and shape.counter == "after":
            position = "branch"
        elif shape.accumulation == "continue" and shape.counter == "after":
            position = "after_continue"
        elif shape.accumulation == "nested":
            position = "outer"
        if shape.loop not in ("while", "refill"):
            assert (counter["name"], counter["position"]) == ("global_step", position)
    assert plan["sync"]["action"] == ("insert" if shape.sync == "none" else "keep")
    assert bool(plan["skipped_checkpoints"]) == (shape.in_loop in ("checkpoint", "both"))
    skipped = (shape.initial != "none") + (shape.in_loop in ("validation", "both"))
    assert len(plan["skipped_validation"]) == skipped


@THOROUGH
@given(shapes())
@example(Shape())
def test_run(recorder: Recorder, shape: Shape) -> None:
    """The order of events obeys the rules; what is shown is what the original shows first."""
    source, result = rewritten(shape, Options(self_contained=True))
    original, instrumented = recorder.run(source), recorder.run(result.code)
    assert original.error is None
    note("\n".join(instrumented.events))
    assert violations(instrumented, expectation(result.plan)) == []
    work = ("forward", "backward", "optimizer")
    assert is_prefix(instrumented.only(*work), original.only(*work))
    numbers = [[e for e in shown(t) if "val" not in e] for t in (instrumented, original)]
    assert is_prefix(*numbers)


@settings(THOROUGH, max_examples=10)
@given(shapes())
def test_kept_validation_runs(recorder: Recorder, shape: Shape) -> None:
    source, result = rewritten(shape, Options(keep_validation=True, self_contained=True))
    original, instrumented = recorder.run(source), recorder.run(result.code)
    assert violations(instrumented, expectation(result.plan, validates=True)) == []
    work = ("forward", "backward", "optimizer", "validate", "inference")
    assert is_prefix(instrumented.only(*work), original.only(*work))
    assert is_prefix(shown(instrumented), shown(original))


@settings(THOROUGH, max_examples=10)
@given(shapes())
def test_whole_steps(recorder: Recorder, shape: Shape) -> None:
    """With --scope step a region ends behind the optimizer step."""
    source, result = rewritten(shape, Options(scope="step", self_contained=True))
    original, instrumented = recorder.run(source), recorder.run(result.code)
    assert violations(instrumented, expectation(result.plan, syncs_inside=True)) == []
    work = ("forward", "backward", "optimizer")
    assert is_prefix(instrumented.only(*work), original.only(*work))
