"""Times whole steps of a script as it is: from the end of one optimizer step to the next.

For trainers of installed packages, which no edit of the user's files reaches. A sample holds all
that happens in between: data loading, logging, callbacks, the update itself.
"""

from typing import Any, List, Optional

from instrumentor.runtime.recorder.recorder import Recorder
from instrumentor.runtime.recorder.trainer_batches import Handed

LABEL = "whole step"


class WholeSteps:
    """Opens and closes regions at the end of each step of the first optimizer that steps."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.optimizer: Optional[Any] = None
        self.handed = Handed()

    def start(self) -> None:
        """Begin to time steps, as torch's own marks tell them."""
        self.recorder.marks.after_step = self.stepped
        if self.recorder.records.rank is None:  # else a batch may be shared out among the ranks
            self.recorder.marks.after_batch = self.handed.note
        self.recorder.marks.on()

    def stepped(self, optimizer: Any) -> None:
        """End the sample and begin the next, or end the script when there are enough."""
        if self.optimizer is None:
            self.optimizer = optimizer
        if optimizer is not self.optimizer or not self.recorder.records.active:
            return
        if self.recorder.done:
            raise SystemExit(0)
        batches = self.handed.stepped()
        if batches and self.recorder.behind is None:
            self.recorder.batches.seen = batches
        self.recorder.end(*trained_by(optimizer), label=LABEL)
        if self.recorder.finished():
            raise SystemExit(0)
        self.recorder.begin()


def trained_by(optimizer: Any) -> List[Any]:
    """Some of the parameters that were just updated: where they are is the device."""
    return [p for group in optimizer.param_groups for p in group["params"][:2]][:4]
