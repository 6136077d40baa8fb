"""A key of the run's YAML set to another value; every other byte of the file stays.

The place of the value is asked of the YAML parser, and that the new file says what the old one
said but for this key is checked by reading both.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from instrumentor.locate.experiment_yaml import read_config
from instrumentor.shared.yaml_text import read_yaml
from instrumentor.tune.settings import DTYPE, Setting, Value
from instrumentor.tune.statements import Changes, Way
from instrumentor.tune.target import NotApplicable, Target
from instrumentor_analysis.shared.files import read_text

_PRECISIONS = {"float32": "bfloat16", "float16": "bfloat16", "fp32": "bf16", "fp16": "bf16"}


def way(target: Target, setting: Setting) -> Way | None:
    """How a setting acts by its key in the YAML; None where the YAML does not have that key."""
    config, key = target.config, setting.yaml_key
    values = read_config(config.path) if config is not None and key else {}
    if config is None or key not in values:
        return None
    lines = read_text(config.path, "replace").splitlines()
    pattern = re.compile(rf"['\"]?{re.escape(key)}['\"]?\s*:")
    line = next((n for n, text in enumerate(lines, 1) if pattern.match(text)), 1)

    def apply(value: Value, changes: Changes) -> None:
        if config.why_not:
            hint = "Give it relative to the project."
            raise NotApplicable(config.path, line, config.why_not, hint)
        try:
            spelled = _spelled(setting, value, values[key])
            changes.rewrite(config.path, partial(override, key=key, value=spelled))
        except ValueError as error:
            raise NotApplicable(config.path, line, str(error)) from error

    own = config.path, line, _in_words(setting, values[key])
    return Way(f"{key} in {config.path.name}", own, apply)


def _in_words(setting: Setting, value: object) -> Value | None:
    """A value in the setting's own words; None where it says nothing that can be compared."""
    text = str(value)
    if setting is DTYPE:
        return "bfloat16" if re.search(r"bf(loat)?16", text) else text.split(".")[-1]
    if isinstance(setting.values[0], bool):
        return text.lower() in ("true", "1")
    if isinstance(setting.values[0], int):
        return int(text) if text.isdigit() else None
    return text


def _spelled(setting: Setting, value: Value, old: Any) -> Any:
    """The value as the file writes such values."""
    if setting is DTYPE:
        for word, new in _PRECISIONS.items():
            # The look-behind: `bfloat16` ends in `float16` too.
            if isinstance(old, str) and re.search(rf"(?<![a-z]){word}$", old):
                return re.sub(rf"{word}$", new, old)
        raise ValueError(f"dtype is {old!r}: how bfloat16 is spelled there is unknown")
    return _text(value) if isinstance(old, str) else value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def override(data: bytes, key: str, value: Any) -> bytes:
    """The YAML with another value for one of its top-level keys.

    Args:
        value: as the file spells such values; it is quoted as the old one was.

    Raises:
        ValueError: the key is not there once with a plain value, or no text for it can be found.
    """
    import yaml

    text = data.decode("utf-8-sig")
    before = read_yaml(text)
    root = yaml.compose(text, yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    nodes = [v for k, v in pairs if getattr(k, "value", None) == key]
    if len(nodes) != 1 or not isinstance(nodes[0], yaml.ScalarNode):
        raise ValueError(f"{key} does not occur exactly once with a plain value")
    node = nodes[0]
    quote = node.style if node.style in ("'", '"') else ""
    spelled = f"{quote}{_text(value)}{quote}"
    new = text[: node.start_mark.index] + spelled + text[node.end_mark.index :]
    try:
        after = read_yaml(new)
    except ValueError as error:
        raise ValueError(f"{key} cannot be set by its text: {error}") from error
    if after != {**before, key: value}:  # an anchor, an empty value: the text means more than it
        raise ValueError(f"{key} cannot be set without changing something else")
    # utf-8-sig took a byte order mark off, which goes back in front.
    return data[: len(data) - len(text.encode())] + new.encode()
