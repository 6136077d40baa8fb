"""Profiles extra steps with torch.profiler, called by the recorder inside the script.

``open_profile()`` before each, ``close_profile(profile, device_type, number)`` after its barrier.
Writes ``trace.json`` (Chrome trace of the first) and ``ops.csv`` (of all of them) into the folder
INSTRUMENT_HOOK_OUTPUT.
In a step that is to tell modules, each call of one is a range of the profiler. What autograd runs
backward carries the number of the node that a forward op made, and so belongs to its module.
A failure here must not cost the user's run: it becomes a warning in the record file.

Self-contained, Python 3.8 or newer, torch 1.13 or newer.
"""

# os.path throughout: this start-up is part of the user's run.
# ruff: noqa: PTH103, PTH107, PTH118, PTH123
from __future__ import annotations

import csv
import json
import os
import sys
import warnings
from typing import Any, NamedTuple

COLUMNS = [
    "op",
    "category",
    "start_us",
    "duration_us",
    "self_time_us",
    "device_time_us",
    "input_shapes",
    "input_dtypes",
    "thread",
    "sequence",
    "source",
    "step",
    "module",
    "pass",
    "class",
]
OPERATIONS = ("cpu_op", "Operator")  # the second is the category's older name
RANGE = "instrument module "  # of a module's call
NODE = "autograd::engine::evaluate_function"  # what the ops of one node's backward lie in
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")  # what Kineto calls work on a GPU


def warn(text: str) -> None:
    """Append a warning to the record file, or print it when there is none."""
    path = os.environ.get("INSTRUMENT_RECORD")
    if not path:
        print("[instrument] " + text, file=sys.stderr)
        return
    entry = {"event": "warning", "kind": "no-torch-ops", "pid": os.getpid(), "text": text}
    line = json.dumps(entry)
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(line + "\n")


class Named:
    """Tells the profiler of each call of a module, while it is on.

    Attributes:
        found: the script's module and, within it, the name of each that may be called.
        classes: what each of them is, see :func:`described`.
    """

    def __init__(self) -> None:
        import torch

        self.owner: Any = torch.nn.Module
        # Older versions have the slower one alone: it is an op, which a mode of the script's sees.
        fast: Any = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)
        self.range: Any = fast or torch.profiler.record_function
        self.real: Any = torch.nn.Module.__call__
        self.found: list[tuple[str, str]] = []
        self.classes: list[str] = []
        self.known: dict[int, tuple[int, Any]] = {}  # place in `found`, and what keeps the id

    def on(self) -> None:
        """From now on."""
        named, real = self, self.real

        def instrument_call(this: Any, *args: Any, **kwargs: Any) -> Any:
            with named.range(RANGE + str(named.place(this))):
                return real(this, *args, **kwargs)

        self.owner.__call__ = self.mine = instrument_call

    def off(self) -> None:
        """No more; what somebody else has put there since stays."""
        if self.owner.__call__ is self.mine:
            self.owner.__call__ = self.real

    def place(self, module: Any) -> int:
        """Where its name stands; one that is called for the first time tells those within it."""
        if id(module) not in self.known:
            root = type(module).__name__
            again = len({first for first, name in self.found if first.partition("#")[0] == root})
            root += f"#{again + 1}" if again else ""
            for name, each in module.named_modules():
                if id(each) not in self.known:
                    self.known[id(each)] = len(self.found), each
                    self.found.append((root, name))
                    self.classes.append(described(each))
        return self.known[id(module)][0]

    def names(self) -> list[str]:
        """Within the script's only model, or behind the class of one of several."""
        several = len({root for root, name in self.found if name}) > 1
        return [
            (root + "." + name if several else name) if name else root for root, name in self.found
        ]


def described(module: Any) -> str:
    """The class of a module, with the shape of its first parameter of its own: its size."""
    kind = type(module).__name__
    try:
        shape = next(module.parameters(recurse=False)).shape
        return kind + " " + "x".join(str(int(each)) for each in shape)
    except Exception:  # noqa: BLE001 - without one, or of no shape yet
        return kind


class Running(NamedTuple):
    """What runs at some point of a thread."""

    end: float
    module: str
    backward: bool


NOTHING = Running(float("inf"), "", False)
#: The step that is to tell modules, while it runs.
TELLING: list[Named] = []


def open_profile(modules: bool = False) -> object:
    """Start the profiler; None when it cannot be started.

    Args:
        modules: tell which module each op belongs to.
    """
    del TELLING[:]
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile

        if modules:  # ahead of the profiler: it would go on if this failed
            TELLING.append(Named())

        activities = [ProfilerActivity.CPU]
        # Not for a GPU that the script has not opened itself.
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            activities.append(ProfilerActivity.CUDA)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profiler = profile(activities=activities, record_shapes=True, with_stack=False)
            profiler.start()
        for each in TELLING:
            each.on()
        return profiler
    except Exception as error:  # noqa: BLE001 - see the module's text
        warn(f"torch.profiler could not be started: {type(error).__name__}: {error}")
        return None


def close_profile(profiler: object, device_type: str, number: int = 0) -> None:
    """Stop the profiler and write its two files; of later steps the table alone.

    Args:
        number: of the step, from 0.
        device_type: where the loss lives: one whose operations torch.profiler sees.
    """
    if profiler is None:
        return
    named = TELLING.pop() if TELLING else None
    try:
        if named is not None:
            named.off()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profiler.stop()  # type: ignore[attr-defined]
        folder = os.environ["INSTRUMENT_HOOK_OUTPUT"]
        os.makedirs(folder, exist_ok=True)
        trace = os.path.join(folder, "later.json" if number else "trace.json")
        profiler.export_chrome_trace(trace)  # type: ignore[attr-defined]
        with open(trace, encoding="utf-8", errors="replace") as stream:
            # torch writes control characters of names as they are
            events = json.load(stream, strict=False)
        if isinstance(events, dict):
            events = events["traceEvents"]
        if number:
            os.remove(trace)
        rows = operations(events, device_type != "cpu", number)
        if named is not None:
            tell_modules(rows, events, named.names(), named.classes)
        write_table(rows, os.path.join(folder, "ops.csv"))
    except Exception as error:  # noqa: BLE001 - see the module's text
        warn(f"torch.profiler's result was lost: {type(error).__name__}: {error}")


def operations(
    events: list[dict[str, Any]], on_device: bool, number: int = 0
) -> list[dict[str, Any]]:
    """One row per operation, in start order.

    Args:
        events: of the Chrome trace, times in microseconds.
        on_device: whether kernels ran on a device, so that device time exists.
        number: of the step.
    """
    ops, _ = in_order(events)
    device = device_times(events) if on_device else None
    own = self_times(ops)
    first = ops[0]["ts"] if ops else 0
    rows = []
    for event, self_time in zip(ops, own):  # noqa: B905 - 3.8
        args = event.get("args", {})
        device_time = "" if device is None else round(device.get(args.get("External id"), 0), 3)
        rows.append(
            {
                "op": event["name"],
                "category": event["cat"],
                "start_us": round(event["ts"] - first, 3),
                "duration_us": round(event.get("dur", 0), 3),
                "self_time_us": round(self_time, 3),
                "device_time_us": device_time,
                "input_shapes": compact(args.get("Input Dims")),
                "input_dtypes": compact(args.get("Input type")),
                "thread": event.get("tid", ""),
                "sequence": args.get("Sequence number", ""),
                "source": "",
                "step": number,
                "module": "",
                "pass": "",
                "class": "",
            }
        )
    return rows


def in_order(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Operations and ranges of modules, by their start; a caller precedes what it calls."""
    ours = (*OPERATIONS, "user_annotation")
    timed = [each for each in events if each.get("ph") == "X" and each.get("cat") in ours]
    timed.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
    ranges = [each for each in timed if each["name"].startswith(RANGE)]
    ops = [each for each in timed if each["cat"] in OPERATIONS]
    return [each for each in ops if not each["name"].startswith(RANGE)], ranges


def tell_modules(
    rows: list[dict[str, Any]],
    events: list[dict[str, Any]],
    names: list[str],
    classes: list[str],
) -> None:
    """Enter the module of each operation, and whether it ran forward or backward.

    Backward, that is the module of the last operation with the number of the node that is
    evaluated: it made the node. An operation of none has no name: the loss, or the sum of
    gradients.

    Args:
        rows: as :func:`operations` makes them of the events.
        names: of the ranges, by their number.
        classes: of these modules.
    """
    kinds = dict(zip(names, classes))  # noqa: B905 - 3.8
    ops, ranges = in_order(events)
    of_row = {id(event): row for event, row in zip(ops, rows)}  # noqa: B905 - 3.8
    running: dict[object, list[Running]] = {}
    makers: dict[object, dict[object, str]] = {}  # number of a node -> module by thread
    # A range that begins with an operation is around it.
    for event in sorted(ranges + ops, key=lambda e: (e["ts"], -e.get("dur", 0), id(e) in of_row)):
        thread = event.get("pid"), event.get("tid")
        stack = running.setdefault(thread, [NOTHING])
        while stack[-1].end <= event["ts"]:
            stack.pop()
        _, module, backward = stack[-1]
        number = event.get("args", {}).get("Sequence number")
        row = of_row.get(id(event))
        if row is None:
            module = names[int(event["name"][len(RANGE) :])]
        elif event["name"].startswith(NODE):
            made = set(makers.get(number, {}).values())
            # Each thread counts its own nodes: of a number that two have used, nothing is known.
            module, backward = made.pop() if len(made) == 1 else "", True
        elif number is not None:
            makers.setdefault(number, {})[thread] = module
        if row is not None:
            row.update({"module": module, "pass": "backward" if backward else "forward"})
            row["class"] = kinds.get(module, "")
        stack.append(Running(event["ts"] + event.get("dur", 0), module, backward))


def self_times(ops: list[dict[str, Any]]) -> list[float]:
    """Each operation's time less that of the operations it called on its own thread."""
    own = [event.get("dur", 0) for event in ops]
    # Sorted by start, the longer first: a caller precedes what it calls.
    open_ops: dict[object, list[int]] = {}
    for index, event in enumerate(ops):
        stack = open_ops.setdefault((event.get("pid"), event.get("tid")), [])
        while stack and ops[stack[-1]]["ts"] + ops[stack[-1]].get("dur", 0) <= event["ts"]:
            stack.pop()
        if stack:
            own[stack[-1]] -= event.get("dur", 0)
        stack.append(index)
    return [max(time, 0) for time in own]  # clock granularity can make a child look longer


def device_times(events: list[dict[str, Any]]) -> dict[object, float]:
    """Device time by the id that ties a kernel to the operation which launched it."""
    times: dict[object, float] = {}
    for event in events:
        if event.get("cat") in DEVICE_WORK:
            key = event.get("args", {}).get("External id")
            times[key] = times.get(key, 0) + event.get("dur", 0)
    return times


def compact(value: object) -> str:
    """A list of the trace as compact JSON; empty when the trace does not say."""
    return "" if value is None else json.dumps(value, separators=(",", ":"))


def write_table(rows: list[dict[str, Any]], path: str) -> None:
    """Add to ``ops.csv``; the header is there even when no operation is."""
    with open(path, "a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        if not stream.tell():
            writer.writeheader()
        writer.writerows(rows)
