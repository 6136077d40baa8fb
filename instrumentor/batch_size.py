"""Samples in one step of a run, and along which axis of a batch they lie.

The axis is the one that is as long as the script says its batches are: its YAML, its arguments, a
loader, a default of its parser or a constant of that name. Where nothing fits it is the first, as
in all but sequence-first scripts; `--batch-dim` says otherwise.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from instrumentor.locate.config import config_path, read_config
from instrumentor.locate.syntax import Source, callee, dotted, last, parse

_NAME = re.compile(r"-*(train_|per_device_train_)?(batch_?size|bsz|bs|n_batch|batch)", re.I)


def batch_facts(
    script: Path,
    arguments: Sequence[str],
    cwd: Path,
    record: Path,
    batch_dim: int | None = None,
) -> dict[str, Any]:
    """`batch_size`, `batch_size_source` and `batch_dim` for run.json; null when nothing says.

    Args:
        script: the entry script, whose default YAML counts when the arguments name none.
        cwd: folder that a relative `--config` starts from.
        record: the run's timings.jsonl, which may not exist; a sample's `batch_shape` is the
            shape of the first tensor in its batch.
        batch_dim: the axis, where it was asked for.
    """
    shape = _recorded_shape(record)
    declared = list(_declared(script, arguments, cwd))
    if batch_dim is not None:
        size = shape[batch_dim] if batch_dim < len(shape) else None
        return _facts(size, f"axis {batch_dim} of the recorded batch, as asked for", batch_dim)
    for size, source in declared:
        # An option of the script may stand above what it declares.
        if not shape:
            return _facts(size, source, None)
        if size in shape[:2]:
            return _facts(size, source, shape.index(size))
    if shape:
        return _facts(shape[0], "first axis of the recorded batch", 0)
    return _facts(None, None, None)


def _facts(size: int | None, source: str | None, axis: int | None) -> dict[str, Any]:
    known = source if size is not None else None
    return {"batch_size": size, "batch_size_source": known, "batch_dim": axis}


def _declared(script: Path, arguments: Sequence[str], cwd: Path) -> Iterator[tuple[int, str]]:
    """Batch sizes that the script speaks of, and where; what a user chooses first."""
    source = parse(script, script.read_bytes())
    found = config_path(source, arguments)
    if found is not None:
        path = cwd / found[0]
        if (size := _whole(read_config(path).get("batch_size"))) is not None:
            yield size, f"batch_size in {path.name}"
    for option, value in _given(arguments):
        if _NAME.fullmatch(option.replace("-", "_").strip("_")) and value.isdigit() and int(value):
            yield int(value), f"{option} of the arguments"
    yield from _written(source)


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values: `--batch-size 32`, `--batch-size=32`."""
    for option, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        if option.startswith("-"):
            name, equals, value = option.partition("=")
            yield name, value if equals else following


def _written(source: Source) -> Iterator[tuple[int, str]]:
    """Of a loader's call, a parser's default, or a constant."""
    for node in source.nodes:
        name, value = "", None
        if isinstance(node, ast.Call) and callee(node) == "add_argument":
            words = [a.value for a in node.args if isinstance(a, ast.Constant)]
            name = next((str(w) for w in words if str(w).startswith("--")), "")
            value = _keyword(node, "default")
        elif isinstance(node, ast.Call):
            name, value = "batch_size", _keyword(node, "batch_size")
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            name, value = last(dotted(node.targets[0])), node.value
        elif isinstance(node, ast.AnnAssign):
            name, value = last(dotted(node.target)), node.value
        size = _whole(value.value) if isinstance(value, ast.Constant) else None
        if size is not None and _NAME.fullmatch(name.replace("-", "_").strip("_")):
            yield size, f"{name} in {source.path.name}:{getattr(node, 'lineno', 1)}"


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


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
