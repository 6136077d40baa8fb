"""Steps behind the samples, in which something is measured that would have spoiled them."""

import time
from typing import Any, Optional

from instrumentor.runtime.recorder.records import Records


class ExtraSteps:
    """One kind of them: the recorder takes the kinds that are due, one after the other.

    It calls ``start``, for each of the steps ``enter``, ``begin`` and ``end``, and ``stop`` once
    there are ``enough``. None of these may raise.

    Attributes:
        name: of their regions, and of the event that tells what was measured.
        what: said when they start.
        on: they are being taken.
        begun: their number so far.
    """

    name = what = ""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.on = False
        self.begun = 0
        self.started_s = 0.0

    def due(self, label: Optional[str], automatic: bool) -> bool:
        """Whether they are to be taken, now that there are enough samples.

        Args:
            label: of the samples.
            automatic: where no number was asked for.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Take them from the next region on."""
        self.on, self.started_s = True, time.perf_counter()
        print("[TIMER] Extra steps, " + self.what, flush=True)

    def spent_s(self) -> float:
        """Seconds since they were started."""
        return time.perf_counter() - self.started_s

    def enough(self) -> bool:
        """Whether no more of them are needed."""
        raise NotImplementedError

    def enter(self, frame: Any) -> None:
        """The loop's body is entered; nothing where only the region counts."""

    def begin(self, frame: Any) -> None:
        """A region begins: the iteration before is over.

        Args:
            frame: that of the script, which may be the loop's.
        """

    def end(self, values: Any) -> None:
        """The region ends; nothing where a step lasts to the next one."""

    def finishing(self) -> None:
        """The script asks whether it is finished: what it does next is the loop's end."""

    def stop(self) -> None:
        """Take no more of them."""
        self.on = False
