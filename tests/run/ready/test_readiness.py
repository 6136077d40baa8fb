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
    path.write_text(json.dumps({"run": {"script": "/repo/mnist.py"}, **summary}))
    os.utime(path, (when, when))


def test_programs_are_counted_by_tracy_alone(tmp_path: Path) -> None:
    script = Path("/repo/mnist.py")
    _run(tmp_path / "mnist_old", 1, profiler="tracy", op_count=300)
    _run(tmp_path / "mnist_new", 2, profiler="tracy", op_count=120)
    _run(tmp_path / "mnist_cpu", 3, profiler="torch", op_count=9000)
    _run(tmp_path / "other_new", 4, profiler="tracy", op_count=7, run={"script": "/repo/x.py"})
    _run(tmp_path / "unnamed", 5, profiler="tracy", op_count=8, run=None)
    assert programs_per_step(script, tmp_path) == 120


def test_after_runs_on_the_cpu_nothing_is_known(tmp_path: Path) -> None:
    _run(tmp_path / "mnist_cpu", 3, profiler="torch", op_count=9000)
    assert programs_per_step(Path("/repo/mnist.py"), tmp_path) is None
