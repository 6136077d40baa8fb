"""FLOPs that the recorder counts, against those written down by hand for 28 models."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from instrumentor.runtime.recorder.flop_formulas import FORMULAS, HEAVY, LIGHT
from instrumentor.runtime.recorder.flops import Counting

# LSTM with projections is not supported with oneDNN.
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
torch = pytest.importorskip("torch", reason="needs torch: make test installs it")
nn, F = torch.nn, torch.nn.functional


class Case(NamedTuple):
    """A model, a batch, and its FLOPs.

    Attributes:
        layers: forward FLOPs of what has weights.
        raw: those of `layers` that read the batch itself, whose gradient nobody asks for.
        attention: forward FLOPs of scaled dot-product attention.
        products: forward FLOPs of products of two activations by hand.
        sums: additions of bags of embeddings.
    """

    model: Any
    batch: tuple[Any, ...]
    layers: int
    raw: int = 0
    attention: int = 0
    sums: int = 0
    products: int = 0

    @property
    def forward(self) -> int:
        return self.layers + self.attention + self.sums + self.products

    @property
    def trained(self) -> int:
        """Forward, and both gradients; attention's backward computes the scores again."""
        halves = 7 * self.attention // 2
        return 3 * (self.layers + self.products) - self.raw + halves + 2 * self.sums


class Calls(nn.Module):  # type: ignore[misc, name-defined]
    """Layers, and a function of them and the batch."""

    def __init__(self, call: Callable[..., Any], **layers: Any) -> None:
        super().__init__()
        self.layers, self.call = nn.ModuleDict(layers), call

    def forward(self, *batch: Any) -> Any:
        return self.call(self.layers, *batch)


def conv(inputs: int, outputs: int, kernel: int, places: int, groups: int = 1) -> int:
    """Two for each weight, at each place of the output (or of a transposed one's input)."""
    return 2 * inputs // groups * outputs * kernel * places


def perceptron() -> Case:
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Dropout(), nn.Linear(30, 5))
    first = 2 * 8 * 20 * 30
    return Case(model, (torch.randn(8, 20),), first + 2 * 8 * 30 * 5, first)


def autoencoder() -> Case:
    sizes = (64, 32, 8, 32, 64)
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    each = [2 * 4 * a * b for a, b in pairwise(sizes)]
    return Case(nn.Sequential(*layers), (torch.randn(4, 64),), sum(each), each[0])


def vgg() -> Case:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    first = 2 * conv(3, 8, 9, 16 * 16)
    rest = 2 * conv(8, 16, 9, 8 * 8) + 2 * 2 * 16 * 10
    return Case(model, (torch.randn(2, 3, 16, 16),), first + rest, first)


def residual() -> Case:
    def call(n: Any, x: Any) -> Any:
        x = n["stem"](x)
        return n["short"](x) + n["b"](F.relu(n["norm"](n["a"](x))))

    model = Calls(
        call,
        stem=nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False),
        a=nn.Conv2d(8, 16, 3, stride=2, padding=1),
        norm=nn.BatchNorm2d(16),
        b=nn.Conv2d(16, 16, 3, padding=1),
        short=nn.Conv2d(8, 16, 1, stride=2),
    )
    first = 2 * conv(3, 8, 49, 8 * 8)
    rest = conv(8, 16, 9, 16) + conv(16, 16, 9, 16) + conv(8, 16, 1, 16)
    return Case(model, (torch.randn(2, 3, 16, 16),), first + 2 * rest, first)


def bottleneck_in_groups() -> Case:
    model = nn.Sequential(
        nn.Conv2d(16, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.Conv2d(8, 16, 1)
    )
    first = conv(16, 8, 1, 36)
    rest = conv(8, 8, 9, 36, groups=4) + conv(8, 16, 1, 36)
    return Case(model, (torch.randn(1, 16, 6, 6),), first + rest, first)


def depthwise() -> Case:
    model = nn.Sequential(nn.Conv2d(6, 6, 3, groups=6), nn.Hardswish(), nn.Conv2d(6, 12, 1))
    first = 2 * conv(6, 6, 9, 36, groups=6)
    return Case(model, (torch.randn(2, 6, 8, 8),), first + 2 * conv(6, 12, 1, 36), first)


def dilated_pyramid() -> Case:
    def call(n: Any, x: Any) -> Any:
        return n["out"](torch.cat([n["one"](x), n["two"](x), n["four"](x)], 1))

    rates = {"one": 1, "two": 2, "four": 4}
    branches = {k: nn.Conv2d(4, 5, 3, padding=r, dilation=r) for k, r in rates.items()}
    model = Calls(call, out=nn.Conv2d(15, 7, 1), **branches)
    first = 3 * conv(4, 5, 9, 81)
    return Case(model, (torch.randn(1, 4, 9, 9),), first + conv(15, 7, 1, 81), first)


def unet() -> Case:
    def call(n: Any, x: Any) -> Any:
        high = n["down"](x)
        return n["out"](torch.cat([high, n["up"](n["low"](F.max_pool2d(high, 2)))], 1))

    model = Calls(
        call,
        down=nn.Conv2d(1, 4, 3, padding=1),
        low=nn.Conv2d(4, 8, 3, padding=1),
        up=nn.ConvTranspose2d(8, 4, 2, stride=2),
        out=nn.Conv2d(8, 2, 1),
    )
    first = conv(1, 4, 9, 64)
    rest = conv(4, 8, 9, 16) + conv(8, 4, 4, 16) + conv(8, 2, 1, 64)
    return Case(model, (torch.randn(1, 1, 8, 8),), first + rest, first)


def generator() -> Case:
    model = nn.Sequential(
        nn.ConvTranspose2d(10, 8, 4), nn.BatchNorm2d(8), nn.ReLU(),
        nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1, groups=2), nn.Tanh(),
    )  # fmt: skip
    first = 3 * conv(10, 8, 16, 1)
    return Case(model, (torch.randn(3, 10, 1, 1),), first + 3 * conv(8, 4, 16, 16, groups=2), first)


def causal_convolutions() -> Case:
    model = nn.Sequential(*(nn.Conv1d(6, 6, 2, dilation=d) for d in (1, 2, 4)))
    each = [2 * conv(6, 6, 2, places) for places in (19, 17, 13)]
    return Case(model, (torch.randn(2, 6, 20),), sum(each), each[0])


def video() -> Case:
    model = nn.Sequential(nn.Conv3d(2, 4, 3), nn.ReLU(), nn.ConvTranspose3d(4, 2, 2, stride=2))
    first = conv(2, 4, 27, 4 * 4 * 4)
    return Case(model, (torch.randn(1, 2, 6, 6, 6),), first + conv(4, 2, 8, 64), first)


def squeeze_and_excite() -> Case:
    def call(n: Any, x: Any) -> Any:
        x = n["conv"](x)
        return x * torch.sigmoid(n["b"](F.relu(n["a"](x.mean((2, 3))))))[:, :, None, None]

    model = Calls(call, conv=nn.Conv2d(3, 8, 3), a=nn.Linear(8, 2), b=nn.Linear(2, 8))
    first = 2 * conv(3, 8, 9, 36)
    return Case(model, (torch.randn(2, 3, 8, 8),), first + 2 * (2 * 8 * 2 + 2 * 2 * 8), first)


def recurrent(kind: Any, gates: int, layers: int = 1, both: bool = False, batch: int = 4) -> Case:
    """A head on the last step of a recurrent stack."""
    length, width, hidden, ways = 12, 10, 16, 2 if both else 1

    def call(n: Any, x: Any) -> Any:
        return n["head"](n["cells"](x)[0][:, -1])

    cells = kind(width, hidden, layers, batch_first=True, bidirectional=both)
    model = Calls(call, cells=cells, head=nn.Linear(ways * hidden, 3))
    inputs = [width] + [ways * hidden] * (layers - 1)
    stack = ways * sum(2 * batch * length * gates * hidden * (i + hidden) for i in inputs)
    raw = 0
    if kind is not nn.LSTM:  # oneDNN's LSTM gives all gradients, asked for or not
        first_states = layers * ways * 2 * batch * gates * hidden * hidden
        raw = ways * 2 * batch * length * gates * hidden * width + first_states
    head = 2 * batch * ways * hidden * 3
    return Case(model, (torch.randn(batch, length, width),), stack + head, raw)


def projected_lstm() -> Case:
    cells = nn.LSTM(10, 16, proj_size=6)
    model = Calls(lambda n, x: n["cells"](x)[0], cells=cells)
    inputs, states, projections = (2 * 7 * 3 * k for k in (4 * 16 * 10, 4 * 16 * 6, 16 * 6))
    once = 2 * 3 * 4 * 16 * 6  # the gradient of the first state
    return Case(model, (torch.randn(7, 3, 10),), inputs + states + projections, inputs + once)


def tagger() -> Case:
    def call(n: Any, tokens: Any) -> Any:
        return n["head"](n["cells"](n["words"](tokens))[0])

    words, cells = nn.Embedding(50, 10), nn.LSTM(10, 16, batch_first=True)
    model = Calls(call, words=words, cells=cells, head=nn.Linear(16, 5))
    layers = 2 * 3 * 9 * (4 * 16 * (10 + 16) + 16 * 5)
    return Case(model, (torch.randint(0, 50, (3, 9)),), layers)


def bag_of_words() -> Case:
    model = nn.Sequential(nn.EmbeddingBag(100, 8), nn.Linear(8, 2))
    return Case(model, (torch.randint(0, 100, (4, 6)),), 2 * 4 * 8 * 2, sums=4 * 6 * 8)


def encoder() -> Case:
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    model = nn.Sequential(nn.Linear(32, 32), nn.TransformerEncoder(layer, 2))
    first, rows = 2 * 20 * 32 * 32, 2 * 20
    layers = 2 * rows * (4 * 32 * 32 + 2 * 32 * 64)
    return Case(model, (torch.randn(2, 10, 32),), first + layers, first, 2 * 4 * 2 * 10 * 10 * 32)


def decoder() -> Case:
    def call(n: Any, x: Any, memory: Any) -> Any:
        return n["layer"](n["in"](x), n["read"](memory))

    layer = nn.TransformerDecoderLayer(16, 2, 32, 0.0, batch_first=True)
    model = Calls(call, **{"in": nn.Linear(16, 16), "read": nn.Linear(16, 16), "layer": layer})
    new, old, square = 2 * 5, 2 * 7, 16 * 16
    first = 2 * (new + old) * square
    own, crossed = 4 * 2 * new * square, 2 * (2 * new + 2 * old) * square
    rest = own + crossed + 2 * 2 * new * 16 * 32
    attention = 4 * 2 * 16 * (5 * 5 + 5 * 7)
    batch = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    return Case(model, batch, first + rest, first, attention)


def language_model() -> Case:
    def call(n: Any, tokens: Any) -> Any:
        x = n["words"](tokens)
        query, key, value = (
            each.view(2, 8, 4, 6).transpose(1, 2) for each in n["qkv"](x).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + n["out"](mixed.transpose(1, 2).reshape(2, 8, 24))
        return n["head"](x + n["down"](F.gelu(n["up"](x))))

    model = Calls(
        call, words=nn.Embedding(40, 24), qkv=nn.Linear(24, 72), out=nn.Linear(24, 24),
        up=nn.Linear(24, 96), down=nn.Linear(96, 24), head=nn.Linear(24, 40),
    )  # fmt: skip
    weights = 24 * (72 + 24 + 2 * 96 + 40)
    layers, attention = 2 * 2 * 8 * weights, 4 * 2 * 8 * 8 * 24
    return Case(model, (torch.randint(0, 40, (2, 8)),), layers, attention=attention)


def vision_transformer() -> Case:
    def call(n: Any, x: Any) -> Any:
        return n["layer"](n["patches"](x).flatten(2).transpose(1, 2)).mean(1)

    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=True)
    model = Calls(call, patches=nn.Conv2d(3, 16, 4, stride=4), layer=layer)
    first = 2 * conv(3, 16, 16, 16)
    layers = 2 * 2 * 16 * (4 * 16 * 16 + 2 * 16 * 32)
    return Case(model, (torch.randn(2, 3, 16, 16),), first + layers, first, 4 * 2 * 16 * 16 * 16)


def latents() -> Case:
    def call(n: Any, x: Any) -> Any:
        key, value = n["kv"](x).chunk(2, -1)
        query = n["q"].weight[None, None].expand(2, -1, -1, -1)
        return F.scaled_dot_product_attention(query, key[:, None], value[:, None])

    model = Calls(call, q=nn.Linear(8, 3, bias=False), kv=nn.Linear(6, 16))
    first = 2 * 2 * 11 * 6 * 16
    return Case(model, (torch.randn(2, 11, 6),), first, first, 4 * 2 * 3 * 11 * 8)


def attention_by_hand() -> Case:
    def call(n: Any, x: Any) -> Any:
        x = n["in"](x)
        return torch.softmax(x @ x.transpose(1, 2), -1) @ x

    model = Calls(call, **{"in": nn.Linear(6, 6)})
    first = 2 * 3 * 5 * 6 * 6
    return Case(model, (torch.randn(3, 5, 6),), first, first, products=4 * 3 * 5 * 5 * 6)


def graph_network() -> Case:
    """The adjacency is data: of its product only the nodes have a gradient."""

    def call(n: Any, nodes: Any, adjacency: Any) -> Any:
        return torch.einsum("ij,jk->ik", adjacency, n["a"](nodes))

    first, spread = 2 * 9 * 4 * 5, 2 * 9 * 9 * 5
    batch = torch.randn(9, 4), torch.rand(9, 9)
    return Case(Calls(call, a=nn.Linear(4, 5)), batch, first + spread, first + spread)


def shared_weights() -> Case:
    def call(n: Any, left: Any, right: Any) -> Any:
        return (n["body"](left) - n["body"](right)).square()

    first = 2 * 2 * 4 * 7 * 9
    return Case(Calls(call, body=nn.Linear(7, 9)), (torch.randn(4, 7),) * 2, first, first)


MODELS: list[Callable[[], Case]] = [
    perceptron, autoencoder, vgg, residual, bottleneck_in_groups, depthwise, dilated_pyramid, unet,
    generator, causal_convolutions, video, squeeze_and_excite,
    lambda: recurrent(nn.LSTM, 4), lambda: recurrent(nn.LSTM, 4, layers=2, both=True),
    lambda: recurrent(nn.GRU, 3), lambda: recurrent(nn.GRU, 3, layers=2, both=True),
    lambda: recurrent(nn.RNN, 1), projected_lstm, tagger, bag_of_words,
    encoder, decoder, language_model, vision_transformer, latents, attention_by_hand,
    graph_network, shared_weights,
]  # fmt: skip


def counted(work: Callable[[], Any]) -> tuple[int, dict[str, int]]:
    counting = Counting()
    counting.start()
    assert counting.mode is not None
    try:
        work()
    finally:
        total = counting.stop()
    return total, counting.uncounted


@pytest.mark.parametrize("make", MODELS)
def test_a_step_counts_what_was_written_down(make: Callable[[], Case]) -> None:
    case = make()
    assert counted(lambda: case.model(*case.batch).sum().backward()) == (case.trained, {})


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_inference_counts_the_forward(make: Callable[[], Case], without: Any) -> None:
    """In inference mode torch hands over ops whole, such as `linear` and `lstm`."""
    case = make()
    case.model.eval()  # the encoder's layers become one op
    with without():
        assert counted(lambda: case.model(*case.batch)) == (case.forward, {})


def test_the_lstm_of_the_first_minute() -> None:
    """64 steps of 32 numbers into 128 units and a head of six: 1,536 FLOPs are the head's alone."""
    cells, head = nn.LSTM(32, 128, batch_first=True), nn.Linear(128, 6)
    batch = torch.randn(8, 39, 32)
    total, uncounted = counted(lambda: head(cells(batch)[0][:, -1]).sum().backward())
    assert (total / 8, uncounted) == (3 * (39 * 2 * 4 * 128 * 160 + 2 * 128 * 6), {})
    assert 19e6 < total / 8 < 20e6


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_every_kind_of_convolution(dimensions: int, groups: int, transposed: bool) -> None:
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dimensions}d")
    layer = kind(4, 8, 3, stride=2, padding=2, dilation=2, groups=groups)
    batch = torch.randn(2, 4, *[9] * dimensions, requires_grad=True)
    places = (batch if transposed else layer(batch))[0, 0].numel()
    forward = 2 * 2 * places * layer.weight.numel()
    assert counted(lambda: layer(batch).sum().backward()) == (3 * forward, {})
    layer.requires_grad_(False)
    assert counted(lambda: layer(batch).sum().backward()) == (2 * forward, {})


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (lambda: torch.linalg.inv(torch.eye(3)), "aten::linalg_inv_ex"),
        (lambda: torch.fft.rfft(torch.randn(8)), "aten::_fft_r2c"),
        (lambda: torch.cdist(torch.randn(3, 4), torch.randn(3, 4)), "aten::_cdist_forward"),
        (lambda: torch.sparse.mm(torch.eye(3).to_sparse(), torch.eye(3)), "aten::_sparse_addmm"),
        (lambda: nn.Bilinear(2, 3, 4)(torch.randn(1, 2), torch.randn(1, 3)), "aten::_trilinear"),
    ],
)
def test_what_has_no_formula_is_named(work: Callable[[], Any], name: str) -> None:
    assert list(counted(work)[1]) == [name]


def test_ops_of_the_script_are_named_until_it_gives_their_formula() -> None:
    library = torch.library.Library("flop_formulas_test", "DEF")
    library.define("square(Tensor x) -> Tensor")
    library.impl("square", lambda x: x @ x, "CPU")
    library.define("positions(Tensor x) -> Tensor")
    library.impl("positions", lambda x: x.argsort(), "CPU")
    ops = torch.ops.flop_formulas_test
    assert counted(lambda: ops.square(torch.eye(3))) == (0, {"flop_formulas_test::square": 1})
    assert counted(lambda: ops.positions(torch.eye(3))) == (0, {})
    formula = torch.utils.flop_counter.register_flop_formula(ops.square)
    formula(lambda shape, out_shape=None, **_: 2 * shape[0] ** 3)
    assert counted(lambda: ops.square(torch.eye(3))) == (54, {})


def test_arguments_of_another_version_are_named_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMULAS, "mm", lambda arguments, out: arguments[40])
    assert counted(lambda: torch.eye(3) @ torch.eye(3)) == (0, {"aten::mm": 1})


def test_names_of_ops_are_told_apart() -> None:
    """Those of this torch that look like products and are not, and the other way round."""
    light = "lgamma cummax resolve_conj upsample_linear1d linalg_vector_norm convert_indices relu"
    light += " thnn_fused_lstm_cell upsample_bilinear2d prelu_kernel native_layer_norm embedding"
    heavy = "mkldnn_rnn_layer weight_int4pack_mm quantized_lstm spsolve hspmm linalg_svd addr"
    assert [n for n in light.split() if HEAVY.search(n) and not LIGHT.search(n)] == []
    assert [n for n in heavy.split() if not HEAVY.search(n) or LIGHT.search(n)] == []
    assert [name for name in FORMULAS if not HEAVY.search(name)] == []
    known = {name.strip("_") for name in dir(torch.ops.aten)}
    schemas = {each.name.partition("::")[2].strip("_") for each in torch._C._jit_get_all_schemas()}
    assert set(FORMULAS) - schemas - known == set()
