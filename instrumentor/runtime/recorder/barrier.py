"""Waits until the device that holds the loss is idle, says how, and finds out whether it was."""

import time
from typing import Any, Iterable, List, NamedTuple, Optional, Tuple

from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.runtimes import (
    NOBODY_DRIVES,
    TTNN_DEVICES,
    Runtime,
    opened_runtimes,
    runtime_of,
    undriven,
)
from instrumentor.runtime.recorder.step_tensors import (
    device_holding,
    device_type,
    loss_among,
    read_all,
    trained,
)
from instrumentor.runtime.recorder.waits import Way, ways_to_wait

#: What a sample waited by whose barrier had left something.
CHECK = "reading all that the step made"
#: Left by a barrier that is none: more than this part of the sample,
LEFT_OF_SAMPLE = 0.02
#: and more than this part of what reading an idle device takes.
LEFT_OF_READS = 0.5
#: How often something must be left until a way to wait is given up.
STRIKES = 2


class Waited(NamedTuple):
    """What the barrier did.

    Attributes:
        device: its type; "unknown" where no tensor was and no device is open.
        method: what waited; "" where nothing can be pending.
        problem: why nothing proves the device idle; "" when something does.
    """

    device: str
    method: str
    problem: str = ""


class Barrier:
    """Finds the devices by what it is given and by what is open; never opens another one.

    A step may use several runtimes, such as torch on the host and ttnn: every one that has opened
    a device is waited for, and a device in use that no known runtime drives is a problem.

    The way to wait is the cheapest that leaves nothing: after the first samples all that the step
    has made is read to the host, which takes longer than on an idle device when the barrier has
    left something.
    """

    def __init__(self, records: Records) -> None:
        self.records = records
        self.device: Optional[str] = None
        self.ways: List[Way] = []
        self.opened: List[Runtime] = []  # of the script, as they were found last
        self.beside: List[Way] = []  # of those that drive other devices than that one
        self.loss: Any = None
        self.leaves: List[Any] = []
        self.problem = ""
        self.settled = False  # a check has found nothing left
        self.read_before = False  # reading has been compiled by a device that does so
        self.strikes = 0

    def wait(self, values: Tuple[Any, ...], synced: bool) -> Waited:
        """Cut the graph where nobody has, then wait.

        Args:
            values: what the step produced, the nearest first; one of them tells the device.
            synced: the script's own sync stands right before.
        """
        kind = self.find_device(values)
        if kind != self.device:
            self.opened = opened_runtimes(look=False)
            self.turn_to(kind)
        foreign = "" if self.settled else undriven(self.opened)
        if foreign:
            return Waited(foreign, "", NOBODY_DRIVES)
        if kind in ("cpu", "unknown"):
            return Waited(kind, "")
        cut = runtime_of(kind).cut
        if cut is not None and not synced:
            cut()
        loss = loss_among(values, kind)
        self.loss = None if loss is None else loss.detach()
        if loss is None and not self.leaves:
            self.leaves = trained(values, kind)
        method = self.drain()
        return Waited(kind, method, self.problem)

    def find_device(self, values: Iterable[Any]) -> str:
        """The type of the device: of a tensor given, else one that the script has opened."""
        kind = None
        for value in values:
            kind = self.device_of(value) or kind
            if kind not in (None, "cpu"):
                break
        # Where a tensor tells it as before, no runtime of torch's is asked in every step.
        told = self.settled and kind is not None and self.device != "unknown"
        self.opened = opened_runtimes(look=self.device is None, beside_torch=told)
        # A loss on the CPU may be a copy of one on a device: no proof of where the step trains.
        if kind == "cpu":
            known = self.device not in (None, "unknown")
            kind = self.device if known else where_it_trains(values, self.opened)
        if kind in (None, "cpu"):
            open_ones = (each.kind for each in self.opened if kind is None or not each.in_torch)
            kind = next(open_ones, kind) or self.device
        if kind is None:
            self.records.warn("no tensor at the barrier, and no device is open: nothing waited for")
        return kind or "unknown"

    def turn_to(self, kind: str) -> None:
        """Start anew with the device of that type."""
        self.device, self.problem, self.settled = kind, "", False
        self.ways = [] if kind in ("cpu", "unknown") else ways_to_wait(kind)
        others = (each for each in self.opened if not each.in_torch and each.kind != kind)
        self.beside = [way for each in others for way in ways_to_wait(each.kind)]

    def clear(self) -> None:
        """Wait for what runs still, such as the last update, which is not the next sample's."""
        if self.ways or not self.settled:
            self.opened = opened_runtimes(look=not self.settled, beside_torch=self.settled)
        while self.drain() and not self.settled and self.ways[0] is not self.ways[-1]:
            try:
                self.ways[-1].wait(self.loss, self.leaves)
                return
            except Exception:  # of no use on this device
                self.ways.pop()

    def drain(self) -> str:
        """Wait for the device of the last barrier; returns what waited."""
        while self.ways:
            try:
                for way in (self.ways[0], *self.beside):
                    way.wait(self.loss, self.leaves)
                return " and ".join(way.name for way in (self.ways[0], *self.beside))
            except Exception as error:  # an unknown device's own
                self.problem = "%s: %s" % (self.ways.pop(0).name, error)
                if self.ways:
                    self.problem = ""
        return ""

    def release(self) -> None:
        """Hold no device any longer: when one is closed is the script's to decide."""
        self.opened, self.loss, self.leaves = [], None, []
        TTNN_DEVICES.clear()

    def check(self, values: Tuple[Any, ...], milliseconds: float) -> Optional[float]:
        """Wait harder than the barrier did; returns when that had ended if it found something.

        Args:
            values: as for :meth:`wait`.
            milliseconds: of the sample by the barrier, of which a little may be left.
        """
        try:
            return self.wait_harder(values, milliseconds)
        except Exception as error:  # an unknown device's own
            self.settled = True
            self.records.warn("the barrier could not be checked: %r" % (error,))
        return None

    def wait_harder(self, values: Tuple[Any, ...], milliseconds: float) -> Optional[float]:
        """As :meth:`check`; what it found is recorded."""
        leaves = trained(values)
        self.leaves = [leaf for leaf in leaves if device_type(leaf) == self.device] or self.leaves
        tensors = ([] if self.loss is None else [self.loss]) + self.leaves
        runtime = runtime_of(self.device)
        if not runtime.readable:
            tensors = tensors[: int(self.loss is not None)] if runtime.in_torch else []
        if not self.ways or (runtime.in_torch and not tensors and not self.beside):
            self.settled = True
            return None
        ends = [time.perf_counter()]
        for _ in range(3):  # again, and again, on a device that is idle for certain
            self.find_left(tensors, runtime.in_torch)
            ends.append(time.perf_counter())
        first, second, third = (ends[n + 1] - ends[n] for n in range(3))
        self.drain()
        cost = time.perf_counter() - ends[-1]
        left = max(0.0, first - max(second, third)) * 1000.0
        idle = max(second, third) * 1000.0
        found = left > max(LEFT_OF_SAMPLE * milliseconds, LEFT_OF_READS * idle)
        self.records.write(
            "barrier",
            device=self.device,
            method=self.ways[0].name,
            left_ms=left,
            cost_ms=cost * 1000.0,
            reads=len(tensors),
            idle=not found,
            certain=self.read_before,
        )
        self.judge(found)
        return ends[1] if found else None

    def find_left(self, tensors: List[Any], in_torch: bool) -> None:
        """Wait for what a barrier may have left: by reads, and where none tell by waiting again."""
        read_all(tensors)
        for way in self.beside if in_torch else (*self.ways[:1], *self.beside):
            way.wait(None, [])

    def judge(self, found: bool) -> None:
        """Keep the way to wait, or after some strikes take the next one."""
        warm, self.read_before = self.read_before, True
        self.settled = not found
        self.strikes = self.strikes + 1 if found and warm else 0
        if self.strikes < STRIKES:
            return
        self.strikes = 0
        if len(self.ways) > 1:
            self.ways.pop(0)
        else:  # which waits for all that there is: other work on the machine
            self.records.warn("reading took different times after " + self.ways[0].name)

    def device_of(self, value: Any) -> Optional[str]:
        """As :func:`step_tensors.device_holding`; None where the value cannot be looked into."""
        try:
            return device_holding(value)
        except Exception as error:  # an attribute of the script's own
            self.records.warn("the barrier cannot be checked: %r" % (error,))
        return None


def where_it_trains(values: Iterable[Any], opened: List[Runtime]) -> Optional[str]:
    """The device of a step that hands out tensors on the CPU, which may be copies.

    That of what is trained; where nothing such is in sight None, if the script has opened another.
    """
    kinds = [device_type(leaf) for leaf in trained(values)]
    elsewhere = [kind for kind in kinds if kind not in ("cpu", "meta")]
    return elsewhere[0] if elsewhere else "cpu" if kinds or not opened else None
