"""The journal of a tuning, from which a killed one goes on: one JSON object a line.

Only the end of a trial counts. A trial that was begun and has no end left ``result.json`` in its
folder if it came to one meanwhile; if not, it is done again in a new folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, field

from instrumentor.shared.errors import UsageError
from instrumentor.shared.outputs import new_below
from instrumentor.tune.outcome import KILLED, Outcome
from instrumentor_analysis.shared.documents import parsed
from instrumentor_analysis.shared.files import (
    Unfit,
    appended,
    lines_of,
    read_bytes,
    refuse_links,
    write_whole,
)

SCHEMA = "instrument-tune-journal/2"
NAME = "journal.jsonl"
#: A trial takes some ten kilobytes.
LIMIT_BYTES = 64 * 1024 * 1024
#: Settings are tried one at a time: of no script there are as many.
MOST_TRIALS = 10_000
#: Where trials keep what they write.
TRIALS = "trials"


class Journal(Struct):
    """What is known so far.

    Attributes:
        path: the file.
        header: what is tuned, and how.
        outcomes: by the trial's key.
        begun: folders of trials without an end, by key.
        count: number of trials that were begun.
    """

    path: Path
    header: Mapping[str, Any]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    begun: dict[str, Path] = field(default_factory=dict)
    count: int = 0

    @classmethod
    def create(cls, folder: Path, header: Mapping[str, Any]) -> Journal:
        """Start a journal in a folder without one."""
        journal = cls(folder / NAME, {"schema": SCHEMA, **header})
        journal._append({"event": "tune", **journal.header})
        return journal

    @classmethod
    def resumed(cls, folder: Path) -> Journal:
        """Read a journal back; trials whose process was killed are to be done again.

        Raises:
            UsageError: there is none, or it is of another kind.
        """
        path = folder / NAME
        try:
            data = read_bytes(path, LIMIT_BYTES, follow=False, own=True, single=True)
        except FileNotFoundError:
            raise UsageError(
                f"--resume {folder}: there is no {NAME}", "Give the folder of an earlier tuning."
            ) from None
        except Unfit as error:
            raise UsageError(f"--resume {folder}: {NAME} {error.strerror}") from error
        except OSError as error:
            raise UsageError(
                f"--resume {folder}: {NAME} cannot be read: {error.strerror}",
                "See who may read it (ls -l), or give the folder of another tuning.",
            ) from error
        whole = data[: data.rfind(b"\n") + 1]  # a last line without its end was cut by the kill
        journal = cls._of(folder, whole)
        if whole != data:
            # What is appended next must begin a line of its own. Only now: it is a journal.
            write_whole(path, whole)
        return journal

    @classmethod
    def _of(cls, folder: Path, text: bytes) -> Journal:
        """The journal of a text that is one."""
        try:
            # Not all at once: what a line comes to takes many times its bytes.
            events = (parsed(line) for line in lines_of(BytesIO(text)) if line.strip())
            header: dict[str, Any] = next(events, {})
            if header.pop("schema", "") != SCHEMA:
                raise UsageError(f"--resume {folder}: {NAME} is not of this version")
            return cls._told(folder / NAME, header, events)
        except (
            *(ValueError, TypeError, LookupError, AttributeError, ValidationError, OSError),
        ) as error:
            fault = getattr(error, "strerror", None) or error
            raise UsageError(f"--resume {folder}: {NAME} is damaged: {fault}") from error

    @classmethod
    def _told(
        cls, path: Path, header: Mapping[str, Any], events: Iterator[dict[str, Any]]
    ) -> Journal:
        journal = cls(path, header)
        for event in events:
            journal._take(event)
        # Killed from outside, as by a machine that went down: no result of the setting.
        killed = [key for key, made in journal.outcomes.items() if made.status == KILLED]
        for key in killed:
            del journal.outcomes[key]
        return journal

    def begin(self, key: str, folder: Path) -> None:
        """A trial is started."""
        self._add("begun", key, folder=os.path.relpath(folder, self.path.parent))

    def end(self, key: str, outcome: Outcome) -> None:
        """A trial has its result."""
        self._add("ended", key, outcome=outcome.to_json())

    def drop(self, key: str) -> None:
        """A trial is to be done again, whatever it left."""
        self._add("dropped", key)

    def _add(self, event: str, key: str, **more: Any) -> None:
        told = {"event": event, "key": key, **more}
        self._append(told)
        self._take(told)

    def _take(self, event: Mapping[str, Any]) -> None:
        key = str(event["key"])
        self.begun.pop(key, None)
        if event["event"] == "begun":
            self.count += 1
            if self.count > MOST_TRIALS:
                raise ValueError(f"it tells of more than {MOST_TRIALS:,} trials")
            self.begun[key] = self._below(str(event["folder"]))
        elif event["event"] == "ended":
            self.outcomes[key] = Outcome.from_json(event["outcome"])

    def free(self, slug: str) -> Path:
        """A new folder for the next trial; a kill may have left one that the journal lacks.

        Raises:
            UsageError: it cannot be made, or a link would lead it elsewhere.
        """
        try:
            return new_below(self.path.parent, f"{TRIALS}/{self.count + 1:02d}_{slug}")
        except OSError as error:
            raise UsageError(f"{error.filename}: no trial can be kept: {error.strerror}") from error

    def _below(self, name: str) -> Path:
        """A trial's folder as the journal names it, which may have come from anybody."""
        folder = self.path.parent / name
        refuse_links(self.path.parent, folder)
        if ".." in Path(name).parts or folder.is_symlink():
            raise ValueError(f"{name} is no folder of its trials")
        return folder

    def _append(self, event: Mapping[str, Any]) -> None:
        with appended(self.path) as file:
            file.write(json.dumps(event).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())  # the machine may go down with the trial
