"""The run's YAML: one key changed, every other byte kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune import yaml_override
from instrumentor.tune.edits import applied
from instrumentor.tune.settings import Value, setting
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable, Target
from tests.tune.scripts import TRAIN, configuration, set_by, target_of

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
        (
            "batch_size: &b 4\nother: *b\n",
            "batch_size cannot be set by its text: .*found undefined",
        ),
        ("batch_size:\n", "batch_size cannot be set without changing something else"),
    ],
)
def test_what_cannot_be_set_by_its_text_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        yaml_override.override(text.encode(), "batch_size", 8)


def target_with(tmp_path: Path, text: str = YAML, path: str = "x.yaml") -> Target:
    """The target of a run with a YAML."""
    return target_of(tmp_path, TRAIN, "--config", path, files={"x.yaml": text})


def set_to(target: Target, name: str, value: Value) -> Changes:
    """The changes of a setting that the YAML has."""
    way = yaml_override.way(target, setting(name))
    assert way is not None
    return set_by(way, value, target)


def test_values_are_told_in_the_settings_words(tmp_path: Path) -> None:
    target = target_with(tmp_path)
    names = ("batch_size", "dtype", "trace", "optimization_level")
    ways = [yaml_override.way(target, setting(name)) for name in names]
    assert [way and way.own and way.own[1:] for way in ways] == [
        (2, 16), (4, "float32"), (5, False), (6, 1),
    ]  # fmt: skip
    assert yaml_override.way(target, setting("accumulation")) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [("float32", "bfloat16"), ("torch.float16", "torch.bfloat16"), ("fp32", "bf16")],
)
def test_a_precision_keeps_the_way_it_is_spelled(tmp_path: Path, old: str, new: str) -> None:
    changes = set_to(target_with(tmp_path, f"dtype: {old}\n"), "dtype", "bfloat16")
    assert dict(changes.variant().files)[tmp_path / "x.yaml"].decode() == f"dtype: {new}\n"


@pytest.mark.parametrize("old", ["null", "8", "mixed"])
def test_an_unknown_precision_is_refused(tmp_path: Path, old: str) -> None:
    with pytest.raises(NotApplicable, match="how bfloat16 is spelled there"):
        set_to(target_with(tmp_path, f"dtype: {old}\n"), "dtype", "bfloat16")


def test_a_path_that_leads_past_the_copy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="absolute path") as refused:
        set_to(target_with(tmp_path, path=str(tmp_path / "x.yaml")), "batch_size", 8)
    assert refused.value.line == 2


def test_several_keys_change_in_one_copy_and_the_original_is_not_touched(tmp_path: Path) -> None:
    one = applied(target_with(tmp_path), configuration(batch_size=8, optimization_level=2))
    assert (tmp_path / "x.yaml").read_text() == YAML
    (new,) = (data.decode() for _, data in one.files)
    assert "batch_size:   8 " in new and "optimization_level: '2'" in new
