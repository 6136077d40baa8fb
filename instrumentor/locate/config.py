"""The experiment's YAML: which one a run would read, and whether it asks for several chips."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from instrumentor.locate.model import Reason
from instrumentor.locate.syntax import FUNCTIONS, Source, dotted

_MULTI = "Give the single-chip YAML (mesh_shape null or absent); multi-chip runs are out of scope."


def config_path(source: Source, arguments: Sequence[str]) -> Path | None:
    """The YAML named by `--config`, else the script's own default beside it, if it exists."""
    for position, argument in enumerate(arguments):
        if argument in ("--config", "-c") and position + 1 < len(arguments):
            return Path(arguments[position + 1])
        if argument.startswith("--config="):
            return Path(argument.partition("=")[2])
    for path in default_configs(source):
        return path
    return None


def default_configs(source: Source) -> Iterator[Path]:
    """`Path(__file__).parent / "single_chip" / "x.yaml"` and string defaults ending in .yaml."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            relative = _joined(node)
            if relative is not None and relative.endswith((".yaml", ".yml")):
                path = source.path.parent / relative
                if path.is_file():
                    yield path


def _joined(node: ast.expr) -> str | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left = _joined(node.left)
        if left is None or not isinstance(node.right, ast.Constant):
            return None
        return f"{left}/{node.right.value}".lstrip("/")
    text = dotted(node)
    return "" if text.startswith("Path()") and text.endswith("parent") else None


def read_config(path: Path) -> Mapping[str, object]:
    """The YAML's top level; empty when it is missing, unreadable or no mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return value if isinstance(value, dict) else {}


def mesh_reason(source: Source, arguments: Sequence[str]) -> Reason | None:
    """A set mesh_shape, or a config in a multi-chip folder, declines the run."""
    path = config_path(source, arguments)
    if path is None or not path.is_file():
        return None
    for part in path.parts:
        if part.lower() in ("galaxy", "loudbox", "quietbox"):
            return Reason(path, 1, "multi-chip", f"the configuration lies in a {part} folder: multi-chip", _MULTI)
    if b"mesh_shape" not in path.read_bytes():
        return None
    shape = read_config(path).get("mesh_shape")
    if shape in (None, "", "null", "None", [], False):
        return None
    line = next(
        (n for n, text in enumerate(path.read_text(errors="replace").splitlines(), 1) if text.strip().startswith("mesh_shape")),
        1,
    )
    return Reason(path, line, "multi-chip", f"mesh_shape is {shape!r}: a multi-chip run", _MULTI)


def mesh_default_warning(sources: Sequence[Source]) -> str | None:
    """A config class whose *default* mesh_shape is truthy runs through SPMD unintentionally."""
    for source in sources:
        for cls in source.classes:
            for statement in cls.body:
                if not isinstance(statement, ast.AnnAssign) or dotted(statement.target) != "mesh_shape":
                    continue
                value = statement.value
                if isinstance(value, ast.Call):
                    value = next((k.value for k in value.keywords if k.arg == "default"), value.args[0] if value.args else None)
                if isinstance(value, ast.Constant) and value.value:
                    return (
                        f"{source.path.name}:{statement.lineno}: {cls.name}.mesh_shape defaults to "
                        f"{value.value!r}: a YAML without mesh_shape goes through SPMD on several chips"
                    )
                if isinstance(value, (ast.List, ast.Tuple)) and value.elts:
                    return f"{source.path.name}:{statement.lineno}: {cls.name}.mesh_shape has a default: the run goes through SPMD"
    return None


__all__ = ["FUNCTIONS", "config_path", "mesh_default_warning", "mesh_reason", "read_config"]
