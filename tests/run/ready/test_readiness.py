"""What is known before a run starts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from instrumentor.run.ready.readiness import programs_per_step


def _run(folder: Path, when: int, **summary: Any) -> None:
    folder.mkdir()
    path = folder / "summary.json"
    path.write_text(json.dumps(summary))
    os.utime(path, (when, when))


def test_programs_are_counted_by_tracy_alone(tmp_path: Path) -> None:
    wanted = tmp_path / "mnist_next"
    _run(tmp_path / "mnist_old", 1, profiler="tracy", op_count=300)
    _run(tmp_path / "mnist_new", 2, profiler="tracy", op_count=120)
    _run(tmp_path / "mnist_cpu", 3, profiler="torch", op_count=9000)
    _run(tmp_path / "other_new", 4, profiler="tracy", op_count=7)
    assert programs_per_step(wanted) == 120


def test_after_runs_on_the_cpu_nothing_is_known(tmp_path: Path) -> None:
    _run(tmp_path / "mnist_cpu", 3, profiler="torch", op_count=9000)
    assert programs_per_step(tmp_path / "mnist_next") is None
