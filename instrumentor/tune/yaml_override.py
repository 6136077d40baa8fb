"""A key of the run's YAML set to another value; every other byte of the file stays.

The place of the value is asked of the YAML parser, and that the new file says what the old one
said but for this key is checked by reading both.
"""

from __future__ import annotations

import re
from typing import Any

from instrumentor.tune.settings import DTYPE, Setting, Value
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import Config, NotApplicable, Target

_PRECISIONS = {"float32": "bfloat16", "float16": "bfloat16", "fp32": "bf16", "fp16": "bf16"}


def own_value(target: Target, setting: Setting) -> tuple[int, Value | None] | None:
    """Line and value of a setting's key in the YAML; None when the YAML does not have it.

    The value is in the setting's own words, None where it says nothing that can be compared.
    """
    found = _find(target.config, setting.yaml_key)
    if found is None:
        return None
    line, value = found
    if setting is DTYPE:
        words = str(value)
        return line, "bfloat16" if re.search(r"bf(loat)?16", words) else words.split(".")[-1]
    if isinstance(setting.values[0], bool):
        return line, str(value).lower() in ("true", "1")
    if isinstance(setting.values[0], int):
        return line, int(value) if str(value).isdigit() else None
    return line, str(value)


def set_value(target: Target, setting: Setting, value: Value, changes: Changes) -> None:
    """Set a setting's key in the copy of the YAML.

    Raises:
        NotApplicable: the file cannot be changed so, or not in a way that the run would see.
    """
    config = target.config
    found = _find(config, setting.yaml_key)
    assert config is not None and found is not None
    line, old = found
    if config.why_not:
        raise NotApplicable(config.path, line, config.why_not, "Give it relative to the project.")
    data = changes.data_of(config.path)
    try:
        new = override(data, setting.yaml_key, _spelled(setting, value, old))
    except ValueError as error:
        raise NotApplicable(config.path, line, str(error)) from error
    changes.file(config.path, new)


def override(data: bytes, key: str, value: Any) -> bytes:
    """The YAML with another value for one of its top-level keys.

    Raises:
        ValueError: the key is not there once with a plain value, or no text for it can be found.
    """
    import yaml

    text = data.decode("utf-8-sig")
    try:
        root, before = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"the YAML cannot be read: {error}") from error
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    nodes = [v for k, v in pairs if getattr(k, "value", None) == key]
    if len(nodes) != 1 or not isinstance(nodes[0], yaml.ScalarNode):
        raise ValueError(f"{key} does not occur exactly once with a plain value")
    node = nodes[0]
    quote = node.style if node.style in ("'", '"') else ""
    spelled = ("true" if value else "false") if isinstance(value, bool) else str(value)
    new = text[: node.start_mark.index] + quote + spelled + quote + text[node.end_mark.index :]
    try:
        after = yaml.safe_load(new)
    except yaml.YAMLError as error:
        raise ValueError(f"{key} cannot be set by its text: {error}") from error
    if after != {**before, key: value}:
        raise ValueError(f"{key} cannot be set without changing something else")
    return data[: len(data) - len(text.encode())] + new.encode()


def _find(config: Config | None, key: str) -> tuple[int, Any] | None:
    """Line and value of a top-level key."""
    if config is None or not key:
        return None
    from instrumentor.locate.config import read_config

    values = read_config(config.path)
    if key not in values:
        return None
    lines = config.path.read_text(encoding="utf-8", errors="replace").splitlines()
    pattern = re.compile(rf"['\"]?{re.escape(key)}['\"]?\s*:")
    line = next((n for n, text in enumerate(lines, 1) if pattern.match(text)), 1)
    return line, values[key]


def _spelled(setting: Setting, value: Value, old: Any) -> Any:
    """The value as the file writes such values."""
    if setting is DTYPE:
        for word, new in _PRECISIONS.items():
            if isinstance(old, str) and re.search(rf"(?<![a-z]){word}$", old):
                return re.sub(rf"{word}$", new, old)
        raise ValueError(f"dtype is {old!r}: how bfloat16 is spelled there is unknown")
    if isinstance(old, str):
        return ("true" if value else "false") if isinstance(value, bool) else str(value)
    return value
