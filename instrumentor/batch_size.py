"""Samples in one step of a run: what its YAML says, else what its steps were seen to take."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from instrumentor.locate.config import config_path, read_config
from instrumentor.locate.syntax import parse


def batch_facts(
    script: Path,
    arguments: Sequence[str],
    cwd: Path,
    record: Path,
) -> dict[str, Any]:
    """`batch_size` and `batch_size_source` for run.json; null twice when nothing says.

    Args:
        script: the entry script, whose default YAML counts when the arguments name none.
        cwd: folder that a relative `--config` starts from.
        record: the run's timings.jsonl, which may not exist; a sample's `batch_shape` is the
            shape of the first tensor in its batch, whose first axis is the batch in all but a few
            scripts.
    """
    size, source = _of_yaml(script, arguments, cwd)
    shape = _recorded_shape(record)
    # An option of the script may stand above its YAML; a second axis may be the batch.
    if shape and (size is None or size not in shape[:2]):
        size, source = shape[0], "first axis of the recorded batch"
    return {"batch_size": size, "batch_size_source": source}


def _of_yaml(script: Path, arguments: Sequence[str], cwd: Path) -> tuple[int | None, str | None]:
    found = config_path(parse(script, script.read_bytes()), arguments)
    if found is None:
        return None, None
    path = cwd / found[0]
    size = read_config(path).get("batch_size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        return None, None
    return size, f"batch_size in {path.name}"


def _recorded_shape(record: Path) -> tuple[int, ...]:
    """The shape that most samples had; empty when none was recorded."""
    shapes: Counter[tuple[int, ...]] = Counter()
    lines = record.read_text(encoding="utf-8").splitlines() if record.is_file() else []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:  # the last line of a killed run
            continue
        if not isinstance(event, dict) or event.get("event") != "sample":
            continue
        shape = event.get("batch_shape")
        if isinstance(shape, list) and shape and all(isinstance(n, int) and n > 0 for n in shape):
            shapes[tuple(shape)] += 1
    return shapes.most_common(1)[0][0] if shapes else ()
