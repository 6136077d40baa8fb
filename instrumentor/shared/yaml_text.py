"""YAML that came with a repository: in values that every reader can handle, or refused.

Some lines of aliases stand for more values than any memory has, or for a value that holds itself;
so the parser's events are counted, each alias for what it stands for, before a value is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instrumentor_analysis.shared.files import SETTINGS_BYTES

if TYPE_CHECKING:
    from yaml import Event

#: Values, depth, and characters of one value that may be a number: far more than an experiment has.
MOST_VALUES, DEEPEST, LONGEST = 50_000, 100, 4096
#: What PyYAML raises at a value that its tag does not fit, or at a date that is none.
_NO_VALUE = (ValueError, LookupError, AttributeError, ArithmeticError)
#: Tags of collections. PyYAML takes a mapping for a number as well, by its key `=`.
_COLLECTIONS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("map", "omap", "pairs", "seq", "set")
)


class TooMuch(ValueError):
    """A text that stands for more than is read of one."""


def read_yaml(text: str) -> Any:
    """What a YAML text says.

    Raises:
        TooMuch: it stands for more values than any experiment has.
        ValueError: it is no YAML.
    """
    import yaml

    if len(text) > SETTINGS_BYTES:
        raise TooMuch(f"is larger than {SETTINGS_BYTES >> 20} MiB")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # takes a tenth of the time
    try:
        count = _Count()
        for event in yaml.parse(text, Loader=loader):
            count.add(event)
        return yaml.load(text, Loader=loader)
    except TooMuch:
        raise
    except (yaml.YAMLError, *_NO_VALUE) as error:
        raise ValueError(f"the YAML cannot be read: {error}") from error


class _Count:
    """How many values there are, aliases written out."""

    def __init__(self) -> None:
        self.values = 0
        self.open: list[tuple[str | None, int]] = []  # anchors, and the values before them
        self.sizes: dict[str | None, int] = {}

    def add(self, event: Event) -> None:
        from yaml import events

        if isinstance(event, events.CollectionStartEvent):
            if event.tag and event.tag not in _COLLECTIONS:
                raise ValueError(f"{event.tag[:40]} is no tag of a mapping or a list")
            self.open.append((event.anchor, self.values))
            self.values += 1
        elif isinstance(event, events.CollectionEndEvent):
            anchor, before = self.open.pop()
            self.sizes[anchor] = self.values - before
        elif isinstance(event, events.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in self.open):
                raise TooMuch(f"has a value that holds itself (*{str(event.anchor)[:40]})")
            self.values += self.sizes.get(event.anchor, 1)
        elif isinstance(event, events.ScalarEvent):
            self._add_scalar(event)
        if self.values > MOST_VALUES:
            raise TooMuch(f"stands for more than {MOST_VALUES:,} values")
        if len(self.open) > DEEPEST:
            raise TooMuch(f"is nested more than {DEEPEST} deep")

    def _add_scalar(self, event: Any) -> None:
        self.values += 1
        # A number's digits take the square of their count; a tag makes one of what is quoted, too.
        if len(event.value) > LONGEST and (event.tag or not event.style):
            raise TooMuch(
                f"has a value of more than {LONGEST:,} characters without quotes, or with a tag"
            )
