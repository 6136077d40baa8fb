"""A repository of kernels and the stand-in for tt-lang, for runs in real processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import RepoFactory
from tests.kernels.scripts import FIXTURES, STANDIN

Environment = Callable[..., dict[str, str]]


@pytest.fixture
def kernels(git_repo: RepoFactory) -> Path:
    """fixtures/kernels in a git repository of its own."""
    return git_repo({path.name: path.read_bytes() for path in FIXTURES.glob("*.py")}, "kernels")


@pytest.fixture
def standin(tmp_path: Path) -> Environment:
    """The environment of a run with the stand-in; its failures by name, more variables by dict."""

    def make(failures: str = "", more: Mapping[str, str] | None = None) -> dict[str, str]:
        base = {k: v for k, v in os.environ.items() if not k.startswith("TTLANG_")}
        return {
            **base,
            "PYTHONPATH": str(STANDIN),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TT_METAL_HOME": str(tmp_path / "tt-metal"),
            "STANDIN_TTL": failures,
            **(more or {}),
        }

    return make
