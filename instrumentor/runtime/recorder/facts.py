"""What is known of each sample beside its time, one small class each.

A class here is made once, with the records. ``begin(batch, resumed)`` is called before the clock
is read, also for each further micro-batch of an open sample (`resumed`); ``end(values, batch)``
after the clock was read and the barrier has waited, with what entered the forward where only then
it is known. What ``end`` returns becomes part of the sample's event. Neither may raise, or start
work on a device.
"""

import os
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

from instrumentor.runtime.recorder.compiler_breaks import fallbacks
from instrumentor.runtime.recorder.forward_inputs import Given, batch_shape, first_tensor
from instrumentor.runtime.recorder.host_memory import resident_bytes
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.runtimes import COUNTING, MEASURING, loaded


class Batches:
    """Shape and data type of the first batch, rows and tokens of all."""

    def __init__(self, records: Records) -> None:
        self.seen: List[Tuple[Optional[List[int]], Optional[str]]] = []
        self.given = Given()
        self.first = True
        #: By how much an axis of the ids that enter the forward is shorter than the loop's.
        self.shorter = (0, 0)
        #: What the loop handed out last, until a region has used it.
        self.item: Optional[Tuple[Optional[List[int]], Optional[str]]] = None

    def enter(self, item: Tuple[Any, ...]) -> None:
        """Look at what the loop hands out, whatever its body does with it."""
        self.item = batch_shape(item)

    def begin(self, batch: Tuple[Any, ...], resumed: bool) -> None:
        """Look at the batch that the region is about to use."""
        if not resumed:
            self.seen = []
            if self.given.model is not None and not counted().get("torch._dynamo"):
                self.given.watch()
        # A second region of one iteration may have another part of the item.
        item, self.item = self.item, None
        self.seen.append(batch_shape(batch) if batch else item or (None, None))
        if self.first and not resumed and self.seen[0][0] is None:
            self.given.watch_all()

    def end(self, values: Tuple[Any, ...], batch: Tuple[Any, ...]) -> Dict[str, Any]:
        """Rows, by the first axis, and tokens are None when one of the batches is unknown.

        ``batch_returned``: the shape is that of what the forward returned.
        """
        returned = False
        shapes = [each for each, _ in self.seen if each]
        if batch and len(shapes) < len(self.seen):
            # The last micro-batch: the others are taken to be alike.
            self.seen = [first_tensor(batch)] * len(self.seen)
            returned = made_by_forward(batch)
            shapes = [each for each, _ in self.seen if each]
        if self.first and not shapes:
            self.given.find(values)
        self.first, calls = False, self.given.unwatch()
        if not shapes and len(calls) == len(self.seen):  # one forward for each micro-batch
            self.seen = calls
            shapes = [each for each, _ in self.seen if each]
        shape, kind = self.seen[0]
        rows = tokens = None
        if len(shapes) == len(self.seen):
            rows = sum(each[0] for each in shapes)
            # Two axes of whole numbers are rows of token ids.
            if kind in ("int64", "int32", "int16") and all(len(each) == 2 for each in shapes):
                rows_less, less = self.shorter
                tokens = sum((each[0] - rows_less) * (each[1] - less) for each in shapes)
        return {
            "batch_shape": shape,
            "batch_dtype": kind,
            "batch_samples": rows,
            "batch_tokens": tokens,
            **({"batch_returned": True} if returned else {}),
            **({"batch_shapes": shapes} if rows is not None and len(shapes) > 1 else {}),
        }

    def entered(self, looked_up: Set[Tuple[int, ...]]) -> None:
        """Hear what the first sample looked up: `batch[:, :-1]` of the loop's batch, perhaps."""
        self.shorter = shorter(self.seen[0][0] if self.seen else None, looked_up)


def shorter(shape: Optional[List[int]], looked_up: Set[Tuple[int, ...]]) -> Tuple[int, int]:
    """By how much each axis of the one shape of ids that is nearly the batch's is shorter."""
    if shape is None or len(shape) != 2 or tuple(shape) in looked_up:
        return 0, 0
    less = [(shape[0] - ids[0], shape[1] - ids[1]) for ids in looked_up if len(ids) == 2]
    # One token is the target alone; of more it cannot be told what was left out.
    near = [each for each in less if each in ((0, 1), (1, 0))]
    return near[0] if len(near) == 1 else (0, 0)


def made_by_forward(batch: Tuple[Any, ...]) -> bool:
    """Whether nothing in sight went into the forward: all of it has a history of gradients."""
    return all(getattr(each, "grad_fn", None) is not None for each in batch)


class Loss:
    """The loss of the sample, read when it is asked for."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.wanted = os.environ.get("INSTRUMENT_LOSS") == "1"

    def begin(self, batch: Tuple[Any, ...], resumed: bool) -> None:
        """Nothing: it does not exist yet."""

    def end(self, values: Tuple[Any, ...], batch: Tuple[Any, ...]) -> Dict[str, Any]:
        """The first single number among what the barrier was given, or None."""
        if not self.wanted:
            return {}
        try:
            return {"loss": loss_in(values)}
        except Exception as error:
            self.records.warn("the loss cannot be read: %r" % (error,))
        return {"loss": None}


def loss_in(values: Tuple[Any, ...]) -> Any:
    """The first single number, as a text where JSON has no word for it."""
    for value in values:
        if isinstance(value, dict):
            value = value.get("loss")
        value = getattr(value, "loss", value)
        if getattr(value, "numel", lambda: 1)() == 1 and hasattr(value, "item"):
            loss = float(value.item())
            # Infinity less itself is nan, as is nan: JSON knows neither.
            return loss if loss - loss == 0 else str(loss)
    return None


class Compilations:
    """Graphs that were compiled within each sample.

    Counters are read of modules that the script has loaded, and never written.
    """

    def __init__(self, records: Records) -> None:
        self.before: Dict[str, int] = {}

    def begin(self, batch: Tuple[Any, ...], resumed: bool) -> None:
        """Read the counters ahead of the step."""
        if not resumed:
            self.before = counted()

    def end(self, values: Tuple[Any, ...], batch: Tuple[Any, ...]) -> Dict[str, Any]:
        """``compiled``: graphs compiled since the begin, by compiler; {} when there are none."""
        now = counted()
        if now == self.before:
            return {}
        more = {who: count - self.before.get(who, 0) for who, count in now.items()}
        found = {who: count for who, count in more.items() if count > 0}
        return {"compiled": found} if found else {}


def counted() -> Dict[str, int]:
    """Graphs compiled in this process so far, by each that counts them."""
    found: Dict[str, int] = {}
    try:
        for runtime in loaded(COUNTING):
            count = runtime.compiled()
            if count is not None:
                found[runtime.module] = count
        dynamo = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if dynamo is not None:
            found["torch._dynamo"] = int((dynamo.get("stats") or {}).get("unique_graphs", 0))
    except Exception:  # another version counts in another way
        return {}
    return found


#: Of torch_xla's metrics those that say what the host does, in nanoseconds.
LAYERS = (
    "LazyTracing",
    "CompileTime",
    "ExecuteTime",
    "TransferToDeviceTime",
    "TransferFromDeviceTime",
)


class Layers:
    """What torch_xla's own metrics say of a sample: differences of what it adds up."""

    def __init__(self, records: Records) -> None:
        self.before: Dict[str, Tuple[int, float]] = {}
        self.ops: Dict[str, int] = {}

    def begin(self, batch: Tuple[Any, ...], resumed: bool) -> None:
        """Read them ahead of the step."""
        if not resumed:
            self.before, self.ops = measured_layers(), fallbacks()

    def end(self, values: Tuple[Any, ...], batch: Tuple[Any, ...]) -> Dict[str, Any]:
        """``layers``: (count, milliseconds) by metric; ``fallbacks``: ops run on the host."""
        if "torch_xla" not in sys.modules:
            return {}
        spent = {}
        for name, (count, ns) in measured_layers().items():
            counted_before, ns_before = self.before.get(name, (0, 0.0))
            if count > counted_before:
                spent[name] = [count - counted_before, (ns - ns_before) / 1e6]
        ops = {op: count - self.ops.get(op, 0) for op, count in fallbacks().items()}
        ops = {op: count for op, count in ops.items() if count}
        return {**({"layers": spent} if spent else {}), **({"fallbacks": ops} if ops else {})}


def measured_layers() -> Dict[str, Tuple[int, float]]:
    """Count and nanoseconds so far of each of torch_xla's layers; {} without it."""
    if "torch_xla" not in sys.modules:
        return {}
    read = getattr(getattr(sys.modules["torch_xla"], "_XLAC", None), "_xla_metric_data", None)
    found = {} if read is None else {name: read(name) for name in LAYERS}
    return {name: (int(data[0]), float(data[1])) for name, data in found.items() if data}


class Nodes:
    """Number of autograd's nodes that each sample made: steps of another kind make another one."""

    def __init__(self, records: Records) -> None:
        self.before: Optional[int] = None

    def begin(self, batch: Tuple[Any, ...], resumed: bool) -> None:
        """Read autograd's counter ahead of the step."""
        if not resumed:
            self.before = made_nodes()

    def end(self, values: Tuple[Any, ...], batch: Tuple[Any, ...]) -> Dict[str, Any]:
        """``nodes`` of this thread; {} before torch 2.1, which does not say."""
        now = made_nodes()
        return {} if now is None or self.before is None else {"nodes": now - self.before}


def made_nodes() -> Optional[int]:
    """How many nodes this thread's autograd has made so far, by its own counter."""
    lowest = getattr(getattr(sys.modules.get("torch"), "_C", None), "_autograd", None)
    counter = getattr(lowest, "_get_sequence_nr", None)
    return None if counter is None else int(counter())


class Memory:
    """What is held at the end of each sample: on the host, and on the devices that tell it."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.told = True

    def begin(self, batch: Tuple[Any, ...], resumed: bool) -> None:
        """Nothing: a step that is over needs no more than what it leaves."""

    def end(self, values: Tuple[Any, ...], batch: Tuple[Any, ...]) -> Dict[str, Any]:
        """``memory``: bytes by ``resident`` (of this process), ``held``, ``room`` and the same of
        L1 (devices).
        """
        found = {"resident": resident_bytes()}
        try:
            opened = [each for each in loaded(MEASURING) if each.opened()] if self.told else []
            for name in ("held", "room", "held_l1", "room_l1") if opened else ():
                sizes = [getattr(each, name)() for each in opened]
                known = [size for size in sizes if size is not None]
                found[name] = sum(known) if known else None
        except Exception as error:  # such as a device that was closed
            self.told = False
            self.records.warn("the devices' memory cannot be read: %r" % (error,))
        return {"memory": {name: size for name, size in found.items() if size is not None}}


#: Beside the batches, which are told of the loop's item as well.
FACTS = (Loss, Compilations, Layers, Nodes, Memory)
