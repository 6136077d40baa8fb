"""Records of timed steps, and the folders of runs that hold them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

TORCH_HEADER = (
    "op,category,start_us,duration_us,self_time_us,device_time_us,input_shapes,input_dtypes,"
    "thread,sequence,source\n"
)

Event = dict[str, Any]


def event(name: str, ms: Any, label: str = "fwd+bwd", kind: str = "", **more: object) -> Event:
    """A sample, of the kind that its name says."""
    kind = kind or ("compile" if "compile" in name else "steady")
    return {
        "event": "sample", "pid": 1, "name": name, "kind": kind, "label": label, "ms": ms, **more,
    }  # fmt: skip


def steady_events(*times_ms: float, label: str = "fwd+bwd", **more: object) -> list[Event]:
    """Steady samples of one label, numbered from 1."""
    names = (f"step_steady_{number}" for number in range(1, len(times_ms) + 1))
    return [event(name, ms, label, **more) for name, ms in zip(names, times_ms, strict=True)]


def batch(*shape: int, tokens: int | None = None) -> Event:
    """What the recorder writes of one batch."""
    return {"batch_shape": list(shape), "batch_samples": shape[0], "batch_tokens": tokens}


def record(path: Path, *events: Event, tail: str = "") -> Path:
    """A record file, with something behind its last line."""
    path.write_text("".join(json.dumps(e) + "\n" for e in events) + tail, encoding="utf-8")
    return path


def run_folder(
    path: Path,
    *events: Event,
    ops: str | Path | None = None,
    torch: str | None = None,
    **facts: object,
) -> Path:
    """A run folder with what is given."""
    path.mkdir(exist_ok=True)
    (path / "run.json").write_text(json.dumps({"schema": "instrument-run/1", **facts}))
    if events:
        record(path / "timings.jsonl", *events)
    if ops is not None:
        (path / "tracy_perf").mkdir()
        target = path / "tracy_perf" / "ops_perf_results.csv"
        if isinstance(ops, Path):
            shutil.copy(ops, target)
        else:
            target.write_text(ops, encoding="utf-8", newline="")
    if torch is not None:
        (path / "torch_profile").mkdir()
        (path / "torch_profile" / "ops.csv").write_text(TORCH_HEADER + torch)
    return path
