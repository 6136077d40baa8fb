"""Tells when a loop has come back to its own line, for its next item: by a trace function.

It is on from where it is asked for to there alone, and looks into no other function.
"""

import sys
from typing import Any, Callable


class LoopLine:
    """Waits for the line of a loop whose body is known.

    Args:
        told: is given the frame of the loop, and may say where it goes on.

    Attributes:
        frame: of the loop.
        line: the first of its body; that of the loop lies above.
    """

    def __init__(self, told: Callable[[Any], None]) -> None:
        self.told = told
        self.frame: Any = None
        self.line = 0

    def body(self, frame: Any) -> None:
        """This is the frame of the loop, at the first line of its body."""
        self.frame, self.line = frame, frame.f_lineno

    def wait(self) -> None:
        """Wait for the loop's line, unless someone else traces the script."""
        if self.frame is not None and sys.gettrace() is None:
            self.frame.f_trace = self.reached
            sys.settrace(self.ignore)

    def off(self) -> None:
        """Wait no more."""
        # Bound methods are equal, not identical.
        if sys.gettrace() == self.ignore:
            sys.settrace(None)
        if self.frame is not None:
            self.frame.f_trace, self.frame = None, None

    def ignore(self, frame: Any, event: str, argument: Any) -> None:
        """Other functions are not looked into."""

    def reached(self, frame: Any, event: str, argument: Any) -> Any:
        """A line ahead of the body is the loop's own: the next item is asked for."""
        if event != "line" or frame.f_lineno >= self.line:
            return self.reached
        self.told(frame)  # where a frame goes on can be set only while it is traced
        self.off()
        return None
