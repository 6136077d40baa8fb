"""What runs work on devices: one row for each runtime, and what is asked of it.

A further runtime is a row here. What a row is asked must not open a device that the script has
not opened, and sees only modules that the script has imported.
"""

import os
import sys
from functools import lru_cache
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from instrumentor.runtime.recorder.living import living

#: A function that waits for all of a device, with its name for the reader of the result.
Wait = Tuple[str, Callable[[], Any]]


class Runtime(NamedTuple):
    """One row.

    Attributes:
        kind: the type of torch's devices that it drives, else the name of its module.
        module: the package that a script imports for it.
        opened: whether the script has opened a device with it.
        look: finds its devices, where that takes too long to be done in every step.
        waits: functions that wait for all of its devices; each later one is tried when one before
            it fails or leaves something. None may be there.
        in_torch: whether torch's tensors live on its devices.
        readable: whether tensors there can be read without new work for a compiler, so that reads
            can wait for what made them.
        cut: ends a graph that is still being traced, and leaves the random state as it was.
        compiled: graphs or programs made so far; None where that is not counted.
        peak_memory: (function asked, bytes) at most held so far; None where it is not told.
        held: bytes allocated on all of its devices now; None where it is not told.
        room: bytes that there are on them; None where it is not told.
        held_l1, room_l1: the same of the memory beside their cores.
        hardware: `arch` and `chips`, as far as it tells them.
        profiled: whether torch.profiler sees its operations.
        process_group: its backend of torch.distributed when one process drives all its devices.
        tenstorrent: whether Tenstorrent's devices may be what it drives.
    """

    kind: str
    module: str
    opened: Callable[[], bool]
    waits: Callable[[], Iterable[Wait]]
    look: Callable[[], None] = lambda: None
    in_torch: bool = True
    readable: bool = True
    cut: Optional[Callable[[], None]] = None
    compiled: Callable[[], Optional[int]] = lambda: None
    peak_memory: Callable[[], Optional[Tuple[str, int]]] = lambda: None
    held: Callable[[], Optional[int]] = lambda: None
    room: Callable[[], Optional[int]] = lambda: None
    held_l1: Callable[[], Optional[int]] = lambda: None
    room_l1: Callable[[], Optional[int]] = lambda: None
    hardware: Callable[[], Dict[str, Any]] = dict
    profiled: bool = False
    process_group: str = ""
    tenstorrent: bool = True


# -- devices of torch ------------------------------------------------------------------------------


@lru_cache(None)
def of_torch(kind: str, **more: Any) -> Runtime:
    """The row of a type of torch's devices, of which the device module tells what there is."""
    module = more.pop("module", "torch")
    return Runtime(kind, module, lambda: torch_opened(kind), lambda: synchronizers(kind), **more)


def torch_opened(kind: str) -> bool:
    """Whether torch's module for that type of device is initialised."""
    module = getattr(sys.modules.get("torch"), kind, None)
    return bool(getattr(module, "is_initialized", bool)())


def synchronizers(kind: str) -> Iterator[Wait]:
    """The device module's own function, or torch's for the accelerator that it is."""
    torch = sys.modules.get("torch")
    own = getattr(getattr(torch, kind, None), "synchronize", None)
    if callable(own):
        yield "torch.%s.synchronize" % kind, own
        return
    accelerator: Any = getattr(torch, "accelerator", None)
    current = getattr(accelerator, "current_accelerator", lambda: None)()
    if getattr(current, "type", None) == kind:
        yield "torch.accelerator.synchronize", accelerator.synchronize


def cuda_peak() -> Tuple[str, int]:
    """What torch's allocator has had at most."""
    return "torch.cuda.max_memory_allocated", sys.modules["torch"].cuda.max_memory_allocated()


def cuda_held() -> int:
    """What torch's allocator has given out."""
    return int(sys.modules["torch"].cuda.memory_allocated())


def tt_hardware() -> Dict[str, Any]:
    """Of the mesh that tt-crank drives."""
    tt = getattr(sys.modules.get("torch"), "tt", None)
    if tt is None:
        return {}
    rows, columns = tt.mesh_shape()
    return {"arch": str(tt.arch()), "chips": int(rows) * int(columns)}


# -- torch_xla -------------------------------------------------------------------------------------


def xla_opened() -> bool:
    """Whether the script has asked torch_xla for a device."""
    lowest = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    return bool(getattr(lowest, "_xla_runtime_is_initialized", bool)())


def wait_for_xla() -> None:
    """Wait for torch_xla's queues: its sync alone does not.

    On torch_xla 2.9 (CPU) `sync(wait=True)` returned after 1 ms with 305 ms of work still pending.
    """
    import torch_xla.core.xla_model

    torch_xla.core.xla_model.wait_device_ops()


def cut_graph() -> None:
    """Sync XLA's pending graph, which advances the seed on the device: that is put back."""
    import torch_xla
    import torch_xla.core.xla_model

    seed = torch_xla.core.xla_model.get_rng_state()
    if hasattr(torch_xla, "sync"):
        torch_xla.sync(wait=True)
    else:
        torch_xla.core.xla_model.mark_step(wait=True)
    torch_xla.core.xla_model.set_rng_state(seed)


def xla_compiled() -> Optional[int]:
    """Graphs, as torch_xla.debug.metrics.metric_data reads them; that module may not be loaded."""
    lowest = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    if lowest is None:
        return None
    data = lowest._xla_metric_data("CompileTime")
    return int(data[0]) if data else 0


def xla_hardware() -> Dict[str, Any]:
    """Of the first device."""
    runtime = sys.modules.get("torch_xla.runtime")
    if runtime is None or not xla_opened():  # asking would open it
        return {}
    attributes = runtime.global_runtime_device_attributes()
    if not attributes or "device_arch" not in attributes[0]:
        return {}
    return {"arch": str(attributes[0]["device_arch"]).lower()}


# -- jax -------------------------------------------------------------------------------------------


def jax_opened() -> bool:
    """Whether jax has set up a backend, which asking for its arrays would do."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "backends_are_initialized", bool)())


def wait_for_jax() -> None:
    """Wait for every array that lives."""
    for array in sys.modules["jax"].live_arrays():
        array.block_until_ready()


# -- ttnn and ttml ---------------------------------------------------------------------------------

#: Devices of ttnn that the script holds, as they were found last.
TTNN_DEVICES: List[Any] = []
#: References to one of them that are this list's, the loop's and the call's.
OURS = 3


def look_for_ttnn() -> None:
    """Find ttnn's devices, of which it keeps no list that could be asked for."""
    TTNN_DEVICES.clear()
    ttnn = sys.modules.get("ttnn")
    types = {getattr(ttnn, name, None) for name in ("MeshDevice", "Device")} - {None}
    if types:
        TTNN_DEVICES.extend(living(lambda each: type(each) in types))


def ttnn_opened() -> bool:
    """Whether a device was found; one that the script has dropped may have been replaced."""
    if any(sys.getrefcount(device) <= OURS for device in TTNN_DEVICES):
        look_for_ttnn()
    return bool(TTNN_DEVICES)


def wait_for_ttnn() -> None:
    """Wait for every command queue of every device."""
    for device in TTNN_DEVICES:
        sys.modules["ttnn"].synchronize_device(device)


def ttnn_compiled() -> Optional[int]:
    """Programs in the caches of the devices."""
    counts = [getattr(device, "num_program_cache_entries", None) for device in TTNN_DEVICES]
    return sum(int(count()) for count in counts if count is not None) if any(counts) else None


def ttnn_held(kind: str) -> Optional[int]:
    """What the allocators of its devices have given out; a mesh's does so on all its chips.

    Args:
        kind: the name of ttnn's type of buffer, DRAM or L1.
    """
    views = ttnn_views(kind)
    per_bank = "total_bytes_allocated_per_bank"
    each = [getattr(v, per_bank) * v.num_banks * d.get_num_devices() for d, v in views]
    return sum(each) if views else None


def ttnn_room(kind: str) -> Optional[int]:
    """That of all chips, of which a submesh has none of its own; `kind` as above."""
    views = ttnn_views(kind)
    chips = {chip for device, _ in views for chip in device.get_device_ids()}
    per_chip = max((v.total_bytes_per_bank * v.num_banks for _, v in views), default=0)
    return per_chip * len(chips) if views else None


def ttnn_views(kind: str) -> List[Tuple[Any, Any]]:
    """Devices with what ttnn tells of that memory of each of their chips."""
    ttnn: Any = sys.modules.get("ttnn")
    buffers = getattr(getattr(ttnn, "BufferType", None), kind, None)
    if buffers is None or not hasattr(ttnn, "get_memory_view"):
        return []
    return [(each, ttnn.get_memory_view(each, buffers)) for each in TTNN_DEVICES]


def ttnn_hardware() -> Dict[str, Any]:
    """Of all devices together; submeshes are parts of another."""
    if not TTNN_DEVICES:
        return {}
    arch = str(TTNN_DEVICES[0].arch()).rpartition(".")[2].lower()
    return {"arch": arch, "chips": max(device.get_num_devices() for device in TTNN_DEVICES)}


def ttml_opened() -> bool:
    """Whether ttml can have opened the device: asking its context for one would open it."""
    return "ttml" in sys.modules and not TTNN_DEVICES and bool(tenstorrent_held())


def wait_for_ttml() -> None:
    """Wait for the command queues of ttml's device."""
    device = sys.modules["ttml"].autograd.AutoContext.get_instance().get_device()
    sys.modules["ttnn"].synchronize_device(device)


# -- the table -------------------------------------------------------------------------------------

#: Why a device that no row drives is not waited for.
NOBODY_DRIVES = "no runtime that is known drives it"

#: Those of torch first: where its tensors tell the device, the others are waited for beside it.
RUNTIMES: Tuple[Runtime, ...] = (
    Runtime(
        "xla",
        "torch_xla",
        xla_opened,
        lambda: [("torch_xla.core.xla_model.wait_device_ops", wait_for_xla)],
        readable=False,  # a part of a tensor is a graph of its own
        cut=cut_graph,
        compiled=xla_compiled,
        hardware=xla_hardware,
    ),
    of_torch("cuda", peak_memory=cuda_peak, held=cuda_held, profiled=True, tenstorrent=False),
    of_torch("xpu", tenstorrent=False),
    of_torch("mtia", tenstorrent=False),
    of_torch("tt", module="tt_crank", hardware=tt_hardware, process_group="tt"),
    Runtime(
        "jax",
        "jax",
        jax_opened,
        lambda: [("block_until_ready of every jax array", wait_for_jax)],
        in_torch=False,
        readable=False,
    ),
    Runtime(
        "ttnn",
        "ttnn",
        ttnn_opened,
        lambda: [("ttnn.synchronize_device", wait_for_ttnn)],
        look=look_for_ttnn,
        in_torch=False,
        readable=False,
        compiled=ttnn_compiled,
        held=lambda: ttnn_held("DRAM"),
        room=lambda: ttnn_room("DRAM"),
        held_l1=lambda: ttnn_held("L1"),
        room_l1=lambda: ttnn_room("L1"),
        hardware=ttnn_hardware,
    ),
    Runtime(
        "ttml",
        "ttml",
        ttml_opened,
        lambda: [("ttnn.synchronize_device", wait_for_ttml)],
        in_torch=False,
        readable=False,
    ),
)
#: Of these the ones that count what they compile, and that tell what their devices hold.
COUNTING = [row for row in RUNTIMES if row.compiled is not Runtime._field_defaults["compiled"]]
MEASURING = [row for row in RUNTIMES if row.held is not Runtime._field_defaults["held"]]
#: Of devices that torch has none of.
BESIDE_TORCH = [row for row in RUNTIMES if not row.in_torch]
KINDS = [row.kind for row in RUNTIMES]
#: Where nothing can be pending.
HOST = of_torch("cpu", profiled=True, tenstorrent=False)


def loaded(rows: Sequence[Runtime] = RUNTIMES) -> List[Runtime]:
    """Those of the rows whose module the script has imported."""
    modules = sys.modules
    return [each for each in rows if each.module in modules]


def torch_backend() -> List[Runtime]:
    """A row for another backend of torch, by the name that it was given; of one that has none."""
    lowest = getattr(sys.modules.get("torch"), "_C", None)
    own = getattr(lowest, "_get_privateuse1_backend_name", str)()
    return [of_torch(own)] if own and own not in KINDS else []


def runtime_of(kind: Optional[str]) -> Runtime:
    """The row of a type of device; one that is unknown is asked as torch's devices are."""
    if kind in (None, "cpu", "unknown"):
        return HOST
    found = (each for each in RUNTIMES if each.kind == kind)
    return next(found, None) or of_torch(str(kind))


def opened_runtimes(look: bool, beside_torch: bool = False) -> List[Runtime]:
    """The rows with which the script has opened a device.

    Args:
        look: for devices that may have been opened since this was asked for last.
        beside_torch: those alone that torch has no devices of.
    """
    for each in RUNTIMES if look else ():
        each.look()
    rows = loaded(BESIDE_TORCH) if beside_torch else loaded() + torch_backend()
    return [each for each in rows if each.opened()]


# -- devices that are in use, whoever drives them --------------------------------------------------


def is_simulated() -> bool:
    """Whether a simulator takes the place of every Tenstorrent device."""
    crank = os.environ.get("TT_CRANK_USE_SIMULATOR") == "1"
    return crank or bool(os.environ.get("TT_METAL_SIMULATOR"))


def undriven(opened: Iterable[Runtime]) -> str:
    """A Tenstorrent device that this process uses and none of these drives; "" without one."""
    return "" if any(each.tenstorrent for each in opened) else tenstorrent_held()


def tenstorrent_held() -> str:
    """Its node among the open files, or the library of its simulator in memory; "" if neither."""
    try:
        root = os.path.realpath(os.environ.get("INSTRUMENT_DEVICE_ROOT") or "/dev/tenstorrent")
        files = (os.path.realpath("/proc/self/fd/" + n) for n in os.listdir("/proc/self/fd"))
        node = next((file for file in files if file.startswith(root + "/")), "")
        simulator = os.environ.get("TT_METAL_SIMULATOR", "")
        if node or not simulator:
            return node
        with open("/proc/self/maps") as maps:
            return simulator if os.path.realpath(simulator) in maps.read() else ""
    except OSError:  # another system
        return ""
