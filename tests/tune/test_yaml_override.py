"""The run's YAML: one key changed, every other byte kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune import yaml_override
from instrumentor.tune.settings import BATCH_SIZE, DTYPE, OPTIMIZATION_LEVEL, TRACE
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TRAIN, target_of

YAML = """\
# Training
batch_size:   16   # per chip
model: {batch_size: 8}
dtype: "torch.float32"
enable_trace: false
optimization_level: '1'
note: |
  batch_size: 4
"""


@pytest.mark.parametrize(
    ("key", "value", "line", "new"),
    [
        ("batch_size", 32, 1, "batch_size:   32   # per chip"),
        ("dtype", "torch.bfloat16", 3, 'dtype: "torch.bfloat16"'),
        ("enable_trace", True, 4, "enable_trace: true"),
        ("optimization_level", "2", 5, "optimization_level: '2'"),
    ],
)
def test_one_key_changes_and_nothing_else(
    key: str, value: int | str | bool, line: int, new: str
) -> None:
    lines = YAML.splitlines(keepends=True)
    lines[line] = new + "\n"
    assert yaml_override.override(YAML.encode(), key, value).decode() == "".join(lines)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_newlines_and_byte_order_mark_stay(newline: str, start: str) -> None:
    text = (start + "a: 1  # ä\nbatch_size: 4\n").replace("\n", newline)
    expected = text.replace("size: 4", "size: 8")
    assert yaml_override.override(text.encode(), "batch_size", 8) == expected.encode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\n", "batch_size does not occur exactly once with a plain value"),
        ("batch_size: [1, 2]\n", "batch_size does not occur exactly once"),
        ("batch_size: 1\nbatch_size: 2\n", "batch_size does not occur exactly once"),
        ("- batch_size\n", "batch_size does not occur exactly once"),
        ("batch_size: 4\nb: [\n", "the YAML cannot be read: while parsing"),
        ("batch_size: &b 4\nother: *b\n", "batch_size cannot be set by its text: found undefined"),
        ("batch_size:\n", "batch_size cannot be set without changing something else"),
    ],
)
def test_what_cannot_be_set_by_its_text_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        yaml_override.override(text.encode(), "batch_size", 8)


def test_values_are_told_in_the_settings_words(tmp_path: Path) -> None:
    target = target_of(tmp_path, TRAIN, "--config", "x.yaml", files={"x.yaml": YAML})
    told = {x.name: yaml_override.own_value(target, x) for x in (BATCH_SIZE, DTYPE, TRACE)}
    assert told == {"batch_size": (2, 16), "dtype": (4, "float32"), "trace": (5, False)}
    assert yaml_override.own_value(target, OPTIMIZATION_LEVEL) == (6, 1)


def test_a_precision_keeps_the_way_it_is_spelled(tmp_path: Path) -> None:
    for old, new in {
        "float32": "bfloat16",
        "torch.float16": "torch.bfloat16",
        "fp32": "bf16",
    }.items():
        files = {"x.yaml": f"dtype: {old}\n"}
        target = target_of(tmp_path, TRAIN, "--config=x.yaml", files=files)
        changes = Changes()
        yaml_override.set_value(target, DTYPE, "bfloat16", changes)
        assert dict(changes.variant().files)[tmp_path / "x.yaml"].decode() == f"dtype: {new}\n"


@pytest.mark.parametrize("old", ["null", "8", "mixed"])
def test_an_unknown_precision_is_refused(tmp_path: Path, old: str) -> None:
    target = target_of(tmp_path, TRAIN, "-c", "x.yaml", files={"x.yaml": f"dtype: {old}\n"})
    with pytest.raises(NotApplicable, match="how bfloat16 is spelled there"):
        yaml_override.set_value(target, DTYPE, "bfloat16", Changes())


def test_a_path_that_leads_past_the_copy_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "x.yaml")
    target = target_of(tmp_path, TRAIN, "--config", path, files={"x.yaml": YAML})
    with pytest.raises(NotApplicable, match="absolute path") as refused:
        yaml_override.set_value(target, BATCH_SIZE, 8, Changes())
    assert refused.value.line == 2


def test_the_original_is_not_touched(tmp_path: Path) -> None:
    target = target_of(tmp_path, TRAIN, "--config", "x.yaml", files={"x.yaml": YAML})
    changes = Changes()
    yaml_override.set_value(target, BATCH_SIZE, 8, changes)
    yaml_override.set_value(target, TRACE, True, changes)
    assert (tmp_path / "x.yaml").read_text() == YAML
    (new,) = (data.decode() for _, data in changes.variant().files)
    assert "batch_size:   8 " in new and "enable_trace: true" in new
