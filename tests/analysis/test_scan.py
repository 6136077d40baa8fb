"""Byte positions of signposts: the same as the parser's, whatever the blocks and rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrumentor_analysis import load as module
from instrumentor_analysis.load import load
from instrumentor_analysis.scan import scan
from instrumentor_analysis.window import signposts_of
from tests.analysis.ops_rows import FIXTURES, Row, header, op, signpost, step, text


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8", newline="")
    return path


def found(path: Path) -> list[tuple[str, int, int | None]]:
    return [(post.name, post.line, post.host_ns) for post in scan(path).signposts]


def parsed(path: Path) -> list[tuple[str, int, int | None]]:
    return [(post.name, post.line, post.host_ns) for post in signposts_of(load(path).frame)]


@pytest.mark.parametrize("name", ["training_v2_1.csv", "replay.csv", "v2_plain.csv"])
def test_signposts_are_those_of_the_parser(name: str) -> None:
    path = FIXTURES / name
    assert found(path) == parsed(path) != []
    for post in scan(path).signposts:
        row = path.read_bytes()[post.start : post.end]
        assert row.startswith(f"{post.name},signpost,".encode())
        assert row.endswith(b"\n")


def test_a_quote_anywhere_hands_over_to_the_parser() -> None:
    scanned = scan(FIXTURES / "locations.csv")
    assert scanned.quoted
    assert scanned.signposts == ()


def test_a_signpost_with_a_message_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", text([signpost("a_start", message="hello; you"), op()]))
    assert [name for name, *_ in found(path)] == ["a_start"]


def test_a_signpost_row_with_unusual_cells_is_found(tmp_path: Path) -> None:
    odd = signpost("step_steady_1_end") | {"PM IDEAL [ns]": "1", "INPUT_0_LAYOUT": "TILE"}
    path = write(tmp_path / "x.csv", text([signpost("step_steady_1_start"), op(), odd, op()]))
    assert [name for name, *_ in found(path)] == ["step_steady_1_start", "step_steady_1_end"]


def test_the_word_in_another_column_is_no_signpost(tmp_path: Path) -> None:
    rows = [op() | {"ATTRIBUTES": "signpost"}, signpost("x"), op("signpost")]
    path = write(tmp_path / "x.csv", text(rows))
    assert [name for name, *_ in found(path)] == ["x"]


def test_few_columns(tmp_path: Path) -> None:
    columns = ("OP CODE", "OP TYPE", "HOST START TS", "DEVICE KERNEL DURATION [ns]")
    path = write(tmp_path / "x.csv", text(step("step_steady_1", [op()]), columns))
    assert found(path) == parsed(path)


rows = st.lists(
    st.one_of(
        st.builds(
            op,
            st.text(st.characters(codec="ascii", exclude_characters='",\r\n\x00', min_codepoint=33),
                    min_size=1, max_size=90).filter(lambda t: t not in _NOT_TEXT),
        ),
        st.sampled_from(
            [signpost(f"step_{n}_{at}") for n in ("compile", "steady_1") for at in ("start", "end")]
        ),
    ),
    max_size=12,
)  # fmt: skip
_NOT_TEXT = {"NA", "N/A", "NULL", "NaN", "None", "nan", "null", "n/a", "#N/A", "#NA", "<NA>",
             "-NaN", "-nan", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN", "#N/A N/A"}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(rows=rows, block=st.integers(30, 700), tail=st.sampled_from(["\r\n", "\n", ""]))
def test_any_file_any_block_size(
    rows: list[Row], block: int, tail: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = text(rows, header()).replace("\r\n", tail or "\n")
    path = write(tmp_path_factory.getbasetemp() / "any.csv", content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert found(path) == parsed(path)
