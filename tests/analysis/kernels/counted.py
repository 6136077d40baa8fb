"""Sums as the simulator's run leaves them, for tests without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: Two nodes read a (8 tiles) and write y (8 tiles) through one block at a time.
RIGHT: dict[str, Any] = {
    "complete": True,
    "events": 100,
    "operations": 1,
    "grid": [2, 1],
    "problem": None,
    "tensors": {
        "a": {"shape": [256, 32], "dtype": "bfloat16", "units": 8, "unit_bytes": 2048},
        "y": {"shape": [256, 32], "dtype": "bfloat16", "units": 8, "unit_bytes": 2048},
    },
    "buffers": {
        "a_dfb": {"shape": [4, 1], "blocks": 2, "bytes": 16384, "deepest": 2},
        "y_dfb": {"shape": [4, 1], "blocks": 2, "bytes": 16384, "deepest": 1},
    },
    "copies": [
        [node, thread, tensor, way, 1, 4, 0, 0, 4]
        for node in (0, 1)
        for thread, tensor, way in (("read", "a", "read"), ("write", "y", "write"))
    ],
    "blocks": [
        [node, thread, buffer, what, 1, 0, 4, 0]
        for node in (0, 1)
        for thread, buffer, what in (
            ("read", "a_dfb", "reserve"),
            ("read", "a_dfb", "push"),
            ("compute", "a_dfb", "wait"),
            ("compute", "a_dfb", "pop"),
            ("compute", "y_dfb", "reserve"),
            ("compute", "y_dfb", "push"),
            ("write", "y_dfb", "wait"),
            ("write", "y_dfb", "pop"),
        )
    ],
    "threads": [[node, "compute", "compute", True] for node in (0, 1)],
    "flops": [[0, 2 * 32**3], [1, 2 * 32**3]],
    "l1_bytes": 32768,
    "l1_limit_bytes": 1466368,
    "buffers_made": 2,
    "buffers_limit": 32,
    "scheduler": "fair",
    "arithmetic": True,
}

RUN: dict[str, Any] = {
    "kernel": "double",
    "arch": "wormhole",
    "script": "/x/double.py",
    "script_exit_code": 0,
    "buffers": [{"name": "a_dfb", "line": 6}, {"name": "y_dfb", "line": 7}],
    "threads": [{"name": "read", "line": 9}, {"name": "compute", "line": 15}],
    "tensors": ["a", "y"],
}


def changed(**more: Any) -> dict[str, Any]:
    """The right sums, deep enough a copy to be changed, with some parts in the place of theirs."""
    document: dict[str, Any] = json.loads(json.dumps(RIGHT))
    return {**document, **more}


def folder_with(folder: Path, document: dict[str, Any], **run: Any) -> Path:
    """A run folder with these sums."""
    (folder / "simulation.json").write_text(json.dumps(document))
    (folder / "run.json").write_text(json.dumps({**RUN, **run}))
    return folder
