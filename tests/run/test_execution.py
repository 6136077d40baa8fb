"""Why a process failed, in the words that end a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instrumentor.run.execution import Execution, _explained
from instrumentor.run.process import Finished
from instrumentor.run.profilers import Artifacts, Launch
from instrumentor.shared.errors import ScriptFailed

RAISED = """Traceback (most recent call last):
  File "train.py", line 5, in <module>
    step(x)
RuntimeError: shapes cannot be multiplied
"""
CLOSED = "\n" + "=" * 50 + "\n[TIMER] Summary (fwd+bwd, steady steps):\n  samples : 5\n"
CLOSING: tuple[dict[str, Any], ...] = ({"event": "sample"}, {"event": "resident"})
FIRST = "the script ended with an exception, and signal 11 (SIGSEGV) came while it was closing"
KILLED = "the script was ended by signal 11 (SIGSEGV)"


@pytest.mark.parametrize(
    ("text", "records", "said"),
    [
        (RAISED, CLOSING, FIRST),
        (RAISED + CLOSED, CLOSING, FIRST),
        (RAISED, ({"event": "complete"}, {"event": "leaving"}), FIRST),
        ("step 3\n", CLOSING, KILLED),
        # One that the script has caught and printed, and went on.
        (RAISED + "step 3\n" + CLOSED, CLOSING, KILLED),
        # Killed while it printed, or behind the sample that was the last one.
        (RAISED, CLOSING[:1], KILLED),
        (RAISED, ({"event": "resident"}, {"event": "complete"}), KILLED),
    ],
    ids=["raised", "with a summary", "leaving", "no traceback", "caught", "running", "measured"],
)
def test_a_signal_behind_an_exception_is_not_what_ended_the_script(
    tmp_path: Path, text: str, records: tuple[dict[str, Any], ...], said: str
) -> None:
    made = Execution(
        launch=Launch(("python", "train.py"), {}, tmp_path),
        finished=Finished(-11, False, False, 1.0),
        artifacts=Artifacts(),
        records=records,
        exit_code=-11,
        failure=None,
        overflowed=False,
    )
    message = _explained(made, text, tmp_path / "run.log").message
    assert message.startswith(f"{said}; its last lines:")
    if said == FIRST:
        assert message.endswith("RuntimeError: shapes cannot be multiplied")


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        (RAISED, True),
        (RAISED + CLOSED, True),
        (RAISED + "step 3\n", False),
        ("usage: ...\n", False),
    ],
    ids=["raised", "with a summary", "caught", "no traceback"],
)
def test_a_script_is_blamed_for_the_exception_that_ended_it_alone(
    tmp_path: Path, text: str, raised: bool
) -> None:
    made = Execution(
        launch=Launch(("python", "train.py"), {}, tmp_path),
        finished=Finished(1, False, False, 1.0),
        artifacts=Artifacts(),
        records=CLOSING,
        exit_code=1,
        failure=None,
    )
    failed = _explained(made, text, tmp_path / "run.log")
    assert isinstance(failed, ScriptFailed) and bool(failed.raised) is raised
