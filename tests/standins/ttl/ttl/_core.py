"""Stand-in: one core, its threads, its buffers, and a made-up cost of everything."""

import math
import os
import queue
import sys
import threading
from pathlib import Path

HERE = Path(__file__).parent
TILE_BYTES = 2048
LATENCY = 800  # cycles a barrier waits for
CYCLES_A_TILE = {"copy": 130, "store": 60}
RISC = {"datamovement": ("NCRISC", "BRISC"), "compute": ("TRISC_1",)}
_RUNS = []


def options():
    return os.environ.get("STANDIN_TTL", "").split(",")


def current():
    return _RUNS[-1]


class Block:
    def __init__(self, buffer, value=0.0):
        self.buffer, self.value = buffer, value

    def __add__(self, other):
        return Block(self.buffer, self.value + other.value)

    def store(self, other):
        self.value = other.value
        current().spend("store", CYCLES_A_TILE["store"] * self.buffer.tiles)


class Held:
    """A reserved or waited block; pushed or popped at the end of a with, or by hand."""

    def __init__(self, buffer, block, push):
        self.buffer, self.block, self.push = buffer, block, push

    def __enter__(self):
        return self.block

    def __exit__(self, *error):
        if self.push and error == (None, None, None):
            self.buffer.push(self.block, implicit=True)

    def __getattr__(self, name):
        return getattr(self.block, name)


class Buffer:
    def __init__(self, shape, factor):
        self.shape, self.factor = shape, factor
        self.tiles = shape[0] * shape[-1]
        self.queue = queue.Queue()
        self.index = 0
        self.producers, self.consumers, self.copies = [], [], []
        self.last = None

    def reserve(self):
        current().note(self.producers, "cb_reserve", 20)
        self.last = Block(self)
        return Held(self, self.last, push=True)

    def push(self, block=None, implicit=False):
        block = block or self.last
        current().spend("implicit_cb_push" if implicit else "cb_push", 15)
        self.queue.put(block.value)

    def wait(self):
        current().note(self.consumers, "cb_wait", 40)
        try:
            value = self.queue.get(timeout=20)
        except queue.Empty:
            raise RuntimeError("the dataflow buffer stays empty: the kernel hangs") from None
        return Held(self, Block(self, value), push=False)

    def pop(self):
        current().spend("cb_pop", 15)


class Transfer:
    def wait(self):
        run = current()
        run.barriers[run.thread().direction] += 1
        run.spend("wait", LATENCY)


class Signpost:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.before = current().thread().cycles

    def __exit__(self, *error):
        run = current()
        run.signposts.append((self.name, run.thread().risc, run.thread().cycles - self.before))


class Thread:
    def __init__(self, function, kind, risc):
        self.function, self.kind, self.risc = function, kind, risc
        self.name = function.__name__
        self.cycles, self.waits = 0, 0
        self.direction = "read"
        self.zones = []  # (line, operation, cycles)
        self.error = None


class Run:
    """One call of one kernel."""

    def __init__(self, function, grid):
        self.function, self.grid = function, tuple(grid)
        self.cores = math.prod(self.grid)
        self.threads, self.buffers, self.signposts = [], [], []
        self.transfers = {"read": 0, "write": 0}
        self.barriers = {"read": 0, "write": 0}
        self.local = threading.local()

    def __enter__(self):
        _RUNS.append(self)

    def __exit__(self, *error):
        _RUNS.pop()

    def add(self, function, kind):
        taken = [t.risc for t in self.threads]
        risc = next(r for r in (*RISC[kind], *(f"{kind}{n}" for n in range(9))) if r not in taken)
        self.threads.append(Thread(function, kind, risc))
        return function

    def buffer(self, buffer):
        buffer.index = len(self.buffers)
        self.buffers.append(buffer)
        return buffer

    def thread(self):
        return self.local.thread

    def execute(self):
        def body(thread):
            self.local.thread = thread
            try:
                thread.function()
            except Exception as error:  # noqa: BLE001
                thread.error = error

        workers = [threading.Thread(target=body, args=(t,)) for t in self.threads]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        for thread in self.threads:
            if thread.error is not None:
                raise thread.error

    def line(self):
        frame = sys._getframe(1)
        while Path(frame.f_code.co_filename).parent == HERE:
            frame = frame.f_back
        return frame.f_lineno

    def spend(self, operation, cycles):
        thread = self.thread()
        thread.cycles += cycles
        if operation in ("wait", "cb_wait", "cb_reserve"):
            thread.waits += cycles
        thread.zones.append((self.line(), operation, cycles))

    def note(self, ends, operation, cycles, **more):
        kind = "noc" if self.thread().kind == "datamovement" else "compute"
        use = {"kernel": self.thread().name, "line": self.line(), "op": operation, "thread": kind}
        if {**use, **more} not in ends:
            ends.append({**use, **more})
        self.spend(operation, cycles)

    def copy(self, source, target):
        reads = hasattr(source, "tensor")
        block = target if reads else source
        tensor = source.tensor if reads else target.tensor
        if reads:
            getattr(block, "block", block).value = tensor.value
        else:
            tensor.value = block.value
        direction = "read" if reads else "write"
        self.thread().direction = direction
        buffer = block.buffer
        self.transfers[direction] += buffer.tiles
        cycles = CYCLES_A_TILE["copy"] * buffer.tiles
        self.note(buffer.copies, "copy", cycles, direction=direction)
        return Transfer()

    def signpost(self, name):
        return Signpost(name)
