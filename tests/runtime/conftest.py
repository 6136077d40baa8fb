"""Interpreters that the runtime files must work in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FIND_PYTHON = Path(__file__).resolve().parents[2] / ".ci" / "find-python"


@pytest.fixture(scope="session", params=["this", "3.8"])
def interpreter(request: pytest.FixtureRequest) -> Path:
    """The interpreter of the tests, and the oldest one that scripts may run under."""
    if request.param == "this":
        return Path(sys.executable)
    found = subprocess.run(
        [FIND_PYTHON, request.param], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"no CPython {request.param} on this machine")
    return Path(found.stdout.strip())
