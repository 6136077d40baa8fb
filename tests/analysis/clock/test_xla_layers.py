"""torch_xla's metrics of the samples as layers of a step."""

from __future__ import annotations

from instrumentor_analysis.clock.xla_layers import xla_layers
from instrumentor_analysis.model import HostLayer, Sample, Summary
from instrumentor_analysis.reports.summary import console


def sample(kind: str, **layers: tuple[int, float]) -> Sample:
    return Sample("step", kind, "fwd+bwd", 10.0, layers=layers)


def test_the_mean_of_the_steady_samples() -> None:
    samples = [
        sample("compile", CompileTime=(1, 900.0)),
        sample("steady", LazyTracing=(40, 2.0), ExecuteTime=(1, 5.0)),
        sample("steady", LazyTracing=(40, 4.0)),
    ]
    assert xla_layers(samples, "fwd+bwd") == (
        HostLayer("tracing", 3.0, 40, ("LazyTracing",), "torch_xla"),
        HostLayer("execute", 2.5, 0.5, ("ExecuteTime",), "torch_xla"),
    )
    assert xla_layers(samples, "step") == ()


def test_a_run_with_timers_only_shows_them() -> None:
    layers = (HostLayer("tracing", 3.0, 40, ("LazyTracing",), "torch_xla"),)
    assert "of the host, in torch_xla, 40 x: LazyTracing" in console(
        Summary("wallclock", host_layers=layers), width=120
    )
