"""Where in the user's own code something happened."""

import os
import re
from typing import Any, Iterable, List, Tuple

Place = Tuple[str, int, str]  # file, line, function

FRAME = re.compile(r'\s*File "(.*)", line (\d+), in (.*)')
LIBRARIES = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
STANDARD = os.path.dirname(os.__file__) + os.sep


def is_users(file: str, function: str) -> bool:
    """Whether code is neither an installed package's, nor Python's own, nor the watch's."""
    if file.startswith(("<", STANDARD)) or function.startswith("instrument_"):
        return False
    return not any(part in file for part in LIBRARIES)


def places_of(frame: Any) -> List[Place]:
    """The user's places on a stack, innermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename, code.co_name):
            found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return found


def places_in(lines: Iterable[str]) -> List[Place]:
    """The same of a formatted stack, as the anomaly mode keeps it."""
    matches = [FRAME.match(line) for line in lines]
    found = [(m.group(1), int(m.group(2)), m.group(3).strip()) for m in matches if m is not None]
    return [place for place in reversed(found) if is_users(place[0], place[2])]
