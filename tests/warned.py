"""Warnings as the sentences that a reader sees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from instrumentor_analysis.shared.caveats import Caveat, read_caveats


def texts(warnings: Iterable[Caveat] | list[Any]) -> list[str]:
    """Of an object's ``warnings``, or of those of a JSON document."""
    listed = list(warnings)
    found = listed if all(isinstance(each, Caveat) for each in listed) else read_caveats(listed)
    return [str(each) for each in found]
