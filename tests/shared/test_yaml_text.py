"""A repository's YAML takes neither the memory nor the time of this machine."""

from __future__ import annotations

import pytest
import yaml

from instrumentor.shared.yaml_text import TooMuch, read_yaml


def doubled(kind: str) -> str:
    """Forty lines, each of which names the one above it twice."""
    lines = ["a0: &a0 {k: 1}"]
    for n in range(1, 40):
        twice = f"[*a{n - 1} , *a{n - 1} ]"
        lines.append(f"a{n}: &a{n} " + (twice if kind == "list" else f"{{<<: {twice}}}"))
    return "\n".join(lines)


def test_what_a_text_says() -> None:
    text = "a: &a [1, &x 'x']\nb: *a\nc: {<<: {d: 1.5}, e: ~, f: *x }\n"
    c = {"d": 1.5, "e": None, "f": "x"}
    assert read_yaml(text) == {"a": [1, "x"], "b": [1, "x"], "c": c}
    assert read_yaml("") is None
    assert read_yaml(f"a: '{'x' * 10_000}'") == {"a": "x" * 10_000}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (doubled("list"), "more than 50,000 values"),
        (doubled("merge"), "more than 50,000 values"),
        ("a: [" + "1," * 60_000 + "]", "more than 50,000 values"),
        ("a: [" + "[]," * 60_000 + "]", "more than 50,000 values"),
        ("a: &a 1\nb: [" + "*a ," * 60_000 + "]", "more than 50,000 values"),
        ("a: &a [*a ]", "holds itself"),
        ("a: &a {b: {c: *a }}", "holds itself"),
        ("[" * 101 + "]" * 101, "nested more than 100"),
        ("a: " + "1" * 5000, "4,096 characters"),
        ("a: 1" + ":10" * 5000, "4,096 characters"),
        ('a: !!int "1' + ":10" * 5000 + '"', "4,096 characters"),
        ("#" * (1 << 20) + "#", "larger than 1 MiB"),
    ],
    ids=lambda text: text[:12],
)
def test_more_than_any_experiment_has(text: str, said: str) -> None:
    with pytest.raises(TooMuch, match=said):
        read_yaml(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: [", "a: *b ", "a: 2020-99-99", "a: !!int x", "a: !!bool x", "a: !!timestamp x",
        "a: !!float x", "a: !!python/object/apply:os.system [x]", "? [a]\n: b", "\0", "a: !!int",
        "a: !!python/name:os.system", "a: !!timestamp {=: 1}", "a: " + "1:" * 400 + "1.5",
        'a: !!int {=: "1' + ":10" * 5000 + '"}', 'b: &b "1' + ":10" * 5000 + '"\na: !!int {=: *b }',
    ],
)  # fmt: skip
@pytest.mark.parametrize("without", [None, "CSafeLoader"])
def test_no_yaml_is_one_kind_of_error(
    text: str, without: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without:  # some builds of PyYAML
        monkeypatch.delattr(yaml, without)
    with pytest.raises(ValueError, match="cannot be read"):
        read_yaml(text)
