"""Kinds of lines, and the way back from the text alone."""

from __future__ import annotations

from instrumentor.rewrite.line_format import Line, classify, strip, switch_off


def test_the_kind_of_each_line() -> None:
    lines = [
        (Line.ORIGINAL, b"a()\n"),
        (Line.OURS, b"  # [instrument] begin\n"),
        (Line.OURS, b"b()\n"),
        (Line.OURS, b"# [instrument] begin\n"),
        (Line.OURS, b"# [instrument] end\n"),
        (Line.OURS, b"c()\n"),
        (Line.OURS, b"# [instrument] end\r\n"),
        (Line.OFF, b" \t\x0c# [instrument] off| d()\n"),
        (Line.OURS, b"e()  # [instrument]\n"),
        (Line.ORIGINAL, b"f()"),
    ]
    assert list(classify(line for _, line in lines)) == lines


def test_a_line_is_switched_off_behind_its_indentation() -> None:
    assert switch_off(" \t\x0ca = 1  # b\n") == " \t\x0c# [instrument] off| a = 1  # b\n"
    assert switch_off("\n") == "# [instrument] off| \n"
    assert strip(switch_off(" a\n").encode()) == b" a\n"


def test_a_file_of_inserted_lines_alone_is_an_empty_one() -> None:
    assert strip(b"a()  # [instrument]") == b""
    assert strip(b"\xef\xbb\xbfa()  # [instrument]\n") == b"\xef\xbb\xbf"


def test_a_last_line_has_a_newline_where_the_file_has_one() -> None:
    assert strip(b"a()\nb()  # [instrument]\n") == b"a()\n"
    assert strip(b"a()\r\nb()  # [instrument]") == b"a()"
    assert strip(b"a()\rb()  # [instrument]\r") == b"a()\r"
    assert strip(b"b()  # [instrument]\na()") == b"a()"
