"""Host time in torch_xla by layer: how much its own metrics have grown within a sample."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from instrumentor_analysis.model import HostLayer, Sample

#: Name of a layer -> torch_xla's metric.
LAYERS = {
    "tracing": "LazyTracing",
    "compile": "CompileTime",
    "execute": "ExecuteTime",
    "to device": "TransferToDeviceTime",
    "from device": "TransferFromDeviceTime",
}


def xla_layers(samples: Sequence[Sample], label: str | None) -> tuple[HostLayer, ...]:
    """Mean of the steady samples of a label; layers that none of them had are absent."""
    steady = [s for s in samples if s.label == label and s.kind == "steady"]
    found: list[HostLayer] = []
    for name, metric in LAYERS.items():
        spent = [sample.layers.get(metric, (0, 0.0)) for sample in steady]
        if any(count for count, _ in spent):
            times, counts = [ms for _, ms in spent], [count for count, _ in spent]
            mean_ms, mean = statistics.fmean(times), statistics.fmean(counts)
            found.append(HostLayer(name, mean_ms, mean, (metric,), "torch_xla"))
    return tuple(found)
