"""Byte positions of signposts: the same as the parser's, whatever the rows and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrumentor_analysis.load import ops_csv as module
from instrumentor_analysis.load.ops_csv import load
from instrumentor_analysis.load.rows import BLANKS
from instrumentor_analysis.load.scan import scan
from instrumentor_analysis.ops.window import signposts_of
from tests.analysis.ops_rows import FIXTURES, Row, header, op, signpost, step, text


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8", newline="")
    return path


def found(path: Path) -> list[tuple[str, int, int | None]]:
    """What both find."""
    posts, parsed = scan(path).signposts, signposts_of(load(path).frame)
    mine, theirs = (
        [(post.name, post.line, post.host_ns) for post in each] for each in (posts, parsed)
    )
    assert mine == theirs
    return mine


@pytest.mark.parametrize("name", ["training_v2_1.csv", "replay.csv", "v2_plain.csv"])
def test_signposts_are_those_of_the_parser(name: str) -> None:
    path = FIXTURES / name
    assert found(path)
    for post in scan(path).signposts:
        row = path.read_bytes()[post.start : post.end]
        assert row.startswith(f"{post.name},signpost,".encode())
        assert row.endswith(b"\n")


def test_a_quote_anywhere_hands_over_to_the_parser() -> None:
    scanned = scan(FIXTURES / "locations.csv")
    assert scanned.quoted
    assert scanned.signposts == ()


ODD = signpost("x") | {"PM IDEAL [ns]": "1", "INPUT_0_LAYOUT": "TILE"}


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([signpost("x", message="hello; you"), op()], header()),
        ([op(), ODD], header()),
        # The word in another column is no signpost.
        ([op() | {"ATTRIBUTES": "signpost"}, signpost("x"), op("signpost")], header()),
        ([op(), signpost("x")], [*header()[2:], *header()[:2]]),
        (
            [signpost("x"), op()],
            ("OP CODE", "OP TYPE", "HOST START TS", "DEVICE KERNEL DURATION [ns]"),
        ),
    ],
)
def test_unusual_rows_and_columns(tmp_path: Path, rows: list[Row], columns: Sequence[str]) -> None:
    assert [name for name, *_ in found(write(tmp_path / "x.csv", text(rows, columns)))] == ["x"]


words = st.text(
    st.characters(codec="ascii", exclude_characters='",\r\n\x00', min_codepoint=33),
    min_size=1, max_size=90,
).filter(lambda text: text not in BLANKS)  # fmt: skip
posts = [row for name in ("step_compile", "step_steady_1") for row in step(name, [])]
rows = st.lists(st.one_of(st.builds(op, words), st.sampled_from(posts)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(rows=rows, block=st.integers(30, 700), tail=st.sampled_from(["\r\n", "\n", ""]))
def test_any_file_any_block_size(
    rows: list[Row], block: int, tail: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = text(rows, header()).replace("\r\n", tail or "\n")
    content = content if tail else content.removesuffix("\n")
    path = write(tmp_path_factory.getbasetemp() / "any.csv", content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        found(path)
