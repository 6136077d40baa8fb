"""FLOPs of one op, of the shapes it is given: a multiplication and an addition are two.

Counted are products of matrices, convolutions, recurrent layers, attention and bags of embeddings,
as carried out: padding and what a causal mask hides included, and the scores that attention's
backward computes again. What costs no more than a few operations for each element (activations,
norms, reductions, copies) is left out, as is usual. An op of the first kind without a formula is
told by name, so that nobody takes the rest for the whole.
"""

import re
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Sequence

Arguments = Sequence[Any]
Formula = Callable[[Sequence[Any], Any], int]  # of all arguments and the result

#: Ops of `aten` that multiply matrices or the like, by their names.
HEAVY = re.compile(
    "|".join(
        (
            r"conv(?!ert)|(?<![au])mm|matmul|multi_dot|einsum|(^|_)v?dot(_|$)|(^|_|add)mv(_|$)",
            r"(^|_)linear(?!_combination|_quantize|1d)|(^|_)(lstm|gru|rnn)(?!_flatten)|attention",
            r"transformer|(^|_)(tri|bi)linear$|linalg_(?!\w*norm|_powsum|diagonal|cross)",
            r"embedding_bag|cholesky|svd|(^|_)(or[gm])?qr$|(^|_)(lu|ldl)_|(^|_)eig|inverse",
            r"(?<!re)solve|fft_[cr]2[cr]|[cp]dist|matrix_(exp|power)|lstsq|(^|_)(addr|ger)$",
        )
    )
)
#: Of these, the ones that do a few operations for each element, or only arrange weights.
LIGHT = re.compile(
    "|".join(
        (
            r"fused_(lstm|gru)_cell|differentiable_(lstm|gru)|slice_inverse|prepack|pack_gemm",
            r"check_errors|reorder_conv|cslt_compress|lu_unpack|bag_per_sample|to_sparse_semi",
        )
    )
)
#: Libraries of ops that compute nothing of a model: collectives, profiling, memory.
FREE = (
    *("prim", "prims", "debugprims", "rngprims", "inductor", "profiler", "streams", "symm_mem"),
    *("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "fsdp"),
)


def flops_of(func: Any, arguments: Arguments, named: Dict[str, Any], out: Any) -> Optional[int]:
    """FLOPs of a call of an op of torch; None for one that computes and has no formula.

    Args:
        func: the op, an overload as a dispatch mode is given it.
        arguments, named, out: of the call.
    """
    space, name = spelled(func)
    try:
        formula = FORMULAS.get(name) if space == "aten" else None
        known = None if formula else registered(func)
        if (formula or known) and any(map(is_partial, arguments)):
            return None
        if formula is not None:
            return int(formula(complete(func, arguments, named), out))
        if known is not None:
            return int(known(*arguments, **named, out_val=out))
    except Exception:  # arguments of another version of torch
        return None
    if space == "aten":
        return None if HEAVY.search(name) and not LIGHT.search(name) else 0
    return None if space not in FREE and computed(out) else 0


def spelled(func: Any) -> List[str]:
    """Library and name of an op, without overload and the underscores of one that is in place."""
    space, _, name = str(func.name()).partition("::")
    return [space, name.partition(".")[0].strip("_")] if name else ["", space]


def registered(func: Any) -> Any:
    """The formula that torch or the script has registered for an op, if any."""
    try:
        counter: Any = import_module("torch.utils.flop_counter")
        return counter.flop_registry.get(getattr(func, "overloadpacket", func))
    except (ImportError, AttributeError):  # an older torch
        return None


def complete(func: Any, arguments: Arguments, named: Dict[str, Any]) -> Arguments:
    """All arguments in the order of the op's schema."""
    rest = func._schema.arguments[len(arguments) :]
    return [*arguments, *(named.get(each.name) for each in rest)]


def is_partial(value: Any) -> bool:
    """Whether a tensor's shape does not tell the work: without its zeros, or shared by devices."""
    return "sparse" in str(getattr(value, "layout", "")) or type(value).__name__ == "DTensor"


def computed(out: Any) -> bool:
    """Whether an op gave numbers that are no counts or positions."""
    each = out if isinstance(out, (list, tuple)) else [out]
    return any(hasattr(one, "is_floating_point") and one.is_floating_point() for one in each)


def product(sizes: Sequence[int]) -> int:
    """Of all sizes; 1 of none."""
    total = 1
    for size in sizes:
        total *= int(size)
    return total


def matrices(first: int) -> Formula:
    """Of the argument at `first` and the next: matrices, vectors, or batches of matrices."""

    def flops(arguments: Arguments, out: Any) -> int:
        left, right = arguments[first], arguments[first + 1]
        columns = right.shape[-1] if right.dim() > 1 else 1
        return int(2 * left.numel() * columns)

    return flops


def outer(arguments: Arguments, out: Any) -> int:
    """One multiplication for each pair, and its addition."""
    return 2 * int(out.numel())


def linear(arguments: Arguments, out: Any) -> int:
    """Rows of the input times the weight."""
    return int(2 * arguments[0].numel() * arguments[1].shape[0])


def convolution(transposed: Optional[bool] = None) -> Formula:
    """The weight once for each place of the output; of the input, where it is transposed."""

    def flops(arguments: Arguments, out: Any) -> int:
        inputs, weight = arguments[0], arguments[1]
        places = inputs if (arguments[6] if transposed is None else transposed) else out
        return int(2 * weight.numel() * inputs.shape[0]) * product(places.shape[2:])

    return flops


def convolution_backward(arguments: Arguments, out: Any) -> int:
    """As much as forward for the gradient of the input, and again for that of the weight."""
    gradient, inputs, weight = arguments[:3]
    transposed, mask = arguments[7], arguments[10]
    places = inputs if transposed else gradient
    forward = int(2 * weight.numel() * inputs.shape[0]) * product(places.shape[2:])
    return forward * (bool(mask[0]) + bool(mask[1]))


def recurrent(arguments: Arguments, out: Any) -> int:
    """Every matrix of weights once for each row of the input, of all layers and directions."""
    lists = [each for each in arguments if isinstance(each, (list, tuple))]
    weights = [one for each in lists for one in each if getattr(one, "dim", int)() == 2]
    return 2 * rows_of(arguments[0]) * sum(int(one.numel()) for one in weights)


def rows_of(inputs: Any) -> int:
    """Steps of all sequences."""
    return int(inputs.numel()) // int(inputs.shape[-1])


def one_layer(arguments: Arguments, out: Any) -> int:
    """oneDNN's single layer in one direction: weights of the input and of the state."""
    return 2 * rows_of(arguments[0]) * int(arguments[1].numel() + arguments[2].numel())


def recurrent_backward(arguments: Arguments, out: Any) -> int:
    """Gradients through time always, those of the weights where they are wanted."""
    masks = [each for each in arguments if is_mask(each)]
    wanted = masks[-1][-1] if masks else True
    return recurrent(arguments, out) * (1 + bool(wanted))


def is_mask(value: Any) -> bool:
    """Whether these are the outputs that a backward is asked for."""
    some = isinstance(value, (list, tuple)) and len(value) > 0
    return some and all(isinstance(each, bool) for each in value)


def attention(first: int, backward: bool = False) -> Formula:
    """Scores, and values weighted by them: queries at `first`, then keys and values.

    Backward: two gradients of each of these products, and the scores once more.
    """

    def flops(arguments: Arguments, out: Any) -> int:
        query, key, value = arguments[first : first + 3]
        pairs = product(query.shape[:-1]) * int(key.shape[-2])
        width, depth = int(query.shape[-1]), int(value.shape[-1])
        return 2 * pairs * (3 * width + 2 * depth if backward else width + depth)

    return flops


def many_heads(arguments: Arguments, out: Any) -> int:
    """The fast path of torch.nn.MultiheadAttention."""
    query, key = arguments[:2]
    rows = rows_of(query) + 2 * rows_of(key)
    projections = 2 * (rows * arguments[5].numel() // 3 + rows_of(query) * arguments[7].numel())
    return int(projections + 4 * query.numel() * key.shape[1])


def encoder_layer(arguments: Arguments, out: Any) -> int:
    """The fast path of torch.nn.TransformerEncoderLayer, by the weights in its order."""
    inputs, weights = arguments[0], (arguments[i] for i in (3, 5, 14, 16))
    projections = 2 * rows_of(inputs) * sum(each.numel() for each in weights)
    return int(projections + 4 * inputs.numel() * inputs.shape[1])


def bag(indices: int, weights: int) -> Formula:
    """An addition for each element of each looked-up row, with weights a multiplication too."""

    def flops(arguments: Arguments, out: Any) -> int:
        result = out[0] if isinstance(out, (list, tuple)) else out
        weighted = arguments[weights] is not None
        return int(arguments[indices].numel()) * int(result.shape[-1]) * (1 + weighted)

    return flops


_MATRICES = ("mm", "bmm", "mv", "dot", "vdot", "int_mm", "scaled_mm")
_ADDED = ("addmm", "addmv", "addbmm", "baddbmm", "addmm_activation")
_CONVOLUTIONS = (
    *("cudnn_convolution", "cudnn_convolution_relu", "cudnn_convolution_add_relu"),
    *("mkldnn_convolution", "miopen_convolution", "miopen_depthwise_convolution", "thnn_conv2d"),
    *("conv_depthwise2d", "conv_depthwise3d", "slow_conv_dilated2d", "slow_conv_dilated3d"),
    *("slow_conv2d_forward", "slow_conv3d_forward"),
)
_TRANSPOSED = (
    *("cudnn_convolution_transpose", "miopen_convolution_transpose"),
    *("slow_conv_transpose2d", "slow_conv_transpose3d"),
)
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_mps", "cudnn_rnn", "miopen_rnn")
_ATTENTION = (
    *("scaled_dot_product_flash_attention", "scaled_dot_product_flash_attention_for_cpu"),
    *("scaled_dot_product_efficient_attention", "scaled_dot_product_cudnn_attention"),
    "scaled_dot_product_fused_attention_overrideable",
)

#: By the names of ops of `aten`, without underscores at either end.
FORMULAS: Dict[str, Formula] = {
    **dict.fromkeys(_MATRICES, matrices(0)),
    **dict.fromkeys(_ADDED, matrices(1)),
    **dict.fromkeys(("linear", "mkldnn_linear"), linear),
    **dict.fromkeys(("addr", "ger"), outer),
    **dict.fromkeys(("convolution", "convolution_overrideable"), convolution()),
    **dict.fromkeys(_CONVOLUTIONS, convolution(False)),
    **dict.fromkeys(_TRANSPOSED, convolution(True)),
    "convolution_backward": convolution_backward,
    **dict.fromkeys(_RECURRENT, recurrent),
    **dict.fromkeys(("cudnn_rnn_backward", "miopen_rnn_backward"), recurrent_backward),
    "mkldnn_rnn_layer": one_layer,
    "mkldnn_rnn_layer_backward": lambda arguments, out: 2 * one_layer(arguments, out),
    **dict.fromkeys(_ATTENTION, attention(0)),
    **{name + "_backward": attention(1, backward=True) for name in _ATTENTION},
    "scaled_dot_product_attention_math_for_mps": attention(0),
    "native_multi_head_attention": many_heads,
    "transformer_encoder_layer_fwd": encoder_layer,
    **dict.fromkeys(("embedding_bag", "embedding_bag_forward_only"), bag(1, 6)),
    "embedding_bag_backward": bag(1, 10),
    "embedding_bag_dense_backward": bag(1, 8),
    "embedding_bag_sparse_backward": bag(1, 8),
}
