"""The loop of changing and measuring, with runs whose times the kernel's text decides.

Real runs of it are in test_cli.py.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor.kernels import iterate
from instrumentor.kernels.iterate import Iteration
from instrumentor.kernels.options import Criteria, KernelOptions
from instrumentor.kernels.run import KernelRun
from instrumentor.kernels.validate import Verdict
from instrumentor.shared.errors import RunFailed, UsageError
from instrumentor.workspace.linked_data import UsersFiles
from instrumentor_analysis.kernels.report import report_of_log
from tests.analysis.kernels.printed import PERF
from tests.conftest import git

Make = Callable[..., Iteration]
#: Device time in microseconds, by the size of a block.
TIMES_US = {"1": 123.6, "2": 43.44, "4": 20.0}


@pytest.fixture
def make(kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A session on add_one_core.py that its own checks validate."""
    log = tmp_path / "perf.log"
    log.write_text(PERF)
    read = report_of_log(log)
    chance = random.Random(1)

    def build(repeat: int = 4, noise: float = 0.0, **options: Any) -> Iteration:
        def run(
            script: Path, arguments: Sequence[str], options: KernelOptions, progress: object
        ) -> KernelRun:
            text = script.read_text()
            if "1 / 0" in text:
                raise RunFailed("the script ended with code 1")
            block = re.search(r"BLOCK = (\d)", text)
            assert block is not None and options.output is not None
            time_us = TIMES_US[block[1]] * (1 + noise * chance.random())
            wrong = "a_block + a_block" in text or options.criteria.given
            verdict = Verdict(False, "the script's own checks", "wrong") if wrong else None
            report = replace(read, facts=replace(read.facts, duration_us=time_us))
            return KernelRun(options.output, report, 0, verdict, UsersFiles())

        monkeypatch.setattr(iterate, "run_kernel", run)
        chosen = KernelOptions(cwd=kernels, run_test="no", **options)
        return Iteration(kernels / "add_one_core.py", (), chosen, repeat=repeat)

    return build


def edit(kernels: Path, before: str, after: str) -> None:
    script = kernels / "add_one_core.py"
    text = script.read_text()
    assert before in text
    script.write_text(text.replace(before, after))


def test_a_wrong_baseline_is_refused(make: Make) -> None:
    work = make(criteria=Criteria((sys.executable, "-c", "raise SystemExit(1)")))
    with pytest.raises(RunFailed, match="the baseline does not pass its validation"):
        work.measure()
    assert work.session.versions == ()


def test_nothing_to_restore_and_unmeasured_changes(make: Make, kernels: Path) -> None:
    work = make(repeat=1)
    with pytest.raises(UsageError, match="nothing to restore"):
        work.restore()
    work.measure()
    edit(kernels, "a_block + b_block", "a_block + a_block")
    work.measure()
    edit(kernels, "BLOCK = 1", "BLOCK = 2")
    with pytest.raises(UsageError, match="not measured"):
        work.restore()


def test_faster_wrong_and_back(make: Make, kernels: Path) -> None:
    original = (kernels / "add_one_core.py").read_bytes()
    work = make()
    baseline = work.measure()
    assert (baseline.state, len(baseline.wall_us), work.changed()) == ("baseline", 4, False)
    assert baseline.bottleneck == "the kernel runs on a single core"
    assert (baseline.metrics["cores_used"], baseline.metrics["cores_available"]) == (1, 64)

    edit(kernels, "BLOCK = 1", "BLOCK = 2")
    assert work.changed()
    faster = work.measure()
    assert faster.state == "faster"
    assert faster.change == "+1 -1 lines: BLOCK = 2"
    assert faster.ratio == pytest.approx(43.44 / 123.6, rel=1e-3)
    assert "version 2 is 2.85 times as fast (95 % interval" in faster.compared

    # Much faster still, and wrong: never called faster.
    edit(kernels, "BLOCK = 2", "BLOCK = 4")
    edit(kernels, "a_block + b_block", "a_block + a_block")
    wrong = work.measure()
    assert (wrong.state, wrong.validated, wrong.ratio) == ("invalid", False, None)
    assert work.session.best == 2

    (kept,) = (work.session.folder / "versions" / "2").rglob("add_one_core.py")
    measured, now = kept.read_bytes(), (kernels / "add_one_core.py").read_bytes()
    kept.write_bytes(b"import planted\n")
    with pytest.raises(UsageError, match="version 2 is not the text that was measured"):
        make().restore()
    assert (kernels / "add_one_core.py").read_bytes() == now
    kept.write_bytes(measured)

    back = make().restore()  # another process would take the session up like this
    assert (back.number, back.source) == (2, "the session's copy")
    assert b"BLOCK = 2" in (kernels / "add_one_core.py").read_bytes()
    assert (kernels / "add_one_core.py").read_bytes() != original


def test_the_best_version_comes_from_git_where_git_has_it(make: Make, kernels: Path) -> None:
    work = make()
    work.measure()
    edit(kernels, "out_block.store(a_block + b_block)", "out_block.store(a_block); 1 / 0")
    failed = work.measure()
    assert failed.state == "failed"
    assert "code 1" in failed.problem
    back = work.restore()
    assert back.source.startswith("git (blob ")
    assert git(kernels, "diff", "--stat", "add_one_core.py") == ""


def test_a_save_in_the_middle_of_a_measurement_is_no_version(
    make: Make, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = make(repeat=1)
    work.measure()
    edit(kernels, "BLOCK = 1", "BLOCK = 2")
    whole = iterate.run_kernel

    def saving(*arguments: Any) -> Any:
        result = whole(*arguments)
        edit(kernels, "BLOCK = 2", "BLOCK = 4")
        return result

    monkeypatch.setattr(iterate, "run_kernel", saving)
    version = work.measure()
    assert (version.state, version.wall_us) == ("failed", ())
    assert "changed while they were measured" in version.problem
    assert work.changed()  # so that the loop measures it again


def test_a_save_while_the_baseline_is_measured_begins_it_again(
    make: Make, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, whole, saved = make(repeat=1), iterate.run_kernel, list[str]()

    def saving(*arguments: Any) -> Any:
        result = whole(*arguments)
        if not saved:
            edit(kernels, "BLOCK = 1", "BLOCK = 2")
            saved.append("once")
        return result

    monkeypatch.setattr(iterate, "run_kernel", saving)
    version = work.measure()
    assert (version.number, version.state) == (1, "baseline") and not work.changed()


@pytest.mark.parametrize(
    ("begin", "then", "how", "state"),
    [
        ("2", "1", {}, "slower"),
        ("1", "1", {"noise": 0.3}, "unsure"),  # below the noise
        ("1", "4", {"repeat": 1}, "unsure"),  # one run of each
    ],
)
def test_versions_that_are_not_faster(
    make: Make, kernels: Path, begin: str, then: str, how: dict[str, Any], state: str
) -> None:
    edit(kernels, "BLOCK = 1", f"BLOCK = {begin}")
    work = make(**how)
    work.measure()
    edit(kernels, f"BLOCK = {begin}", f"BLOCK = {then}  # edited")
    version = work.measure()
    assert (version.state, work.session.best) == (state, 1)
    assert work.last_good() is not None
    assert how != {"repeat": 1} or "No conclusion from" in version.compared


def test_waiting_sees_a_saved_change_but_not_half_a_file(make: Make, kernels: Path) -> None:
    work = make(repeat=1)
    work.measure()
    script = kernels / "add_one_core.py"
    whole = script.read_text()
    steps = iter([whole[:-60] + "(", whole.replace("BLOCK = 1", "BLOCK = 2"), None, None])
    waits = 0

    def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        text = next(steps, None)
        if text is not None:
            script.write_text(text)

    work.wait_for_change(sleep)
    assert waits >= 3
    assert "BLOCK = 2" in script.read_text()


def test_repeat_must_be_positive(make: Make) -> None:
    with pytest.raises(UsageError, match="--repeat 0"):
        make(repeat=0)
