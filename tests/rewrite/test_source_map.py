"""From lines of the text that ran to lines of the original: places, and whole tracebacks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import instrumentor
from instrumentor.rewrite.line_format import strip
from instrumentor.rewrite.source_map import SourceMap, original_lines

ORIGINAL = b"a = 1\nb = f(\n    a)\nc = 3\n"
INSTRUMENTED = b"""\
# [instrument] begin
import recorder
# [instrument] end
a = 1
start()  # [instrument]
# [instrument] off| b = f(
    # [instrument] off| a)
b = 2  # [instrument]
c = 3
"""
MAP = SourceMap(Path("/copy"), Path("/own"), {Path("/own/train.py"): INSTRUMENTED})


def test_lines_of_the_original_and_of_what_replaces_one() -> None:
    assert strip(INSTRUMENTED) == ORIGINAL
    assert original_lines(INSTRUMENTED) == {4: 1, 6: 2, 7: 3, 8: 3, 9: 4}
    assert original_lines(ORIGINAL) == {1: 1, 2: 2, 3: 3, 4: 4}


def test_places_in_the_copy_are_places_of_the_user() -> None:
    own = Path("/own/train.py")
    assert MAP.place(Path("/copy/train.py"), 9) == (own, 4)
    assert MAP.place(Path("/copy/train.py"), 5) is None
    assert MAP.place(Path("/copy/net.py"), 5) == (Path("/own/net.py"), 5)
    assert MAP.place(Path("/lib/net.py"), 5) is None
    assert MAP.place(Path("/copy/../lib/net.py"), 5) is None


def test_places_in_a_text() -> None:
    text = "at /copy/train.py:9: /copy/train.py:5, '/lib/net.py:7' and (/copy/net.py:7)"
    said = "at /own/train.py:4: /copy/train.py:5, '/lib/net.py:7' and (/own/net.py:7)"
    # A bracket ahead of a path is no part of it.
    assert MAP.places(text) == said


def test_a_traceback_shows_the_frames_that_the_user_has_written() -> None:
    runtime = Path(instrumentor.__file__).resolve().parent / "runtime"
    text = f"""\
Traceback (most recent call last):
  File "<frozen runpy>", line 88, in _run_code
  File "{runtime}/launch.py", line 7, in main
    run()
    ^^^^^
  File "/copy/train.py", line 9, in <module>
    c = 3
        ^
  File "/copy/train.py", line 5, in <module>
    start()  # [instrument]
    ^^^^^^^
  File "/copy/train.py", line 2, in <module>
    import recorder
  File "/lib/net.py", line 7, in forward
    raise ValueError
  File "/copy/net.py", line 7
ValueError: at /copy/train.py:4
  of two lines
"""
    assert (
        MAP.traceback(text)
        == """\
Traceback (most recent call last):
  File "/own/train.py", line 4, in <module>
    c = 3
        ^
  File "/lib/net.py", line 7, in forward
    raise ValueError
  File "/own/net.py", line 7
ValueError: at /own/train.py:1
  of two lines"""
    )


def test_a_line_of_the_copy_alone_goes_with_its_carets() -> None:
    text = """\
SyntaxError: a word
    begin()  # [instrument]
    ^^^^^
   of two lines
    and more"""
    assert MAP.traceback(text).splitlines() == [
        "SyntaxError: a word",
        "   of two lines",
        "    and more",
    ]


RAISED = """\
Traceback (most recent call last):
  File "/copy/train.py", line 4, in <module>
    a = 1
{frame}
ValueError: no
"""


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        ('  File "/copy/train.py", line 9, in f', 4),
        ('  File "/lib/torch.py", line 9, in f', 1),
        ('  File "/copy/train.py", line 5, in f', None),
        ('  File "/scratch/recorder/_instrument_recorder.py", line 9, in f', None),
    ],
    ids=["script", "library", "inserted", "recorder"],
)
def test_an_exception_is_the_scripts_where_no_inserted_code_led_to_it(
    frame: str, line: int | None
) -> None:
    expected = None if line is None else (Path("/own/train.py"), line)
    assert MAP.raised_at(RAISED.format(frame=frame)) == expected
    assert MAP.raised_at("usage: train.py [-h]") is None


def test_what_starts_the_script_is_no_part_of_its_traceback() -> None:
    own = dataclasses.replace(MAP, scratch=Path("/scratch"))
    frames = RAISED.replace(
        "last):\n", 'last):\n  File "/scratch/launch.py", line 1, in run\n    go()\n'
    )
    recorder = '  File "/scratch/recorder/_instrument_recorder.py", line 9, in f'
    said = own.traceback(frames.format(frame=recorder))
    assert "launch" not in said and "go()" not in said and recorder in said
