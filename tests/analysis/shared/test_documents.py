"""JSON of others in values that every reader can handle."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from msgspec import Struct, ValidationError

from instrumentor_analysis.shared import documents
from instrumentor_analysis.shared.documents import (
    converted,
    fitted,
    listed,
    number,
    object_in,
    parsed,
    plain,
    read,
    sound,
)


class Figure(Struct):
    name: str
    ms: float = 1.0
    note: str = ""


def test_what_json_has_is_what_python_makes_of_it() -> None:
    assert parsed('{"a": [1, 2.5, true, null, "\\ud83d\\ude00 \\u00e9"]}') == {
        "a": [1, 2.5, True, None, "\U0001f600 é"]
    }
    (widest,) = parsed(b"[-9223372036854775807]")  # a time in nanoseconds has 19 digits
    assert widest == -9223372036854775807 and isinstance(widest, int)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a":' * 50_000, b"\xff", b'"\xed\xa0\x80"']
)
def test_what_is_no_document_of_ours_is_one_kind_of_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parsed(text)


@pytest.mark.parametrize("digits", [19, 20, 400, 5000])
def test_a_number_of_many_digits_is_a_float(digits: int) -> None:
    text = f"[{'9' * digits}, -{'9' * digits}, 7, 0]"
    found, below, *small = parsed(text, infinite=True)
    assert isinstance(found, float) and below == -found
    assert small == [7, 0] and all(isinstance(each, int) for each in small)
    assert parsed(text) == ([None, None, 7, 0] if math.isinf(found) else [found, below, 7, 0])


def test_what_is_no_figure_is_none_as_we_write_it() -> None:
    text = "[NaN, Infinity, -Infinity, 1e400, 1e300, 1.5]"
    assert parsed(text) == [None, None, None, None, None, 1.5]
    assert repr(parsed(text, infinite=True)) == "[nan, inf, -inf, inf, inf, 1.5]"


@pytest.mark.parametrize("text", ["1e300", "1E300", "1e+300", "1e-300", "9E-31"])
def test_however_a_figure_is_written(text: str) -> None:
    assert parsed(f"[{text}]") == ([0] if "-" in text else [None])


def test_what_nothing_is_as_large_or_as_small_as_is_no_figure() -> None:
    """Sums, ratios and squares of what is left are finite."""
    whole = "1" + "0" * 101
    text = f"[1e99, 1e-29, 1e101, -1e101, 1e-31, -5e-324, {whole}, -{whole}, 0, 0.0]"
    assert parsed(text) == [1e99, 1e-29, None, None, 0, 0, None, None, 0, 0.0]
    beyond = parsed(text, infinite=True)
    assert beyond[2:8] == [math.inf, -math.inf, 0, 0, math.inf, -math.inf]


def test_what_no_text_holds_is_replaced_and_bytes_of_a_name_stay() -> None:
    found = parsed('{"\\ud800": ["a\\udfff", {"b": "\\u0000"}], "name": "\\udcff"}')
    assert found == {"\ufffd": ["a\ufffd", {"b": "\ufffd"}], "name": "\udcff"}
    assert parsed('["a\ud800"]') == ["a\ufffd"]  # of a text that was read with halves in it


def test_of_a_file_that_is_none_there_is_no_object(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    assert object_in(path) == {}
    for text in ("[1]", "{", "1" * 10_000):
        path.write_text(text)
        assert object_in(path) == {}
    path.write_text('{"a": 1}')
    assert object_in(path) == {"a": 1} == read(path)


@pytest.mark.usefixtures("no_hang")
def test_a_file_is_read_through_the_door(tmp_path: Path) -> None:
    (tmp_path / "long.json").write_text("[1, 2]")
    with pytest.raises(OSError, match="is larger than"):
        read(tmp_path / "long.json", 5)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(OSError, match="is a pipe"):
        read(tmp_path / "pipe.json")


def test_what_is_written_is_json_of_any_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LONGEST", 3)
    cut = "abc… (4 characters)"
    made = plain({"abcd": ["abcd", math.nan, -math.inf, 1.5, True], 1: Figure("abcd", math.inf)})
    figure = {"name": cut, "ms": None, "note": ""}
    assert made == {cut: [cut, None, None, 1.5, True], "1": figure}
    assert plain(("abc",)) == ["abc"]


def test_a_value_of_another_type_is_left_out() -> None:
    shapes = {"a": int, "b": str}
    assert sound({"a": "1", "b": "x", "c": []}, shapes) == {"b": "x", "c": []}
    assert [number(each) for each in (1, 2.5, True, "3", None, math.inf, math.nan)] == [
        *(1.0, 2.5, None, None, None, None, None),
    ]


def test_what_a_document_lacks_has_its_default() -> None:
    assert fitted({"name": "x", "ms": 2.0}, Figure) == Figure("x", 2.0)
    assert fitted({"ms": "fast", "note": "n"}, Figure, name="usual") == Figure("usual", note="n")
    assert fitted({"name": None}, Figure, name="usual") == Figure("usual")
    assert fitted({"ms": "\udcff"}, Figure, name="usual") == Figure("usual")


def test_a_name_that_is_no_text_is_the_usual_error() -> None:
    for text in ("\udcff", "1"):
        with pytest.raises(ValidationError):
            converted([text], list[float])


def test_a_document_of_more_parts_than_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of nothing takes fifty times its two characters."""
    monkeypatch.setattr(documents, "_LARGE", 100)
    monkeypatch.setattr(documents, "MOST_PARTS", 60)
    assert len(documents.parsed("[" + "[]," * 50 + "1]")) == 51
    for part in ("[],", "{},"):
        with pytest.raises(ValueError, match="more than 60 parts"):
            documents.parsed("[" + part * 60 + "1]")


def test_of_many_names_a_few_are_listed() -> None:
    assert listed("abc") == "a, b, c"
    assert listed("abcdef", 2) == "a, b and 4 more"
