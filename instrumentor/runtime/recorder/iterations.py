"""What an iteration takes, from the start of one sample to the start of the next, and its parts.

No barrier and no clock is added to the step for it: the begin and the end of the timed region, the
entry of the loop's body and torch's own marks tell the parts. What the recorder itself does between
two samples is left out.
"""

import time
from typing import Any, Dict, List, Optional, Tuple

from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.torch_marks import DATA, OPTIMIZER, Marks

#: How much of the marks has been seen at some time: seconds of data and of optimizers, steps.
Known = Tuple[float, float, int]


class Kept:
    """What stays of the script between two samples and is no part of a step: a validation, a save.

    Attributes:
        what: the names of what ran since the last sample.
        spent_s, data_s: what that took, and what it waited for its own loaders within that.
        lead_s: of both, the difference since the loop's body was entered.
        ended_s: when the last one ended.
    """

    def __init__(self) -> None:
        self.what: Dict[str, None] = {}
        self.spent_s = self.data_s = self.lead_s = self.ended_s = 0.0
        self.open: List[Tuple[str, float, float]] = []  # with its start, and the data until then

    def begin(self, what: str, data_s: float) -> None:
        """A piece begins; one within another is a part of that."""
        self.open.append((what, time.perf_counter(), data_s))

    def end(self, data_s: float) -> None:
        """The piece that was begun last ends."""
        if not self.open:
            return
        what, started_s, before_s = self.open.pop()
        if self.open:
            return
        self.ended_s = time.perf_counter()
        waited_s, spent_s = data_s - before_s, self.ended_s - started_s
        self.what[what] = None
        self.spent_s += spent_s
        self.data_s += waited_s
        self.lead_s += spent_s - waited_s

    def leave(self, data_s: float) -> None:
        """The next sample begins: what the script left by `break` or `continue` has ended."""
        while self.open:
            self.end(data_s)


class Iterations:
    """Follows the script from region to region.

    Attributes:
        taken: milliseconds of all iterations so far, and which optimizers stepped, by the name of
            their sample.
        regions: how many regions have come to their end so far, those that are no samples, too.
    """

    def __init__(self, records: Records, marks: Marks) -> None:
        self.records = records
        self.marks = marks
        self.taken: Dict[str, Tuple[float, Tuple[int, ...]]] = {}
        self.regions = 0
        self.sample: Optional[Dict[str, Any]] = None  # whose iteration goes on
        self.outside = self.begun = (0.0, 0.0, 0)
        self.left_s = 0.0  # when the region was left, and the recorder with it
        self.own_s = 0.0  # spent in the recorder since
        self.entered: Optional[float] = None
        self.at_entry = self.begun
        self.kept = Kept()

    def known(self) -> Known:
        """What the marks say now."""
        spent = self.marks.spent_s
        return spent[DATA], spent[OPTIMIZER], len(self.marks.stepped)

    def enter(self) -> None:
        """The body of the loop is entered."""
        self.entered, self.at_entry = time.perf_counter(), self.known()
        self.kept.lead_s = 0.0

    def keep(self, what: str) -> None:
        """A piece of the script that stays between two samples begins, or ends without its name."""
        if self.sample is not None:
            data_s = self.known()[0]
            self.kept.begin(what, data_s) if what else self.kept.end(data_s)

    def begin(self, called_s: float, pending_s: float) -> None:
        """A region begins: the iteration of the sample before it is over.

        Args:
            called_s: when the script came to the region.
            pending_s: how long the device then worked on what was asked of it after the last one.
        """
        now = self.known()
        self.kept.leave(now[0])
        if self.sample is not None and self.sample.get("event", True):
            self.write(self.sample, now, called_s, pending_s)
        self.sample, self.entered = None, None
        self.begun = now

    def end(self, **sample: Any) -> None:
        """A sample was taken: name, index, ms, label and device of it; its iteration goes on.

        Args:
            sample: also `event`, as which it is recorded; "" leaves it out.
        """
        self.outside, self.kept = self.known(), Kept()
        self.sample = {"region": self.regions, **sample}
        self.left_s, self.own_s = time.perf_counter(), 0.0

    def write(self, sample: Dict[str, Any], now: Known, called_s: float, pending_s: float) -> None:
        """The iteration of a sample, in milliseconds by parts."""
        outside_s = called_s - self.left_s - self.own_s + pending_s
        milliseconds = sample["ms"] + outside_s * 1000.0
        data_s, optimizer_s, steps = now
        left_data_s, left_optimizer_s, left_steps = self.outside
        begun_data_s, begun_optimizer_s, begun_steps = self.begun
        stepped = self.marks.stepped[begun_steps:steps]
        # Without an optimizer's step behind the region it was something else.
        updating_s = pending_s if steps > left_steps else 0.0
        event = sample.get("event", "iteration")
        if event == "iteration":
            self.taken[sample["name"]] = milliseconds, tuple(stepped)
        kept: Dict[str, Any] = {}
        if self.kept.what:
            kept = {"kept": "_and_".join(self.kept.what), "kept_ms": self.kept.spent_s * 1000.0}
        self.records.again(
            event,
            {"stepped": stepped},
            index=sample["index"],
            region=sample["region"],
            name=sample["name"],
            ms=milliseconds,
            own_ms=self.own_s * 1000.0,
            data_ms=(data_s - left_data_s - self.kept.data_s) * 1000.0,
            optimizer_ms=(optimizer_s - left_optimizer_s + updating_s) * 1000.0,
            inside_data_ms=(left_data_s - begun_data_s) * 1000.0,
            inside_optimizer_ms=(left_optimizer_s - begun_optimizer_s) * 1000.0,
            **kept,
            **self.around_entry(now, called_s),
        )

    def around_entry(self, now: Known, called_s: float) -> Dict[str, float]:
        """Milliseconds from the last thing seen to the entry, and from there to the region.

        The first is the next batch where the loop's own iterator makes it, with what the body does
        last; neither holds what a mark is around. Nothing where the entry was not seen.
        """
        if self.entered is None or self.entered < self.left_s:
            return {}
        ended_s = self.marks.ended_s
        seen = self.left_s, ended_s, self.kept.ended_s
        last_s = max(each for each in seen if each <= self.entered)
        marked_s = sum(now[:2]) - sum(self.at_entry[:2]) + self.kept.lead_s
        return {
            "next_ms": (self.entered - last_s) * 1000.0,
            "lead_ms": max(0.0, called_s - self.entered - marked_s) * 1000.0,
        }
