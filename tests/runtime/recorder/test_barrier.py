"""The device that the barrier waits for, how it waits, and what its own check makes of that."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder.recorder import Recorder
from tests.runtime.recorder.tensors import Tensor, events


def on(device: str) -> Tensor:
    return Tensor((4, 4), device=SimpleNamespace(type=device))


class Module:
    """As much of a model as the barrier looks at."""

    def __init__(self, *parameters: Tensor) -> None:
        self.held = parameters

    def parameters(self) -> Any:
        return iter(self.held)


class Odd:
    @property
    def device(self) -> object:
        raise OSError("not now")


OPTIMIZER = SimpleNamespace(param_groups=[{"params": [on("xla")], "lr": 0.1}])


@pytest.mark.parametrize(
    ("values", "device"),
    [
        ((on("cpu"),), "cpu"),
        ((0.25, on("xla")), "xla"),
        ((on("cpu"), on("xla")), "xla"),  # a batch that only a helper moves
        ((0.25, on("cpu"), Module(on("cpu"), on("cuda"))), "cuda"),
        ((Module(on("cpu")),), "cpu"),
        ((SimpleNamespace(device=SimpleNamespace(type="cuda"), net=Module(on("cpu"))),), "cpu"),
        ((SimpleNamespace(name="t", net=Module(on("xla")), seen=[on("cpu")] * 99),), "xla"),
        ((SimpleNamespace(inner=SimpleNamespace(optimizer=OPTIMIZER)),), "xla"),
        (({"loss": [on("cpu"), on("mps")]},), "mps"),
        ((Module(on("meta")), on("cpu")), "cpu"),
        ((Odd(), on("cuda")), "cuda"),
        ((0.25, None, "text"), "unknown"),
    ],
)
def test_the_device_of_the_barrier(
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    values: tuple[object, ...],
    device: str,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert recorder.barrier.find_device(values) == device
    warned = "nothing waited for" in (tmp_path / "record.jsonl").read_text()
    assert warned == (device == "unknown")


def test_what_the_script_has_opened_counts_where_no_tensor_is(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    opened = [False]
    cuda = SimpleNamespace(
        is_initialized=lambda: opened[0], synchronize=lambda: waits.append("cuda"),
        max_memory_allocated=lambda: 0,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    recorder.begin()
    recorder.end(0.25)
    assert (recorder.barrier.device, waits) == ("unknown", [])
    opened[0] = True
    recorder.begin()
    recorder.end(0.25)
    assert (recorder.barrier.device, waits) == ("cuda", ["cuda"])


def test_an_object_that_holds_itself_is_no_endless_search(recorder: Recorder) -> None:
    around = SimpleNamespace(parts=[])
    around.parts += [around] * 64
    around.parts.append(around.parts)
    assert recorder.barrier.device_of(around) is None
    assert recorder.barrier.device_of(around.parts) is None


@pytest.mark.parametrize(
    ("values", "device"),
    [
        ((on("cpu"),), "cuda"),  # a copy, for all that is known
        ((on("cpu"), Module(Tensor((4,), device=on("cpu").device, requires_grad=True))), "cpu"),
        ((on("cpu"), Module(Tensor((4,), device=on("cuda").device, requires_grad=True))), "cuda"),
    ],
)
def test_a_loss_on_the_cpu_is_no_proof_where_another_device_is_open(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, values: tuple[object, ...], device: str
) -> None:
    cuda = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    assert recorder.barrier.find_device(values) == device


class Simulated:
    """A device in simulated time: what runs on it, and what a read of one of its tensors waits for.

    Attributes:
        now: seconds, on the host.
        busy_until: when the last command ends.
    """

    READ_S = 0.001

    def __init__(self, *, reads_in_order: bool, synchronize: str = "") -> None:
        self.now = 0.0
        self.busy_until = 0.0
        self.reads_in_order = reads_in_order
        self.module = SimpleNamespace(is_initialized=lambda: True)
        if synchronize:
            works = synchronize == "works"
            self.module.synchronize = lambda: self.wait(self.busy_until) if works else None

    def wait(self, until: float) -> None:
        self.now = max(self.now, until)

    def run(self, seconds: float, *outputs: DeviceTensor) -> None:
        """A command is enqueued; the host goes on."""
        self.busy_until = max(self.busy_until, self.now) + seconds
        for tensor in outputs:
            tensor.ready_s = self.busy_until


class DeviceTensor:
    """As much of a tensor as a barrier uses."""

    is_leaf = True
    dtype = "float32"

    def __init__(self, device: Simulated, grad: DeviceTensor | None = None) -> None:
        self.on = device
        self.requires_grad = grad is not None
        self.device = SimpleNamespace(type="npu")
        self.ready_s = 0.0
        self.grad = grad

    def numel(self) -> int:
        return 8

    def detach(self) -> DeviceTensor:
        return self

    def cpu(self) -> None:
        self.on.wait(self.on.busy_until if self.on.reads_in_order else self.ready_s)
        self.on.now += Simulated.READ_S


def trained_on(
    device: Simulated, monkeypatch: pytest.MonkeyPatch, folder: Path, *, seen: bool = True
) -> tuple[list[float], list[dict[str, Any]]]:
    """Milliseconds of eight steps that take 300 ms on the device, and what was recorded."""
    monkeypatch.setenv("INSTRUMENT_RECORD", str(folder / "record.jsonl"))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    monkeypatch.setattr("time.perf_counter", lambda: device.now)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(npu=device.module))
    recorder = Recorder(steps=8, warmup=1, profiler="wallclock")
    leaves = [DeviceTensor(device, DeviceTensor(device)) for _ in range(5)]
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    while not recorder.finished():
        loss = DeviceTensor(device)
        recorder.begin()
        device.run(0.1, loss)
        for gradient in reversed(gradients):
            device.run(0.04, gradient)
        recorder.end(*([loss, leaves] if seen else [SimpleNamespace(device=loss.device, dtype="")]))
        device.run(0.05, *leaves)
    return [e["ms"] for e in events(folder, "sample")], events(folder)


@pytest.mark.parametrize(
    ("reads_in_order", "synchronize", "method"),
    [
        (True, "works", "torch.npu.synchronize"),
        (False, "works", "torch.npu.synchronize"),
        (True, "does nothing", "reading the loss"),
        (True, "", "reading the loss"),
        (False, "", "reading the loss, the first and the last gradient and parameter"),
        (False, "does nothing", "reading the loss, the first and the last gradient and parameter"),
    ],
)
def test_the_cheapest_way_that_leaves_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    reads_in_order: bool,
    synchronize: str,
    method: str,
) -> None:
    device = Simulated(reads_in_order=reads_in_order, synchronize=synchronize)
    samples, recorded = trained_on(device, monkeypatch, tmp_path)
    assert len(samples) == 8
    assert samples == pytest.approx([300.0] * 8, rel=0.05)  # the reads themselves take a little
    assert [e["barrier"] for e in recorded if e["event"] == "sample"][-1] == method
    checks = events(tmp_path, "barrier")
    assert (checks[-1]["method"], checks[-1]["idle"]) == (method, True)
    assert all(check["left_ms"] > 100 for check in checks if not check["idle"])


def test_without_anything_to_read_no_sample_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device = Simulated(reads_in_order=True)
    samples, recorded = trained_on(device, monkeypatch, tmp_path, seen=False)
    assert samples == []
    refused = events(tmp_path, "refused")
    assert (
        len(refused) == 8 and "nothing proves that the device npu is idle" in refused[0]["reason"]
    )
    assert recorded[-1]["event"] == "complete"


class Node:
    """Of the autograd graph."""

    def __init__(self, *following: object) -> None:
        self.next_functions = [*((node, 0) for node in following), (None, 0)]


class AccumulateGrad(Node):
    """A leaf of it."""

    def __init__(self, variable: DeviceTensor) -> None:
        super().__init__()
        self.variable = variable


def test_a_step_on_a_device_that_returns_its_loss_on_the_host(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The graph of the loss tells where its leaves are."""
    device = Simulated(reads_in_order=True, synchronize="works")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(npu=device.module))
    monkeypatch.setattr("time.perf_counter", lambda: device.now)
    leaf = DeviceTensor(device, DeviceTensor(device))
    to_host = Node(AccumulateGrad(leaf))
    loss = SimpleNamespace(device=SimpleNamespace(type="cpu"), dtype="", grad_fn=to_host)
    recorder.begin()
    device.run(0.3, leaf)
    recorder.end(loss)
    assert recorder.barrier.device == "npu"
    (sample,) = events(tmp_path, "sample")
    assert sample["ms"] == pytest.approx(300.0, rel=0.05)
    assert sample["device"] == "npu"


class MeshDevice:
    """A device of ttnn: two command queues that the host does not wait for."""

    def __init__(self) -> None:
        self.busy_until = 0.0
        self.programs = 0

    def num_program_cache_entries(self) -> int:
        return self.programs


class TTNN:
    """As much of ttnn as the recorder asks, in simulated time."""

    MeshDevice = MeshDevice

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.broken = False
        monkeypatch.setattr("time.perf_counter", lambda: self.now)
        monkeypatch.setitem(sys.modules, "ttnn", self)
        monkeypatch.setitem(sys.modules, "torch", None)

    def synchronize_device(self, device: MeshDevice) -> None:
        if self.broken:
            raise RuntimeError("TT_THROW")
        self.now = max(self.now, device.busy_until)


def host_loss() -> Tensor:
    return Tensor((1,), requires_grad=True)


def test_every_open_device_of_ttnn_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    ttnn = TTNN(monkeypatch)
    recorder = Recorder(steps=4, warmup=1, profiler="wallclock")
    devices = [MeshDevice(), MeshDevice()]  # opened ahead of the loop
    step = 0
    while not recorder.finished():
        recorder.begin()
        for queued_s, device in zip((0.1, 0.3), devices, strict=True):
            device.busy_until = ttnn.now + queued_s
            device.programs += step == 0
        recorder.end(host_loss())  # which says nothing of what these devices have to do
        devices[0].busy_until = ttnn.now + 9.0  # after the region: no part of the next
        step += 1
    samples = events(tmp_path, "sample")
    assert [e["ms"] for e in samples] == pytest.approx([300.0] * 4)
    assert {(e["device"], e["barrier"]) for e in samples} == {("ttnn", "ttnn.synchronize_device")}
    assert [e.get("compiled") for e in samples] == [{"ttnn": 2}, None, None, None]
    for check in events(tmp_path, "barrier"):
        assert (check["idle"], check["left_ms"], check["cost_ms"], check["reads"]) == (
            True,
            0,
            0,
            0,
        )
    assert not recorder.barrier.opened  # nobody but the script keeps its devices


def test_a_device_that_replaces_another_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    ttnn = TTNN(monkeypatch)
    recorder = Recorder(steps=4, warmup=1, profiler="wallclock")
    while not recorder.finished():
        recorder.begin()
        device = MeshDevice()
        device.busy_until = ttnn.now + 0.2
        recorder.end(host_loss())
    assert [e["ms"] for e in events(tmp_path, "sample")] == pytest.approx([200.0] * 4)


def test_a_device_that_cannot_be_waited_for_gives_no_sample(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder, tmp_path: Path
) -> None:
    ttnn = TTNN(monkeypatch)
    ttnn.broken = True
    device = MeshDevice()
    recorder.begin()
    recorder.end(host_loss())
    recorder.barrier.release()
    del device
    assert events(tmp_path, "sample") == []
    (refused,) = events(tmp_path, "refused")
    assert "device ttnn is idle (ttnn.synchronize_device: TT_THROW)" in refused["reason"]


def test_ttnn_is_waited_for_beside_the_device_of_the_loss(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ttnn = TTNN(monkeypatch)
    other = MeshDevice()
    device = Simulated(reads_in_order=True, synchronize="works")
    monkeypatch.setattr(device, "wait", lambda until: setattr(ttnn, "now", max(ttnn.now, until)))
    monkeypatch.setenv("INSTRUMENT_RECORD", str(tmp_path / "record.jsonl"))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(npu=device.module))
    recorder = Recorder(steps=3, warmup=1, profiler="wallclock")
    while not recorder.finished():
        recorder.begin()
        device.busy_until, other.busy_until = ttnn.now + 0.1, ttnn.now + 0.4
        recorder.end(DeviceTensor(device))
    samples = events(tmp_path, "sample")
    assert [e["ms"] for e in samples] == pytest.approx([400.0] * 3, rel=0.01)
    assert samples[-1]["barrier"] == "torch.npu.synchronize and ttnn.synchronize_device"


@pytest.mark.parametrize("held", [True, False])
def test_a_device_that_no_known_runtime_drives_gives_no_sample(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder, tmp_path: Path, held: bool
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    node = tmp_path / "devices" / "0"
    node.parent.mkdir()
    node.touch()
    monkeypatch.setenv("INSTRUMENT_DEVICE_ROOT", str(node.parent))
    stream = node.open()
    if not held:
        stream.close()
    recorder.begin()
    recorder.end(host_loss())
    stream.close()
    assert len(events(tmp_path, "sample")) == (not held)
    reasons = [e["reason"] for e in events(tmp_path, "refused")]
    why = "no runtime that is known drives it"
    assert reasons == [f"nothing proves that the device {node} is idle ({why})"] * held


def test_a_device_of_torch_that_is_opened_late_is_driven_by_its_runtime(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder, tmp_path: Path
) -> None:
    """As long as a tensor tells the device, no step asks torch's runtimes what they have opened."""
    asked = []

    def is_initialized() -> bool:
        asked.append(recorder.taken)
        return recorder.taken > 2

    tt = SimpleNamespace(is_initialized=is_initialized, synchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(tt=tt))
    monkeypatch.setitem(sys.modules, "tt_crank", SimpleNamespace())
    node = tmp_path / "devices" / "0"
    node.parent.mkdir()
    node.touch()
    for device in ("cpu", "cpu", "cpu", "tt"):
        recorder.begin()
        if device == "tt":
            monkeypatch.setenv("INSTRUMENT_DEVICE_ROOT", str(node.parent))
        with node.open():
            recorder.end(on(device))
    assert [e["device"] for e in events(tmp_path, "sample")] == ["cpu", "cpu", "cpu", "tt"]
    assert not {1, 2} & set(asked)
