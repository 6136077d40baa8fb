"""Samples in one step of a run, and along which axis of a batch they lie.

The axis is the one that is as long as the script says its batches are: its YAML, its arguments, a
loader, a default of its parser or a constant of that name. Where nothing fits it is the first, as
in all but sequence-first scripts; `--batch-dim` says otherwise. Where the model has a layer that
takes its sequences first, that is told to be a guess.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from instrumentor.locate.experiment_yaml import config_path, read_config
from instrumentor.read.bindings import targets_of
from instrumentor.read.syntax import Source, argument, callee, dotted, last, parse
from instrumentor.run.process import excerpt, record_of
from instrumentor_analysis.shared.files import read_bytes

_NAME = re.compile(r"(per_device_)?(train_)?(batch_?size|bsz|bs|n_batch|batch)", re.I)
#: Axes of a batch of sequences: of tokens, or of their features.
_OF_SEQUENCES = (2, 3)


@dataclass(frozen=True)
class Declared:
    """A whole number that a module gives its batches.

    Attributes:
        kind: ``option`` of its parser, by default; ``name`` bound to it; ``keyword`` of a call.
        name: of the option, the variable or the function called.
        node: the number.
    """

    kind: str
    name: str
    node: ast.expr
    size: int


def declared(source: Source) -> Iterator[Declared]:
    """The batch sizes that are written in a module."""
    for node in source.nodes:
        for kind, name, value in _said(node):
            size = _whole(value.value) if isinstance(value, ast.Constant) else None
            # A keyword is found by its own name, batch_size, whatever the function is called.
            if value is not None and size is not None and (kind == "keyword" or is_name(name)):
                yield Declared(kind, name, value, size)


def _said(node: ast.AST) -> Iterator[tuple[str, str, ast.expr | None]]:
    """Kind, name and value, as in :class:`Declared`, of what a node gives values to."""
    if isinstance(node, ast.Call) and callee(node) == "add_argument":
        words = [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
        names = [word for word in words if word.startswith("--")]
        yield "option", next(filter(is_name, names), ""), argument(node, "default")
    elif isinstance(node, ast.Call):
        yield "keyword", callee(node), argument(node, "batch_size")
    for name, bound in targets_of(node):
        yield "name", last(dotted(name)), None if bound.path else bound.value


def in_arguments(arguments: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """`--batch-size 32`, `--batch-size=32`: where the number stands, the option, the number."""
    for at, (option, following) in enumerate(zip_longest(arguments, arguments[1:], fillvalue="")):
        name, equals, value = option.partition("=")
        value = value if equals else following
        if option.startswith("-") and is_name(name) and value.isdigit() and int(value):
            yield at if equals else at + 1, name, int(value)


def is_name(word: str) -> bool:
    """Whether an option or a variable is called as batch sizes are."""
    return _NAME.fullmatch(word.replace("-", "_").strip("_")) is not None


def batch_facts(
    script: Path,
    arguments: Sequence[str],
    cwd: Path,
    record: Path,
    batch_dim: int | None = None,
) -> dict[str, Any]:
    """`batch_size`, `batch_size_source`, `batch_dim`, `batch_dim_guessed` for run.json.

    The first three are null when nothing says.

    Args:
        script: the entry script, whose default YAML counts when the arguments name none.
        cwd: folder that a relative `--config` starts from.
        record: the run's timings.jsonl, which may not exist; a sample's `batch_shape` is the
            shape of the first tensor in its batch.
        batch_dim: the axis, where it was asked for.
    """
    # A script can make its record as long as it likes.
    events = list(filter(None, map(record_of, excerpt(record).splitlines())))
    shape = _recorded_shape(events)
    spoken = list(_spoken_of(script, arguments, cwd))
    if batch_dim is not None:
        size = shape[batch_dim] if batch_dim < len(shape) else None
        return _facts(size, f"axis {batch_dim} of the recorded batch, as asked for", batch_dim)
    for size, source in spoken:
        # An option of the script may stand above what it declares.
        if not shape:
            return _facts(size, source, None)
        # The samples lie along the first axis, or the second of a sequence-first batch.
        if size in shape[:2]:
            return _facts(size, source, shape.index(size))
    if shape:
        sequences = any(each.get("sequence_first") is True for each in events)
        guessed = sequences and len(shape) in _OF_SEQUENCES and shape[0] != shape[1]
        return _facts(shape[0], "first axis of the recorded batch", 0, guessed=guessed)
    return _facts(None, None, None)


def _facts(
    size: int | None, source: str | None, axis: int | None, *, guessed: bool = False
) -> dict[str, Any]:
    known = source if size is not None else None
    return {
        "batch_size": size,
        "batch_size_source": known,
        "batch_dim": axis,
        "batch_dim_guessed": guessed,
    }


def _spoken_of(script: Path, arguments: Sequence[str], cwd: Path) -> Iterator[tuple[int, str]]:
    """Batch sizes that the script speaks of, and where; what a user chooses first."""
    source = parse(script, read_bytes(script))
    found = config_path(source, arguments)
    if found is not None:
        path = cwd / found[0]
        if (size := _whole(read_config(path).get("batch_size"))) is not None:
            yield size, f"batch_size in {path.name}"
    for _, option, size in in_arguments(arguments):
        yield size, f"{option} of the arguments"
    for one in declared(source):
        name = "batch_size" if one.kind == "keyword" else one.name
        yield one.size, f"{name} in {source.path.name}:{one.node.lineno}"


def _whole(value: object) -> int | None:
    """A positive whole number, else None; True is an int to Python, and no size."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _recorded_shape(events: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """The shape that most samples had; empty when none was recorded."""
    samples = (each for each in events if each.get("event") == "sample")
    shapes = (sample.get("batch_shape") for sample in samples)
    whole = (
        tuple(shape) for shape in shapes if isinstance(shape, list) and all(map(_whole, shape))
    )
    return next((shape for shape, _ in Counter(whole).most_common() if shape), ())
