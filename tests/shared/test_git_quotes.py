"""Names in quotes, as git writes and reads them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instrumentor.shared.git_quotes import quoted, unquoted


@given(st.binary())
def test_a_name_in_quotes_is_one_line_and_read_back(name: bytes) -> None:
    assert not any(byte < 32 or byte == 127 for byte in quoted(name))
    assert unquoted(quoted(name)) == name


def test_what_git_itself_writes_is_read() -> None:
    assert unquoted(b'"a\\n\\t\\015\\"b\\\\"') == b'a\n\t\r"b\\'
    assert unquoted(b'plain "name') == b'plain "name'
    assert unquoted(b'"') == b'"'
