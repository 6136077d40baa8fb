"""A request to run a script under a profiler, and the stand-ins in place of Tracy."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor.run.profilers import LaunchRequest
from tests.conftest import STANDINS

RequestFactory = Callable[..., LaunchRequest]


@pytest.fixture
def make_request(tmp_path: Path) -> RequestFactory:
    """Factory of requests for a script in a folder with a space in its name."""

    def make(source: str = "", env: dict[str, str] | None = None, **changes: Any) -> LaunchRequest:
        project = tmp_path / "my project"
        project.mkdir(exist_ok=True)
        script = project / "train it.py"
        script.write_text(source)
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        request = LaunchRequest(
            python=Path(sys.executable),
            script=script,
            arguments=("--config", "a b.yaml", "$(touch pwned)", "it's;", "*", ""),
            cwd=project,
            env={**os.environ, **(env or {})},
            scratch=scratch,
            record=tmp_path / "timings.jsonl",
        )
        return replace(request, **changes)

    return make


@pytest.fixture
def make_tracy_request(make_request: RequestFactory) -> RequestFactory:
    """Like make_request, with the stand-in of Tracy: ``version``, ``fail`` and its tools."""

    def make(
        source: str = "", version: str = "0.81", fail: str = "", **changes: Any
    ) -> LaunchRequest:
        new = tuple(map(int, version.split("."))) >= (0, 75)
        env = {
            "PYTHONPATH": str(STANDINS),
            "STANDIN_TRACY_VERSION": version,
            "STANDIN_TRACY_FAIL": fail,
            **changes.pop("env", {}),
        }
        tools = STANDINS / ("tools-tracy" if new else "tools-release")
        return make_request(source, env=env, **{"tools_folder": tools, **changes})

    return make
