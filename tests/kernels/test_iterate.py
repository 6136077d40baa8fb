"""The loop of changing and measuring, with the stand-in, in real processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instrumentor.errors import UsageError
from instrumentor.kernels.iterate import Iteration
from instrumentor.kernels.options import Criteria, KernelOptions
from tests.conftest import git
from tests.kernels.conftest import Environment

Make = Callable[..., Iteration]


@pytest.fixture
def make(kernels: Path, standin: Environment) -> Make:
    """A session on add_one_core.py that its own checks validate."""

    def build(failures: str = "", repeat: int = 4, **options: Any) -> Iteration:
        chosen = KernelOptions(cwd=kernels, env=standin(failures), run_test="no", **options)
        return Iteration(kernels / "add_one_core.py", (), chosen, repeat=repeat)

    return build


def edit(kernels: Path, before: str, after: str) -> None:
    script = kernels / "add_one_core.py"
    text = script.read_text()
    assert before in text
    script.write_text(text.replace(before, after))


def test_a_wrong_baseline_is_refused(make: Make) -> None:
    work = make(criteria=Criteria((sys.executable, "-c", "raise SystemExit(1)")))
    with pytest.raises(UsageError, match="the baseline does not pass its validation"):
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

    back = make().restore()  # another process would take the session up like this
    assert (back.number, back.source) == (2, "the session's copy")
    assert b"BLOCK = 2" in (kernels / "add_one_core.py").read_bytes()
    assert (kernels / "add_one_core.py").read_bytes() != original


def test_the_best_version_comes_from_git_where_git_has_it(make: Make, kernels: Path) -> None:
    work = make(repeat=4)
    work.measure()
    edit(kernels, "grid=(1, 1)", "grid=(1, 1), debug=lambda: 1 / 0")
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
    from instrumentor.kernels import iterate

    work = make(repeat=1)
    work.measure()
    edit(kernels, "BLOCK = 1", "BLOCK = 2")
    real = iterate.run_kernel

    def saving(*arguments: Any) -> Any:
        result = real(*arguments)
        edit(kernels, "BLOCK = 2", "BLOCK = 4")
        return result

    monkeypatch.setattr(iterate, "run_kernel", saving)
    version = work.measure()
    assert (version.state, version.wall_us) == ("failed", ())
    assert "changed while they were measured" in version.problem
    assert work.changed()  # so that the loop measures it again


def test_slower(make: Make, kernels: Path) -> None:
    edit(kernels, "BLOCK = 1", "BLOCK = 2")
    work = make()
    work.measure()
    edit(kernels, "BLOCK = 2", "BLOCK = 1")
    assert work.measure().state == "slower"
    assert work.last_good() is not None


def test_a_difference_below_the_noise_is_not_sure(make: Make, kernels: Path) -> None:
    work = make("noise=0.3")
    work.measure()
    edit(kernels, '"""One kernel', '"""A kernel')
    assert work.measure().state == "unsure"
    assert work.session.best == 1


def test_one_run_of_each_is_never_sure(make: Make, kernels: Path) -> None:
    work = make(repeat=1)
    work.measure()
    edit(kernels, "BLOCK = 1", "BLOCK = 4")
    version = work.measure()
    assert version.state == "unsure"
    assert "too few samples" in version.compared


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
