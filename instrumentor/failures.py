"""The table of known failures, read from data/failures.yaml, the most specific row first."""

from __future__ import annotations

import re
from functools import cache, cached_property
from pathlib import Path

from msgspec import Struct

TABLE = Path(__file__).parent / "data" / "failures.yaml"


class Failure(Struct, frozen=True, dict=True):
    """A row of the table; its comment says what each column is for.

    Attributes:
        text: stands in a log that shows this failure.
        pattern: what is matched where the text stands; its named groups may be used in ``cause``
            and ``remedy``. Empty: the text itself.
        seen: a page that shows the text.
        sample: a log that shows it.
        on_success: worth telling even when the run ended with 0.
        harmless: no failure, and never the reason of one.
        cause_if_ran, remedy_if_ran: of a run whose samples show that the script ran, where the
            others do not fit such a run.
    """

    name: str
    text: str
    title: str
    cause: str
    remedy: str
    seen: str
    sample: str
    pattern: str = ""
    on_success: bool = False
    harmless: bool = False
    cause_if_ran: str = ""
    remedy_if_ran: str = ""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """What is searched for; it may span lines."""
        return re.compile(self.pattern or re.escape(self.text))


@cache
def failures() -> tuple[Failure, ...]:
    """All rows, in the order in which they are tried."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one takes a tenth of the time
    rows = yaml.load(TABLE.read_text(encoding="utf-8"), Loader=loader)
    return tuple(Failure(**row) for row in rows)
