"""Instrumented scripts are run, under stand-ins that record what happens in which order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from instrumentor.plan import Plan
from instrumentor.rewrite.prepare import Prepared
from tests.plan.passes.goldens import Case, all_cases
from tests.recording import Recorder, Trace, expectation, is_prefix, shown, violations

Runs = Callable[[Case, str], tuple[Trace, Trace, Plan]]
DEVICES = ("xla", "cuda", "cpu")
# The region holds more than one sync of the script's own: around the optimizer, in its helper.
SYNCS_INSIDE = {"fused_last_micro_batch", "fused_in_methods", "syncs_every_n", "scope_step"}


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    process = Recorder()
    yield process
    process.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, recorder: Recorder) -> Runs:
    """(original's trace, instrumented one's, plan) of a case on a device."""
    folder = tmp_path_factory.mktemp("executed")

    @functools.cache
    def copied(case: Case) -> tuple[Prepared, Path]:
        prepared = case.prepare(folder / "original", self_contained=True)
        script = case.copy(folder / "copy")
        for path, code in prepared.replacements.items():
            (script.parent / path.relative_to(prepared.project.root)).write_bytes(code)
        return prepared, script

    @functools.cache
    def run(case: Case, device: str) -> tuple[Trace, Trace, Plan]:
        prepared, script = copied(case)
        original = recorder.run(path=prepared.script, device=device)
        return original, recorder.run(path=script, device=device), prepared.plan

    return run


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_events_obey_the_rules(case: Case, device: str, runs: Runs) -> None:
    original, instrumented, plan = runs(case, device)
    assert original.error is None
    own_sync = device != "xla" and plan.explanation["sync"]["action"] == "keep"
    expected = expectation(
        plan,
        device=device,
        validates=case.name == "keep_validation",
        syncs_inside=own_sync or case.name in SYNCS_INSIDE,
    )
    assert violations(instrumented, expected) == []


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_measures_the_same_training(case: Case, runs: Runs) -> None:
    """Forwards, backwards and optimizer steps are those of the original's beginning."""
    original, instrumented, plan = runs(case, "xla")
    training = ("forward", "backward", "optimizer", "generate", "inference")
    if plan.explanation["skipped_validation"]:
        training = training[:3]
    assert is_prefix(instrumented.only(*training), original.only(*training))


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_shows_the_same_numbers(case: Case, runs: Runs) -> None:
    """Moved host reads give what they gave, in the same order."""
    original, instrumented, plan = runs(case, "xla")
    skipped = plan.explanation["skipped_validation"]
    first, second = (
        [e for e in shown(trace) if not (skipped and "val" in e)]
        for trace in (instrumented, original)
    )
    assert is_prefix(first, second)
