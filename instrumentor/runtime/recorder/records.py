"""The file of events: one JSON object a line, appended at once, by the main process alone."""

import os
import sys
import time
from json import dumps
from typing import Any, Dict, Mapping, Optional, Set, Tuple

#: How a value is written that changes from step to step: a clock tells nanoseconds.
FORMATS = {float: "%.9f", str: '"%s"'}


def is_main_process() -> bool:
    """False in a process that multiprocessing made, and while one still imports the script."""
    process = sys.modules.get("multiprocessing.process")
    return process is None or (
        process.parent_process() is None
        and not getattr(process.current_process(), "_inheriting", False)
    )


def launched_as() -> Tuple[Optional[int], int]:
    """(rank, world) of a process whose launcher started all ranks here; (None, 1) of any other.

    torchrun and what is built on it say so in the environment. A world with ranks on other
    machines is none of these: what they do is not recorded.
    """
    try:
        rank, world, here = (int(os.environ[n]) for n in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    except (KeyError, ValueError):
        return None, 1
    return (rank, world) if 1 < world == here and 0 <= rank < world else (None, 1)


class Records:
    """Appends events to the file that INSTRUMENT_RECORD names; without it, to none.

    Attributes:
        active: whether this is the process that measures, not a worker or a fork of it.
        rank: of this process among `world` that a launcher started; None of a process alone. Every
            event bears both.
    """

    def __init__(self) -> None:
        self.rank, self.world = launched_as()
        self.active = is_main_process()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.leave)
        path = os.environ.get("INSTRUMENT_RECORD", "")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self.file = os.open(path, flags, 0o644) if path else None
        self.warned: Set[str] = set()
        self.texts: Dict[str, Tuple[Any, str]] = {}  # of events that come with each step

    def leave(self) -> None:
        """This is a fork of the process that measures: nothing more is recorded in it."""
        self.active = False

    def write(self, event: str, **facts: Any) -> None:
        """Append one event."""
        if self.active:
            self.append({"event": event, **facts})

    def again(
        self, event: str, kept: Dict[str, Any], memory: Mapping[str, int] = {}, /, **changing: Any
    ) -> None:
        """Append an event that comes with each step: as JSON it would cost most of a fast one.

        Args:
            kept: what mostly is as it was the last time.
            memory: bytes, by what they are; left out without any.
            changing: finite numbers, and names of letters, digits and _. Times have the digits of
                a clock, of which all 17 would cost as much as the rest of the line.
        """
        if not self.active or self.file is None:
            return
        before, text = self.texts.get(event, (None, ""))
        shape = kept, [*memory], [*changing]
        if shape != before:
            text = self.line({"event": event, **kept})[:-1].replace("%", "%%")
            sizes = ", ".join('"%s": %%d' % name for name in memory)
            text += ', "memory": {%s}' % sizes if memory else ""
            for name, value in changing.items():
                text += ', "%s": %s' % (name, FORMATS.get(type(value), "%r"))
            text += "}\n"
            self.texts[event] = shape, text
        os.write(self.file, (text % (*memory.values(), *changing.values())).encode())

    def warn(self, text: str, kind: str = "recorder") -> None:
        """Append a warning for the reader of the result, once."""
        if text not in self.warned:
            self.warned.add(text)
            self.write("warning", text=text, kind=kind)

    def load(self, file: str) -> None:
        """Append, in any process, that an instrumented module runs: the copy is what ran."""
        path = os.path.abspath(file) if file else ""
        self.append({"event": "load", "file": path, "time": time.time()})

    def append(self, event: Dict[str, Any]) -> None:
        """Write one line."""
        if self.file is not None:
            # One write a line: O_APPEND keeps lines of several processes whole.
            os.write(self.file, (self.line(event) + "\n").encode())

    def line(self, event: Dict[str, Any]) -> str:
        """An event as JSON."""
        told = {} if self.rank is None else {"rank": self.rank, "world": self.world}
        return dumps({**event, "pid": os.getpid(), **told})
