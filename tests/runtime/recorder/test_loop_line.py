"""The loop's own line, seen by a real trace function."""

from __future__ import annotations

import sys
from typing import Any

from instrumentor.runtime.recorder.loop_line import LoopLine


def test_the_loop_s_line_is_told_once_each_time_it_is_waited_for() -> None:
    seen: list[Any] = []
    loop = LoopLine(lambda frame: seen.append((frame.f_code.co_name, x)))
    for x in range(4):
        loop.body(sys._getframe())
        if x % 2 == 0:
            loop.wait()
        for _ in range(2):  # another loop, below the first line of the body
            assert sys.gettrace() is not None or x % 2
    assert [at for _, at in seen] == [0, 2]
    assert {name for name, _ in seen} == {
        "test_the_loop_s_line_is_told_once_each_time_it_is_waited_for"
    }
    assert sys.gettrace() is None


def test_what_somebody_else_traces_is_left_to_them() -> None:
    def theirs(*_: Any) -> None:
        """Looks at nothing."""

    before = sys.gettrace()
    loop = LoopLine(lambda frame: None)
    loop.body(sys._getframe())
    sys.settrace(theirs)
    try:
        loop.wait()
        loop.off()
        assert sys.gettrace() is theirs
    finally:
        sys.settrace(before)
