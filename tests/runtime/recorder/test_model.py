"""What the recorder tells of a model, and that published utilisations follow from it."""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from instrumentor.runtime.recorder.flops import CompilerReports, Counting
from instrumentor.runtime.recorder.model import described, facts_of
from instrumentor.runtime.recorder.recorder import Recorder
from instrumentor_analysis.clock.flops import flops_per_token
from instrumentor_analysis.ops.roofline import architecture
from tests.runtime.recorder.tensors import events

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")
nn = torch.nn


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, hidden: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)


class Block(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, hidden: int, inner: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.attention = Attention(hidden, heads, kv_heads, head_dim)
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(hidden)) for _ in range(2))


class Llama(nn.Module):  # type: ignore[misc, name-defined]
    """Parameters of Llama's architecture; nothing is computed."""

    def __init__(
        self, layers: int, hidden: int, inner: int, heads: int, head_dim: int, tied: bool
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(128256, hidden)
        blocks = (Block(hidden, inner, heads, 8, head_dim) for _ in range(layers))
        self.layers = nn.ModuleList(blocks)
        self.norm = nn.Parameter(torch.ones(hidden))
        self.lm_head = nn.Linear(hidden, 128256, bias=False)
        if tied:
            self.lm_head.weight = self.embed_tokens.weight


class Lora(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, base: Any, rank: int) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)


def llama_1b() -> Any:
    """Llama 3.2 1B, all of it trained but the tied embedding."""
    model = Llama(layers=16, hidden=2048, inner=8192, heads=32, head_dim=64, tied=True)
    model.embed_tokens.weight.requires_grad_(False)
    return model


def llama_70b() -> Any:
    """Llama 3.1 70B with adapters of rank 4 on queries and values."""
    model = Llama(layers=80, hidden=8192, inner=28672, heads=64, head_dim=128, tied=False)
    model.requires_grad_(False)
    for block in model.layers:
        for name in ("q_proj", "v_proj"):
            setattr(block.attention, name, Lora(getattr(block.attention, name), 4))
    return model


# tt-blacksmith #685 and #686: tokens a step, its seconds, TFLOP/s and MFU as printed there.
PUBLISHED = [
    (llama_1b, 1, 1024, 0.886, 8.43, 5.54),
    (llama_1b, 1, 1024, 0.825, 9.05, 5.95),
    (llama_70b, 8, 256, 7.260, 9.88, 0.81),
    (llama_70b, 8, 256, 3.153, 22.74, 1.87),
    (llama_70b, 8, 256, 2.474, 28.98, 2.38),
]


@pytest.mark.parametrize(("make", "chips", "tokens", "seconds", "tflops", "mfu"), PUBLISHED)
def test_published_rows_follow_from_the_shape_of_the_model_alone(
    make: Any, chips: int, tokens: int, seconds: float, tflops: float, mfu: float
) -> None:
    with torch.device("meta"):
        facts = facts_of(make())
    per_token = flops_per_token(
        trainable=facts["trainable"],
        frozen=facts["frozen"],
        attention=facts["attention"],
        sequence_length=tokens,
    )
    rate = per_token * tokens / seconds / 1e12
    p150 = architecture("p150")
    peak = chips * p150.worker_cores * p150.tflops_per_core["HiFi4"]
    assert rate == pytest.approx(tflops, rel=1e-3)
    assert round(rate / peak * 100, 2) == mfu


def test_peaks_are_cores_times_clock_times_flops_a_cycle() -> None:
    p150, galaxy = architecture("p150"), architecture("blackhole_galaxy")
    for fidelity, cycles in (("LoFi", 16), ("HiFi2", 32), ("HiFi3", 48), ("HiFi4", 64)):
        per_core = 1.35e9 * 2 * 32**3 / cycles / 1e12
        assert p150.tflops_per_core[fidelity] == pytest.approx(per_core)
    assert p150.worker_cores * p150.tflops_per_core["HiFi4"] == pytest.approx(152.06, rel=1e-4)
    assert galaxy.worker_cores * galaxy.tflops_per_core["HiFi4"] == pytest.approx(165.89, rel=1e-4)


def test_tied_embeddings_count_once_and_looked_up_ones_not() -> None:
    with torch.device("meta"):
        tied = facts_of(Llama(1, 64, 64, 4, 16, tied=True))
        untied = facts_of(Llama(1, 64, 64, 4, 16, tied=False))
    assert tied["trainable"] == untied["trainable"]
    assert (tied["looked_up"], untied["looked_up"]) == (0, 128256 * 64)
    assert tied["attention"] == untied["attention"] == 64


@pytest.mark.parametrize(
    ("make", "width"),
    [
        (lambda: nn.TransformerEncoderLayer(32, 4), 32),
        (lambda: nn.ModuleDict({"c_attn": nn.Linear(32, 96)}), 32),
        (lambda: nn.ModuleDict({"query": Lora(nn.Linear(8, 24), 2)}), 24),
        (lambda: nn.Linear(8, 8), 0),
    ],
)
def test_width_of_attention(make: Any, width: int) -> None:
    assert facts_of(make())["attention"] == width


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: nn.Sequential(nn.Embedding(9, 8), nn.LSTM(8, 8)), True),
        (lambda: nn.GRU(8, 8), True),
        (lambda: nn.GRU(8, 8, batch_first=True), False),
        (lambda: nn.Linear(8, 8), False),
    ],
)
def test_a_layer_that_takes_sequences_first(make: Any, told: bool) -> None:
    assert facts_of(make()).get("sequence_first", False) is told


def test_a_configuration_goes_before_the_parts() -> None:
    model = nn.Linear(8, 8)
    model.config = type("C", (), {"n_layer": 3, "n_head": 4, "n_embd": 32})()
    assert facts_of(model)["attention"] == 3 * 32


def test_the_model_is_found_by_what_was_trained() -> None:
    other = nn.Linear(4, 4)
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2).requires_grad_(False))
    leaves = [model[0].weight, model[0].bias]
    assert described(leaves)["trainable"] == 20 and described(leaves)["frozen"] == 12
    # what functional_call is given shares storage alone with the module's own
    detached = [leaf.detach().requires_grad_() for leaf in leaves]
    assert described(detached)["trainable"] == 20
    assert described([*leaves, other.weight]) == {}


def test_eager_work_is_counted_op_by_op() -> None:
    counting = Counting()
    counting.start()
    x = torch.ones(8, 16, requires_grad=True)
    (x @ torch.ones(16, 4, requires_grad=True)).sum().backward()
    assert counting.stop() == 3 * 2 * 8 * 16 * 4
    assert counting.stop() == 3 * 2 * 8 * 16 * 4  # nothing more


def test_what_is_compiled_is_left_alone() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    counting = Counting()
    counting.start()
    assert counting.mode is None and compiled is not None


def test_the_first_sample_tells_it_once(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder.sampling, "steps", 3)
    gc.collect()
    model = nn.Linear(8, 2)
    for _ in range(3):
        x = torch.ones(4, 8)
        recorder.begin(x)
        loss = model(x).sum()
        loss.backward()
        recorder.end(loss)
    (told,) = events(tmp_path, "model")
    assert (told["trainable"], told["frozen"]) == (18, 0)
    assert told["counted_flops"] == 2 * 2 * 4 * 8 * 2  # no gradient of the input
    assert told["counted_samples"] == 4


@pytest.mark.parametrize("removed", [True, False])
def test_reports_of_every_graph_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    """tt-mlir writes one file anew for each graph, which the script reads and removes, or not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tt_crank", object())
    (tmp_path / "other.json").write_text("[1]")
    reports = CompilerReports()
    path = tmp_path / "perf_metrics.json"
    for number, total in enumerate((300, 700), 1):
        flops = {"total_flops": total, "peak_flops_per_sec": 152_064_000_000_000}
        (tmp_path / "written").write_text(json.dumps({"flops": flops}))
        (tmp_path / "written").replace(path)  # of which Python's own hooks hear nothing
        while not removed and reports.graphs < number:
            time.sleep(0.01)
        if removed:
            path.unlink()
    found = reports.close()
    assert (found["reported_flops"], found["graphs"]) == (1000, 2)
    assert found["reported_peak"] == 152_064_000_000_000
    assert not reports.open
