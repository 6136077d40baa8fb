"""The dynamo backend `tt`: a compiled graph is one command, and so is its backward."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch.utils.flop_counter import flop_registry

from ._kernels import Cell, enqueue, new_tensor
from ._queue import QUEUE

#: Of one P150 at HiFi4: 110 cores at 1.35 GHz, 2 * 32^3 FLOPs in 64 cycles.
PEAK_FLOPS = 110 * 1_350_000_000 * 1024


class CompileOption(str, Enum):
    """Names of `torch.compile(fn, backend="tt", options={...})`."""

    OPT_LEVEL = "optimization_level"
    EXPERIMENTAL_WEIGHT_DTYPE = "experimental_weight_dtype"
    MATH_FIDELITY = "math_fidelity"
    FP32_DEST_ACC_EN = "fp32_dest_acc_en"
    ENABLE_TRACE = "enable_trace"
    ENABLE_CONST_EVAL = "enable_const_eval"
    EXPERIMENTAL_ENABLE_DRAM_SPACE_SAVING_OPTIMIZATION = (
        "experimental_enable_dram_space_saving_optimization"
    )
    TTNN_PERF_METRICS_ENABLED = "ttnn_perf_metrics_enabled"
    TTNN_PERF_METRICS_OUTPUT_FILE = "ttnn_perf_metrics_output_file"


BfpDtype = Enum("BfpDtype", ["BfpBf8", "BfpBf4"])
MathFidelity = Enum("MathFidelity", ["LoFi", "HiFi2", "HiFi3", "HiFi4"])


def _tt_backend(graph: Any, inputs: Any, *, options: dict[Any, Any] | None = None) -> Any:
    known = {option.value for option in CompileOption}
    unknown = sorted({getattr(o, "value", o) for o in options or {}} - known)
    if unknown:
        raise ValueError(f"Unknown compile option(s) {unknown}; supported: {sorted(known)}")
    spelled = {getattr(o, "value", o): str(value) for o, value in (options or {}).items()}
    QUEUE.log.append({"kind": "compile", "options": spelled})
    report = spelled.get("ttnn_perf_metrics_output_file", "")
    compiled = functools.partial(_compiled, report=report, times=_times(spelled))
    return aot_autograd(
        fw_compiler=functools.partial(compiled, kind="forward"),
        bw_compiler=functools.partial(compiled, kind="backward"),
        inference_compiler=functools.partial(compiled, kind="inference"),
    )(graph, inputs)


def _times(options: dict[str, str]) -> float:
    """How many times as long a graph takes with these options."""
    found = 1.0
    for part in filter(None, os.environ.get("TT_STANDIN_TIMES", "").split(",")):
        setting, _, times = part.partition(":")
        name, _, value = setting.partition("=")
        if options.get(name, "").rpartition(".")[2] == value:
            found *= float(times)
    return found


def _compiled(
    graph: torch.fx.GraphModule, _inputs: Any, *, kind: str, report: str, times: float
) -> Callable[..., Any]:
    """Run a graph of CPU values as one command; what a graph makes, it makes on the CPU."""
    if report:
        flops = {"total_flops": _flops(graph), "peak_flops_per_sec": PEAK_FLOPS}
        Path(f"{report}.json").write_text(json.dumps({"flops": flops}), encoding="utf-8")
    for node in graph.graph.nodes:
        if "device" in node.kwargs:
            node.update_kwarg("device", torch.device("cpu"))
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    slots = [getattr(slot, "meta", {}).get("val") for slot in output.args[0]]
    graph.recompile()

    def run(*values: Any) -> Any:
        contiguous = [v.contiguous() for v in values]  # as they are on tt, if not in their cells
        return [v for v in graph(*contiguous) if isinstance(v, torch.Tensor)]

    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
        made = [None if slot is None else new_tensor(slot, Cell([0])) for slot in slots]
        enqueue(kind, run, tuple(inputs), [tensor for tensor in made if tensor is not None], times)
        inputs.clear()  # as aot_autograd asks of whom it hands its list
        return made

    call._boxed_call = True
    return call


def _flops(graph: torch.fx.GraphModule) -> int:
    """Of the products in a graph, as torch counts them."""

    def value(node: Any) -> Any:
        return node.meta.get("val") if isinstance(node, torch.fx.Node) else node

    total = 0
    for node in graph.graph.nodes:
        formula = flop_registry.get(getattr(node.target, "_overloadpacket", None))
        if formula is not None:
            total += formula(*map(value, node.args), out_val=value(node))
    return total


def register() -> None:
    """Make the backend known to dynamo."""
    register_backend(_tt_backend, name="tt")
