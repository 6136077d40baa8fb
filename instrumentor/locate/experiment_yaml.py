"""The experiment's YAML: which one a run would read, and whether it asks for several chips."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from instrumentor.locate.located import Reason
from instrumentor.locate.rules.several_chips import (
    MultiChipConfig,
    MultiChipFolder,
    MultiChipMesh,
)
from instrumentor.read.bindings import Bindings
from instrumentor.read.syntax import Source, argument, dotted
from instrumentor.read.written_texts import path_of
from instrumentor.shared.errors import UsageError
from instrumentor.shared.yaml_text import TooMuch, read_yaml
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.files import SETTINGS_BYTES, Unfit, read_bytes

_MOST_CHIPS = 1_000_000
_MULTI_CHIP = ("galaxy", "loudbox", "quietbox", "tg", "multi_chip", "multichip")
# A key of a mesh that is not plainly null: only then is the YAML library loaded.
_MESH_KEY = r"['\"]?mesh(_shape)?['\"]?[^\S\n]*:"
_SET_MESH = re.compile(rf"{_MESH_KEY}(?![^\S\n]*(null|~)[^\S\n]*(#.*)?$)".encode(), re.M)


def folder_reason(script: Path) -> Reason | None:
    """Multi-chip experiments are kept in folders of the machine's name."""
    part = _multi_chip(script)
    return MultiChipFolder.of(script, part=part) if part else None


def _multi_chip(path: Path) -> str:
    """The folder of a path that is named after a machine of several chips, or ''."""
    return next((part for part in path.parts[:-1] if part.lower() in _MULTI_CHIP), "")


def config_path(source: Source, arguments: Sequence[str]) -> tuple[Path, int] | None:
    """The YAML named by `--config` (line 0), else the script's default and the line naming it."""
    for position, given in enumerate(arguments):
        if given in ("--config", "-c") and position + 1 < len(arguments):
            return Path(arguments[position + 1]), 0
        if given.startswith("--config="):
            return Path(given.partition("=")[2]), 0
    return next(_default_configs(source), None)


def _default_configs(source: Source) -> Iterator[tuple[Path, int]]:
    """YAML files that the script names by its own place, with the line; they may be absent."""
    if b"__file__" in source.data and re.search(rb"\.ya?ml", source.data):
        bindings = Bindings(source)
        for node in source.nodes:
            if isinstance(node, (ast.BinOp, ast.Call)):
                path = path_of(bindings, source.scope_of(node), node)
                if path is not None and path.suffix in (".yaml", ".yml"):
                    yield path, node.lineno


def read_config(path: Path) -> Mapping[str, object]:
    """The YAML's top level; empty when it is missing, unreadable or no mapping.

    Raises:
        UsageError: it is more than is read of one.
    """
    try:
        value = read_yaml(_bytes(path).decode("utf-8-sig"))
    except TooMuch as error:
        raise UsageError(f"{path}: the configuration {error}") from error
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _bytes(path: Path) -> bytes:
    """Of a configuration.

    Raises:
        OSError: it cannot be read.
        UsageError: it is larger than any, or no file.
    """
    try:
        return read_bytes(path, SETTINGS_BYTES)
    except Unfit as error:
        raise UsageError(f"{path}: the configuration {error.strerror}") from error


def mesh_reason(source: Source, arguments: Sequence[str]) -> Reason | None:
    """A mesh of several chips, or a config in a multi-chip folder, declines the run."""
    found = config_path(source, arguments)
    if found is None:
        return None
    path, named_at = found
    folder = source.path.parent
    relative = path.relative_to(folder) if path.is_relative_to(folder) else path
    part = _multi_chip(relative)
    if part:
        where, line = (source.path, named_at) if named_at else (path, 1)
        return MultiChipConfig.of(where, line, path=relative, part=part)
    if not path.is_file() or not _SET_MESH.search(_bytes(path)):
        return None
    for key, shape in _meshes(read_config(path)):
        lines = _bytes(path).decode("utf-8", "replace").splitlines()
        line = next((n for n, t in enumerate(lines, 1) if re.search(_MESH_KEY, t)), 1)
        return MultiChipMesh.of(path, line, key=key, shape=shape)
    return None


def chips_of(config: Mapping[str, object]) -> int:
    """Chips that a configuration asks for; 1 without a mesh, 2 where it cannot be read of how many.

    Args:
        config: as :func:`read_config` gives it.
    """
    most = max((_chips(shape) for _, shape in _meshes(config)), default=1)
    return 2 if math.isinf(most) else int(most)


def _meshes(value: object) -> Iterator[tuple[str, object]]:
    """Shapes of more than one chip: `mesh_shape`, or the shape of a `mesh:` block, at any depth."""
    if isinstance(value, list):
        for part in value:
            yield from _meshes(part)
    if not isinstance(value, dict):
        return
    for key, part in value.items():
        shape = part.get("shape") if key == "mesh" and isinstance(part, dict) else part
        if key in ("mesh", "mesh_shape") and not isinstance(shape, dict):
            if _chips(shape) > 1:
                yield str(key), shape
        else:
            yield from _meshes(part)


def _chips(shape: object) -> float:
    """Chips of a mesh; 1 where none is set, infinitely many where that cannot be read."""
    if shape in (None, "", "null", "None", [], False):
        return 1
    sizes = re.split(r"[,x\s]+", shape.strip("()[] ")) if isinstance(shape, str) else shape
    try:
        chips = math.prod(int(size) for size in (sizes if isinstance(sizes, list) else [sizes]))
    except (TypeError, ValueError, OverflowError):
        return math.inf
    return chips if abs(chips) < _MOST_CHIPS else math.inf


def mesh_default_warning(sources: Sequence[Source]) -> Caveat | None:
    """A config class whose *default* mesh_shape is truthy runs through SPMD unintentionally."""
    classes = [(source, cls) for source in sources for cls in source.classes]
    for source, cls, field in ((s, c, f) for s, c in classes for f in c.body):
        shape = _default(field) if isinstance(field, ast.AnnAssign) else ""
        if shape:
            return Caveat(
                "mesh-default",
                f"{cls.name}.mesh_shape defaults to {shape}, so a YAML without mesh_shape runs "
                "on several chips (SPMD).",
                place=source.at(field.lineno),
            )
    return None


def _default(field: ast.AnnAssign) -> str:
    """The mesh that a field sets unless it is told otherwise, as written; '' for none."""
    value = field.value if dotted(field.target) == "mesh_shape" else None
    if isinstance(value, ast.Call):
        value = argument(value, "default", at=0)
    sizes = getattr(value, "value", None) or getattr(value, "elts", None)
    literal = isinstance(value, (ast.Constant, ast.List, ast.Tuple))
    return ast.unparse(value) if value is not None and literal and sizes else ""
