"""One trial: what becomes of a run, in words that survive; nothing of it is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.shared.errors import RunFailed
from instrumentor.tune import outcome, trial


@pytest.mark.parametrize(
    ("log", "message", "status"),
    [
        ("TT_FATAL: Out of Memory: Not enough space to allocate 4 B DRAM buffer across 8",
         "the script ended with code 1", outcome.OUT_OF_MEMORY),
        ("torch.OutOfMemoryError: CUDA out of memory.", "ended with code 1", outcome.OUT_OF_MEMORY),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried", "ended",
         outcome.OUT_OF_MEMORY),
        ("failed to legalize operation 'ttir.conv2d'", "ended", outcome.COMPILE_FAILURE),
        ("torch._dynamo.exc.BackendCompilerFailed: backend='tt'", "x", outcome.COMPILE_FAILURE),
        ("Bad StatusOr access: INTERNAL: Error code: 13", "x", outcome.COMPILE_FAILURE),
        ("RuntimeError: mat1 and mat2 must have the same dtype", "x", outcome.FAILED),
        ("", "the run did not end within --timeout 5 s", outcome.TIMEOUT),
        ("", "the script was ended by signal 9 (SIGKILL)", outcome.FAILED),
    ],
)  # fmt: skip
def test_failures_are_results(tmp_path: Path, log: str, message: str, status: str) -> None:
    (tmp_path / "run.log").write_text(f"one\n{log}\ntwo\n")
    made = trial._failed(RunFailed(message), tmp_path, 5.0)
    assert made.status == status
    assert made.reason
    if status in (outcome.OUT_OF_MEMORY, outcome.COMPILE_FAILURE):
        assert made.reason == log


def test_the_words_of_a_failure_are_kept(tmp_path: Path) -> None:
    error = RunFailed("the script ended with code 1; its last lines:\n  x\nValueError: no")
    made = trial._failed(error, tmp_path, None)
    assert made.reason == "the script ended with code 1; its last lines: ValueError: no"


def test_the_usual_batch_is_not_the_last_one() -> None:
    assert trial._usual([(4, 8), (4, 8), (1, 8)]) == (4, 8)
    assert trial._usual([]) == ()
