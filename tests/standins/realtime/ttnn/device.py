"""Stand-in for ``ttnn.device``: see the package."""

import itertools
import os

_callbacks = {}
_handles = itertools.count(1)
_delivered = itertools.count(1)


class Record:
    """One program, at one tick a nanosecond."""

    def __init__(self, chip, start, end, name):
        self.known = {
            "runtime_id": 7,
            "chip_id": chip,
            "start_timestamp": start,
            "end_timestamp": end,
            "frequency": 1.0,
            "kernel_sources": [
                f"kernels/dataflow/reader_{name}.cpp",
                f"kernels/compute/{name}.cpp",
            ],
        }

    def __getattr__(self, name):
        if self.__dict__.get("dead"):
            raise RuntimeError("a record was read after its callback had returned")
        try:
            return self.known[name]
        except KeyError:
            raise AttributeError(name) from None


class Batch:
    def __init__(self, records, dropped):
        self.records, self.dropped = records, dropped


def _need_a_device():
    import ttnn

    if not ttnn.OPEN:
        os.abort()


def deliver(record):
    """Hand a record to every callback; of those that are named in the environment it is lost."""
    lost = str(next(_delivered)) in os.environ.get("STANDIN_LOSES", "").split()
    for callback in list(_callbacks.values()):
        callback(Batch([] if lost else [record], int(lost)))
    record.dead = True


def IsProgramRealtimeProfilerActive():
    _need_a_device()
    return os.environ.get("STANDIN_INACTIVE") != "1"


def RegisterProgramRealtimeProfilerCallback(callback):
    _need_a_device()
    handle = next(_handles)
    _callbacks[handle] = callback
    return handle


def UnregisterProgramRealtimeProfilerCallback(handle):
    _need_a_device()
    del _callbacks[handle]
