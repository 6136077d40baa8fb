"""What a run started and what of it was measured, as they were typed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def started(run: Mapping[str, Any]) -> list[str]:
    """Script, or `-m` and a module, with the arguments; empty where the run does not tell."""
    command, script, arguments = (run.get(key) for key in ("command", "script", "arguments"))
    words = [str(word) for word in command] if isinstance(command, list) else []
    if not words or not Path(words[0]).name.startswith("python"):
        return []
    own = run.get("own_script")
    if own and words[1:2] != ["-m"]:  # what ran was in a copy that is gone
        return [str(own), *words[2:]]
    if words[1:3] != ["-m", "tracy"]:
        return words[1:]
    # Tracy's own words stand before the script's.
    given = arguments if isinstance(arguments, list) else []
    return [str(script), *map(str, given)] if script else []


def chosen(run: Mapping[str, Any]) -> list[str]:
    """The options that chose what a run measures, such as ``--region train.py:3-9``."""
    words = run.get("chosen")
    return [str(word) for word in words] if isinstance(words, list) else []
