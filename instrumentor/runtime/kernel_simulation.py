"""Runs a kernel script on tt-lang's simulator and sums up what the chosen invocation does.

Started as a file by the script's interpreter, with a JSON order: ``script``, ``arguments``,
``options`` (tt-lang-sim's own) and ``output``. Standard library only, besides the simulator. The
simulator keeps each event of a trace in memory, ten million for a matmul of 8192; here an event
is added to its sum and forgotten. The sums are on disk at most two seconds later, so that a run
that is ended from outside leaves them.

The gate (:mod:`instrumentor.runtime.kernel_gate`) says which invocation is the chosen one; without
a gate every operation counts.
"""

# os.path throughout: this start-up is part of the user's run.
# ruff: noqa: PTH100, PTH105, PTH118, PTH120, PTH123
from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import re
import runpy
import sys
import time
import types
from typing import Any

#: Seconds between two writings of the sums.
_EVERY_S = 2.0
#: Events between two looks at the clock.
_LOOK = 2048
_TILE = 32
_TILE_ELEMENTS = _TILE * _TILE
#: Names that tt-lang's compiler knows by itself, without an import.
_COMPILERS = ("call_extern_func",)


class Sums:
    """What an invocation moved, waited for and computed, by node and thread.

    ``copies``: (node, thread, tensor, direction) -> copies, tiles, of these in local L1, remote L1
    and DRAM. ``blocks``: (node, thread, buffer, reserve|wait|push|pop) -> count, how often it was
    not there yet, tiles, how often the simulator did it where the kernel does not say it.
    ``places``: (thread, what, tensor or buffer, buffer of a copy, file, line) -> how often.
    ``starts``: (node, thread) -> copies under way, started, started beside another. Times are none
    of this: the simulator has an order, not a clock.
    """

    def __init__(self, output: str) -> None:
        self.output = output
        self.writes = _beside("kernel_writes")
        self.is_simulators: Any = None
        self.scheduler: Any = None
        self.implied = False
        self.events = self.operations = 0
        self.complete = False
        self.grid: list[int] = []
        self.limits: dict[str, Any] = {}
        self.tensors: dict[str, dict[str, Any]] = {}
        self.same: dict[str, str] = {}  # of a tensor's names all but the last, which its moves have
        self.buffers: dict[str, dict[str, Any]] = {}
        self.copies: dict[tuple[int, str, str, str], list[int]] = {}
        self.blocks: dict[tuple[int, str, str, str], list[int]] = {}
        self.pipes: dict[tuple[int, str, str], list[int]] = {}
        self.flops: dict[int, int] = {}
        self.places: dict[tuple[str, str, str, str, str, int], int] = {}
        self.starts: dict[tuple[int, str], list[int]] = {}
        self.reached: dict[str, Any] = {}
        self.written: dict[str, Any] = {}
        self.threads: dict[tuple[int, str], list[Any]] = {}
        self.problem: dict[str, Any] | None = None
        self._written = time.monotonic()
        self._adds = {
            "copy_start": self._begun,
            "copy_end": self._copied,
            "kernel_block": self._asked,
            "dfb_reserve_end": self._had("reserve"),
            "dfb_wait_end": self._had("wait"),
            "dfb_push": self._had("push"),
            "dfb_pop": self._had("pop"),
            "pipe_send": self._piped("send"),
            "pipe_recv": self._piped("receive"),
            "kernel_start": self._started,
            "kernel_end": self._ended,
        }

    # -- events --------------------------------------------------------------------------------

    def trace(self, event: str, **data: Any) -> None:
        """The simulator's own trace(), which keeps nothing."""
        add = self._adds.get(event)
        if add is None:
            return
        kernel = self.scheduler._current_kernel_id
        add(kernel.linear_node, kernel.func_name, data)
        self.events += 1
        if not self.events % _LOOK and time.monotonic() - self._written > _EVERY_S:
            self.write()

    def _begun(self, node: int, thread: str, data: dict[str, Any]) -> None:
        if "tensor" in data:
            row = self.starts.setdefault((node, thread), [0, 0, 0])
            row[2] += row[0] > 0
            row[0] += 1
            row[1] += 1

    def _copied(self, node: int, thread: str, data: dict[str, Any]) -> None:
        if "tensor" not in data:  # over a pipe, which tells of its own
            return
        self.starts[node, thread][0] -= 1
        key = (node, thread, data["tensor"], data["direction"])
        row = self.copies.get(key)
        if row is None:
            row = self.copies[key] = [0, 0, 0, 0, 0]
        row[0] += 1
        row[1] += data["tiles"]
        row[2] += data.get("local_l1", 0)
        row[3] += data.get("remote_l1", 0)
        row[4] += data.get("dram", 0)

    def _asked(self, node: int, thread: str, data: dict[str, Any]) -> None:
        # The fair scheduler also "blocks" whoever could go on, to let others run.
        state = self.scheduler._current_state
        if not getattr(state.blocking_obj, "can_" + state.operation)():
            self._block(node, thread, _name(state.blocking_obj), state.operation)[1] += 1

    def _had(self, what: str) -> Any:
        def add(node: int, thread: str, data: dict[str, Any]) -> None:
            row = self._block(node, thread, data["dfb"], what)
            row[0] += 1
            row[2] += data.get("tiles", 0)
            row[3] += self.implied
            if row[0] == 1 and what in ("reserve", "wait"):
                self.at(thread, what, data["dfb"], "", self.place(sys._getframe(2)))
            if what == "reserve":
                known = self.buffers.setdefault(data["dfb"], {})
                known["deepest"] = max(known.get("deepest", 0), data["occupied"])

        return add

    def _block(self, node: int, thread: str, buffer: str, what: str) -> list[int]:
        key = (node, thread, buffer, what)
        row = self.blocks.get(key)
        if row is None:
            row = self.blocks[key] = [0, 0, 0, 0]
        return row

    def _piped(self, what: str) -> Any:
        def add(node: int, thread: str, data: dict[str, Any]) -> None:
            row = self.pipes.setdefault((node, data["pipe"], what), [0, 0])
            row[0] += 1
            row[1] += data["tiles"]

        return add

    def _started(self, node: int, thread: str, data: dict[str, Any]) -> None:
        kind = self.scheduler._current_kernel_id.kind.name
        self.threads[node, thread] = ["compute" if kind == "COMPUTE" else "datamovement", False]

    def _ended(self, node: int, thread: str, data: dict[str, Any]) -> None:
        self.threads[node, thread][1] = True

    def multiplied(self, left: Any, right: Any) -> None:
        """A matrix product of two blocks of tiles."""
        if self.scheduler is not None:
            node = self.scheduler._current_kernel_id.linear_node
            flops = 2 * math.prod(left.shape) * right.shape[-1] * 32**3
            self.flops[node] = self.flops.get(node, 0) + flops

    # -- where ---------------------------------------------------------------------------------

    def place(self, frame: Any) -> tuple[str, int]:
        """The user's file and line that a frame of the simulator's was called from."""
        return _suspended(frame, self.is_simulators)

    def at(self, thread: str, what: str, name: str, buffer: str, place: tuple[str, int]) -> None:
        """Something was done at a line."""
        key = (thread, what, name, buffer, *place)
        self.places[key] = self.places.get(key, 0) + 1

    def transferred(self, tensor: Any, block: Any, what: str, original: Any) -> None:
        """A copy between a tensor and a block comes to its end: where it stands, what it writes."""
        if self.scheduler is None:
            original()
            return
        kernel = self.scheduler._current_kernel_id
        name = getattr(tensor, "_name", None) or type(tensor).__name__
        side = "_pending_copy_dest_location" if what == "read" else "_pending_copy_src_location"
        place = getattr(block, side, None) or ("", 0)
        buffer = _name(getattr(block, "dfb", None))
        self.at(kernel.func_name, what, name, buffer, place)
        if name not in self.tensors:
            original()
        elif what == "read":
            self._read(tensor, name)
            original()
        else:
            self._write(tensor, name, (kernel.linear_node, kernel.func_name, *place), original)

    def _tiles(
        self, tensor: Any, name: str, kept: dict[str, Any], kind: str
    ) -> tuple[Any, list[int], list[int]] | None:
        """What is kept of a tensor's tiles; where a slice of it begins, and how far it goes.

        None where no places are kept, or that of this slice is not known.
        """
        known = self.tensors[name]
        if known["units"] > self.writes.MOST:
            return None
        unit = _unit(known["shape"], known["tiled"])
        if name not in kept:
            grid = [-(-n // size) for n, size in zip(known["shape"], unit, strict=True)]
            kept[name] = getattr(self.writes, kind)(grid)
        whole = tuple(tensor.shape) == tuple(known["shape"])
        origin = getattr(tensor, "_element_origin", (0,) * len(unit) if whole else None)
        if origin is None or len(origin) != len(unit):
            kept[name].unplaced += 1
            return None
        first = [at // size for at, size in zip(origin, unit, strict=True)]
        extents = [-(-n // size) for n, size in zip(tensor.shape, unit, strict=True)]
        return kept[name], first, extents

    def _read(self, tensor: Any, name: str) -> None:
        found = self._tiles(tensor, name, self.reached, "Reached")
        if found is not None:
            found[0].reach(*found[1:])

    def _write(self, tensor: Any, name: str, writer: Any, original: Any) -> None:
        found = self._tiles(tensor, name, self.written, "Written")
        if found is None:
            original()
            return
        written, first, extents = found
        again = self.limits.get("arithmetic") and written.overlaps(first, extents)
        before = tensor.to_torch().clone() if again else None
        original()
        unit = _unit(self.tensors[name]["shape"], self.tensors[name]["tiled"])
        differs = None if before is None else _differing(before, tensor.to_torch(), unit)
        written.add(first, extents, writer, differs)

    # -- what things are called ----------------------------------------------------------------

    def tensor(self, tensor: Any, name: str, before: str | None) -> None:
        """A tensor is what a variable of the kernel holds; its slices come later, by its name."""
        if not _chosen():
            return
        if before in self.tensors and before != name:
            self.same[before] = name
        if name in self.tensors:
            return
        tiled = getattr(tensor.layout, "name", "") != "ROW_MAJOR_LAYOUT"
        extents = list(tensor.shape)
        tiles = math.prod(extents[:-2]) * math.prod(-(-n // 32) for n in extents[-2:])
        self.tensors[name] = {
            "shape": extents,
            "dtype": str(tensor.dtype).rpartition(".")[2],
            "tiled": tiled,
            "units": tiles if tiled else math.prod(extents),
            "unit_bytes": tensor.size_in_bytes(_TILE_ELEMENTS if tiled else 1),
            "memory": tensor.memory_config.buffer_type.name,
            "devices": getattr(tensor.mesh_shard_info, "num_devices", 1),
        }

    def buffer(self, buffer: Any, name: str, before: str | None = None) -> None:
        """A dataflow buffer is what a variable of the kernel holds."""
        buffer._trace_name = name
        self.buffers.setdefault(name, {}).update(
            shape=list(buffer.shape),
            blocks=buffer._block_count,
            bytes=buffer.capacity_bytes,
        )

    # -- the end -------------------------------------------------------------------------------

    def failed(self, error: BaseException, is_simulators: Any) -> None:
        """The operation ended early: a deadlock, or an error in one of its threads."""
        waiting: dict[tuple[str, str, str, str, int], list[int]] = {}
        for kernel, state in self.scheduler._active.items():
            held = state.blocking_obj
            if held is None or getattr(held, "can_" + state.operation)():
                break
            file, line = _suspended(state.g.gr_frame, is_simulators)
            key = (kernel.func_name, state.operation, _name(held), file, line)
            waiting.setdefault(key, []).append(kernel.linear_node)
        else:
            names = ("thread", "operation", "buffer", "file", "line")
            rows = [
                {**dict(zip(names, key, strict=True)), "nodes": n} for key, n in waiting.items()
            ]
            self.problem = {"kind": "deadlock", "message": "", "blocked": rows}
            return
        # The scheduler puts the thread's name in front, node0-read: it has forgotten it by now.
        running = re.match(r"node(\d+)-", str(error))
        error = _chain(error)[-1]
        said = f"{type(error).__name__}: {error}"
        place = self._stood(error, int(running[1]) if running else -1, is_simulators)
        place["buffer"] = _buffer_of(error)
        self.problem = {"kind": "error", "message": said, **place, "blocked": []}

    def stopped(self, error: BaseException, is_simulators: Any) -> None:
        """The operation was ended from outside, while one of its threads ran."""
        kernel = self.scheduler._current_kernel_id
        place = self._stood(error, getattr(kernel, "linear_node", -1), is_simulators)
        self.problem = {"kind": "stopped", "message": "", **place, "blocked": []}

    @staticmethod
    def _stood(error: BaseException, node: int, is_simulators: Any) -> dict[str, Any]:
        file, line, thread = _raised(error, is_simulators)
        return {"file": file, "line": line, "thread": thread, "node": node, "buffer": ""}

    def write(self) -> None:
        """The sums as they are, whole or not at all."""
        document = {
            name: getattr(self, name)
            for name in ("complete", "events", "operations", "grid", "problem", "tensors", "same")
        }
        # One that is only known by its line may be the simulator's own copy of another.
        used = {buffer for _, _, buffer, _ in self.blocks}
        document["buffers"] = {name: of for name, of in self.buffers.items() if name in used}
        document |= self.limits
        for name in ("copies", "blocks", "pipes", "threads"):
            document[name] = [[*key, *row] for key, row in getattr(self, name).items()]
        document["flops"] = list(self.flops.items())
        names = ("thread", "what", "name", "buffer", "file", "line", "count")
        document["places"] = [
            dict(zip(names, (*key, count), strict=True)) for key, count in self.places.items()
        ]
        document["starts"] = [[*key, *row[1:]] for key, row in self.starts.items()]
        for key, kept in (("reached", self.reached), ("written", self.written)):
            # Of a part of a run it tells nothing.
            whole = kept if self.complete else {}
            document[key] = {name: of.summed() for name, of in whole.items()}
        with open(self.output + ".part", "w", encoding="utf-8") as stream:
            json.dump(document, stream)
        os.replace(self.output + ".part", self.output)
        self._written = time.monotonic()


def _beside(name: str) -> Any:
    """A module of this folder, which is on nobody's path."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _unit(shape: list[int], tiled: bool) -> list[int]:
    """Elements of a tile, or of an element, in each extent."""
    inner = min(2, len(shape)) if tiled else 0
    return [1] * (len(shape) - inner) + [_TILE] * inner


def _differing(before: Any, now: Any, unit: list[int]) -> Any:
    """Of a tile of a block, by its place in it: whether its values are others than before."""

    def differs(tile: Any) -> bool:
        of = tuple(slice(at * n, (at + 1) * n) for at, n in zip(tile, unit, strict=True))
        return bool((before[of] != now[of]).any())

    return differs


class _Named:
    """The simulator's ``_name`` of an object; whoever gives one is heard."""

    def __init__(self, told: Any) -> None:
        self.told = told

    def __get__(self, thing: Any, owner: Any = None) -> Any:
        return None if thing is None else thing.__dict__.get("_name")

    def __set__(self, thing: Any, name: str) -> None:
        before = thing.__dict__.get("_name")
        thing.__dict__["_name"] = name
        self.told(thing, name, before)


def _name(held: Any) -> str:
    """What a thread waits for: a buffer by its variable, or a pipe."""
    name = str(getattr(held, "_trace_name", "?"))
    return "a pipe" if name.startswith("tx_") else name


def _suspended(frame: Any, is_simulators: Any) -> tuple[str, int]:
    while frame is not None and is_simulators(frame.f_code.co_filename):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _raised(error: BaseException, is_simulators: Any) -> tuple[str, int, str]:
    """The innermost place of the user's that an error came through."""
    found, trace = ("", 0, ""), error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        file = code.co_filename
        if not is_simulators(file) and file != __file__ and not file.startswith("<frozen"):
            found = (code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found


def _buffer_of(error: BaseException) -> str:
    """The buffer whose block refused what was asked of it; '' where an error is of none."""
    found, trace = "", error.__traceback__
    while trace is not None:
        buffer = getattr(trace.tb_frame.f_locals.get("self"), "dfb", None)
        found = found if buffer is None else _name(buffer)
        trace = trace.tb_next
    return found


def _chain(error: BaseException | None) -> list[BaseException]:
    """An error and what it came of, the first cause last."""
    found: list[BaseException] = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _lacking(error: BaseException) -> str:
    """What of tt-lang or ttnn the simulator does not have, where an error says so; '' where not."""
    if isinstance(error, AttributeError):
        owner = error.obj if isinstance(error.obj, (type, types.ModuleType)) else type(error.obj)
        module = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__
        if not _is_simulators(module):
            return ""
        space = _called(owner.__name__)
        return f"{space}.{error.name}{_elsewhere(space, str(error.name))}"
    if isinstance(error, ImportError):
        module = error.name or ""
        missing = re.match(r"cannot import name '(\w+)'", error.msg)
        what = f"{missing[1]} of {module}" if missing else f"the module {module}"
        return what if _is_simulators(module) else ""
    if isinstance(error, NameError):
        return str(error.name) if error.name in _COMPILERS else ""
    called = re.match(r"(?:[\w.<>]+\.)?(\w+)\(\) (.+)", str(error))
    if not isinstance(error, TypeError) or called is None or not _has_function(called[1]):
        return ""
    return f"this call: {called[1]}() {called[2]}"


def _called(owner: str) -> str:
    """What a script calls a module or namespace of the simulator's: ttl, ttl.math, ttnn."""
    space = re.fullmatch("_TTL([A-Za-z]*)Namespace", owner)
    if space:
        return ".".join(filter(None, ("ttl", space[1].lower())))
    return "ttnn" if owner == "ttl.sim.ttnnsim" else owner


def _elsewhere(space: str, name: str) -> str:
    """In brackets, where else the simulator's ttl has what it has not there; '' if nowhere."""
    ttl = sys.modules.get("ttl")
    others = [f"ttl.{each}" for each in ("block", "math") if hasattr(getattr(ttl, each, 0), name)]
    return f" (it has {others[0]}.{name})" if others and space.startswith("ttl") else ""


def _is_simulators(module: str) -> bool:
    return module.partition(".")[0] in ("ttl", "ttnn")


def _has_function(name: str) -> bool:
    modules = [m for of, m in list(sys.modules.items()) if of.startswith("ttl.sim")]
    return any(isinstance(vars(m).get(name), types.FunctionType) for m in modules)


def _tell_lacking(sums: Sums, raised: BaseException, is_simulators: Any) -> None:
    """Have the record, the sums and the traceback say what the simulator does not have.

    An error that is raised inside of the simulator is about something else.
    """
    outside = [each for each in _chain(raised) if not is_simulators(_innermost(each))]
    error = next(filter(_lacking, outside), None)
    if error is None:
        return
    what = _lacking(error)
    file, line, _ = _raised(error, is_simulators)
    if sums.problem is not None:
        sums.problem["lacks"] = what
        sums.write()
    elif sys.version_info >= (3, 11):
        error.add_note(f"tt-lang's simulator does not know {what}")
    record = os.environ.get("INSTRUMENT_RECORD")
    if record:
        with open(record, "a", encoding="utf-8") as stream:
            told = {"event": "lacks", "what": what, "file": file, "line": line}
            stream.write(json.dumps(told) + "\n")


def _innermost(error: BaseException) -> str:
    trace, file = error.__traceback__, ""
    while trace is not None:
        file, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return file


def _replace(original: Any, new: Any, *more: Any) -> None:
    """Put another function in the place of one of the simulator's, wherever it was imported."""
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("ttl.sim")]
    for place in (*modules, *more):
        for name, value in list(vars(place).items()):
            if value is original:
                setattr(place, name, new)


def _said(name: str, message: str, file: str, line: int, *_: Any) -> None:
    # The package lacks the module that its own print needs, and would raise FileNotFoundError.
    print(f"{file}:{line}: {name}: {message}", file=sys.stderr, flush=True)


def install(sums: Sums) -> Any:
    """Have the simulator tell its events to the sums; returns its launcher."""
    launcher = importlib.import_module("ttl.sim.ttlang_sim")
    names = ("trace", "dfb", "ttnnsim", "program", "diagnostics", "context", "greenlet_scheduler")
    trace, dfb, ttnn, program, diagnostics, context, scheduling = (
        importlib.import_module(f"ttl.sim.{name}") for name in names
    )
    sums.is_simulators = diagnostics.is_simulator_frame
    _replace(trace.trace, sums.trace)
    _replace(diagnostics.print_diagnostic_error, _said)
    warned = diagnostics.print_diagnostic_warning
    _replace(warned, lambda text, file, line, nodes, *_: _said(nodes, text, file, line))
    ttnn.Tensor._name = _Named(sums.tensor)
    _name_buffers(sums, dfb.DataflowBuffer, diagnostics)
    _count_products(sums, dfb)
    _watch_transfers(sums, dfb.Block, ttnn.Tensor)
    _watch_operations(sums, program, context)
    _watch_runs(sums, scheduling.GreenletScheduler, trace, diagnostics.is_simulator_frame)
    return launcher


def _name_buffers(sums: Sums, buffers: Any, diagnostics: Any) -> None:
    """Buffers are called as their variables, those in a list or a dict by the line of their making.

    What the simulator pops or pushes by itself is counted as such.
    """
    made = buffers.__init__

    def making(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        line = diagnostics.find_user_code_location(sys._getframe(1))[1]
        sums.buffer(self, f"line {line}")

    def implying(original: Any) -> Any:
        def called(self: Any) -> None:
            sums.implied = True
            try:
                original(self)
            finally:
                sums.implied = False

        return called

    buffers.__init__ = making
    buffers._name = _Named(sums.buffer)
    buffers.auto_push_block = implying(buffers.auto_push_block)
    buffers.auto_pop_block = implying(buffers.auto_pop_block)


def _count_products(sums: Sums, dfb: Any) -> None:
    multiply = dfb.matmul

    def counted(left: Any, right: Any, *more: Any, **named: Any) -> Any:
        sums.multiplied(left, right)
        return multiply(left, right, *more, **named)

    _replace(multiply, counted, importlib.import_module("ttl.sim").ttl.math)


def _watch_transfers(sums: Sums, block: Any, tensor: Any) -> None:
    handlers = importlib.import_module("ttl.sim.copyhandlers").HANDLER_REGISTRY
    reads, writes = type(handlers[tensor, block]), type(handlers[block, tensor])
    read, write = reads.transfer, writes.transfer

    def reading(self: Any, src: Any, dst: Any) -> None:
        sums.transferred(src, dst, "read", lambda: read(self, src, dst))

    def writing(self: Any, src: Any, dst: Any) -> None:
        sums.transferred(dst, src, "write", lambda: write(self, src, dst))

    reads.transfer, writes.transfer = reading, writing


def _watch_operations(sums: Sums, program: Any, context: Any) -> None:
    make = program.Program

    def making(*functions: Any, grid: Any, **named: Any) -> Any:
        if _chosen():
            now = context.get_context()
            sums.grid = list(grid) if isinstance(grid, tuple) else [int(grid)]
            sums.limits = {
                "l1_bytes": now.kernel_l1_bytes,
                "l1_limit_bytes": now.config.max_l1_bytes,
                "buffers_made": now.kernel_dfb_count,
                "buffers_limit": now.config.max_dfbs,
                "scheduler": now.config.scheduler_algorithm,
                "arithmetic": not now.config.dry_run,
            }
        return make(*functions, grid=grid, **named)

    program.Program = making


def _watch_runs(sums: Sums, scheduler: Any, trace: Any, is_simulators: Any) -> None:
    original = scheduler.run

    def run(self: Any) -> None:
        if not _chosen():
            original(self)
            return
        sums.scheduler, sums.complete = self, False
        sums.operations += 1
        sums.write()
        trace.set_tracing(trace.ALL_CATEGORIES)
        try:
            original(self)
            sums.complete = True
        except KeyboardInterrupt as error:
            sums.stopped(error, is_simulators)
            raise
        except Exception as error:
            sums.failed(error, is_simulators)
            raise
        finally:
            trace.set_tracing(frozenset())
            sums.scheduler = None
            sums.write()

    scheduler.run = run


def _chosen() -> bool:
    """Whether what runs now is the chosen invocation."""
    gate = sys.modules.get("_instrument_gate")
    return gate is None or bool(getattr(gate, "running", False))


def main() -> None:
    order = json.loads(sys.argv[1])
    script = order["script"]
    sums = Sums(order["output"])
    launcher = install(sums)

    def run_file(*_: object) -> None:
        # Its own parser would take options of the script's for options of the simulator's, and its
        # own exec keeps what the script says when it exits.
        sys.argv = [script, *order["arguments"]]
        try:
            runpy.run_path(script, run_name="__main__")
        except Exception as error:
            frames = importlib.import_module("ttl.sim.diagnostics").is_simulator_frame
            _tell_lacking(sums, error, frames)
            raise

    launcher.run_file = run_file
    if not sys.flags.safe_path:  # as for a script that is started itself
        sys.path[0] = os.path.dirname(script)
    sys.argv = ["tt-lang-sim", script, *order["options"]]
    launcher.main()


if __name__ == "__main__":
    main()
